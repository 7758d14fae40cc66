"""The paper's figures, drawn from synthetic data."""

import dataclasses
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import synthetic_paper_data as synthetic
from recurra import LEARNERS
from recurra.pages import plots
from recurra_paper.analysis import within_windows
from recurra_paper.experiments import experiments
from recurra_paper.figures import FIGURES
from recurra_paper.figures.labels import spread
from recurra_paper.figures.summed_alignment import reference
from recurra_paper.profiles import TINY
from recurra_paper.setup import CURVES, kind_of

#: drawn whatever was run
DRAWINGS = {"past_future", "rflo_M"}
#: points: on the page, which shows an inch as 104 pixels, more than nine pixels
SMALLEST = 6.5


@pytest.fixture(scope="module")
def data():
    return synthetic.full_data()


@pytest.fixture(scope="module")
def drawn(data):
    before = dict(matplotlib.rcParams)
    found = {name: module.draw(data) for name, module in FIGURES.items()}
    assert dict(matplotlib.rcParams) == before
    return found


def rendered(figure):
    """The figure, laid out, and what measures its texts."""
    canvas = FigureCanvasAgg(figure)
    with plots.style():
        canvas.draw()
    return canvas.get_renderer()


def texts(axes):
    """What is written in and around a panel; numbers of ticks beyond its edges are not."""
    yield from axes.texts
    yield from (axes._left_title, axes.xaxis.label, axes.yaxis.label)
    if axes.get_legend():
        yield from axes.get_legend().get_texts()
    for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
        low, high = sorted(axis.get_view_interval())
        yield from (tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_complete(drawn, name):
    module, found = FIGURES[name], drawn[name]
    assert name == module.NAME
    assert module.TITLE.startswith(("Figure ", "Table "))
    assert isinstance(module.needs(None), list)
    assert len(found.caption) > 100
    assert len(found.alt) > 40
    for table in found.tables.values():
        assert len({len(column) for column in table.values()}) == 1


def test_figures_bear_the_paper_s_numbers_in_its_order():
    titles = [module.TITLE.partition(".")[0] for module in FIGURES.values()]
    assert titles == ["Table 1", *(f"Figure {i}" for i in range(1, 9)), "Figure 9, measured"]


@pytest.mark.parametrize("name", FIGURES)
def test_texts_are_legible_and_cover_neither_each_other_nor_a_curve(drawn, name):
    figure = drawn[name].figure
    renderer = rendered(figure)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    written = [text for axes in shown for text in texts(axes) if text.get_text().strip()]
    written += [text for legend in figure.legends for text in legend.get_texts()]
    assert min(text.get_fontsize() for text in written) >= SMALLEST
    boxes = [(text.get_text(), Text.get_window_extent(text, renderer).padded(-1)) for text in written]
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)
    for text, box in boxes:
        assert figure.bbox.padded(1).containsx(box.x1), text
    if name not in DRAWINGS:
        for axes in shown:
            for text, line in ((text, line) for text in axes.texts for line in axes.lines):
                path = line.get_transform().transform_path(line.get_path())
                box = Text.get_window_extent(text, renderer).padded(-1)
                assert not path.intersects_bbox(box, filled=False), (text.get_text(), line.get_label())


def test_a_figure_needs_what_it_shows(data):
    for name, module in FIGURES.items():
        needed = tuple(module.needs(None))
        assert all(any(key.startswith(prefix) for key in data) for prefix in needed)
        rest = {key: arrays for key, arrays in data.items() if not key.startswith(needed)}
        assert (module.draw(rest) is None) == (name not in DRAWINGS)


