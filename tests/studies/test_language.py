"""The language of settings: what is said in words is the same as the parts made by hand."""

import dataclasses
import json

import equinox as eqx
import jax
import pytest

import recurra as rc
from recurra.checks import Part, command_name
from recurra.studies.effects import effective
from recurra.studies.language import every_setting, find
from recurra.studies.parts import build, full_configuration
from recurra.studies.settings import SettingsError, checked
from recurra.studies.study import Study
from recurra.training.aliases import ALIASES, name_of, path_of

F32 = {"dtype": "float32"}
LR = 1e-4


def network(cell, n_out, **rest):
    return rc.Network(cell, n_out, **rest)


#: what is said, and the network, task and optimizer made by hand
SAID = {
    "nothing": ({}, network(rc.RNN(2, 32, **F32), 2), rc.Add(), LR),
    "an option of a task": ({"task": "copy", "set": {"task.length": 3}}, network(rc.RNN(4, 32, **F32), 2),
                            rc.Copy(length=3), LR),
    "a loss that the task wants": ({"task": "adding"}, network(rc.RNN(2, 32, **F32), 1, loss=rc.SquaredError()),
                                   rc.Adding(), LR),
    "another loss": ({"set": {"network.loss": "sigmoid-cross-entropy"}},
                     network(rc.RNN(2, 32, **F32), 2, loss=rc.SigmoidCrossEntropy()), rc.Add(), LR),
    "short names": ({"cell": "rnn", "n": 3, "alpha": 0.5, "w_rec": "gaussian", "learning_rate": 2},
                    network(rc.RNN(2, 3, 0.5, w_rec=rc.cells.gaussian, **F32), 2), rc.Add(), 2.0),
    "paths": ({"set": {"network": {"cell": {"n": 3, "alpha": 0.5, "phi": "relu"}, "skip": True}}},
              network(rc.RNN(2, 3, 0.5, phi=jax.nn.relu, **F32), 2, skip=True), rc.Add(), LR),
    "an optimizer's numbers": ({"optimizer": "adam", "learning_rate": 0.1, "set": {"optimizer.b1": 0.5}},
                               network(rc.RNN(2, 32, **F32), 2), rc.Add(), rc.Adam(0.1, b1=0.5)),
    "momentum": ({"set": {"optimizer.momentum": 0.9}}, network(rc.RNN(2, 32, **F32), 2), rc.Add(), rc.SGD(LR, 0.9)),
    "sparse": ({"cell": "gru", "density": 0.25},
               network(rc.GRU(2, 32, rc.cells.Sparsely(0.25), **F32), 2), rc.Add(), LR),
    "sparse spikes": ({"cell": "lif", "density": 0.25},
                      network(rc.LIF(2, 32, w_rec=rc.cells.Sparsely(0.25, itself=False), **F32), 2), rc.Add(), LR),
    "a part within a part": ({"cell": "lif", "set": {"network.cell.w_rec.drawn": "symmetric"}},
                             network(rc.LIF(2, 32, w_rec=rc.cells.WithoutSelf(rc.cells.symmetric), **F32), 2),
                             rc.Add(), LR),
    "a regularizer": ({"set": {"network.regularizer.target": 0.5}},
                      network(rc.RNN(2, 32, **F32), 2, regularizer=rc.FiringRate(0.5)), rc.Add(), LR),
    "layers": ({"layers": 2, "n": 4, "alpha": 0.5},
               network(rc.Stack(rc.RNN(2, 4, 0.5, **F32), rc.RNN(4, 4, 0.5, **F32)), 2), rc.Add(), LR),
    "a layer of another size": ({"layers": 3, "cell": "gru", "n": 4, "set": {"network.cell.cells.1.n": 5}},
                                network(rc.Stack(rc.GRU(2, 4, **F32), rc.GRU(4, 5, **F32), rc.GRU(5, 4, **F32)), 2),
                                rc.Add(), LR),
    "layers of other kinds": ({"n": 4, "set": {"cell": {"cells": {"0": "lstm", "1": "rtu"}, "skip": True}}},
                              network(rc.Stack(rc.LSTM(2, 4, **F32), rc.RTU(4, 4, **F32), skip=True), 2), rc.Add(), LR),
    "the target is of the cell's kind": ({"task": "mimic", "cell": "gru", "n": 5, "w_rec": "gaussian"},
                                         network(rc.GRU(32, 5, rc.cells.gaussian, **F32), 32, loss=rc.SquaredError()),
                                         rc.Mimic(rc.GRU(32, 5, **F32), 32), LR),
    "another target": ({"task": "mimic", "n": 5, "task.target": "gru", "task.target.n_in": 3, "task.outputs": 2},
                       network(rc.RNN(3, 5, **F32), 2, loss=rc.SquaredError()), rc.Mimic(rc.GRU(3, 5, **F32), 2), LR),
}  # fmt: skip


