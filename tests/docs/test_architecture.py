"""The architecture page tells of the house as it is: its rooms are those of the contract, and its files are there."""

import ast
import re
import sys
import tomllib

from reference_pages import DOCS, ROOT

PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")


def rooms_of_the_contract():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [room.strip("()") for room in project["tool"]["importlinter"]["contracts"][0]["layers"]]


def rooms_of_the_page(page):
    table = page.partition("| room of `recurra/` |")[2].partition("\n\n")[0]
    return [name.removesuffix(".py").rstrip("/") for name in re.findall(r"^\| `([\w./]+)`", table, re.M)]


def test_the_table_has_the_rooms_of_the_contract_in_their_order():
    assert rooms_of_the_page(PAGE) == rooms_of_the_contract()
    assert rooms_of_the_page(PAGE.replace("| `tasks/`", "| `games/`")) != rooms_of_the_contract()


def imported(room):
    """What the files of a room import from others, as pairs of the room and the name, by the syntax of Python alone."""
    files = (
        (ROOT / "recurra" / room).rglob("*.py") if (ROOT / "recurra" / room).is_dir() else [ROOT / f"recurra/{room}.py"]
    )
    found = set()
    for file in files:
        for each in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(each, ast.ImportFrom):
                assert not each.level, f"{file} imports by a relative path"
                found |= {f"{each.module}.{alias.name}" for alias in each.names}
            elif isinstance(each, ast.Import):
                found |= {alias.name for alias in each.names}
    parts = (name.split(".") for name in found if name.startswith("recurra."))
    return {(parts[1], parts[-1]) for parts in parts if parts[1] != room}


def not_known(page):
    """What the last column of the table says: (room, a room that it does not import, names that it does)."""
    table = page.partition("| room of `recurra/` |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        room, *_, column = (part.strip() for part in line.strip("|").split("|"))
        for other, names in re.findall(r"`([\w]+)(?:/|\.py)`(?: but for ((?:`\w+`(?: and )?)+))?", column):
            yield room.strip("`/").removesuffix(".py"), other, set(re.findall(r"\w+", names.replace(" and ", " ")))


def untrue(page):
    rooms, said = rooms_of_the_contract(), list(not_known(page))
    assert len(said) > 20
    assert all(rooms.index(room) < rooms.index(other) for room, other, _ in said)  # of others the contract tells
    taken = lambda room, other: {name for of, name in imported(room) if of == other}
    return [(room, other) for room, other, names in said if taken(room, other) != names]


def test_what_a_room_does_not_know_it_does_not_import():
    assert untrue(PAGE) == []
    assert untrue(PAGE.replace(" but for `check_fits`", "")) == [("saved", "engine")]
    assert untrue(PAGE.replace("`tasks/` but for `BLOCK`", "`tasks/` but for `BLOCK` and `Task`")) == [
        ("online", "tasks")
    ]
    assert untrue(PAGE.replace("labels, drawn in blocks | `learners/`", "| `losses.py`")) == [("tasks", "losses")]


def missing(page):
    named = re.findall(r"`(recurra(?:_paper)?/[\w./]*)`", page)
    assert len(named) > 20
    return [name for name in named if not (ROOT / name).exists()]


def test_every_file_of_the_page_is_there():
    assert missing(PAGE) == []
    assert missing(PAGE.replace("engine/plan.py", "engine/no_plan.py")) == ["recurra/engine/no_plan.py"]


def test_every_test_that_a_page_names_is_there():
    """Also in CONTRIBUTING.md and on the page of what is proven, whose tables name tests as proofs."""
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    pages = [ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    named = {page.name: set(re.findall(r"\btest_\w+\.py", page.read_text(encoding="utf-8"))) for page in pages}
    assert len(named["proven.md"]) > 10
    assert {page: names - there for page, names in named.items() if names - there} == {}


def test_the_picture_has_every_room(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    import rooms

    assert rooms.layers() == rooms_of_the_contract()
    drawn = (DOCS / "figures" / "rooms.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in rooms.layers())
    del sys.modules["rooms"]


def test_no_two_classes_of_the_library_share_a_name():
    """But for those that nobody meets outside of their file, whose names begin with an underscore."""
    found, package = {}, ROOT / "recurra"
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(f"{file.relative_to(package)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
