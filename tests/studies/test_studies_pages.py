"""The table and the page of a study, from made-up data sets of every shape."""

import itertools
import json
import re
import time
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray
from scipy import stats

from recurra.studies.pages import lines, maps, tables, words
from recurra.studies.pages.choosing import chosen
from recurra.studies.pages.page import curve, write_study
from recurra.studies.pages.points import Points


def kind_of(values):
    return "text" if any(isinstance(value, str) for value in values) else "number"


def study(points, seeds=8, windows=20, steps=2000, loss=None, logs=(), drawn=(), fixed=None, made=None, rng=0):
    """A data set: `loss(point, seed, rng)` is what a network ends with, nan if it diverges, None if it is not run."""
    rng = np.random.default_rng(rng)
    names = list(dict.fromkeys(name for point in points for name in point))
    names = [name for name in names if len({point.get(name) for point in points}) > 1]
    shape = (len(points), seeds)
    final, diverged_at, done = np.full(shape, np.nan), np.full(shape, -1), np.zeros(shape, np.int64)
    ends = np.array([point.get("steps", steps) for point in points])
    step = np.linspace(1 / windows, 1, windows) * ends[:, None]
    part = np.linspace(0, 1, windows)
    curves = np.full((*shape, windows), np.nan)
    for (number, point), seed in itertools.product(enumerate(points), range(seeds)):
        end = loss(point, seed, rng) if loss else 0.5 + 0.1 * rng.random()
        if end is None:
            continue
        done[number, seed] = ends[number]
        noise = 1 + 0.01 * rng.standard_normal(windows)
        if np.isnan(end):
            when = rng.integers(1, windows)
            diverged_at[number, seed] = step[number, when - 1] + 1
            curves[number, seed, :when] = 0.7 * noise[:when]
        else:
            final[number, seed] = end
            curves[number, seed] = (end + (0.7 - end) * np.exp(-6 * part)) * noise
    columns = {}
    for name in names:
        values = [point.get(name) for point in points]
        text = kind_of(values) == "text"
        columns[name] = ("point", [("" if text else np.nan) if value is None else value for value in values])
    about = {
        name: {"kind": kind_of([p[name] for p in points if name in p]), "log": name in logs, "drawn": name in drawn}
        for name in names
    }
    return xarray.Dataset(
        {
            "loss": (("point", "seed", "window"), curves),
            "final_loss": (("point", "seed"), final),
            "diverged_at": (("point", "seed"), diverged_at),
            "steps_done": (("point", "seed"), done),
            "seconds": (("point", "seed"), np.ones(shape)),
        },
        coords={
            "point": np.arange(len(points)),
            "seed": np.arange(seeds),
            "step": (("point", "window"), step) if len(set(ends)) > 1 else ("window", step[0]),
            **columns,
        },
        attrs={
            "study": "learners = [\"rflo\"]\n[vary]\nlearning_rate = { log_uniform = [1e-5, 1e-1] }\n",
            "fixed": json.dumps({"steps": steps} if fixed is None else fixed),
            "varied": json.dumps(about),
            "made": json.dumps(made or {"machine": "a made-up one", "versions": {"recurra": "0"}, "failures": []}),
        },
    )  # fmt: skip


def crossed(**lists):
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


LEARNERS = [
    "rtrl",
    "uoro",
    "kf-rtrl",
    "r-kf-rtrl",
    "r-ok",
    "kernl",
    "rflo",
    "e-bptt",
    "f-bptt",
    "dni",
    "dni-b",
    "fixed",
]
RATES = [float(rate) for rate in np.geomspace(1e-5, 1e-1, 9)]


def valley(point, seed, rng):
    """Each learner has its own best rate; high rates diverge."""
    number = LEARNERS.index(point["learner"])
    best = -3.5 + 0.15 * number
    away = np.log10(point["learning_rate"]) - best
    if away > 1.2 and rng.random() < 0.5 * (away - 1):
        return np.nan
    level = 0.45 + 0.012 * number if point.get("task", "add") == "add" else 0.02 * (1 + 0.3 * number)
    start = 0.7 if point.get("task", "add") == "add" else 1.0
    end = level + (start - level) * (1 - np.exp(-0.35 * away**2)) + 0.01 * level * np.sin(seed)
    if away > 0.8 and rng.random() < 0.3:
        end *= 10 ** rng.uniform(0, 5)
    return float(end * (1 + 0.02 * rng.standard_normal()))


