"""The file of a study: which networks it stands for, and their settings."""

import itertools
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recurra.studies.choices import Choices, ListedValues, Spaced, Uniform
from recurra.studies.parts import build
from recurra.studies.settings import SettingsError, checked
from recurra.studies.study import Study

FULL = """
learners = ["rflo", "uoro", "kernl"]
steps = 1_000
seeds = [3, 1]
samples = 5
learner.uoro.nu = "gaussian"

[set]
"task.t2" = 12

[vary]
task = ["add", "mimic"]
alpha = { from = 0.1, to = 1, count = 4 }
w_rec = { choices = ["orthogonal", "gaussian"] }
learning_rate = { log_uniform = [1e-5, 1e-1] }
[vary.learner.kernl]
perturbation = [1e-3, 1]

[[points]]
task.t1 = 6
n = 8
[[points]]
"task.t1" = 3
"network.cell.n" = 16

[tune]
trials = 7
"""


@pytest.fixture(scope="module")
def full():
    return Study.of_text(FULL)


def test_what_a_file_says(tmp_path):
    (path := tmp_path / "study.toml").write_bytes(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())
    study = Study.read(path)
    assert study.fixed == {"steps": 1000, "task.t2": 12, "learner.uoro.nu": "gaussian"}
    assert (study.seeds, study.samples, study.learners) == ((3, 1), 5, ("rflo", "uoro", "kernl"))
    names = ["learner", "task", "alpha", "w_rec", "learning_rate", "learner.kernl.perturbation", "task.t1", "n"]
    assert list(study.varied) == names
    assert [study.varied[name].kind for name in names] == ["text", "text", "number", "text", *["number"] * 4]
    assert [name for name in names if study.varied[name].log] == ["learning_rate", "learner.kernl.perturbation"]
    assert study.varied["alpha"].values == (0.1, 0.4, 0.7, 1.0)
    assert study.varied["learner.kernl.perturbation"] == ListedValues((0.001, 1.0))
    assert (study.tune.trials, study.tune.seeds, study.tune.confirm_seeds) == (7, None, 20)
    assert study.text.startswith("\r\nlearners")


def test_a_file_without_what_varies():
    study = Study.of_text("learners = ['rflo', 'uoro']\nseeds = 2\n")
    assert study.points() == study.cases() == [{"learner": "rflo"}, {"learner": "uoro"}]
    one = Study.of_text("learners = ['rflo']\n")
    assert (one.points(), one.varied, one.seeds) == ([{"learner": "rflo"}], {}, tuple(range(20)))


def test_what_has_no_effect_is_left_out(full):
    cases = full.cases()
    # 4 values of alpha; on Add 2 points, on Mimic 2 as well, for n has an effect; kernl has 2 perturbations
    assert len(cases) == 4 * (2 + 2) * (1 + 1 + 2)
    assert full.count() == 5 * len(cases)
    for case in cases:
        assert ("task.t1" in case) == (case["task"] == "add")
        assert ("learner.kernl.perturbation" in case) == (case["learner"] == "kernl")
        assert "n" in case
    assert len({tuple(case.items()) for case in cases}) == len(cases)


def test_points_that_become_equal_are_taken_once():
    study = Study.of_text(
        "learners = ['rflo']\nvary.task = ['add', 'mimic']\npoints = [{task.t1 = 2}, {task.t1 = 3}]\n"
    )
    assert study.points() == [
        {"learner": "rflo", "task": "add", "task.t1": 2},
        {"learner": "rflo", "task": "mimic"},
        {"learner": "rflo", "task": "add", "task.t1": 3},
    ]
    assert study.count() == 3


def test_points_without_a_setting_have_its_default():
    study = Study.of_text("learners = ['kernl']\npoints = [{task.t1 = 2}, {n = 3, learner.kernl.perturbation = 1}]\n")
    assert study.cases() == [
        {"learner": "kernl", "task.t1": 2, "n": 32, "learner.kernl.perturbation": 1e-3},
        {"learner": "kernl", "task.t1": 6, "n": 3, "learner.kernl.perturbation": 1.0},
    ]


