"""The `recurra` command: a thin layer over `recurra.train`. JAX and its like are imported once a run begins."""

import io
import json
import os
import signal
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from recurra import __version__
from recurra.cli.comparison import INTERRUPTED, check_writable, complain, leave, print_table, run
from recurra.cli.extras import lacking
from recurra.cli.parts import build
from recurra.cli.settings import Settings, SettingsError, checked, read_toml
from recurra.engine.hardware import processor

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
    _keep_compiled_programs()
    status = execute(sys.argv[1:])
    if status == INTERRUPTED:
        # JAX may still be compiling in a thread of its own, and crashes if the interpreter is taken down around it.
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def _keep_compiled_programs() -> None:
    """A second process need not compile what the first did; another processor needs programs of its own."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kind = zlib.crc32(processor().encode())
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache / "recurra" / f"{__version__}-{kind:08x}"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # also small programs are kept


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


def _need(extra: str, who: str, *only: str) -> None:
    """Complain before anything is computed if an extra, or some of it, is not installed."""
    if line := lacking(extra, who, *only):
        raise SettingsError(line)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs, and nothing else, on standard output.")]


@app.command("learners")
def learners_command(as_json: AsJson = False) -> None:
    """List the algorithms, how they differ and what they cost."""
    from recurra.cli.tables import for_programs, printed

    if as_json:
        print(json.dumps(for_programs(), indent=2))
        return
    header, *rows = printed()
    print_table(header, rows, gap=1)
    print("\nHyperparameters, to be set in a file for --config under [learner.NAME]:")
    for each in for_programs():
        if values := each["hyperparameters"]:
            told = ", ".join(f"{field} = {json.dumps(value)}" for field, value in values.items())
            print(f"  {each['name']:<10}", told)


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
    streams: Annotated[Any, _setting("streams", "Learning")] = None,
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
        _need("results", "`recurra train --out`")
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
    _need("paper", "`recurra reproduce`")
    from recurra.paper.commands import reproduce_command

    _write_page(lambda: reproduce_command(targets or [], profile, out, seeds, steps))


@app.command("bench")
def bench_command(
    learner: Annotated[list[str] | None, typer.Option(help="Which learner; may be repeated. All by default.")] = None,
    cell: Annotated[list[str] | None, typer.Option(help="rnn, gru or lstm; may be repeated.")] = None,
    n: Annotated[list[int] | None, typer.Option(help="Units; may be repeated.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="Seeds at once; may be repeated.")] = None,
    streams: Annotated[list[int] | None, typer.Option(help="Streams a seed learns from; may be repeated.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Processor cores to use.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Calls of half a second at most; the median counts.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for bench.json and plots.")] = None,
) -> None:
    """Measure step times of the library on this machine, beside what the machine itself can do."""
    if out is not None:
        _need("paper", "`recurra bench --out`", "matplotlib")
    if hasattr(os, "sched_setaffinity"):  # before JAX counts the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    from recurra.cli.bench import CELLS, bench, write
    from recurra.learners import LEARNERS

    for what, asked, known in (("learner", learner, LEARNERS), ("cell", cell, CELLS)):
        if unknown := [name for name in asked or () if name not in known]:
            raise SettingsError(f"There is no {what} {', '.join(unknown)}: choose from {', '.join(known)}.")
    for what, numbers in (("n", n), ("seeds", seeds), ("streams", streams)):
        if any(number < 1 for number in numbers or ()):
            raise SettingsError(f"`{what}` must be at least 1, and is {min(numbers or ())}.")
    print("learner    cell    n seeds streams  µs a step of one network   compile s   of the machine")
    asked = learner or list(LEARNERS), cell or ["rnn"], n or [32], seeds or [1, 20], streams or [1]
    rows = bench(*asked, repeats, _print_row)
    if out is not None:
        write(rows, out)
        print(f"\nbench.json and plots are in {out}.")


def _print_row(row: Any) -> None:
    spread = f"{row.micros:10.2f} ({row.least:.2f}..{row.most:.2f})"
    share = f"{row.share:4.0%} of its {row.bound}"
    print(
        f"{row.learner:10} {row.cell:4} {row.n:4} {row.seeds:5} {row.streams:7}  {spread:26} "
        f"{row.compile_seconds:6.1f}   {share}",
        flush=True,
    )


@app.command("report")
def report(out: Annotated[Path, typer.Argument(help="Folder of an earlier `recurra reproduce`.")]) -> None:
    """Rebuild the page from the runs that are kept."""
    _need("paper", "`recurra report`")
    from recurra.paper.commands import report_command

    _write_page(lambda: report_command(out))


def _write_page(make: Callable[[], Path]) -> None:
    from recurra.paper.store import StoreError

    signal.signal(signal.SIGINT, signal.default_int_handler)  # from the first run on there is something to keep
    try:
        print(f"\nThe page is {make()}.")
    except StoreError as error:
        raise SettingsError(str(error)) from None
    except KeyboardInterrupt:
        complain("Interrupted: finished runs are kept, and the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