def grid(seeds=8, **how):
    points = crossed(learner=LEARNERS, task=["add", "mimic"], learning_rate=RATES)
    return study(points, seeds, loss=valley, logs=["learning_rate"], **how)


def drawn_at_random(count=60, seeds=5, rng=1, learners=("rflo", "kernl")):
    dice = np.random.default_rng(rng)
    points = [
        {
            "learner": learner,
            "learning_rate": float(10 ** dice.uniform(-5, -1)),
            "alpha": float(dice.uniform(0.1, 1)),
            "momentum": float(dice.uniform(0, 0.99)),
        }
        for learner in learners
        for _ in range(count)
    ]

    def loss(point, seed, rng):
        away = np.log10(point["learning_rate"] / (1 - point["momentum"])) + 2.5
        if away > 1.3:
            return np.nan
        return 0.45 + 0.03 * away**2 + 0.1 * (1 - point["alpha"]) ** 2 + 0.01 * rng.standard_normal()

    names = ["learning_rate", "alpha", "momentum"]
    return study(points, seeds, loss=loss, logs=["learning_rate"], drawn=names)


def near_one(point, seed, rng):
    return float(1 + 0.1 * rng.standard_normal())


def with_a_hyperparameter():
    """Only KeRNL has a perturbation, and only the Add task a first lag."""
    points = crossed(learner=["rflo"], task=["add"], **{"task.t1": [3, 6]}, learning_rate=RATES[2:7])
    points += crossed(learner=["rflo"], task=["mimic"], learning_rate=RATES[2:7])
    points += [
        {**point, "learning_rate": rate, "learner.kernl.perturbation": size}
        for point in [{"learner": "kernl", "task": "add", "task.t1": 3}, {"learner": "kernl", "task": "mimic"}]
        for rate in RATES[2:7]
        for size in (1e-4, 1e-3, 1e-2)
    ]
    return study(points, 5, loss=valley, logs=["learning_rate", "learner.kernl.perturbation"])


def two_numbers():
    points = crossed(learner=LEARNERS[:6], task=["add", "mimic"], alpha=[0.1, 0.25, 0.5, 1.0], learning_rate=RATES)
    return study(points, 3, loss=valley, logs=["learning_rate"])


def many_points(count=5000, seeds=10, windows=100):
    """10⁴ points of 10 seeds, 5 settings drawn at random."""
    dice = np.random.default_rng(0)
    points = [
        {
            "learner": ("rflo", "uoro")[number % 2],
            "learning_rate": float(10 ** dice.uniform(-5, -1)),
            "alpha": float(dice.uniform(0.1, 1)),
            "learner.rflo.a": float(dice.uniform(0, 1)),
            "momentum": float(dice.uniform(0, 1)),
            "w_rec": str(dice.choice(["orthogonal", "gaussian"])),
            "n": int(dice.integers(8, 64)),
        }
        for number in range(2 * count)
    ]
    drawn = ["learning_rate", "alpha", "learner.rflo.a", "momentum", "w_rec", "n"]

    def loss(point, seed, rng):
        away = np.log10(point["learning_rate"]) + 2.5 + point["momentum"]
        return np.nan if away > 1.3 else 0.45 + 0.03 * away**2 + 0.1 * (1 - point["alpha"]) ** 2 + 0.01 * rng.random()

    return study(points, seeds, windows, loss=loss, logs=["learning_rate"], drawn=drawn)


def partly(data, part):
    """The same with only the first part of the points run."""
    cut = int(part * data.sizes["point"])
    data = data.copy(deep=True)
    for name, empty in [("final_loss", np.nan), ("loss", np.nan), ("diverged_at", -1), ("steps_done", 0)]:
        data[name].values[cut:] = empty
    return data


