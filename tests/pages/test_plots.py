"""The looks of learners in figures: each its own, by its axes, and the same whatever learners there are."""

import colorsys
import dataclasses
from itertools import combinations

import numpy as np

from recurra import LEARNERS
from recurra.pages import plots


def test_looks_tell_learners_apart():
    assert len(set(plots.COLOURS.values())) == len(plots.COLOURS)
    for learner, colour in plots.COLOURS.items():
        assert in_family(colour, plots.facing(learner))
    # Without hue, by lightness, dashes, markers or width.
    look = lambda x: plots.line_style(x, 60)
    marks = lambda x: (look(x)["linestyle"], look(x)["linewidth"], look(x).get("marker"), x == "kernl-released")
    for one, other in combinations(plots.COLOURS, 2):
        darker = abs(lightness(plots.colour(one)) - lightness(plots.colour(other)))
        assert marks(one) != marks(other) or darker > 0.15, (one, other)


def lightness(colour):
    """Perceived, from 0 to 1."""
    linear = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722))) ** (1 / 3)


def in_family(colour, facing):
    hue, _, saturation = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    families = {"past": 0.53 < hue < 0.69, "future": hue < 0.15 or hue > 0.95, "–": saturation < 0.05}
    return families[facing] and (saturation < 0.05) == (facing == "–")


def test_a_learner_without_a_look_of_its_own_is_given_one(monkeypatch):
    looks = {learner: plots.line_style(learner, 60) for learner in plots.COLOURS}
    for kind in list(LEARNERS.values()):
        about = dataclasses.replace(kind.about, id=f"new-{kind.about.id}")
        monkeypatch.setitem(LEARNERS, about.id, type(kind.__name__, (kind,), {"about": about}))
    assert {learner: plots.line_style(learner, 60) for learner in plots.COLOURS} == looks
    new = [name for name in LEARNERS if name.startswith("new-")]
    assert len({plots.colour(name) for name in [*new, *plots.COLOURS]}) == len([*new, *plots.COLOURS])
    for name in new:
        about, line, dot = LEARNERS[name].about, plots.line_style(name), plots.dot_style(name)
        assert plots.name(name) == about.name
        assert in_family(line["color"], plots.facing(name))
        assert (line["linestyle"] == plots.DASHES) == about.stochastic == (dot["markerfacecolor"] == "white")
        assert ("marker" in line) == about.numerical