def test_settings_are_those_of_one_run(full):
    point = {"learner": "kernl", "task": "add", "alpha": 0.4, "w_rec": "gaussian", "learning_rate": 0.01, "task.t1": 3,
             "n": 16, "learner.kernl.perturbation": 1.0}  # fmt: skip
    assert point | {"learning_rate": 0.0} in [
        each | {"learning_rate": 0.0, "w_rec": "gaussian"} for each in full.points()
    ]
    shared = {"steps": 1000, "seeds": 2, "alpha": 0.4, "learning_rate": 0.01, "n": 16, "w_rec": "gaussian"}
    assert full.settings(point) == checked(
        {
            **shared,
            "learners": ["kernl"],
            "learner": {"kernl": {"perturbation": 1.0}},
            "task": "add",
            "set": {"task.t1": 3, "task.t2": 12},
        }
    )
    other = point | {"learner": "uoro", "task": "mimic"}  # with what has no effect, which is ignored
    assert full.settings(other) == checked(
        {**shared, "learners": ["uoro"], "learner": {"uoro": {"nu": "gaussian"}}, "task": "mimic"}
    )
    assert full.relevant(other) == {
        name: other[name] for name in other if name not in ("task.t1", "learner.kernl.perturbation")
    }


def test_every_point_can_be_built(full):
    for point in full.points()[::7]:
        build(full.settings(point))


def test_random_choices_of_a_case(full):
    wanted = {"w_rec": Choices(("orthogonal", "gaussian")), "learning_rate": Uniform(1e-5, 1e-1, True, False)}
    assert full.space(full.cases()[0]) == wanted
    study = Study.of_text(
        "learners = ['rflo', 'kernl']\nvary.cell = ['rnn', 'gru']\nvary.task = { choices = ['add', 'mimic'] }\n"
        "vary.alpha = { uniform = [0.1, 1] }\nvary.'task.t1' = { uniform = [1, 9] }\n"
        "vary.learner.kernl.first_alpha = { uniform = [0, 1] }\n"
    )
    spaces = {(case["learner"], case["cell"]): set(study.space(case)) for case in study.cases()}
    assert spaces == {
        ("rflo", "rnn"): {"task", "alpha", "task.t1"},
        ("rflo", "gru"): {"task", "task.t1"},
        ("kernl", "rnn"): {"task", "alpha", "task.t1", "learner.kernl.first_alpha"},
        ("kernl", "gru"): {"task", "task.t1", "learner.kernl.first_alpha"},
    }


#: ways in which an option of one of two learners varies, and how many points they make
OWN = {
    "list": ('[vary]\n"learner.kernl.perturbation" = [0.01, 0.1]\n', 2 + 1),
    "crossed": ('[vary]\n"learner.kernl.perturbation" = [0.01, 0.1]\nn = [3, 4]\n', 2 * (2 + 1)),
    "drawn": ('samples = 3\n[vary]\n"learner.kernl.perturbation" = { log_uniform = [0.01, 0.1] }\n', 3 + 1),
    "points": ("points = [{learner.kernl.perturbation = 0.1, n = 3}, {learner.kernl.perturbation = 1, n = 3}]", 2 + 1),
    "of any learner": ('[vary]\n"learner.perturbation" = [0.01, 0.1]\n', 2 + 1),
}


@pytest.mark.parametrize("name", OWN)
def test_an_option_of_one_learner_varies_where_it_learns(name):
    text, count = OWN[name]
    points = Study.of_text(f'learners = ["kernl", "rflo"]\n{text}').points()
    assert len(points) == count
    assert all(any("perturbation" in path for path in point) == (point["learner"] == "kernl") for point in points)


def test_a_learner_without_what_is_searched_is_compared_as_it_is():
    top = 'learners = ["kernl", "rflo"]\n[vary]\n'
    own = Study.of_text(f'{top}"learner.kernl.perturbation" = {{ log_uniform = [0.01, 0.1] }}\n').searches()
    assert own == [
        ({"learner": "kernl"}, {"learner.kernl.perturbation": Uniform(0.01, 0.1, True, False)}),
        ({"learner": "rflo"}, {}),
    ]
    with pytest.raises(SettingsError, match="nothing to search"):
        Study.of_text(f'{top}"learner.kernl.perturbation" = [0.01, 0.1]\n').searches()


def drawn(rest, top="", samples=50):
    """The random learning rates and sizes of a study with those lines, in the order of its points."""
    text = f"learners = ['rflo']\nsamples = {samples}\n{top}[vary]\nlearning_rate = {{ log_uniform = [1e-5, 1e-1] }}\n"
    points = Study.of_text(f"{text}n = {{ uniform = [2, 4] }}\n{rest}").points()
    return [(point["learning_rate"], point["n"]) for point in points]