@pytest.mark.parametrize("said", SAID)
def test_words_make_the_parts_that_are_made_by_hand(said):
    words, network, task, optimizer = SAID[said]
    settings = checked({"learners": ["rtrl"], **words})
    found = build(settings)
    assert eqx.tree_equal(found.network, network)
    assert eqx.tree_equal(found.task, task)
    assert found.optimizer == optimizer
    assert type(found.optimizer) is type(optimizer)
    assert found.learners == {"rtrl": rc.RTRL()}
    others = [each for each in SAID.values() if each is not SAID[said]]
    assert not any(eqx.tree_equal((network, task), each[1:3]) and optimizer == each[3] for each in others)
    # what is written down says the same once more
    again = full_configuration(settings, found)
    again = build(checked({name: value for name, value in again.items() if value is not None}))
    assert eqx.tree_equal((again.network, again.task), (network, task))


def test_a_learner_is_described_as_deep_as_it_goes():
    nested = {"layered": {"learner": "uoro", "handed": "random-targets"}}
    found = build(
        checked(
            {"learners": ["layered"], "layers": 2, "learner": nested, "set": {"learner.layered.learner.nu": "uniform"}}
        )
    )
    assert found.learners["layered"] == rc.Layered(rc.UORO(nu=rc.noise.uniform), rc.RandomTargets())
    both = build(
        checked({"learners": ["uoro", "kf-rtrl"], "set": {"learner.nu": "gaussian", "learner.uoro.nu": "signs"}})
    )
    assert both.learners == {"uoro": rc.UORO(), "kf-rtrl": rc.KFRTRL(nu=rc.noise.gaussian)}


def test_plain_settings_are_read_as_they_were():
    settings = checked(
        {"learners": ["uoro"], "seeds": 3, "cell": "lif", "set": {"task": {"t1": 3}, "learner.uoro.nu": "uniform"}}
    )
    assert checked(json.loads(json.dumps(settings.plain()))) == settings
    assert (settings.seeds, settings.steps, settings.window, settings.engine, settings.dtype) == (
        3, 100_000, None, "auto", "float32"
    )  # fmt: skip


def test_every_field_of_a_registered_part_is_a_setting():
    """But those that follow from others."""
    derived = {"n_in", "n_out"}
    for head, table in (("task", rc.TASKS), ("network.cell", rc.CELLS), ("optimizer", rc.OPTIMIZERS)):
        for kind in table.values():
            for field in dataclasses.fields(kind):
                if field.init and field.name not in derived:
                    assert find(f"{head}.{field.name}").name == name_of(f"{head}.{field.name}")
    for name, kind in rc.LEARNERS.items():
        for field in dataclasses.fields(kind):
            assert find(f"learner.{name}.{field.name}")
    listed = [setting.name for setting, _ in every_setting()]
    assert len(set(listed)) == len(listed) > 80


def test_defaults_are_those_of_the_constructors():
    for name, kind in {**rc.TASKS, **rc.OPTIMIZERS}.items():
        head = "task" if name in rc.TASKS else "optimizer"
        if name == "digits":
            continue
        owner = kind()
        used = full_configuration(settings := checked({"learners": ["rtrl"], head: name}), build(settings))
        for field in dataclasses.fields(kind):
            value = getattr(owner, field.name)
            if field.init and not isinstance(value, Part) and field.name != "learning_rate":
                assert used.get(f"{head}.{field.name}") == value


