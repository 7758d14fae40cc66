"""The `recurra` command: a thin layer over `recurra.train`. JAX and its like are imported once a run begins."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from recurra import __version__
from recurra.cli import stopping
from recurra.cli.environment import CommandError, check_device, keep_compiled_programs, need
from recurra.cli.exporting import export_command
from recurra.cli.learning.options import learn_command
from recurra.cli.output import Output
from recurra.cli.streams import closing, complain
from recurra.cli.studies import show_command, sweep_command, tune_command
from recurra.cli.tables import for_programs, print_table, printed, rows_of_settings
from recurra.cli.train import is_of_same_command, number, pair_of, run, word
from recurra.studies.language import not_found, top_names
from recurra.studies.parts import allow, build, full_configuration
from recurra.studies.settings import SettingsError, checked, read_toml
from recurra.training.console import say

#: the entry-point group in which other packages name their commands
GROUP = "recurra.commands"
#: the panels of the options of `recurra train`
LEARNING, NETWORK = "Learning", "Task and network"
#: options of `recurra train` that are settings
OPTIONS = ("learners", *top_names())
#: the ancestor of all of typer's complaints about what was typed, whichever version is installed
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, help="Online learning algorithms for recurrent networks."
)


def main() -> None:
    """The `recurra` program."""
    stopping.watch()
    keep_compiled_programs()
    status = closing(execute(sys.argv[1:]))
    if status > 128:
        # JAX may still be compiling in a thread of its own, and crashes if the interpreter is taken down around it.
        os._exit(status)
    sys.exit(status)


def execute(arguments: list[str]) -> int:
    """Run one command; the exit status. What a user gets wrong is a line on standard error and status 2."""
    command = typer.main.get_command(app)
    try:
        # Not `command.main`: some versions of typer make status 130 of every KeyboardInterrupt, whatever caused it.
        with command.make_context("recurra", list(arguments) or ["--help"]) as context:
            return command.invoke(context) or 0
    except typer.Exit as error:
        return error.exit_code
    except (CommandError, SettingsError) as error:
        complain(*str(error).splitlines())
        return getattr(error, "status", 2)
    except UsageError as error:
        complain(getattr(error, "format_message", error.__str__)())
    except (KeyboardInterrupt, typer.Abort) as error:
        return stopping.status(error)
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
    if as_json:
        print(json.dumps(for_programs(), indent=2))
        return
    header, *rows = printed()
    print_table(header, rows, gap=1)
    print("\nHyperparameters, to be set as --set learner.NAME.FIELD=VALUE, or in a file under [learner.NAME]:")
    for each in for_programs():
        if values := each["hyperparameters"]:
            told = ", ".join(f"{field} = {json.dumps(value)}" for field, value in values.items())
            print(f"  {each['name']:<10}", told)


@app.command("settings")
def settings_command(
    path: Annotated[str, typer.Argument(help="Where to begin, such as task or network.cell.", metavar="PATH")] = "",
) -> None:
    """List the settings of a run: paths for --set, study files and `rc.sweep`, short names, and what each may be."""
    if not (rows := list(rows_of_settings(path))):
        raise SettingsError(str(not_found(path)))
    print_table(("Setting", "May be", "Default", "Of"), rows)


@app.command("train")
def train_command(
    config: Annotated[Path | None, typer.Option(help="TOML file of settings; options given here override it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the losses in this netCDF file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --out if it exists.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Keep the run in this file; the same command goes on from it. With several learners each has its own: "
            "run.safetensors becomes run-rflo.safetensors."
        ),
    ] = None,
    as_json: AsJson = False,
    learners: Annotated[
        list[str] | None,
        word("Who learns, as `recurra learners` has them; repeat for several.", LEARNING, "--learner"),
    ] = None,
    steps: Annotated[Any, number("Steps each seed learns for. Default: 100000", LEARNING)] = None,
    seeds: Annotated[Any, number("Independent repetitions, trained at once. Default: 20", LEARNING)] = None,
    streams: Annotated[Any, number("Parallel streams that share a seed's weights; the task's own.", LEARNING)] = None,
    optimizer: Annotated[str | None, word("How gradients are applied. Default: sgd", LEARNING)] = None,
    learning_rate: Annotated[Any, number("Step size of the optimizer. Default: 0.0001", LEARNING)] = None,
    window: Annotated[Any, number("Steps a kept loss is averaged over; a hundredth of the run.", LEARNING)] = None,
    key: Annotated[Any, number("Start of all random numbers. Default: 0", LEARNING)] = None,
    engine: Annotated[str | None, word("What runs the steps: auto, scan or on-chip. Default: auto", LEARNING)] = None,
    task: Annotated[str | None, word("What to learn. Default: add", NETWORK)] = None,
    cell: Annotated[str | None, word("The network's cell. Default: rnn", NETWORK)] = None,
    n: Annotated[Any, number("Units. Default: 32", NETWORK)] = None,
    layers: Annotated[Any, number("Recurrent layers, each such a cell. Default: 1", NETWORK)] = None,
    alpha: Annotated[Any, number("Inverse time constant of the rnn cell, in (0, 1]. Default: 1.0", NETWORK)] = None,
    density: Annotated[Any, number("Share of recurrent weights that a sparse cell has.", NETWORK)] = None,
    w_rec: Annotated[str | None, word("How the recurrent weights start. Default: orthogonal", NETWORK)] = None,
    dtype: Annotated[str | None, word("Precision: float32 or float64. Default: float32", NETWORK)] = None,
    paths: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other setting, such as task.t1=6; repeat for several. `recurra settings` lists them.",
            rich_help_panel=NETWORK,
            metavar="PATH=VALUE",
        ),
    ] = None,
) -> None:
    """Train a network with one learner or several, and compare their final losses.

    For example: recurra train --learner uoro --learner rflo --steps 200000 --out runs.nc
    """
    given = tuple(locals().items())  # every option by the name of its setting
    typed = [(name, value) for name, value in given if name in OPTIONS and value not in (None, [], ())]
    file = read_toml(config) if config else ({}, None)
    settings = checked(*file, [*typed, *map(pair_of, paths or [])])
    allow(settings)
    if out is not None:
        need("results", "`recurra train --out`")

    def is_own(path: Path) -> bool:
        if checkpoint is None:
            return False
        check_device()
        return is_of_same_command(path, full_configuration(settings, build(settings)))

    with Output(out, force, is_own) if out is not None else nullcontext() as output:
        check_device()
        raise typer.Exit(run(settings, build(settings), output, as_json, checkpoint))


app.command("learn")(learn_command)
app.command("export")(export_command)
app.command("sweep")(sweep_command)
app.command("show")(show_command)
app.command("tune")(tune_command)


@app.command("bench")
def bench_command(
    learner: Annotated[list[str] | None, typer.Option(help="Which learner; may be repeated. All by default.")] = None,
    cell: Annotated[list[str] | None, typer.Option(help="Which cell, rnn by default; may be repeated.")] = None,
    n: Annotated[list[int] | None, typer.Option(help="Units; may be repeated.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="Seeds at once; may be repeated.")] = None,
    streams: Annotated[list[int] | None, typer.Option(help="Streams a seed learns from; may be repeated.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="Processor cores to use.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Calls of half a second at most; the median counts.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for bench.json and plots.")] = None,
) -> None:
    """Measure step times of the library on this machine, beside what the machine itself can do."""
    if out is not None:
        need("paper", "`recurra bench --out`", "matplotlib")
    _use_cores(cores)  # before JAX counts them
    check_device()
    from recurra.cli.bench import measure_all
    from recurra.learners import LEARNERS

    asked = {"learner": learner or list(LEARNERS), "cell": cell or ["rnn"], "n": n or [32]}
    raise typer.Exit(measure_all({**asked, "seeds": seeds or [1, 20], "streams": streams or [1]}, repeats, out))


def _use_cores(count: int) -> None:
    try:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    except (AttributeError, OSError):  # AttributeError: macOS and Windows
        say("This system lets no program choose its cores, so --cores has no effect: all of them are used.")


def _add_installed_commands() -> None:
    """Add the commands of other packages, which name them in the entry-point group `recurra.commands`."""
    owners = {command.name: "recurra itself" for command in app.registered_commands}
    for entry in sorted(entry_points(group=GROUP), key=_package):  # in the same order on every machine
        package = _package(entry)
        if entry.name in owners:
            owner = owners[entry.name]
            say(f"warning: {package} adds a command {entry.name!r}, which {owner} has already: it is left out.")
            continue
        owners[entry.name] = package
        try:
            command = entry.load()
        except Exception as error:
            why = error or type(error).__name__
            command = _broken(f"The command {entry.name!r} of {package} cannot be loaded: {why}")
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


def _package(entry: Any) -> str:
    return entry.dist.name if entry.dist else entry.value


def _broken(line: str) -> Callable[[], None]:
    """A command that says why the one of its name cannot be loaded. All others go on working."""

    def command() -> None:
        raise CommandError(line)

    command.__doc__ = f"{line}."
    return command


_add_installed_commands()