FAILED = {"machine": "m", "failures": [{"points": [0, 1, 2, 7], "reason": "RESOURCE_EXHAUSTED <b>twice</b>"}]}
TEXTS = crossed(learner=["rflo"], optimizer=["sgd", "adam"], w_rec=["orthogonal", "gaussian", "diagonal"])
FEW = crossed(learner=["rflo", "rtrl"], n=[8, 16, 32])
BY_STEPS = crossed(learner=["rflo", "rtrl"], steps=[1000, 2000, 4000], learning_rate=RATES[3:8])
FINE = crossed(learner=LEARNERS[:4], learning_rate=[float(rate) for rate in np.geomspace(1e-5, 1e-1, 200)])
SHAPES = {
    "random": drawn_at_random,
    "one point": lambda: study([{}], fixed={"learners": ["rflo"], "steps": 2000}),
    "one network": lambda: study([{}], seeds=1, fixed={"learners": ["rflo"]}),
    "not begun": lambda: partly(grid(), 0.0),
    "all diverged": lambda: study(FEW, loss=lambda *_: np.nan),
    "one diverged": lambda: study(
        crossed(learner=["rflo", "uoro", "rtrl"], learning_rate=RATES),
        loss=lambda p, s, rng: np.nan if p["learner"] == "uoro" or s == 3 else valley(p, s, rng),
        logs=["learning_rate"],
    ),
    "texts": lambda: study(TEXTS, loss=near_one, fixed={"learners": ["rflo"]}),
    "hyperparameter": with_a_hyperparameter,
    "steps": lambda: study(BY_STEPS, loss=valley, logs=["learning_rate"]),
    "200 of one": lambda: study(crossed(learner=["rflo"], n=list(range(1, 201))), 4, loss=near_one),
    "two values": lambda: study(
        crossed(learner=["rflo", "rtrl"], n=[16, 32], **{"task.sampled": [True, False]}), loss=near_one
    ),
    "huge losses": lambda: study(FEW, loss=lambda *_: 1e300),
    "zero losses": lambda: study(FEW, loss=lambda *_: 0.0),
    "one window": lambda: study(FEW, windows=1),
}
LARGE = {
    "grid": grid,
    "one seed": lambda: grid(seeds=1),
    "two seeds": lambda: grid(seeds=2),
    "unfinished": lambda: partly(grid(made=FAILED), 0.4),
    "two numbers": two_numbers,
    "200 values": lambda: study(FINE, 20, loss=valley, logs=["learning_rate"]),
    "texts and rates": lambda: study(
        [{**point, "learning_rate": rate} for point in TEXTS for rate in RATES],
        loss=valley,
        logs=["learning_rate"],
        fixed={"learners": ["rflo"]},
    ),
}


# What is chosen


def table_of(data):
    """Rows as dictionaries."""
    table = tables.rows(data)
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def test_every_learner_is_in_the_table_of_every_task_best_first():
    data = grid()
    shown = table_of(data)
    assert [row["Task"] for row in shown] == ["Add"] * 12 + ["Mimic"] * 12
    for task in ("Add", "Mimic"):
        rows = [row for row in shown if row["Task"] == task]
        assert len({row["Learner"] for row in rows}) == 12
        losses = [float(row["Final loss"].split(" ± ")[0]) for row in rows]
        assert losses == sorted(losses)


def test_the_best_point_is_that_of_a_plain_loop():
    data = grid()
    found = {(each.case["learner"], each.case["task"]): each for each in chosen(data)}
    assert len(found) == 24
    for (learner, task), each in found.items():
        own = [
            number
            for number in range(data.sizes["point"])
            if (data.learner.values[number], data.task.values[number]) == (learner, task)
            and (data.diverged_at.values[number] < 0).all()
        ]
        losses = data.final_loss.values
        best = min(own, key=lambda number: losses[number].mean())
        assert each.point == best
        assert each.mean == pytest.approx(losses[best].mean(), rel=1e-12)
        assert each.error == pytest.approx(stats.sem(losses[best]), rel=1e-12)
        assert each.settings == {"learning_rate": data.learning_rate.values[best]}
        assert (each.seeds, each.diverged, each.missing, each.points) == (8, 0, 0, each.points)


def from_losses(losses, name="n", values=None, **how):
    """A study of one learner with these losses, a row for each point."""
    values = list(range(1, len(losses) + 1)) if values is None else values
    points = [{"learner": "rflo", name: value} for value in values]
    table = {value: row for value, row in zip(values, losses, strict=True)}
    how = {"fixed": {"learners": ["rflo"]}, **how}
    return study(points, len(losses[0]), loss=lambda point, seed, _: float(table[point[name]][seed]), **how)


def test_a_point_at_which_a_seed_diverged_is_chosen_only_where_all_have_one():
    none = np.nan
    (best,) = chosen(from_losses([[0.1, 0.1, none], [0.5, 0.5, 0.5], [0.6, 0.4, 0.6]]))
    assert (best.point, best.diverged) == (1, 0)
    data = from_losses([[0.1, none, none], [0.5, 0.4, none], [0.6, 0.4, none]])
    (best,) = chosen(data)
    assert (best.point, best.diverged, best.seeds) == (1, 1, 2)
    assert best.mean == pytest.approx(0.45)
    assert any("Seeds diverged at every point" in note for note in tables.rows(data).notes)
    (best,) = chosen(from_losses([[none] * 3, [none] * 3]))
    assert (best.point, best.diverged) == (None, 6)
    assert np.isnan(best.mean)


