"""The `recurra` command: a thin layer over `recurra.train`. JAX and its like are imported once a run begins."""

import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from recurra import __version__
from recurra.config import Settings, SettingsError, build, checked, hyperparameters, read_toml
from recurra.runs import INTERRUPTED, check_writable, complain, leave, print_table, run

#: the ancestor of all of typer's complaints about what was typed, whichever version is installed
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, help="Online learning algorithms for recurrent networks."
)


def main() -> None:
    """The `recurra` program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without ³ or – gets a question mark, not a traceback
        sys.stdout.reconfigure(errors="replace")
    status = execute(sys.argv[1:])
    if status == INTERRUPTED:
        # JAX may still be compiling in a thread of its own, and crashes if the interpreter is taken down around it.
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def execute(arguments: list[str]) -> int:
    """Run one command; the exit status. What a user gets wrong is a line on standard error and status 2."""
    command = typer.main.get_command(app)
    try:
        return command.main(arguments or ["--help"], prog_name="recurra", standalone_mode=False) or 0
    except SettingsError as error:
        complain(*str(error).splitlines())
    except UsageError as error:
        complain(getattr(error, "format_message", error.__str__)())
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return 2


def _show_version(asked: bool | None) -> None:
    if asked:
        print(f"recurra {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool | None, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = None,
) -> None: ...


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs, and nothing else, on standard output.")]


@app.command("learners")
def learners_command(as_json: AsJson = False) -> None:
    """List the algorithms, how they differ and what they cost."""
    from recurra.learners import LEARNERS

    if as_json:
        known = lambda text: None if text == "–" else text
        print(json.dumps([
            {
                "name": name,
                "algorithm": each.name,
                "facing": known(each.facing),
                "tensor": known(each.tensor),
                "stochastic": each.stochastic,
                "numerical": each.numerical,
                "memory": known(each.memory),
                "time": known(each.time),
                "unitwise": each.unitwise,
                "hyperparameters": hyperparameters(each()),
            }
            for name, each in LEARNERS.items()
        ], indent=2))  # fmt: skip
        return
    rows = []
    for name, each in LEARNERS.items():
        chance = "stochastic" if each.stochastic else "deterministic"
        form = "numerical" if each.numerical else "closed-form"
        cell = "unit-wise" if each.unitwise else "any"
        rows.append((name, each.name, each.facing, each.tensor, f"{chance}, {form}", each.memory, each.time, cell))
    print_table(("Name", "Algorithm", "Facing", "Tensor", "Update", "Memory", "Time", "Cell"), rows, gap=1)
    print("\nHyperparameters, to be set in a file for --config under [learner.NAME]:")
    for name, each in LEARNERS.items():
        if values := hyperparameters(each()):
            print(f"  {name:<10}", ", ".join(f"{field} = {json.dumps(value)}" for field, value in values.items()))


def _number(text: str) -> int | float | str:
    """The number typed; other text stays as it is, for `Settings` to complain of in the same words everywhere."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _setting(name: str, panel: str, *flags: str) -> Any:
    """The option for a setting, with its help, choices and default from `Settings`."""
    field = Settings.model_fields[name]
    kinds = get_args(field.annotation) or (field.annotation,)
    choices = [each for each in kinds if isinstance(each, str)]
    shown = f"{str(field.description)[:-1]}: {', '.join(choices)}." if choices else field.description
    if field.default not in (None, ()):
        shown = f"{shown} Default: {json.dumps(field.default)}".replace('"', "")
    kind: Any = {}
    if int in kinds or float in kinds:
        kind = {"parser": _number, "metavar": "NUMBER"}
    elif str in kinds or choices:
        kind = {"metavar": "NAME"}
    return typer.Option(*flags, help=shown, rich_help_panel=panel, show_default=False, **kind)


@app.command("train")
def train_command(
    config: Annotated[Path | None, typer.Option(help="TOML file of settings; options given here override it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the losses in this netCDF file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --out if it exists.")] = False,
    as_json: AsJson = False,
    learners: Annotated[list[str] | None, _setting("learners", "Learning", "--learner")] = None,
    steps: Annotated[Any, _setting("steps", "Learning")] = None,
    seeds: Annotated[Any, _setting("seeds", "Learning")] = None,
    optimizer: Annotated[str | None, _setting("optimizer", "Learning")] = None,
    learning_rate: Annotated[Any, _setting("learning_rate", "Learning")] = None,
    window: Annotated[Any, _setting("window", "Learning")] = None,
    key: Annotated[Any, _setting("key", "Learning")] = None,
    task: Annotated[str | None, _setting("task", "Task")] = None,
    t1: Annotated[Any, _setting("t1", "Task")] = None,
    t2: Annotated[Any, _setting("t2", "Task")] = None,
    sampled: Annotated[bool | None, _setting("sampled", "Task")] = None,
    inputs: Annotated[Any, _setting("inputs", "Task")] = None,
    outputs: Annotated[Any, _setting("outputs", "Task")] = None,
    stretch: Annotated[Any, _setting("stretch", "Task")] = None,
    cell: Annotated[str | None, _setting("cell", "Network")] = None,
    n: Annotated[Any, _setting("n", "Network")] = None,
    alpha: Annotated[Any, _setting("alpha", "Network")] = None,
    w_rec: Annotated[str | None, _setting("w_rec", "Network")] = None,
    random_feedback: Annotated[bool | None, _setting("random_feedback", "Network")] = None,
    dtype: Annotated[str | None, _setting("dtype", "Network")] = None,
) -> None:
    """Train a network with one learner or several, and compare their final losses.

    For example: recurra train --learner uoro --learner rflo --steps 200000 --out runs.nc
    """
    given = tuple(locals().items())  # every option by the name of its setting
    typed = {name: value for name, value in given if name in Settings.model_fields and value not in (None, [], ())}
    settings = checked({**(read_toml(config) if config else {}), **typed})
    if out is not None:
        check_writable(out, force)
    raise typer.Exit(run(settings, build(settings), out, as_json))


@app.command("reproduce")
def reproduce_paper(
    targets: Annotated[list[str] | None, typer.Argument(help="Names of figures or tables; none means all.")] = None,
    profile: Annotated[str, typer.Option(help="Scale: quick (minutes) or paper (the paper's own).")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder for the page, the data and the kept runs.")] = Path("reproduction"),
    seeds: Annotated[int | None, typer.Option(help="Seeds of the loss curves, in place of the profile's.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the loss curves, in place of the profile's.")] = None,
) -> None:
    """Reproduce the paper: figures, table and a ledger of its claims. What is kept in the folder is not run again."""
    from recurra.paper.commands import reproduce_command

    _write_page(lambda: reproduce_command(targets or [], profile, out, seeds, steps))


@app.command("report")
def report(out: Annotated[Path, typer.Argument(help="Folder of an earlier `recurra reproduce`.")]) -> None:
    """Rebuild the page from the runs that are kept."""
    from recurra.paper.commands import report_command

    _write_page(lambda: report_command(out))


def _write_page(make: Callable[[], Path]) -> None:
    from recurra.paper.store import StoreError

    try:
        print(f"\nThe page is {make()}.")
    except StoreError as error:
        raise SettingsError(str(error)) from None
