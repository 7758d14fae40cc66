"""`recurra bench`: a row for each setting, and with --out a report and a plot of step times over size for each cell."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

from recurra.cli.bench import CELLS, Row, bench
from recurra.cli.stopping import keep, on_leaving, undisturbed
from recurra.cli.streams import NO_READER, complain, lost, say_lost
from recurra.learners import LEARNERS
from recurra.saved.whole_files import InUseError, held, try_place, write_whole
from recurra.studies.settings import SettingsError
from recurra.training.provenance import machine, versions

REPORT = "bench.json"


def measure_all(
    learners: Sequence[str],
    cells: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    streams: Sequence[int],
    repeats: int,
    out: Path | None,
) -> int:
    """Measure and print every combination that fits; the exit status."""
    for what, asked, known in (("learner", learners, LEARNERS), ("cell", cells, CELLS)):
        if unknown := [name for name in asked if name not in known]:
            raise SettingsError(f"There is no {what} {', '.join(unknown)}: choose from {', '.join(known)}.")
    for what, numbers in (("n", sizes), ("seeds", seeds), ("streams", streams)):
        if min(numbers) < 1:
            raise SettingsError(f"`{what}` must be at least 1, and is {min(numbers)}.")
    with _place(out) if out else nullcontext():
        print("learner    cell    n seeds streams  µs a step of one network   compile s   of the machine")
        rows: list[Row] = []
        for row in bench(learners, cells, sizes, seeds, streams, repeats):
            rows.append(row)
            _print_row(row)
            if out is None and isinstance(lost(), BrokenPipeError):  # nobody will ever see the others
                return NO_READER
        keep()
        kept = out is not None and _write_all(rows, out)
    say_lost(repeat=not kept)
    return 0 if kept or out is None else 1


def _print_row(row: Row) -> None:
    spread = f"{row.micros:10.2f} ({row.least:.2f}..{row.most:.2f})"
    share = f"{row.share:4.0%} of its {row.bound}"
    print(
        f"{row.learner:10} {row.cell:4} {row.n:4} {row.seeds:5} {row.streams:7}  {spread:26} "
        f"{row.compile_seconds:6.1f}   {share}",
        flush=True,
    )


@contextmanager
def _place(directory: Path) -> Iterator[None]:
    """Have the folder's report to oneself; a SettingsError, before anything is measured, if it cannot be written."""
    with ExitStack() as stack:
        on_leaving(stack.close)
        try:
            with undisturbed():
                directory.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(directory / REPORT))
                try_place(directory / REPORT)
        except InUseError:
            raise SettingsError(
                f"`out` is {directory}, which another `recurra bench` is using: wait until it has ended, or choose "
                "another folder."
            ) from None
        except FileExistsError:
            raise SettingsError(f"`out` is {directory}, which is a file: choose a folder.") from None
        except OSError as error:
            raise SettingsError(
                f"`out` is {directory}, which cannot be written: {error.strerror or error}. Mend that, or choose "
                "another folder."
            ) from None
        yield


def _write_all(rows: Sequence[Row], directory: Path) -> bool:
    """The report, and the plots; whether it worked."""
    report = {"machine": machine(), "versions": versions(), "rows": [asdict(row) for row in rows]}
    files = {REPORT: json.dumps(report, indent=1) + "\n"}
    for kind in dict.fromkeys(row.cell for row in rows):
        files[f"bench-{kind}.svg"] = _plot([row for row in rows if row.cell == kind])
    for name, text in files.items():
        try:
            write_whole(directory / name, lambda file, text=text: file.write(text.encode()))
        except OSError as error:
            complain(f"{directory / name} could not be written: {error.strerror or error}. The rows are above.")
            return False
    print(f"\nbench.json and plots are in {directory}.")
    return True


def _networks(row: Row) -> tuple[int, int]:
    return row.seeds, row.streams


def _plot(rows: Sequence[Row]) -> str:
    from recurra.pages import plots  # which needs an extra

    with plots.style():
        counts = sorted({_networks(row) for row in rows})
        figure = plots.sheet(3.1 * len(counts) + 2.2, 4.2)
        panels = figure.subplots(1, len(counts), squeeze=False, sharey=True)[0]
        figure.subplots_adjust(left=0.1, right=0.86 - 0.02 * (3 - len(counts)), bottom=0.14, top=0.9)
        for axes, count in zip(panels, counts, strict=True):
            for name in dict.fromkeys(row.learner for row in rows):
                own = [row for row in rows if row.learner == name and _networks(row) == count]
                line = [(row.n, row.micros) for row in own]
                if line:
                    axes.plot(*zip(*line, strict=True), label=plots.name(name), **plots.line_style(name, 1))
            axes.set(
                xscale="log",
                yscale="log",
                xlabel="units",
                title=f"{count[0]} seed{'s' * (count[0] > 1)}" + f" × {count[1]} streams" * (count[1] > 1),
            )
            axes.set_xticks(sizes := sorted({row.n for row in rows}), [str(n) for n in sizes], minor=False)
            axes.minorticks_off()
        panels[0].set_ylabel("µs a step of one network")
        panels[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=7.5)
        return plots.svg(figure, "bench")