def test_networks_that_did_not_reach_their_end_do_not_count():
    data = from_losses([[0.1] * 4, [0.5] * 4])
    data.steps_done.values[0] = 100  # stopped early, with a loss all the same
    (best,) = chosen(data)
    assert (best.point, best.points, best.of) == (1, 1, 2)


def test_random_choices_make_no_cases_of_their_own():
    points = crossed(learner=["rflo"], w_rec=["orthogonal", "gaussian"], n=[8, 16])
    assert len(chosen(study(points))) == 2
    (best,) = chosen(study(points, drawn=["w_rec", "n"]))
    assert set(best.settings) == {"w_rec", "n"}


def test_losses_of_different_problems_are_not_compared():
    found = chosen(with_a_hyperparameter())
    assert [each.case for each in found] == [
        {"learner": "rflo", "task": "add", "task.t1": 3},
        {"learner": "rflo", "task": "add", "task.t1": 6},
        {"learner": "rflo", "task": "mimic"},
        {"learner": "kernl", "task": "add", "task.t1": 3},
        {"learner": "kernl", "task": "mimic"},
    ]
    assert all(("learner.kernl.perturbation" in each.settings) == (each.case["learner"] == "kernl") for each in found)


# How sure it is


def edge_notes(data):
    return [note for note in tables.rows(data).notes if "lies at the edge" in note]


def falling(count, end=0.0):
    noise = np.random.default_rng(0).normal(size=(count, 6))
    return 1 - 0.1 * np.arange(count)[:, None] + end + 0.001 * noise


def test_the_best_at_the_edge_of_its_range_is_named():
    assert edge_notes(from_losses(falling(5), values=[8, 16, 24, 32, 40])) == [
        "The best n lies at the edge, the highest values: widen the range."
    ]
    assert "the lowest values" in edge_notes(from_losses(falling(5)[::-1], values=[8, 16, 24, 32, 40]))[0]
    inner = np.concatenate([falling(3), falling(2)[::-1]])
    assert edge_notes(from_losses(inner, values=[8, 16, 24, 32, 40])) == []
    assert edge_notes(from_losses(falling(2), values=[8, 16])) == []  # two values are no range


def test_a_range_that_cannot_be_wider_has_no_edge():
    values = [0.2, 0.4, 0.6, 0.8, 1.0]
    assert edge_notes(from_losses(falling(5), "alpha", values)) == []
    assert len(edge_notes(from_losses(falling(5)[::-1], "alpha", values))) == 1
    assert len(edge_notes(from_losses(falling(5), "alpha", [0.1, 0.2, 0.3, 0.4, 0.5]))) == 1


def test_values_close_to_the_edge_are_at_it_by_logarithm_where_it_is_one():
    values = [1e-5, 1e-4, 1e-3, 1e-2, 0.09, 0.1]
    losses = falling(6)[[0, 1, 2, 3, 5, 4]]
    assert len(edge_notes(from_losses(losses, "learning_rate", values, logs=["learning_rate"]))) == 1
    assert len(edge_notes(from_losses(falling(6)[::-1], "learning_rate", values, logs=["learning_rate"]))) == 1
    losses = falling(6)[[0, 1, 2, 5, 3, 4]]  # 0.01 is within a tenth of the range, but not of its logarithms
    assert edge_notes(from_losses(losses, "learning_rate", values, logs=["learning_rate"])) == []


def test_an_edge_without_effect_is_said_to_be_one():
    losses = np.random.default_rng(0).normal(1, 0.1, (5, 6))
    losses = losses[np.argsort(-losses.mean(axis=1))]
    assert "values inside the range are as good" in edge_notes(from_losses(losses, values=[8, 16, 24, 32, 40]))[0]


def test_points_as_good_as_the_best_are_those_of_a_paired_test():
    rng = np.random.default_rng(3)
    losses = 1 + 0.3 * rng.normal(size=10) + 0.02 * rng.normal(size=(40, 10)) + rng.uniform(0, 0.05, (40, 1))
    (best,) = chosen(from_losses(losses))
    expected = {
        number
        for number in range(40)
        if number != best.point and stats.ttest_rel(losses[number], losses[best.point]).pvalue > 0.05
    }
    assert set(best.alike) == expected
    assert 0 < len(expected) < 39
    means = [losses[number].mean() for number in best.alike]
    assert means == sorted(means)
    # Without pairs nothing could be told apart: seeds differ by far more than points do.
    assert all(stats.ttest_ind(row, losses[best.point]).pvalue > 0.05 for row in losses)