def test_short_names_are_paths_of_settings():
    for alias, path in ALIASES.items():
        assert find(alias) == find(path)
        assert (path_of(alias), name_of(path)) == (path, alias)
    assert path_of("cell.phi") == "network.cell.phi"
    assert command_name(rc.MinGRU) == "min-gru"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task.lenght": 3}, ["`task.lenght`", "did you mean 'length'"]),
        ({"network.cel.n": 3}, ["`network.cel.n`", "did you mean 'cell'"]),
        ({"network": 3}, ["`network` is not a setting", "cell"]),
        ({"network.cell.cells": 3}, ["`network.cell.cells` is not a setting"]),
        ({"network.cell.cells.1.alpha": 0.5, "cell": "gru"}, ["no effect", "'gru'", "'rnn'"]),
        ({"task.target.n": 3}, ["`task.target.n` has no effect", "'add'", "'mimic'"]),
        ({"density": 0.5, "cell": "lru"}, ["`density` has no effect", "`cell` is 'lru'"]),
        ({"density": 0.5, "w_rec": "gaussian"}, ["`density` has no effect", "`w_rec` is 'gaussian'", "'sparsely'"]),
        ({"learner.kernl.perturbation": 0.5}, ["kernl is not among the `learners`"]),
        ({"learner.rtrl.perturbation": 0.5}, ["rtrl has none"]),
        ({"learner.perturbation": 0.5}, ["no effect"]),
        ({"alpha": 0.5, "network.cell.alpha": 0.5}, ["`alpha` is given twice"]),
        ({"network.cell.phi": "than"}, ["did you mean 'tanh'"]),
        ({"engine": "gpu"}, ["`engine` is 'gpu'", "auto", "scan", "on-chip"]),
    ],
)
def test_what_is_wrong_is_said_with_what_could_be_meant(given, words):
    with pytest.raises(SettingsError) as error:
        checked({"learners": ["rtrl"], **given})
    assert all(word in str(error.value) for word in words), str(error.value)


def test_what_has_an_effect_depends_on_what_is_chosen():
    given = {
        "task": "mimic",
        "task.target.n": 3,
        "task.t1": 1,
        "alpha": 0.5,
        "network.cell.tau_v": 1.0,
        "optimizer.b1": 0.1,
    }
    assert effective(given, ("rtrl",)) == {"task", "task.target.n", "alpha"}
    assert effective(given | {"optimizer": "adam"}, ("rtrl",)) == {
        "task",
        "task.target.n",
        "alpha",
        "optimizer",
        "optimizer.b1",
    }


ANY = """
learners = ["rtrl", "layered"]
layers = 2
n = 3
[set]
learner.layered.learner = "uoro"
[vary]
task = ["copy", "adding"]
"task.length" = [3, 4]
optimizer = ["sgd", "adam"]
"optimizer.momentum" = [0.5, 0.9]
"optimizer.b2" = [0.99]
network.cell.cells.0.n = [4, 5]
learner.layered.learner.nu = ["signs", "gaussian"]
"""


def test_any_part_can_vary():
    study = Study.of_text(ANY)
    cases = study.cases()
    # 2 tasks, 2 lengths, 2 momenta of SGD and one b2 of Adam, 2 sizes of the first layer, and 1 or 2 kinds of noise
    assert len(cases) == study.count() == 2 * 2 * (2 + 1) * 2 * (1 + 2)
    for case in cases:
        found = build(study.settings(case))
        task = {"copy": rc.Copy, "adding": rc.Adding}[case["task"]](length=case["task.length"])
        first = case["network.cell.cells.0.n"]
        layers = rc.Stack(rc.RNN(task.n_in, first, **F32), rc.RNN(first, 3, **F32))
        optimizer = rc.Adam(LR, b2=0.99) if case["optimizer"] == "adam" else rc.SGD(LR, case["optimizer.momentum"])
        assert eqx.tree_equal((found.task, found.network.cell), (task, layers))
        assert found.optimizer == optimizer
        noise = {"signs": rc.noise.signs, "gaussian": rc.noise.gaussian}
        if case["learner"] == "layered":
            wanted = rc.Layered(rc.UORO(nu=noise[case["learner.layered.learner.nu"]]))
            assert found.learners == {"layered": wanted}
