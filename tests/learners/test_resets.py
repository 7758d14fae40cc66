"""A reset parts two episodes: whichever learner takes them, no gradient of the later one knows of the earlier one."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine import forms
from recurra.linalg import cleared
from recurra.step import LearningStep

#: The reset is inside a segment of T steps, and inside a span of steps after which the lazy form brings M up to date.
T, RESET, STEPS = 4, 6, 13
#: settings for few units and steps; at first M = 0, as it is after a reset
SMALL = {"r": 2, "T": T, "span": T, "initial_scale": 0.0}


def small(kind):
    own = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in SMALL.items() if name in own})


ONE = {name: small(kind) for name, kind in rc.LEARNERS.items() if not (kind.about.layers or kind.about.sparse)}
FORMS = {kind.__name__: small(kind) for kind in forms.FORMS if kind is not forms.SharedRFLO}
LAYERS = {
    "three": rc.Layered((small(rc.UORO), rc.KeRNL(), rc.RTRL())),
    "random targets": rc.Layered((forms.LateRFLO(), rc.RFLO(), rc.SnAp1()), rc.RandomTargets()),
    "local losses": rc.Layered((rc.DiagonalUORO(), rc.PPProp(), small(rc.SKRTRL)), rc.LocalLosses()),
}
RNN, LSTM = rc.RNN(2, 3, 0.6), rc.LSTM(2, 3)
ALIF, SPARSE = rc.ALIF(2, 3, threshold=0.1), rc.RNN(2, 4, 0.6, w_rec=rc.cells.Sparsely(0.5))
TWO, STACK = rc.Stack(rc.RNN(2, 3, 0.5), rc.LSTM(3, 2)), rc.Stack(rc.RNN(2, 3, 0.5), rc.LSTM(3, 2), rc.GRU(2, 2))


def but(*names):
    return {name: learner for name, learner in ONE.items() if name not in names}


CASES = {
    "every learner": (RNN, ONE),
    "forms": (LSTM, FORMS),
    "shared form": (ALIF, {"shared rflo": forms.SharedRFLO()}),
    "layers": (TWO, {"layered": rc.Layered((rc.KeRNL(), small(rc.UORO)), rc.RandomTargets())}),
}
SLOW = {
    "lstm": (LSTM, ONE),
    "gru": (rc.GRU(2, 3), {**ONE, "lazy rtrl": small(forms.LazyRTRL)}),
    "alif": (ALIF, {**but("kernl"), "late rflo": forms.LateRFLO()}),
    "rtu": (rc.RTU(2, 3), but("dni-b")),
    "sparse": (SPARSE, {**ONE, "snap-n": rc.SnAp(2)}),
    "stack": (STACK, {**{name: each for name, each in ONE.items() if not each.about.unitwise}, **LAYERS}),
}


def learning_later(learner, t):
    """The learner; what it learns about the network, it learns after the first step of the later episode only."""
    if isinstance(learner, rc.Layered):
        return dataclasses.replace(learner, learner=tuple(learning_later(each, t) for each in learner.learner))
    rates = [field.name for field in dataclasses.fields(learner) if field.name.endswith("_rate")]
    return dataclasses.replace(learner, **{name: jnp.where(t > RESET, getattr(learner, name), 0.0) for name in rates})


def episodes(cell, learners):
    """Every learner's gradients along two pasts, each with two futures, with axes (way, past, future, step).

    The ways are: with a reset, without one, and with a network and learners that begin where the reset would be.
    """
    network = rc.Network(cell, 2)

    def step(t):
        probes = {name: learning_later(learner, t) for name, learner in learners.items()}
        return LearningStep(network, rc.Fixed(), 0.0, probes)

    def drawn():
        keys = jax.random.split(jax.random.key(1), 5)
        xs = jax.random.normal(keys[0], (2, STEPS, 2))
        ys = jax.nn.softmax(jax.random.normal(keys[1], (2, STEPS, 2)))
        noise = jax.vmap(lambda key: step(0).noise(key, STEPS))(jax.random.split(keys[2], 2))
        first = step(0).init(keys[3])
        shake = lambda w: w + 0.3 * jax.random.normal(jax.random.fold_in(keys[4], w.size), w.shape, w.dtype)
        weights = first.weights._replace(cell=cleared(jax.tree.map(shake, first.weights.cell)))
        return first._replace(weights=weights), (xs, ys, noise)

    def run(first, rows, has_reset, begins, past, future):
        def one(state, row):
            t, (x, y, nu) = row
            now, anew = step(t), first._replace(t=state.t)
            state = jax.tree.map(lambda old, new: jnp.where(begins & (t == RESET), new, old), state, anew)
            seen, _ = now.observe(state, x, nu, has_reset & (t == RESET))
            state, outcome = now.learn(seen, y)
            return state, outcome.gradients

        joined = jax.tree.map(lambda leaf: jnp.concatenate([leaf[past, :RESET], leaf[future, RESET:]]), rows)
        return jax.lax.scan(one, first, (jnp.arange(STEPS), joined))[1]

    @jax.jit
    def every():
        first, rows = drawn()
        ways = np.array([[True, False], [False, False], [False, True]])
        each = np.stack(np.meshgrid(np.arange(3), *[np.arange(2)] * 2, indexing="ij"), axis=-1).reshape(-1, 3)
        found = jax.vmap(functools.partial(run, first, rows))(*ways[each[:, 0]].T, *each[:, 1:].T)
        return jax.tree.map(lambda leaf: leaf.reshape(3, 2, 2, *leaf.shape[1:]), found)

    return {name: in_rows(gradients) for name, gradients in every().items()}


def in_rows(gradients):
    """Gradients as vectors, after four axes."""
    return np.concatenate([np.reshape(leaf, (*leaf.shape[:4], -1)) for leaf in jax.tree.leaves(gradients)], axis=-1)


@pytest.mark.parametrize(
    ("cell", "learners"),
    [*CASES.values(), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW.values())],
    ids=[*CASES, *SLOW],
)
def test_nothing_passes_a_reset(cell, learners):
    """With a learner's name: what it leaves of the past, and of the past in the future."""
    runs = episodes(cell, learners)
    for name, learner in learners.items():
        found, never, begun = runs[name]
        near = 1e-12 * np.abs(found).max()
        period = 0 if isinstance(learner, rc.PastFacing) else learner.period
        first = (
            -(-RESET // period) * period if period else RESET + learner.lag
        )  # the first gradient of later steps alone
        later = found[..., first:, :]
        np.testing.assert_allclose(later[0], later[1], rtol=0, atol=near, err_msg=name)
        # A gradient that is summed over both episodes is a sum of what each of them has.
        np.testing.assert_allclose(
            found[0, 0] - found[1, 0], found[0, 1] - found[1, 1], rtol=0, atol=near, err_msg=name
        )
        if not name.startswith(
            "bp-lambda"
        ):  # at first it learns from its prediction for the state before the first step
            np.testing.assert_allclose(later, begun[..., first:, :], rtol=0, atol=near, err_msg=name)
        # The control: without a reset the past is seen.
        assert name == "fixed" or np.abs(never[0] - never[1])[..., first:, :].max() > 1e-3 * np.abs(never).max(), name


@pytest.mark.parametrize(
    ("cell", "learners"),
    [
        (RNN, {name: ONE[name] for name in ("rflo", "uoro", "dni")} | {"lazy rtrl": small(forms.LazyRTRL)}),
        pytest.param(RNN, ONE, marks=pytest.mark.slow),
        pytest.param(LSTM, FORMS, marks=pytest.mark.slow),
    ],
    ids=["some", "every learner", "forms"],
)
def test_each_stream_has_resets_of_its_own(cell, learners):
    """The gradient of two streams is the mean of what each of them has by itself."""
    network = rc.Network(cell, 2)
    two, one = (LearningStep(network, rc.Fixed(), 0.0, learners, streams=streams) for streams in (2, 1))
    keys = jax.random.split(jax.random.key(1), 4)
    start, noise = two.init(keys[0]), two.noise(keys[1], STEPS)
    xs, ys = jax.random.normal(keys[2], (STEPS, 2, 2)), jax.nn.softmax(jax.random.normal(keys[3], (STEPS, 2, 2)))
    resets = np.zeros((STEPS, 2), bool)
    resets[RESET, 0] = resets[RESET + 3, 1] = True

    def run(step, state, rows):
        def taken(state, row):
            x, y, nu, reset = row
            state, outcome = step.learn(step.observe(state, x, nu, reset)[0], y)
            return state, outcome.gradients

        return jax.lax.scan(taken, state, rows)[1]

    @jax.jit
    def by_itself(stream, rows):
        of_stream = lambda leaf: leaf[stream]
        own = jax.tree.map(of_stream, (start.a, start.learners, start.unlabelled, start.first))
        state = start._replace(**dict(zip(("a", "learners", "unlabelled", "first"), own, strict=True)))
        return run(one, state, jax.tree.map(lambda leaf: leaf[:, stream], rows))

    together = jax.jit(lambda rows: run(two, start, rows))
    rows = xs, ys, noise, jnp.asarray(resets)
    found, swapped = together(rows), together((*rows[:3], jnp.asarray(resets[:, ::-1])))
    each = [by_itself(stream, rows) for stream in (0, 1)]
    for name in learners:
        flat = lambda gradients, name=name: np.concatenate(
            [np.reshape(leaf, (STEPS, -1)) for leaf in jax.tree.leaves(gradients[name])], axis=-1
        )
        wanted = np.mean([flat(alone) for alone in each], axis=0)
        np.testing.assert_allclose(flat(found), wanted, rtol=0, atol=1e-12 * np.abs(wanted).max(), err_msg=name)
        # The control: each stream with the resets of the other.
        assert name == "fixed" or np.abs(flat(swapped) - wanted).max() > 1e-3 * np.abs(wanted).max(), name


#: so many rows that the gradients of lagging learners are there too
ROWS = 20
LEARNS = [name for name, kind in rc.LEARNERS.items() if any(f.name.endswith("_rate") for f in dataclasses.fields(kind))]


def changed(rows, first, last):
    """Other numbers in the rows from `first` to `last`."""
    is_other = (np.arange(ROWS) >= first) & (np.arange(ROWS) < last)
    return np.where(is_other[:, None], 1 - rows, rows)


@pytest.mark.parametrize(
    ("horizon", "names"),
    [
        (3, ("rflo", "uoro", "rtrl")),  # RTRL runs in its faster form
        *(pytest.param(horizon, (*ONE,), marks=pytest.mark.slow) for horizon in (1, 3, 7)),
    ],
    ids=["some", "1 row", "3 rows", "7 rows"],
)
def test_nothing_passes_a_reset_where_labels_come_late(horizon, names):
    """A label that comes after the reset, for a row before it, teaches nothing."""
    rng = np.random.default_rng(0)
    x, y = rng.random((ROWS, 2)), rng.random((ROWS, 1))
    first = RESET + horizon  # here comes the first label of the later episode
    late = lambda x, y: rc.Arrays(x, y, reset=np.arange(ROWS) == RESET, horizon=horizon)
    tasks = {
        "as it is": late(x, y),
        "labels across": late(x, changed(y, RESET, first)),
        "another past": late(changed(x, 0, RESET), changed(y, 0, first)),
        "another future": late(x, changed(y, first, ROWS)),
    }
    data = rc.sweep(
        rc.Network(RNN, 1, rc.SquaredError()), rc.RFLO(), tasks["as it is"],
        vary={"task": tasks, "optimizer": [0.0, 0.1]}, steps=ROWS, window=1,
        probes={name: ONE[name] for name in names}, record={"g": rc.record.gradients}, progress=False,
    ).isel(seed=0)  # fmt: skip
    whole = {name: data[name] for name in data if name == "loss" or name.startswith("record.g")}
    for name, found in whole.items():
        as_it_is, across = found.sel(task="as it is"), found.sel(task="labels across")
        np.testing.assert_array_equal(as_it_is, across, err_msg=name)
        assert name.startswith("record.g.fixed") or not np.array_equal(as_it_is, found.sel(task="another future"), True)
    assert np.isnan(data.loss[..., RESET:first]).all()
    for name, found in whole.items():
        learner = name.removeprefix("record.g.").partition(".")[0]
        if name == "loss" or learner in ("fixed", *LEARNS):  # what they learn about the network stays
            continue
        ends = 8 if learner in ("e-bptt", "edge-bptt") else RESET  # that of the segment
        as_it_is, other = (found.sel(optimizer=0.0, task=task) for task in ("as it is", "another past"))
        np.testing.assert_allclose(as_it_is[ends:], other[ends:], rtol=0, atol=1e-12, err_msg=name)
        assert not np.allclose(as_it_is[:ends], other[:ends], equal_nan=True), name
