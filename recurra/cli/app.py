"""The `recurra` command: a thin layer over `recurra.train`. JAX and its like are imported once a run begins."""

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from recurra import __version__
from recurra.cli import stopping
from recurra.cli.environment import CommandError, check_device, keep_compiled_programs, need
from recurra.cli.learning.options import learn_command
from recurra.cli.output import Output
from recurra.cli.streams import closing, complain
from recurra.cli.studies import show_command, sweep_command, tune_command
from recurra.cli.tables import for_programs, print_table, printed
from recurra.cli.train import is_of_same_command, run, setting
from recurra.studies.parts import allow, build, full_configuration
from recurra.studies.settings import Settings, SettingsError, checked, read_toml
from recurra.training.console import say

#: the entry-point group in which other packages name their commands
GROUP = "recurra.commands"
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
    print("\nHyperparameters, to be set in a file for --config under [learner.NAME]:")
    for each in for_programs():
        if values := each["hyperparameters"]:
            told = ", ".join(f"{field} = {json.dumps(value)}" for field, value in values.items())
            print(f"  {each['name']:<10}", told)


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
    engine: Annotated[
        str, typer.Option(help="What runs the steps: auto, scan or on-chip.", metavar="NAME", show_default=True)
    ] = "auto",
    as_json: AsJson = False,
    learners: Annotated[list[str] | None, setting("learners", "Learning", "--learner")] = None,
    steps: Annotated[Any, setting("steps", "Learning")] = None,
    seeds: Annotated[Any, setting("seeds", "Learning")] = None,
    streams: Annotated[Any, setting("streams", "Learning")] = None,
    optimizer: Annotated[str | None, setting("optimizer", "Learning")] = None,
    learning_rate: Annotated[Any, setting("learning_rate", "Learning")] = None,
    window: Annotated[Any, setting("window", "Learning")] = None,
    key: Annotated[Any, setting("key", "Learning")] = None,
    task: Annotated[str | None, setting("task", "Task")] = None,
    t1: Annotated[Any, setting("t1", "Task")] = None,
    t2: Annotated[Any, setting("t2", "Task")] = None,
    sampled: Annotated[bool | None, setting("sampled", "Task")] = None,
    inputs: Annotated[Any, setting("inputs", "Task")] = None,
    outputs: Annotated[Any, setting("outputs", "Task")] = None,
    stretch: Annotated[Any, setting("stretch", "Task")] = None,
    cell: Annotated[str | None, setting("cell", "Network")] = None,
    n: Annotated[Any, setting("n", "Network")] = None,
    layers: Annotated[Any, setting("layers", "Network")] = None,
    density: Annotated[Any, setting("density", "Network")] = None,
    alpha: Annotated[Any, setting("alpha", "Network")] = None,
    w_rec: Annotated[str | None, setting("w_rec", "Network")] = None,
    random_feedback: Annotated[bool | None, setting("random_feedback", "Network")] = None,
    dtype: Annotated[str | None, setting("dtype", "Network")] = None,
) -> None:
    """Train a network with one learner or several, and compare their final losses.

    For example: recurra train --learner uoro --learner rflo --steps 200000 --out runs.nc
    """
    given = tuple(locals().items())  # every option by the name of its setting
    typed = {name: value for name, value in given if name in Settings.model_fields and value not in (None, [], ())}
    settings = checked({**(read_toml(config) if config else {}), **typed})
    allow(settings)
    if out is None:
        check_device()
        raise typer.Exit(run(settings, build(settings), None, as_json, checkpoint, engine))
    need("results", "`recurra train --out`")

    def is_own(path: Path) -> bool:
        if checkpoint is None:
            return False
        check_device()
        return is_of_same_command(path, full_configuration(settings, build(settings)))

    with Output(out, force, is_own) as output:
        check_device()
        raise typer.Exit(run(settings, build(settings), output, as_json, checkpoint, engine))


app.command("learn")(learn_command)
app.command("sweep")(sweep_command)
app.command("show")(show_command)
app.command("tune")(tune_command)


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
        need("paper", "`recurra bench --out`", "matplotlib")
    _use_cores(cores)  # before JAX counts them
    check_device()
    from recurra.cli.bench import measure_all
    from recurra.learners import LEARNERS

    asked = learner or list(LEARNERS), cell or ["rnn"], n or [32], seeds or [1, 20], streams or [1]
    raise typer.Exit(measure_all(*asked, repeats, out))


def _use_cores(count: int) -> None:
    try:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    except (AttributeError, OSError):  # AttributeError: macOS and Windows
        say("This system lets no program choose its cores, so --cores has no effect: all of them are used.")


def _add_installed_commands() -> None:
    """Add the commands of other packages, which name them in the entry-point group `recurra.commands`."""
    own = {command.name for command in app.registered_commands}
    for entry in entry_points(group=GROUP):
        if entry.name in own:
            package = entry.dist.name if entry.dist else entry.value
            say(f"warning: {package} adds a command {entry.name!r}, which there is already: it is left out.")
            continue
        try:
            command = entry.load()
        except Exception as error:
            command = _broken(entry, error)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


def _broken(entry: EntryPoint, error: Exception) -> Callable[[], None]:
    """A command that says why the one of that name cannot be loaded. All others go on working."""
    package = entry.dist.name if entry.dist else entry.value
    line = f"The command {entry.name!r} of {package} cannot be loaded: {error or type(error).__name__}"

    def command() -> None:
        raise CommandError(line)

    command.__doc__ = f"{line}."
    return command


_add_installed_commands()
