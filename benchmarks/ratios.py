"""A plot of step_time.json: how near the library is to the bare loop, for every learner, cell and size."""

from collections.abc import Sequence

from recurra.pages import plots

CELLS = {"rnn": "tanh", "gru": "GRU", "lstm": "LSTM"}
#: units, seeds and streams, and how they look
LOOKS = {
    (32, 1, 1): ("o", "#1f72cc", "32 units"),
    (32, 20, 1): ("s", "#1f72cc", "32 units, 20 seeds"),
    (32, 256, 1): ("D", "#1f72cc", "32 units, 256 seeds"),
    (32, 1, 64): ("^", "#8a56ac", "32 units, 64 streams"),
    (128, 1, 1): ("o", "#d39a00", "128 units"),
    (128, 20, 1): ("s", "#d39a00", "128 units, 20 seeds"),
    (512, 1, 1): ("o", "#d6401f", "512 units"),
    (1024, 1, 1): ("o", "#1c1e21", "1024 units"),
}


def plot(rows: Sequence[dict], wanted: float) -> str:
    """A panel for each cell, a line for each learner, a mark for each size."""
    names = list(dict.fromkeys(row["learner"] for row in rows))
    kinds = [kind for kind in CELLS if any(row["cell"] == kind for row in rows)]
    with plots.style():
        figure = plots.sheet(2.5 * len(kinds) + 2.6, 0.34 * len(names) + 1.4)
        panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True, sharex=True)[0]
        width = figure.get_figwidth()
        figure.subplots_adjust(left=0.95 / width, right=1 - 1.75 / width, bottom=0.14, top=0.92, wspace=0.08)
        for axes, kind in zip(panels, kinds, strict=True):
            axes.axvline(1, color=plots.FAINT, linewidth=1.2)
            axes.axvline(wanted, color="#d6401f", linewidth=0.8, linestyle=(0, (4, 3)))
            for row in rows:
                look = LOOKS.get((row["n"], row["seeds"], row["streams"]))
                if row["cell"] == kind and look:
                    marker, colour, label = look
                    height = len(names) - 1 - names.index(row["learner"])
                    axes.plot(row["ratio"], height, marker, color=colour, markersize=4.5, alpha=0.8, label=label)
            axes.set(title=CELLS[kind], xlabel="library ÷ bare loop")
            axes.set_yticks(range(len(names)), [plots.name(name) for name in reversed(names)])
            axes.grid(axis="y", color=plots.FAINT, linewidth=0.5)
        drawn = {}
        for axes in panels:
            handles, labels = axes.get_legend_handles_labels()
            drawn |= dict(zip(labels, handles, strict=True))
        order = [label for *_, label in LOOKS.values() if label in drawn]
        handles = [drawn[label] for label in order]
        panels[-1].legend(handles, order, loc="center left", bbox_to_anchor=(1.03, 0.5), frameon=False)
        return plots.svg(figure, "ratios")
