"""Commands that other packages add, by their entry points: distributions that lie in a folder on the path."""

import os
import re

import pytest

from processes import in_a_process

MODULES = {
    "counting": """
from typing import Annotated

import typer

from recurra.cli import CommandError


def count(number: Annotated[int, typer.Argument(help="How far.")], fail: bool = False) -> None:
    \"\"\"Count up to a number.\"\"\"
    if fail:
        raise CommandError("counting failed", status=7)
    print(*range(1, number + 1))


many = typer.Typer(help="Several commands.")


@many.command()
def up() -> None:
    print("upwards")


@many.command()
def down() -> None:
    print("downwards")
""",
    "other": """
def count() -> None:
    print("the other")


def learners() -> None:
    print("no learners")
""",
}

#: the entry points of each distribution, in the order in which they are installed
DISTRIBUTIONS = {
    "zz-other": {"count": "other:count"},
    "aa-counting": {"count": "counting:count", "many": "counting:many"},
    "mm-broken": {"gone": "not_there:command", "wrong": "counting:nothing"},
    "own-learners": {"learners": "other:learners"},
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The program's environment with the folder on its path."""
    folder = tmp_path_factory.mktemp("installed")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    for name, commands in DISTRIBUTIONS.items():
        info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{command} = {value}" for command, value in commands.items()]
        (info / "entry_points.txt").write_text("\n".join(["[recurra.commands]", *lines, ""]))
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}


WARNINGS = [
    "warning: own-learners adds a command 'learners', which recurra itself has already: it is left out.",
    "warning: zz-other adds a command 'count', which aa-counting has already: it is left out.",
]


@pytest.mark.parametrize(
    ("arguments", "status", "out", "error"),
    [
        ("count 3", 0, "1 2 3\n", []),
        ("count 3 --fail", 7, "", ["error: counting failed"]),
        ("count three", 2, "", ["error: Invalid value for .*"]),
        ("many up", 0, "upwards\n", []),
        ("many down", 0, "downwards\n", []),
        ("gone", 2, "", ["error: The command 'gone' of mm-broken cannot be loaded: No module named 'not_there'"]),
        ("wrong", 2, "", ["error: The command 'wrong' of mm-broken cannot be loaded: module 'counting' has no .*"]),
    ],
)
def test_a_command_of_another_package_is_one_of_the_program(installed, tmp_path, arguments, status, out, error):
    found, printed, said = in_a_process(tmp_path, *arguments.split(), env=installed)
    assert (found, printed) == (status, out)
    lines = said.splitlines()
    assert lines[: len(WARNINGS)] == WARNINGS
    assert re.fullmatch("\n".join(error), "\n".join(lines[len(WARNINGS) :]))


def test_help_lists_them_and_the_program_s_own_stay_as_they_are(installed, tmp_path):
    status, shown, _ = in_a_process(tmp_path, "--help", env=installed)
    assert status == 0
    for name in ("count", "many", "gone", "wrong", "learners", "train", "reproduce"):
        assert len(re.findall(rf"^\W*{name}\b", shown, re.M)) == 1, name
    assert "Count up to a number." in shown
    status, shown, _ = in_a_process(tmp_path, "learners", env=installed)
    assert status == 0
    assert "rflo" in shown
