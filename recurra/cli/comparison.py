"""Learners trained one after the other for the command line: what is kept, and what is said of them."""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recurra import __version__
from recurra.cli.parts import Parts, full_configuration
from recurra.cli.settings import Settings, SettingsError

if TYPE_CHECKING:
    from recurra.training.result import Result

#: exit status after Ctrl-C, as shells have it
INTERRUPTED = 130


def complain(*lines: str) -> None:
    """Errors, on standard error."""
    for line in lines:
        say(f"error: {line}")


def say(line: str) -> None:
    """A remark, where it cannot be taken for a result."""
    print(line, file=sys.stderr, flush=True)


def leave(*_: object) -> None:
    """Ctrl-C while there is nothing to keep: end at once. An exception while JAX loads or compiles may crash it."""
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # which a progress bar hides
    say(f"{show_cursor}Interrupted: nothing was kept.")
    os._exit(INTERRUPTED)


def check_writable(out: Path, force: bool) -> None:
    """Raise before anything is computed if it could not be kept."""
    try:
        if out.is_dir():
            raise SettingsError(f"`out` is {out}, which is a folder: add a file name, such as {out / 'runs.nc'}.")
        if not out.parent.is_dir():
            raise SettingsError(f"`out` is {out}, and there is no folder {out.parent}: create it first.")
        if out.exists() and not out.is_file():
            raise SettingsError(f"`out` is {out}, which is not an ordinary file: choose another name.")
        if out.exists() and not force:
            raise SettingsError(f"`out` is {out}, which exists: choose another name, or replace it with --force.")
        with tempfile.NamedTemporaryFile(prefix=f".{out.name}.", suffix=".partial", dir=out.parent):
            pass
    except OSError as error:
        raise SettingsError(f"`out` is {out}, which cannot be written: {error.strerror}.") from None


def run(settings: Settings, parts: Parts, out: Path | None, as_json: bool) -> int:
    """Train each learner in turn and keep what is finished; the exit status."""
    import jax

    import recurra

    config = full_configuration(settings, parts)
    results: dict[str, Result] = {}
    failed: dict[str, str] = {}
    interrupted, kept = False, True
    how = {name: getattr(settings, name) for name in ("steps", "seeds", "streams", "key", "window")}
    try:
        for name, learner in parts.learners.items():
            try:
                result = recurra.train(parts.network, learner, parts.task, optimizer=parts.optimizer, **how)
            except (jax.errors.JaxRuntimeError, MemoryError, OverflowError) as error:  # another learner may fit
                failed[name] = str(error).splitlines()[0]
                complain(f"{name} failed: {failed[name]} Try fewer `seeds` or a smaller `n`.")
                continue
            if result.steps:
                results[name] = result
            if signal.getsignal(signal.SIGINT) is leave:  # from now on there is something to keep
                signal.signal(signal.SIGINT, signal.default_int_handler)
            kept = _save(results, config, out)
            if interrupted := result.interrupted:
                break
    except KeyboardInterrupt:  # while compiling, saving, or the second in a row
        interrupted = True
        kept = _save(results, config, out)

    summaries = sorted((_summary(name, result) for name, result in results.items()), key=_badness, reverse=True)
    missing = [name for name in parts.learners if name not in results and name not in failed]
    if as_json:
        report = {"version": recurra.__version__, "config": config, "results": summaries, "failed": failed}
        print(json.dumps({**report, "interrupted": interrupted, "not_trained": missing}, indent=2))
    else:
        _print_summaries(summaries)
    if out is not None and kept and results:
        say(f"Saved in {out}.")
    if interrupted:
        say(_interruption(results, settings.steps, missing))
    return INTERRUPTED if interrupted else 1 if failed or not kept else 0


def _save(results: "Mapping[str, Result]", config: dict[str, Any], out: Path | None) -> bool:
    """Keep the results so far; whether it worked. A full disk costs the file, not the run."""
    if out is None or not results:
        return True
    import xarray

    from recurra.training.result import save

    each = [result.to_xarray().drop_attrs(deep=False) for result in results.values()]
    joined = xarray.concat(each, "learner", data_vars="all", coords="minimal", compat="equals", join="outer")
    joined = joined.assign_coords(learner=list(results))
    joined["steps_done"] = ("learner", [result.steps for result in results.values()])
    joined.attrs = {
        "config": json.dumps(config),
        "recurra_version": __version__,
        "interrupted": int(any(result.interrupted for result in results.values())),
    }
    try:
        save(joined, out)
    except OSError as error:
        complain(f"`out` is {out}, which could not be written: {error}")
        return False
    return True


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


def _badness(summary: Mapping[str, Any]) -> float:
    return float("inf") if summary["final_loss"] is None else summary["final_loss"]


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
    cut = [
        f"{name} stopped after {result.steps:,} of {steps:,} steps"
        for name, result in results.items()
        if result.interrupted
    ]
    return "Interrupted: " + "; ".join([*cut, *([f"not trained: {', '.join(missing)}"] if missing else [])]) + "."


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]], gap: int = 2) -> None:
    """Rows under a header, on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=None, padding=(0, gap, 0, 0), header_style="bold")
    for row in rows:
        table.add_row(*row)
    # A pipe or a file has no width: nothing is wrapped there.
    Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)