def test_draws_depend_on_the_key_the_setting_and_their_number_alone():
    first = drawn("")
    assert len(set(first)) == 50
    assert drawn("") == first
    assert drawn("", samples=80)[:50] == first
    assert drawn("alpha = { uniform = [0.1, 1] }\n") == first
    assert drawn("alpha = [0.1, 0.2]\n") == first * 2
    assert set(drawn("", top="key = 1\n")).isdisjoint(first)


def test_a_drawn_task_decides_what_has_an_effect():
    study = Study.of_text(
        "learners = ['rflo']\nsamples = 40\nvary.task = { choices = ['add', 'mimic'] }\nvary.'task.t1' = [3, 4]\n"
        "vary.'task.target.n_in' = { choices = [2, 3] }\n"
    )
    found = {tuple(point.items()) for point in study.points()}
    name = (("learner", "rflo"),)
    assert found == {
        *((*name, ("task.t1", t1), ("task", "add")) for t1 in (3, 4)),
        *((*name, ("task", "mimic"), ("task.target.n_in", inputs)) for inputs in (2, 3)),
    }
    assert len(found) == len(study.points()) <= study.count()


@pytest.mark.parametrize("log", [False, True])
def test_whole_numbers_are_drawn_with_both_ends(log):
    found = Uniform(1, 6, log, whole=True).draw(np.random.default_rng(0), 20_000)
    assert {type(each) for each in found} == {int}
    counts = np.bincount(found, minlength=8)
    assert counts[0] == counts[7] == 0
    # a whole number k stands for k - ½ to k + ½
    weights = [math.log((k + 0.5) / (k - 0.5)) if log else 1 for k in range(1, 7)]
    wanted = 20_000 * np.array(weights) / sum(weights)
    assert np.all(np.abs(counts[1:7] - wanted) < 5 * np.sqrt(wanted))


@pytest.mark.parametrize(("log", "scale"), [(False, lambda x: x), (True, math.log)])
def test_numbers_are_drawn_uniformly(log, scale):
    found = Uniform(1e-4, 1e-1, log, whole=False).draw(np.random.default_rng(1), 10_000)
    parts = sorted((scale(each) - scale(1e-4)) / (scale(1e-1) - scale(1e-4)) for each in found)
    furthest = max(abs(part - place / 10_000) for place, part in enumerate(parts))
    assert furthest < 1.95 / math.sqrt(10_000)  # Kolmogorov and Smirnov, at one in a thousand
    wrong = Uniform(1e-4, 1e-1, not log, whole=False).draw(np.random.default_rng(1), 10_000)
    assert abs(np.mean([scale(each) > scale(1e-4) / 2 + scale(1e-1) / 2 for each in wrong]) - 0.5) > 0.2


@pytest.mark.parametrize(
    ("how", "values"),
    [
        (Spaced(1e-3, 1e1, 5, True, False), (0.001, 0.01, 0.1, 1.0, 10.0)),
        (Spaced(-1.0, 1.0, 5, False, False), (-1.0, -0.5, 0.0, 0.5, 1.0)),
        (Spaced(1, 4, 100, False, True), (1, 2, 3, 4)),
        (Spaced(1, 1000, 4, True, True), (1, 10, 100, 1000)),
        (Spaced(1, 9, 7, True, True), (1, 2, 3, 4, 6, 9)),  # 1, 1.44, 2.08, 3, 4.33, 6.24, 9
        (Spaced(1, 5, 10**7, True, True), (1, 2, 3, 4, 5)),
        (Spaced(0, 10, 4, False, True), (0, 3, 7, 10)),
        (Spaced(2.0, 2.0, 1, False, False), (2.0,)),
    ],
)
def test_spaced_values(how, values):
    assert how.values == values
    assert len(how) == len(values)
    assert {type(each) for each in how.values} == {int if how.whole else float}


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300), st.integers(2, 50), st.booleans())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_spaced_values_rise_from_end_to_end(low, high, count, log):
    low, high = sorted((low, high))
    values = Spaced(low, high, count, log, False).values
    assert (values[0], values[-1]) == (low, high)
    assert all(a < b for a, b in itertools.pairwise(values))
    assert len(values) == count or high < low * (1 + 1e-12)