def test_a_seed_that_blew_up_makes_no_point_as_good():
    losses = np.full((2, 8), 0.5) + 0.001 * np.arange(16).reshape(2, 8)
    losses[1, 3] = 1e5
    assert stats.ttest_rel(*losses).pvalue > 0.05
    (best,) = chosen(from_losses(losses))
    assert (best.point, best.alike) == (0, ())


def test_half_of_the_seeds_choose_and_the_other_half_judges():
    losses = np.random.default_rng(5).normal(1, 0.1, (30, 7))
    (best,) = chosen(from_losses(losses))
    first, second = losses[:, [0, 2, 4, 6]], losses[:, [1, 3, 5]]
    one = second[min(range(30), key=lambda number: first[number].mean())]
    other = first[min(range(30), key=lambda number: second[number].mean())]
    assert best.held_out == pytest.approx((one.sum() + other.sum()) / 7, rel=1e-12)
    (best,) = chosen(from_losses(losses + np.arange(30)[:, None]))  # both halves choose the first
    assert best.held_out == pytest.approx(best.mean, rel=1e-12)


def test_the_lowest_of_many_means_is_too_low_and_other_seeds_tell():
    """All points are alike, with a loss of 1 and standard errors of 0.05."""
    rng = np.random.default_rng(1)
    found = [chosen(from_losses(rng.normal(1, 0.1, (100, 4))))[0] for _ in range(40)]
    assert np.mean([each.mean for each in found]) < 0.9
    honest = [each.held_out for each in found]
    assert abs(np.mean(honest) - 1) < 4 * stats.sem(honest) < 0.05


def test_few_seeds_have_no_halves():
    data = from_losses(np.random.default_rng(5).normal(1, 0.1, (30, 3)))
    assert np.isnan(chosen(data)[0].held_out)
    assert "On other seeds" not in tables.rows(data).header
    assert any("With 4 seeds or more" in note for note in tables.rows(data).notes)


# What is drawn


def test_a_line_goes_through_the_best_that_the_others_allow():
    points = crossed(learner=["rflo", "uoro"], n=[8, 16, 32], alpha=[0.2, 0.4, 0.8])
    data = study(points, 5)
    read = Points.read(data)
    (panel,) = lines.panels(read, "n")
    assert [line.label for line in panel.lines] == ["RFLO", "UORO"]
    means = data.final_loss.mean("seed")
    for line, learner in zip(panel.lines, ["rflo", "uoro"], strict=True):
        lowest = [float(means[(data.learner == learner) & (data.n == n)].min()) for n in (8, 16, 32)]
        np.testing.assert_allclose(read.mean[line.best], lowest, rtol=1e-12)
        np.testing.assert_array_equal(line.x, [8, 16, 32])


def test_a_line_knows_the_share_of_networks_that_diverged():
    def loss(point, seed, _):
        return np.nan if point["n"] == 32 and (seed == 0 or point["alpha"] == 0.8) else 1.0

    data = study(crossed(learner=["rflo"], n=[8, 16, 32], alpha=[0.2, 0.4, 0.8]), 4, loss=loss)
    ((line,),) = [panel.lines for panel in lines.panels(Points.read(data), "n")]
    assert (line.lost_x.tolist(), line.lost.tolist()) == ([32], [pytest.approx((1 + 1 + 4) / 12)])


def test_a_cell_has_the_best_of_its_points():
    points = crossed(learner=["rflo", "uoro"], n=[8, 16], alpha=[0.2, 0.4, 0.8], **{"task.stretch": [1, 2, 3]})
    data = study(points, 5, drawn=["task.stretch"])
    read = Points.read(data)
    assert ("n", "alpha") in maps.pairs(read)
    (sheet,) = maps.sheets(read, "n", "alpha")
    assert [shown.title for shown in sheet.maps] == ["RFLO", "UORO"]
    means = data.final_loss.mean("seed").values.reshape(2, 2, 3, 3)
    for shown, lowest in zip(sheet.maps, means.min(axis=3), strict=True):
        np.testing.assert_allclose(shown.loss, lowest, rtol=1e-12)


def test_settings_that_follow_from_each_other_make_no_map():
    points = [{"learner": "rflo", "n": n, "inputs": 2 * n} for n in (8, 16)]
    read = Points.read(study(points))
    assert [sheet for pair in maps.pairs(read) for sheet in maps.sheets(read, *pair)] == []