@pytest.mark.slow
def test_gaps_in_the_data_are_no_obstacle():
    data = synthetic.full_data(seeds=1)
    for name in ("loss/mimic/1/uoro", "loss/mimic/1/dni", "rflo-loss/diagonal"):
        data[name]["loss"][:, 5:], data[name]["diverged"][:] = np.nan, 5
    data["loss/add/1/rflo"]["loss"] *= 50
    data["loss/mimic/0.5/rtrl"]["loss"] *= 0.01
    for task in ("add", "mimic"):
        arrays = data[f"gradients/{task}/1"]
        arrays["mean"][:, 2, :2] = arrays["mean"][:, :2, 2] = np.nan
        arrays["histogram"][2, :2] = 0
        arrays["window_cosine"][:, 2, :, 0] = np.nan
        data[f"bias/{task}"]["std"][:] = 0
    data["scaling/rtrl"]["count_flops"] = np.full(len(data["scaling/rtrl"]["count_n"]), np.nan)
    data["scaling/uoro"] = {key: values[:3] for key, values in data["scaling/uoro"].items()}
    data["scaling/e-bptt"]["count_bytes"] = np.zeros(len(data["scaling/e-bptt"]["count_n"]))
    drawn = {name: module.draw(data) for name, module in FIGURES.items() if name not in {*DRAWINGS, "triangles"}}
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
            # fewer points: a leader from a curve to its name; fainter: a learner compared with another reference
            if learner and len(line.get_xdata()) > 4 and line.get_alpha() is None:
                about = kind_of(learner).about
                assert line.is_dashed() == about.stochastic
                assert (line.get_marker() != "None") == about.numerical
                lined[learner] += 1
    assert min(labelled.values()) >= 4
    assert min(lined.values()) >= 4


def test_a_learner_that_is_not_the_paper_s_has_no_place_in_its_figures(monkeypatch):
    before = [experiment.name for experiment in experiments(TINY)]
    for kind in list(LEARNERS.values()):
        about = dataclasses.replace(kind.about, id=f"new-{kind.about.id}")
        monkeypatch.setitem(LEARNERS, about.id, type(kind.__name__, (kind,), {"about": about}))
    assert [experiment.name for experiment in experiments(TINY)] == before


def test_sums_are_compared_with_the_exact_learner_of_the_same_facing(data, drawn):
    assert {x: reference(x) for x in ("rflo", "uoro", "dni", "dni-b", "f-bptt", "e-bptt")} == {
        "rflo": "rtrl", "uoro": "rtrl", "dni": "f-bptt", "dni-b": "f-bptt", "f-bptt": "rtrl", "e-bptt": "rtrl",
    }  # fmt: skip
    arrays, axes = data["gradients/add/1"], drawn["summed_alignment"].figure.axes[0]
    learners = [str(x) for x in arrays["learners"]]
    for learner, other in (("dni", "f-bptt"), ("rflo", "rtrl")):
        expected = arrays["window_cosine"][:, learners.index(learner), learners.index(other)].mean(axis=0)
        solid = [x for x in axes.lines if x.get_color() == plots.colour(learner) and x.get_alpha() is None]
        assert any(len(x.get_ydata()) == len(expected) and np.allclose(x.get_ydata(), expected) for x in solid)


def test_correlations_within_windows_leave_out_what_changes_slowly():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 1050))
    found = within_windows(x, y, 100)
    by_hand = [np.mean([np.corrcoef(a[t : t + 100], b[t : t + 100])[0, 1] for t in range(0, 1000, 100)])
               for a, b in zip(x, y, strict=True)]  # fmt: skip
    np.testing.assert_allclose(found, by_hand)
    drift = np.linspace(0, 30, 1050)[None]
    assert np.corrcoef((x + drift)[0], (y + drift)[0])[0, 1] > 0.9
    np.testing.assert_allclose(within_windows(x + drift, y + drift, 10), within_windows(x, y, 10), atol=0.1)
    np.testing.assert_allclose(within_windows(x, y, 5000), [np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)])
    assert np.isnan(within_windows(np.zeros((2, 50)), np.zeros((2, 50)), 10)).all()


@pytest.mark.slow
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
