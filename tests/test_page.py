"""The page and its figures, drawn from synthetic data."""

import colorsys
import csv
import dataclasses
import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

import synthetic
from recurra import LEARNERS
from recurra.paper import page, plots
from recurra.paper.experiments import experiments
from recurra.paper.figures import FIGURES
from recurra.paper.figures.labels import spread
from recurra.paper.profiles import TINY
from recurra.paper.setup import CURVES, kind_of

VOID = {"meta", "link", "img", "br", "hr", "input"}
DRAWINGS = {"past_future", "rflo_M"}


def claim(name, status, **changes):
    entry = dict(
        id=name, text=f"{name} learns", where="Results", criterion="a < b & c", status=status, measured="a = 1"
    )
    return entry | dict(number=0.5, uncertainty=0.25) | changes


LEDGER = [
    claim("first", "holds"),
    claim("second", "not decided", number=None, uncertainty=None),
    claim("third", "does not hold", number=float("nan"), uncertainty=np.float64(0.1)),
    claim("fourth", "holds", number=np.float32(-2e6), uncertainty=None, text="<script>alert(1)</script>"),
]
SETTINGS = {"profile": {"name": "quick", "seeds": 5}, "versions": {"jax": "1.0"}, "machine": "one"}


class Page(HTMLParser):
    """The elements of a page, checked to be closed in the order in which they were opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    def values(self, *names):
        return [value for _, attrs in self.elements for key, value in attrs.items() if key in names]


@pytest.fixture(scope="module")
def data():
    return synthetic.full_data()


@pytest.fixture(scope="module")
def drawn(data):
    return {name: module.draw(data) for name, module in FIGURES.items()}


@pytest.fixture(scope="module")
def built(data, tmp_path_factory):
    before = dict(matplotlib.rcParams)
    index = page.build(tmp_path_factory.mktemp("page") / "out", data, LEDGER, SETTINGS)
    assert dict(matplotlib.rcParams) == before
    return index


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_comes_with_its_files(built, drawn, name):
    module, found = FIGURES[name], drawn[name]
    assert name == module.NAME
    assert module.TITLE
    assert bool(module.needs(None)) != (name in DRAWINGS)
    assert len(found.caption) > 100
    assert len(found.alt) > 40
    root = ElementTree.parse(built.parent / "figures" / f"{name}.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter())) > 50
    assert (built.parent / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (built.parent / "data" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == list(found.table)
    assert {len(column) for column in found.table.values()} == {len(rows)}
    assert rows


def test_the_page_stands_alone(built):
    text = built.read_text(encoding="utf-8")
    read = Page(text)
    assert not any(tag == "script" for tag, _ in read.elements)
    links = read.values("href", "src", "xlink:href")
    assert not [link for link in links if "//" in link and not link.startswith("data:")]
    assert "@import" not in text
    assert "url(http" not in text
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    files = [link for link in links if not link.startswith(("#", "data:"))]
    assert len(files) == 1 + 3 * len(FIGURES) + 2  # two figures have further tables
    assert all((built.parent / file).is_file() for file in files)
    pictures = [attrs for tag, attrs in read.elements if tag == "img" or attrs.get("role") == "img"]
    assert len(pictures) == len(FIGURES)
    assert all(attrs.get("alt") or attrs.get("aria-label") for attrs in pictures)


def test_the_ledger_is_shown_whole_and_failures_first(built):
    text = " ".join(Page(built.read_text(encoding="utf-8")).text)
    order = [text.index(f"{name} learns") for name in ("third", "second", "first")]
    assert order == sorted(order)
    for words in (
        "✗ does not hold",
        "? not decided",
        "✓ holds",
        "0.5 ± 0.25",
        "a < b & c",
        "<script>",
        "−2×10⁶",
        "quick",
    ):
        assert words.replace(" < ", "\u00a0<\u00a0") in text or words in text
    kept = json.loads((built.parent / "claims.json").read_text(encoding="utf-8"))
    assert [entry["id"] for entry in kept] == ["first", "second", "third", "fourth"]
    assert [entry["number"] for entry in kept] == [0.5, None, None, -2e6]


def test_an_unknown_status_is_refused(data, tmp_path):
    with pytest.raises(ValueError, match="not perhaps"):
        page.build(tmp_path, data, [claim("x", "perhaps")], SETTINGS)


def test_what_was_not_run_is_left_out_and_named(data, tmp_path):
    part = {name: data[name] for name in ("loss/add/1/rtrl", "loss/add/1/uoro", "bias/mimic", "memory/gaussian")}
    index = page.build(tmp_path / "part", part, [], {})
    shown = {path.stem for path in (tmp_path / "part" / "figures").glob("*.svg")}
    assert shown == DRAWINGS | {"training_loss_coin", "summed_alignment", "rflo_results"}
    text = index.read_text(encoding="utf-8")
    assert FIGURES["alignment_analysis"].TITLE in text
    assert "No claims were checked" in text
    for name in {name.split("/")[0]: name for name in data}.values():
        for figure in (module for key, module in FIGURES.items() if key not in DRAWINGS):
            assert (figure.draw({name: data[name]}) is None) != name.startswith(tuple(figure.needs(None)))


def test_gaps_in_the_data_are_no_obstacle():
    data = synthetic.full_data(seeds=1)
    for name in ("loss/mimic/1/uoro", "loss/mimic/1/dni", "rflo-loss/diagonal"):
        data[name]["loss"][:, 5:], data[name]["diverged"][:] = np.nan, 5
    data["loss/add/1/rflo"]["loss"] *= 50
    data["loss/mimic/0.5/rtrl"]["loss"] *= 0.01
    for task in ("add", "mimic"):
        arrays = data[f"gradients/{task}"]
        arrays["mean"][:, 2, :2] = arrays["mean"][:, :2, 2] = np.nan
        arrays["histogram"][2, :2] = 0
        arrays["window_cosine"][:, 2, 0] = np.nan
        data[f"bias/{task}"]["std"][:] = 0
    data["scaling/rtrl"]["flops"][:] = np.nan
    data["scaling/uoro"] = {key: values[:3] for key, values in data["scaling/uoro"].items()}
    data["scaling/e-bptt"]["state_bytes"][:] = 0
    drawn = {name: module.draw(data) for name, module in FIGURES.items()}
    for name, found in drawn.items():
        assert plots.svg(found.figure, name)
    assert "UORO, α = 1 (1 of 1) and DNI, α = 1 (1 of 1)" in drawn["training_loss_mimic"].caption


def test_a_learner_looks_the_same_everywhere(drawn):
    names = {plots.name(learner): learner for learner in CURVES}
    by_colour = {colour: learner for learner, colour in plots.COLOURS.items()}
    labelled, lined = dict.fromkeys(CURVES, 0), dict.fromkeys(CURVES, 0)
    for axes in [axes for found in drawn.values() for axes in found.figure.axes]:
        for text in (*axes.texts, *axes.get_yticklabels()):
            if learner := names.get(text.get_text().split("  ")[0]):
                assert text.get_color() == plots.COLOURS[learner]
                labelled[learner] += 1
        for line in axes.lines:
            learner = by_colour.get(line.get_color())
            if learner and len(line.get_xdata()) > 4:  # fewer: a leader from a curve to its name
                about = kind_of(learner).about
                assert line.is_dashed() == about.stochastic
                assert (line.get_marker() != "None") == about.numerical
                lined[learner] += 1
    assert min(labelled.values()) >= 4
    assert min(lined.values()) >= 4


def test_colours_tell_facing_apart():
    assert len(set(plots.COLOURS.values())) == len(CURVES) == len(plots.COLOURS)
    for learner, colour in plots.COLOURS.items():
        assert in_family(colour, plots.facing(learner))


def in_family(colour, facing):
    hue, _, saturation = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    families = {"past": 0.4 < hue < 0.75, "future": hue < 0.15 or hue > 0.95, "–": saturation < 0.05}
    return families[facing] and (saturation < 0.05) == (facing == "–")


def test_a_learner_that_is_not_the_paper_s_has_a_look_and_no_place_in_its_figures(monkeypatch):
    before = [experiment.name for experiment in experiments(TINY)]
    looks = {learner: plots.line_style(learner, 60) for learner in CURVES}
    for kind in list(LEARNERS.values()):
        about = dataclasses.replace(kind.about, id=f"new-{kind.about.id}")
        monkeypatch.setitem(LEARNERS, about.id, type(kind.__name__, (kind,), {"about": about}))
    assert [experiment.name for experiment in experiments(TINY)] == before
    assert {learner: plots.line_style(learner, 60) for learner in CURVES} == looks
    new = [name for name in LEARNERS if name.startswith("new-")]
    assert len({plots.colour(name) for name in [*new, *CURVES]}) == len([*new, *CURVES])
    for name in new:
        about, line, dot = LEARNERS[name].about, plots.line_style(name), plots.dot_style(name)
        assert plots.name(name) == about.name
        assert in_family(line["color"], plots.facing(name))
        assert (line["linestyle"] == plots.DASHES) == about.stochastic == (dot["markerfacecolor"] == "white")
        assert ("marker" in line) == about.numerical


def test_a_figure_is_the_same_every_time(data, drawn):
    again = FIGURES["summed_alignment"].draw(data)
    assert plots.svg(again.figure, "x") == plots.svg(drawn["summed_alignment"].figure, "x")


@pytest.mark.parametrize("seed", range(5))
def test_labels_are_moved_apart_and_kept_inside(seed):
    heights = np.random.default_rng(seed).beta(0.3, 0.3, 13)
    placed = spread(heights, 0.05, 0.0, 1.0)
    assert np.diff(np.sort(placed)).min() > 0.05 - 1e-9
    assert placed.min() > -1e-9
    assert placed.max() < 1 + 1e-9
    assert (np.argsort(placed) == np.argsort(heights)).all()
    far = np.linspace(0, 1, 5)
    np.testing.assert_allclose(spread(far, 0.05, 0.0, 1.0), far)


def test_the_template_is_part_of_the_package():
    assert (Path(page.__file__).parent / page.TEMPLATE).is_file()