def test_learning_curves_leave_out_seeds_that_diverged():
    data = from_losses([[0.5, 0.6, np.nan, 0.7]], windows=300, values=[8])
    step, mean, error = curve(data, Points.read(data), 0)
    loss = data.loss.values[0, [0, 1, 3]].reshape(3, 100, 3).mean(axis=2)
    np.testing.assert_allclose(step, data.step.values.reshape(100, 3)[:, 2])
    np.testing.assert_allclose(mean, loss.mean(axis=0))
    np.testing.assert_allclose(error, stats.sem(loss, axis=0))


# The page


class Page(HTMLParser):
    """The text of a page, its addresses, and whether all its tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.addresses, self.tags = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in ("meta", "link", "br", "img", "path", "use", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path", "use"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(data, folder, name="a study"):
    path = write_study(folder, data, name)
    assert path == folder / "index.html"
    text = path.read_text()
    page = Page(text)
    assert page.open == []
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert not re.search(r"url\((?!#)|@import", text)
    return re.sub(r"\s+", " ", " ".join(page.text)), text


@pytest.mark.parametrize("name", SHAPES)
def test_every_study_has_a_page(name, tmp_path):
    data = SHAPES[name]()
    text, _ = page_of(data, tmp_path)
    for row in tables.rows(data).rows:
        assert all(cell in text for cell in row)
    assert data.attrs["study"].splitlines()[0] in text
    assert "nan" not in text.replace("finance", "")
    assert ("Unfinished" in text) == (name == "not begun")
    assert ("Learning curves" in text) == (name not in ("not begun", "all diverged", "one window"))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_every_large_study_has_a_page(name, tmp_path):
    text, _ = page_of(LARGE[name](), tmp_path)
    assert "Final loss against learning rate" in text
    assert ("Unfinished: this page is of the 688 networks so far, out of 1,728." in text) == (name == "unfinished")


def test_an_unfinished_study_says_so_and_what_failed(tmp_path):
    points = crossed(learner=["rflo", "uoro"], n=[8, 16, 32])
    data = partly(study(points, 4, made=FAILED), 0.5)
    text, source = page_of(data, tmp_path)
    assert "Unfinished: this page is of the 12 networks so far, out of 24." in text
    assert "No network has a final loss yet (UORO)." in text
    assert "points 0–2, 7 RESOURCE_EXHAUSTED <b>twice</b>" in text
    assert "<b>" not in source


def test_names_and_texts_are_no_markup_and_no_formula(tmp_path):
    bad = "<script>alert('$x^$')</script>&"
    points = [
        {"learner": "rflo", "w_rec": text, f"learner.rflo.{bad}": n} for text in (bad, "b --> c") for n in (1, 2, 3)
    ]
    data = study(points, 4, fixed={"learners": [bad], bad: bad}, made={bad: bad, "failures": [{"reason": bad}]})
    data.attrs["study"] = f"# {bad}"
    data["learner.rflo." + bad].attrs["long_name"] = bad
    text, source = page_of(data, tmp_path, bad)
    assert "<script" not in source
    assert text.count(bad) > 8


def test_the_page_tells_when_seeds_diverged(tmp_path):
    data = from_losses([[0.5, np.nan, 0.5, np.nan], [0.5] * 4])
    data.diverged_at.values[0] = [-1, 300, -1, 1500]
    text, _ = page_of(data, tmp_path)
    assert "0 n = 1 2 of 4 1, 3 300–1,500" in text


@pytest.mark.slow
def test_a_page_of_ten_thousand_points_is_made_in_time_and_not_too_large(tmp_path):
    data = many_points()
    start = time.monotonic()
    path = write_study(tmp_path, data, "many")
    assert time.monotonic() - start < 20
    assert path.stat().st_size < 5e6


def test_numbers_have_the_digits_that_their_errors_leave():
    assert words.with_error(0.51234, 0.0021) == "0.5123 ± 0.0021"
    assert words.with_error(0.51234, float("nan")) == "0.5123"
    assert words.with_error(1234.6, 77.7) == "1,235 ± 78"
    assert words.with_error(float("nan"), float("nan")) == "–"
    assert words.with_error(3.2e-7, 1.1e-8) == "3.2e-7 ± 1.1e-8"
    assert words.numbers([7, 0, 1, 2, 9, 10]) == "0–2, 7, 9, 10"
    assert words.number(0.00031622) == "0.0003162"
    assert words.number(100000.0) == "100,000"
