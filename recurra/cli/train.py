"""`recurra train`: its options, learners trained one after the other, and what is kept and said of them."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from recurra import __version__
from recurra.cli import stopping
from recurra.cli.output import Output
from recurra.cli.streams import complain, say_lost
from recurra.cli.tables import print_table
from recurra.studies.parts import Parts, full_configuration
from recurra.studies.settings import Settings, SettingsError
from recurra.training.console import say
from recurra.training.interrupts import Interrupted

if TYPE_CHECKING:
    import xarray

    from recurra.training.result import Result


def number(help: str, panel: str) -> Any:
    """The option for a setting that is a number."""
    return typer.Option(help=help, rich_help_panel=panel, show_default=False, parser=value_of, metavar="NUMBER")


def word(help: str, panel: str, *flags: str) -> Any:
    """The option for a setting that is chosen by its name."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, show_default=False, metavar="NAME")


def value_of(text: str) -> bool | int | float | str:
    """The value typed: a number, true or false, or text. Whether it may be so is for the settings to say."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def pair_of(text: str) -> tuple[str, bool | int | float | str]:
    """The setting and the value of `--set PATH=VALUE`."""
    path, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"`--set` is {text!r}: write --set PATH=VALUE, such as --set task.t1=6.")
    return path.strip(), value_of(value.strip())


def run(settings: Settings, parts: Parts, output: Output | None, as_json: bool, checkpoint: Path | None) -> int:
    """Train each learner in turn and keep what is finished; the exit status."""
    import jax

    import recurra
    from recurra.engine.choosing import engine_of
    from recurra.engine.on_chip.fits import DoesNotFitError

    files = _checkpoints(checkpoint, list(parts.learners))
    config = full_configuration(settings, parts)
    results: dict[str, Result] = {}
    failed: dict[str, str] = {}
    status, kept = 0, True
    how = {name: getattr(settings, name) for name in ("steps", "seeds", "streams", "key", "window")}
    how["engine"] = engine_of(settings.engine)
    *_, last = parts.learners
    exhausted = jax.errors.JaxRuntimeError, MemoryError, OverflowError
    stopping.hand_over()
    _say_what_is_logged()
    try:
        for name, learner in parts.learners.items():
            try:
                how["checkpoint"] = files.get(name)
                results[name] = recurra.train(parts.network, learner, parts.task, optimizer=parts.optimizer, **how)
            except (DoesNotFitError, recurra.CheckpointError, *exhausted) as error:  # another learner may fit
                if isinstance(error, recurra.CheckpointError) and not results:
                    raise SettingsError(str(error)) from None
                failed[name] = _reason(error) if isinstance(error, exhausted) else str(error)
                complain(f"{name} failed: {failed[name]}")
                continue
            except Interrupted as error:
                if error.result.steps:
                    results[name] = error.result
                raise
            stopping.keep()
            kept = _save(results, config, output, name == last)
    except KeyboardInterrupt as error:  # also while saving, or the second in a row
        status = stopping.status(error)
        kept = _save(results, config, output, True)
    kept = kept or _save(results, config, output, True)  # there may be room by now

    badness = lambda each: float("inf") if each["final_loss"] is None else each["final_loss"]
    summaries = sorted((_summary(name, result) for name, result in results.items()), key=badness, reverse=True)
    missing = [name for name in parts.learners if name not in results and name not in failed]
    if as_json:
        report = {"version": recurra.__version__, "config": config, "results": summaries, "failed": failed}
        print(json.dumps({**report, "interrupted": bool(status), "not_trained": missing}, indent=2))
    else:
        _print_summaries(summaries)
    say_lost(repeat=output is None or not kept)
    if output is not None and kept and results:
        say(output.where())
    if status:
        goes_on = any(file.exists() for file in files.values())
        say(_interruption(results, settings.steps, missing) + " The same command goes on from there." * goes_on)
    return status or (1 if failed or not kept else 0)


class _Saying(logging.Handler):
    """Says what the library logs, such as which engine runs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def _say_what_is_logged() -> None:
    logger = logging.getLogger("recurra")
    if not any(isinstance(handler, _Saying) for handler in logger.handlers):
        logger.addHandler(_Saying())
        logger.setLevel(logging.INFO)