def by_hand(learners, fixed, varied, points):
    """All combinations, spelled out: every product, less what has no effect, less what is there already."""
    found = []
    names = list(varied)
    for learner, point in itertools.product(learners, points or [{}]):
        for values in itertools.product(*varied.values()):
            case = {"learner": learner, **point, **dict(zip(names, values, strict=True))}
            full = {"task": "add", "cell": "rnn", **fixed, **case}
            left_out = {"task.t1", "task.sampled"} if full["task"] == "mimic" else {"task.target.n_in"}
            left_out |= {"alpha"} if full["cell"] != "rnn" else set()
            left_out |= {name for name in case if name.startswith("learner.") and name.split(".")[1] != learner}
            case = {name: value for name, value in case.items() if name not in left_out}
            if case not in found:
                found.append(case)
    return found


VALUES = {
    "task": ["add", "mimic"],
    "cell": ["rnn", "gru"],
    "task.t1": [2, 3],
    "task.sampled": [True, False],
    "task.target.n_in": [4, 5],
    "alpha": [0.5, 1.0],
    "n": [2, 3, 4],
    "learner.kernl.late_perturbation": [True, False],
    "learner.r-ok.r": [1, 2],
}


@given(st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_cases_are_all_combinations(data):
    learners = data.draw(st.lists(st.sampled_from(["rflo", "kernl", "r-ok"]), min_size=1, unique=True))
    names = [name for name in VALUES if not name.startswith("learner.") or name.split(".")[1] in learners]
    where = {name: data.draw(st.sampled_from(["vary", "points", "fixed", "no"])) for name in names}
    possible = lambda name, default: VALUES[name] if where[name] in ("vary", "points") else [default]
    # what has an effect nowhere would be refused
    needed = {
        **{"task.t1": ("task", "add"), "task.sampled": ("task", "add"), "task.target.n_in": ("task", "mimic")},
        "alpha": ("cell", "rnn"),
    }
    for name, (other, value) in needed.items():
        if value not in possible(other, VALUES[other][0]) or "points" in (where[other], where[name]):
            where[name] = "no"
    fixed = {name: VALUES[name][0] for name in names if where[name] == "fixed"}
    varied = {name: VALUES[name] for name in names if where[name] == "vary"}
    together = {name: VALUES[name][:2] for name in names if where[name] == "points"}
    points = [dict(zip(together, row, strict=True)) for row in zip(*together.values(), strict=True)]

    # names with dots are quoted, or tables within tables where nothing else has the outer name
    table = {"learners": learners, "set": {}, "vary": {}, "points": [{} for _ in points]}
    for target, source in [(table["set"], fixed), (table["vary"], varied), *zip(table["points"], points, strict=True)]:
        nested = data.draw(st.booleans())
        for name, value in source.items():
            inner = target
            outer, last = (
                ([], name)
                if not nested or name.split(".")[0] in source
                else (name.split(".")[:-1], name.split(".")[-1])
            )
            for part in outer:
                inner = inner.setdefault(part, {})
            inner[last] = value
    study = Study.of_table({name: value for name, value in table.items() if value})
    wanted = by_hand(learners, fixed, varied, points)
    in_order = lambda cases: sorted(sorted(map(repr, case.items())) for case in cases)
    assert in_order(study.cases()) == in_order(wanted)
    assert study.count() == len(wanted)
    for case in study.cases():
        study.settings(case)


def test_large_grids_are_counted_and_not_gone_through():
    study = Study.of_text(
        "learners = ['rflo', 'kernl']\nseeds = 1\n[vary]\nlearning_rate = { from = 1e-5, to = 1, count = 1000 }\n"
        "alpha = { from = 0.1, to = 1, count = 1000 }\nlearner.kernl.perturbation = [1, 2, 3]\n"
        "task = ['add', 'mimic']\n"
    )
    assert study.count() == 1000 * 1000 * 2 * (1 + 3)
    assert "values" not in vars(study.varied["alpha"])


def test_another_process_reads_the_same_and_is_left_as_it_was():
    """Random choices are the same there, and float64 in some networks is not switched on for all."""
    text = (
        "learners = ['rflo']\nsamples = 3\n[vary]\nlearning_rate = { log_uniform = [1e-5, 1e-1] }\n"
        "dtype = ['float32', 'float64']\n"
    )
    code = f"from recurra.studies.study import Study; print(Study.of_text({text!r}).points())\n"
    code += "import jax; print(jax.numpy.zeros(()).dtype)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [str(Study.of_text(text).points()), "float32"]


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = "import sys, recurra.studies.study; print([name for name in ('jax', 'numpy') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_studies_travel_between_processes(full):
    assert pickle.loads(pickle.dumps(full)) == full
