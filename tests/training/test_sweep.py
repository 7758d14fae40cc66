"""`recurra.sweep`: every network is what `recurra.train` makes of its settings, whatever else is in the sweep."""

import itertools
import signal

import jax
import numpy as np
import optax
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER
from recurra.engine.experiment import Experiment
from recurra.engine.programs import programs
from recurra.studies.study import Study
from recurra.training.varying import SweepPoints, with_settings
from small_runs import arrays, asks_to_stop_after, network

STEPS = 60


def swept(vary, learner=None, task=None, net=None, **kwargs):
    settings = {"steps": STEPS, "seeds": 2, "progress": False, "optimizer": 0.01, **kwargs}
    return rc.sweep(net or network(), learner or rc.RFLO(), task or rc.Add(1, 2), vary=vary, **settings)


def trained(learner, task, net, **kwargs):
    settings = {"steps": STEPS, "seeds": 2, "progress": False, "optimizer": 0.01, **kwargs}
    return rc.train(net, learner, task, **settings)


def test_short_names_and_paths_are_one_language():
    rates, alphas = [0.01, 0.3], [0.4, 1.0]
    short = swept({"learning_rate": rates, "alpha": alphas})
    assert list(short.sizes) == ["learning_rate", "alpha", "seed", "step"], "settings are called as they were given"
    for paths in (("optimizer", "network.cell.alpha"), ("optimizer.learning_rate", "cell.alpha")):
        np.testing.assert_array_equal(swept(dict(zip(paths, (rates, alphas), strict=True))).loss, short.loss)
    described = swept({"learning_rate": [0.01]}, optimizer=rc.SGD(5.0, momentum=0.5))
    one = trained(rc.RFLO(), rc.Add(1, 2), network(), optimizer=rc.SGD(0.01, momentum=0.5))
    np.testing.assert_allclose(described.loss.isel(learning_rate=0), one.loss, rtol=1e-9)


@pytest.mark.slow
def test_a_layer_varies_and_the_next_layer_follows():
    net = rc.Network(rc.Stack(rc.RNN(2, 3), rc.GRU(3, 4)), 2)
    data = swept({"network.cell.cells.0.n": [3, 5], "network.cell.cells.1.n": [4, 2]}, rc.RTRL(), net=net)
    for lower, upper in itertools.product([3, 5], [4, 2]):
        by_hand = rc.Network(rc.Stack(rc.RNN(2, lower), rc.GRU(lower, upper)), 2)
        one = trained(rc.RTRL(), rc.Add(1, 2), by_hand)
        here = data.sel({"network.cell.cells.0.n": lower, "network.cell.cells.1.n": upper})
        np.testing.assert_allclose(here.loss, one.loss, rtol=1e-9)
    with pytest.raises(ValueError, match=r"choose from 0, 1\."):
        swept({"network.cell.cells.2.n": [3]}, rc.RTRL(), net=net)


def test_a_setting_of_one_learner_is_named_with_it():
    points = [{"learner": rc.RFLO()}, {"learner": rc.KeRNL(), "learner.kernl.perturbation": 0.1}]
    data = swept(points)
    one = trained(rc.KeRNL(perturbation=0.1), rc.Add(1, 2), network())
    np.testing.assert_allclose(data.loss.isel(point=1), one.loss, rtol=1e-9)


def test_numbers_share_a_program_and_all_else_does_not():
    experiment = lambda n=4, rate=0.1, alpha=0.5, t1=1, learner=None: Experiment.of(
        network(n, alpha=alpha), {"applied": learner or rc.RFLO()}, rate, rc.Add(t1, 2)
    )
    alike = [experiment(), experiment(rate=0.2), experiment(alpha=0.7), experiment(t1=5)]
    others = [experiment(n=5), experiment(learner=rc.UORO()), experiment(t1=100)]  # a longer past has another shape
    found = programs([*alike, *others])
    assert [program.rows for program in found] == [[0, 1, 2, 3], [4], [5], [6]]
    numbers = found[0].numbers_of([3, 0])
    np.testing.assert_array_equal(numbers.task.t1, [5, 1])
    np.testing.assert_allclose(numbers.step.optimizer, [0.1, 0.1])


def test_rows_that_all_points_share_are_not_copied_for_each():
    task = arrays()
    experiment = lambda rate: Experiment.of(network(), {"applied": rc.RFLO()}, rate, task)
    (program,) = programs([experiment(0.1), experiment(0.2)])
    assert program.numbers.task.inputs is None
    other = Experiment.of(network(), {"applied": rc.RFLO()}, 0.1, rc.Arrays(task.inputs + 1.0, task.labels))
    (program,) = programs([experiment(0.1), other])
    assert program.numbers.task.inputs.shape == (2, *program.experiment.traced.task.inputs.shape)


