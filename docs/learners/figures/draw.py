"""The drawings of the learners' pages: what each of them keeps of the influence tensor.

python docs/learners/figures/draw.py         writes every SVG beside this file

A block of cells is the tensor M[k, i, j]. Three directions mean the same in all drawings: k goes down, i to the lower
left, j to the lower right. Colours are of middle brightness, and the background is transparent, so that the drawings
can be read on light and on dark pages.
"""

from pathlib import Path

import credit  # noqa: F401  registers its drawings
import matplotlib.pyplot as plt
import tensors  # noqa: F401
from blocks import DRAWINGS

HERE = Path(__file__).parent


def main() -> None:
    """Write all drawings."""
    for name, draw in DRAWINGS.items():
        figure, ax = plt.subplots(figsize=(4.6, 3.9) if name == "facing" else (4.6, 2.7))
        draw(ax)
        ax.set_aspect("equal")
        ax.autoscale_view()
        ax.axis("off")
        figure.savefig(
            HERE / f"{name}.svg", transparent=True, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None}
        )
        plt.close(figure)


if __name__ == "__main__":
    main()