def _checkpoints(path: Path | None, learners: list[str]) -> dict[str, Path]:
    """The checkpoint of each learner. What is wrong with one of them is found before any is trained."""
    from recurra.training.checkpoint import CheckpointError, held_checkpoint, read_checkpoint

    if path is None:
        return {}
    own = lambda name: path.with_name(f"{path.stem}-{name}{path.suffix}") if len(learners) > 1 else path
    files = {name: own(name) for name in learners}
    try:
        for file in files.values():
            with stopping.undisturbed(), held_checkpoint(file):
                if file.exists():
                    read_checkpoint(file)
    except CheckpointError as error:
        raise SettingsError(str(error)) from None
    return files


def is_of_same_command(path: Path, config: dict[str, Any]) -> bool:
    """Whether a file of results was made with the same settings."""
    import xarray

    try:
        with xarray.open_dataset(path, engine="h5netcdf") as data:
            return json.loads(data.attrs["config"]) == json.loads(json.dumps(config))
    except Exception:  # it may be any file
        return False


def _reason(error: Exception) -> str:
    """Why a learner failed, in one line; with a way out where it is an error of JAX's, which has none."""
    line = next(iter(str(error).splitlines()), "Out of memory.")
    has_advice = bool(str(error)) and not line.startswith("RESOURCE_EXHAUSTED")
    return line if has_advice else f"{line} Try fewer `seeds` or a smaller `n`."


def _save(results: "Mapping[str, Result]", config: dict[str, Any], output: Output | None, last: bool) -> bool:
    """Keep the results so far; whether it worked. A full disk costs the file, not the run."""
    return output is None or not results or output.save(_dataset(results, config), last)


def _dataset(results: "Mapping[str, Result]", config: dict[str, Any]) -> "xarray.Dataset":
    import xarray

    each = [result.to_xarray().drop_attrs(deep=False) for result in results.values()]
    joined = xarray.concat(each, "learner", data_vars="all", coords="minimal", compat="equals", join="outer")
    joined = joined.assign_coords(learner=list(results))
    joined["steps_done"] = ("learner", [result.steps for result in results.values()])
    joined.attrs = {
        "config": json.dumps(config),
        "recurra_version": __version__,
        "interrupted": int(any(result.interrupted for result in results.values())),
    }
    return joined


def _summary(name: str, result: "Result") -> dict[str, Any]:
    """The final loss over the seeds that did not diverge."""
    from recurra.training.result import standard_error

    kept = [seed not in result.diverged for seed in result.seeds]
    losses = result.final_loss()[kept]
    return {
        "learner": name,
        "final_loss": float(losses.mean()) if len(losses) else None,
        "standard_error": standard_error(losses) if len(losses) > 1 else None,
        "seeds": len(result.seeds),
        "diverged": {str(seed): step for seed, step in sorted(result.diverged.items())},
        "steps": result.steps,
        "seconds": round(result.seconds, 3),
        "compile_seconds": round(result.compile_seconds, 3),
    }


def _print_summaries(summaries: list[dict[str, Any]]) -> None:
    if not summaries:
        return
    rows = []
    for each in summaries:
        loss = "–" if each["final_loss"] is None else f"{each['final_loss']:.5g}"
        error = "–" if each["standard_error"] is None else f"{each['standard_error']:.2g}"
        seeds = f"{each['seeds'] - len(each['diverged'])} of {each['seeds']}"
        rows.append((each["learner"], loss, error, seeds, f"{each['steps']:,}", f"{each['seconds']:,.1f}"))
    print_table(("Learner", "Final loss", "Std. error", "Seeds", "Steps", "Seconds"), rows)
    print("\nFinal loss is the mean over seeds and over the windows that end in the last tenth of the steps.")
    for each in summaries:
        if each["diverged"]:
            where = ", ".join(f"seed {seed} at step {step:,}" for seed, step in each["diverged"].items())
            some_left = len(each["diverged"]) < each["seeds"]
            rest = "the mean is over the others" if some_left else "no seed is left to average over"
            print(f"{each['learner']} diverged: {where}; {rest}.")


def _interruption(results: "Mapping[str, Result]", steps: int, missing: list[str]) -> str:
    parts = [
        f"{name} stopped after {result.steps:,} of {steps:,} steps"
        for name, result in results.items()
        if result.interrupted
    ]
    parts += [f"not trained: {', '.join(missing)}"] if missing else []
    return f"Interrupted: {'; '.join(parts)}."