PAIRS = [(learner, cell) for learner in FOR_ONE_LAYER for cell in (rc.RNN, rc.GRU, rc.LSTM)]
QUICK = [("rflo", rc.RNN), ("rtrl", rc.RNN), ("kernl", rc.RNN)]


@pytest.fixture
def promoting():
    """Optax itself mixes types of numbers."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize(
    ("name", "cell"),
    [pytest.param(*pair, marks=[] if pair in QUICK else [pytest.mark.slow]) for pair in PAIRS],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_network_has_the_same_bits_in_any_company(name, cell):
    """Alone, among others at another place, in a group that is not full, and by `train`, in float32."""
    learner = FOR_ONE_LAYER[name]()
    net = rc.Network(cell(2, 8, dtype="float32"), 2, rc.SoftmaxCrossEntropy())
    rates = [0.001, 0.01, 0.02, 0.03, 0.05]
    every = swept({"optimizer": rates}, learner, net=net, seeds=4, window=1)
    alone = swept({"optimizer": [0.02]}, learner, net=net, seeds=[3], window=1)
    turned = swept({"optimizer": [0.02, 0.05, 0.001]}, learner, net=net, seeds=[3, 0], window=1)
    engine = rc.ScanEngine(alike=True)
    by_train = trained(learner, rc.Add(1, 2), net, optimizer=0.02, seeds=[7, 3], window=1, engine=engine)
    here = every.loss.sel(optimizer=0.02, seed=3).values
    for other in (alone.loss.values.ravel(), turned.loss.sel(optimizer=0.02, seed=3).values, by_train.loss[1]):
        np.testing.assert_array_equal(here, other)
    assert not np.array_equal(here, every.loss.sel(optimizer=0.03, seed=3).values) or name == "fixed"


@pytest.mark.usefixtures("promoting")
def test_numbers_of_an_optax_optimizer_vary_where_it_shows_them():
    shown = optax.inject_hyperparams(optax.adam)(learning_rate=0.5)
    data = swept({"optimizer.learning_rate": [0.01, 0.02], "optimizer.b1": [0.5, 0.9]}, optimizer=shown)
    for rate, b1 in ((0.01, 0.9), (0.02, 0.5)):  # if the two were exchanged, it would show
        one = trained(rc.RFLO(), rc.Add(1, 2), network(), optimizer=optax.adam(rate, b1))
        here = data.sel({"optimizer.learning_rate": rate, "optimizer.b1": b1})
        np.testing.assert_allclose(here.loss, one.loss, rtol=1e-7)


@pytest.mark.usefixtures("promoting")
def test_a_described_optimizer_varies_by_its_fields():
    data = swept({"optimizer.learning_rate": [0.01, 0.02]}, optimizer=rc.Adam())
    one = trained(rc.RFLO(), rc.Add(1, 2), network(), optimizer=optax.adam(0.02))
    np.testing.assert_allclose(data.loss.sel({"optimizer.learning_rate": 0.02}), one.loss, rtol=1e-7)


def test_points_that_make_no_grid_are_a_list():
    points = [{"optimizer": 0.01, "network.cell.alpha": 0.3}, {"optimizer": 0.2}]
    data = swept(points)
    assert data.sizes["point"] == 2
    np.testing.assert_array_equal(data["network.cell.alpha"], [0.3, np.nan])
    one = trained(rc.RFLO(), rc.Add(1, 2), network(), optimizer=0.2)
    np.testing.assert_allclose(data.loss.isel(point=1), one.loss, rtol=1e-9)


@pytest.mark.slow
def test_things_that_are_no_numbers_have_names():
    cells = {"small": rc.RNN(2, 3), "large": rc.GRU(2, 5)}
    data = swept({"network.cell": cells, "optimizer": [0.01]})
    one = trained(rc.RFLO(), rc.Add(1, 2), rc.Network(cells["large"], 2))
    np.testing.assert_allclose(data.loss.sel({"network.cell": "large", "optimizer": 0.01}), one.loss, rtol=1e-9)


@pytest.mark.slow
def test_records_and_held_out_losses_come_along():
    record = {"loss": lambda outcome: outcome.loss, "state": lambda outcome: outcome.state[0]}
    how = {"record": record, "record_every": 7, "evaluate": rc.Add(1, 2), "evaluate_every": 20, "evaluate_steps": 30}
    data = swept({"optimizer": [0.01, 0.3], "learner": [rc.RFLO(), rc.FutureBPTT(T=5)]}, **how)
    for rate, learner in itertools.product([0.01, 0.3], (rc.RFLO(), rc.FutureBPTT(T=5))):
        one = trained(learner, rc.Add(1, 2), network(), optimizer=rate, **how)
        here = data.sel(optimizer=rate, learner=learner.about.id)
        count = one.records["loss"].shape[1]
        np.testing.assert_allclose(here["record.loss"][:, :count], one.records["loss"], rtol=1e-9)
        np.testing.assert_allclose(here["record.state"][:, :count], one.records["state"], rtol=1e-9)
        assert np.isnan(here["record.loss"][:, count:]).all()
        np.testing.assert_allclose(here["evaluated_loss"], one.evaluated_loss, rtol=1e-9)
        np.testing.assert_array_equal(here["best_step"], one.best_step)


def test_a_network_that_diverges_is_marked_and_costs_no_other():
    data = swept({"optimizer": [0.01, 1e200]}, net=rc.Network(rc.RNN(2, 4), 2, rc.SquaredError()))
    assert (data.diverged_at.sel(optimizer=0.01) == -1).all()
    assert (data.diverged_at.sel(optimizer=1e200) > 0).all()
    assert np.isnan(data.final_loss.sel(optimizer=1e200)).all()
    assert np.isfinite(data.final_loss.sel(optimizer=0.01)).all()


def test_an_exception_from_progress_ends_the_sweep_at_once():
    told = []

    def report(done):
        told.append(done)
        if done > 0:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        swept({"optimizer": [0.01]}, steps=5000, progress=report)
    assert sum(done > 0 for done in told) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_sweep_that_is_interrupted_leaves_what_it_has(number):
    vary = {"learner": [rc.RFLO(), rc.UORO()]}
    with pytest.raises(rc.Interrupted) as caught:
        swept(vary, steps=5000, progress=asks_to_stop_after(2 * 5000 + 1, number))
    data = caught.value.result
    assert caught.value.signal == number
    assert (data.steps_done.sel(learner="rflo") == 5000).all()
    assert (data.steps_done.sel(learner="uoro") < 5000).all()
    whole = swept({"learner": [rc.RFLO()]}, steps=5000)
    np.testing.assert_array_equal(data.loss.sel(learner="rflo"), whole.loss.sel(learner="rflo"))


def test_parts_with_their_defaults_may_be_given_by_name():
    data = swept({"learner": ["rflo", "uoro"], "task": ["add"], "learning_rate": [0.1]})
    parts = swept({"learner": [rc.RFLO(), rc.UORO()], "task": {"add": rc.Add()}, "learning_rate": [0.1]})
    assert data.identical(parts)
    assert list(data.learner.values) == ["rflo", "uoro"]
    found = SweepPoints.of([{"optimizer": "adam"}, {"optimizer": {"mine": "sgd"}}])
    made = [with_settings({"optimizer": 0.1}, each)["optimizer"] for each in found.settings]
    assert made == [rc.Adam(), rc.SGD()]
    assert [each["optimizer"] for each in found.labels] == ["adam", "mine"]


BY_NAME = [
    ({"network.cell.w_rec": "gaussian"}, rc.Network(rc.RNN(2, 4, w_rec=rc.cells.gaussian), 2)),
    (
        {"w_rec": "sparsely", "density": 0.5},
        rc.Network(rc.RNN(2, 4, w_rec=rc.cells.Sparsely(0.5)), 2),
    ),
    ({"density": 0.5}, rc.Network(rc.RNN(2, 4, w_rec=rc.cells.Sparsely(0.5)), 2)),
    ({"network.regularizer.target": 0.5}, rc.Network(rc.RNN(2, 4), 2, regularizer=rc.FiringRate(0.5))),
    ({"network.cell.phi": "relu"}, rc.Network(rc.RNN(2, 4, phi=jax.nn.relu), 2)),
    ({"network.loss": "squared-error"}, rc.Network(rc.RNN(2, 4), 2, rc.SquaredError())),
    ({"cell": "gru"}, rc.Network(rc.GRU(2, 4), 2)),
    ({"n": 6, "cell": "gru"}, rc.Network(rc.GRU(2, 6), 2)),
    ({"cell": "lstm", "dtype": "float32"}, rc.Network(rc.LSTM(2, 4, dtype="float32"), 2)),
]


@pytest.mark.parametrize(("settings", "wanted"), BY_NAME, ids=range(len(BY_NAME)))
def test_parts_and_functions_within_a_network_may_be_given_by_name(settings, wanted):
    """A cell has the size and the type of the one that it takes the place of."""
    assert with_settings({"network": network()}, settings)["network"] == wanted


def test_spiking_units_with_sparse_weights_do_not_hear_themselves():
    """As in a file."""
    for settings in ({"density": 0.5}, {"w_rec": "sparsely", "density": 0.5}):
        made = with_settings({"network": rc.Network(rc.LIF(2, 4), 2)}, settings)["network"]
        assert made.cell == rc.LIF(2, 4, w_rec=rc.cells.Sparsely(0.5, itself=False))


def test_what_was_chosen_is_not_replaced_by_a_part_that_has_a_setting():
    chosen = rc.Network(rc.RNN(2, 4, w_rec=rc.cells.gaussian), 2)
    with pytest.raises(ValueError, match=r"gaussian.* has no setting `density`"):
        with_settings({"network": chosen}, {"density": 0.5})
    with pytest.raises(ValueError, match="has no setting `itself`"):
        with_settings({"network": network()}, {"network.cell.w_rec.itself": True})


OF_LAYERS = [
    ({"n": 5}, (rc.RNN(2, 5), rc.GRU(5, 5))),
    ({"n": 5, "network.cell.cells.1.n": 6}, (rc.RNN(2, 5), rc.GRU(5, 6))),
    ({"network.cell.cells.0.n": 6, "alpha": 0.5}, (rc.RNN(2, 6, 0.5), rc.GRU(6, 4))),
    ({"network.cell.cells.1": "lstm"}, (rc.RNN(2, 3), rc.LSTM(3, 4))),
]


@pytest.mark.parametrize(("settings", "wanted"), OF_LAYERS, ids=range(len(OF_LAYERS)))
def test_what_a_stack_does_not_have_is_for_its_layers(settings, wanted):
    """As in a file: each layer that has it, unless something is given for that layer alone."""
    net = rc.Network(rc.Stack(rc.RNN(2, 3), rc.GRU(3, 4)), 2)
    assert with_settings({"network": net}, settings)["network"].cell == rc.Stack(*wanted)
    with pytest.raises(ValueError, match="GRU has no setting `alpha`"):
        with_settings({"network": net}, {**settings, "network.cell.cells.1.alpha": 0.5, "network.cell.cells.1": "gru"})


def test_settings_that_belong_together_are_never_apart():
    """Pattern takes no rate of more than a spike in every step of its period."""
    given = {"task": rc.Pattern(period=1000, rate=500.0)}
    made = with_settings(given, {"task.period": 20, "task.rate": 10.0})["task"]
    assert made == rc.Pattern(period=20, rate=10.0)
    with pytest.raises(ValueError, match="rate"):
        with_settings(given, {"task.period": 20})


def test_names_give_the_points_that_a_study_file_has():
    """What has no effect at a point is left out of it, and what then coincides is taken once."""
    study = Study.of_text(
        'learners = ["kernl", "rflo"]\nn = 4\n[vary]\n"learner.kernl.perturbation" = [0.1, 0.2]\n'
        '"network.loss" = ["softmax-cross-entropy", "squared-error"]\n'
    )
    vary = {
        "learner": ["kernl", "rflo"],
        "learner.kernl.perturbation": [0.1, 0.2],
        "network.loss": ["softmax-cross-entropy", "squared-error"],
    }
    data = swept(vary)
    points = study.points()
    assert data.sizes["point"] == len(points) == 6
    columns = zip(*(data[name].values.tolist() for name in vary), strict=True)
    found = [{name: each for name, each in zip(vary, row, strict=True) if each == each} for row in columns]
    assert sorted(map(repr, map(sorted, map(dict.items, found)))) == sorted(
        map(repr, map(sorted, map(dict.items, points)))
    )
    at = next(i for i, each in enumerate(found) if each == {"learner": "rflo", "network.loss": "squared-error"})
    one = trained(rc.RFLO(), rc.Add(1, 2), rc.Network(rc.RNN(2, 4), 2, rc.SquaredError()))
    np.testing.assert_allclose(data.loss.isel(point=at), one.loss, rtol=1e-9)


def test_a_setting_that_only_one_cell_has_is_left_out_of_others():
    data = swept({"cell": ["rnn", "gru"], "alpha": [0.5, 1.0]}, rc.RTRL(), seeds=1)
    assert data["cell"].values.tolist() == ["rnn", "rnn", "gru"]
    np.testing.assert_array_equal(data["alpha"], [0.5, 1.0, np.nan])


WRONG = [
    ({"learner": ["rfol"]}, r"A name in `vary\['learner'\]` must be 'rtrl', .* and is 'rfol'"),
    ({"cell": ["gruu"]}, r"A name in `vary\['cell'\]` must be 'alif'.* and is 'gruu'"),
    ({"w_rec": ["sparsely"]}, r"no default for density: .*{'sparsely': recurra\.Sparsely\(density=\.\.\.\)}"),
    ({"network.loss": ["cross"]}, r"A name in `vary\['network\.loss'\]` must be .* and is 'cross'"),
    ({"cell": ["rnn", "gru"], "network.cell.alfa": [0.1]}, "no setting `alfa`"),
    ({"optimizer": []}, "empty"),
    ({"optimizer": [0.1, 0.1]}, "different"),
    ({"optimizer": 0.1}, "list of values"),
    ({"optimizr": [0.1]}, "did you mean 'optimizer'. Choose from network"),
    ({"learner.rate": [0.1]}, "no settings of its own"),
    ({"network.cell.alfa": [0.1]}, "alpha"),
    ({"network.cell.alpha": [0.5, 2.0]}, "at most 1.0"),
    ({"task": [rc.Add()]}, "give it a name"),
    ({"optimizer.momentum": [0.1]}, "no setting `momentum`"),
    ({"alpha": [0.1], "network.cell.alpha": [0.2]}, "same setting"),
    ({"learner.kernl.perturbation": [0.1]}, "no effect where the learner is 'rflo'"),
    ({"network.cell.cells.0.n": [3]}, "no setting `cells`"),
    ({"seed": [1]}, "dimension of every sweep"),
    ({"task.t1": range(1, 4000), "task.t2": range(1, 4000)}, "combinations"),
    ({"": [1]}, "by its path"),
    ([], "lists of values"),
]


@pytest.mark.parametrize(("vary", "said"), WRONG, ids=range(len(WRONG)))
def test_what_makes_no_sense_is_refused_before_anything_runs(vary, said):
    with pytest.raises((ValueError, TypeError), match=said):
        swept(vary)


def test_an_optax_optimizer_that_shows_no_numbers_says_how_to():
    with pytest.raises(ValueError, match="inject_hyperparams"):
        swept({"optimizer.learning_rate": [0.1]}, optimizer=optax.adam(0.1))
    scheduled = optax.inject_hyperparams(optax.adam)(learning_rate=optax.linear_schedule(0.1, 0.0, 10))
    with pytest.raises(ValueError, match="learning_rate"):
        swept({"optimizer.learning_rate": [0.1]}, optimizer=scheduled)


@pytest.mark.slow
def test_what_is_recorded_must_have_one_shape():
    record = {"state": lambda outcome: outcome.state[0]}
    with pytest.raises(ValueError, match="make no table"):
        swept({"network.cell": {"small": rc.RNN(2, 3), "large": rc.RNN(2, 4)}}, record=record)


def test_a_learner_varies_together_with_a_field_of_it():
    given = {"learner": rc.RFLO()}
    (first, second) = SweepPoints.of({"learner.perturbation": [0.1, 0.2], "learner": [rc.KeRNL()]}).settings
    assert with_settings(given, second)["learner"].perturbation == 0.2
    assert with_settings(given, first)["learner"] == rc.KeRNL(perturbation=0.1)


def test_members_of_any_number_are_computed():
    """More members than a group, and not a multiple of it."""
    rates = np.geomspace(1e-3, 0.1, 19)
    data = swept({"optimizer": rates}, seeds=1)
    one = trained(rc.RFLO(), rc.Add(1, 2), network(), optimizer=float(rates[17]), seeds=1)
    np.testing.assert_allclose(data.loss.isel(optimizer=17), one.loss, rtol=1e-9)
    assert jax.numpy.unique(data.final_loss.values).size == 19


def test_points_of_a_list_may_hold_named_things():
    data = swept([{"task": {"near": rc.Add(1, 2)}}, {"task": {"far": rc.Add(4, 5)}}])
    assert data["task"].values.tolist() == ["near", "far"]
    one = trained(rc.RFLO(), rc.Add(4, 5), network())
    np.testing.assert_allclose(data.loss.isel(point=1), one.loss, rtol=1e-9)
    with pytest.raises(ValueError, match="called the same"):
        swept([{"learner": rc.KeRNL(perturbation=0.1)}, {"learner": rc.KeRNL(perturbation=0.2)}])


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ({"learnin_rate": [0.1]}, "did you mean 'learning_rate'"),
        ({"optimizer.momentum": [0.1]}, "varies as a whole"),
    ],
)
def test_what_someone_may_mean_is_said(vary, said):
    with pytest.raises((ValueError, TypeError), match=said):
        swept(vary)
