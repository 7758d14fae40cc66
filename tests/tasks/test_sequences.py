"""Padded and ragged sequences in shuffled minibatches: what is served, what is learned from it, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.experiment import Experiment
from recurra.engine.protocol import Members
from recurra.step import APPLIED
from recurra.tasks import orders

LENGTHS = np.array([5, 2, 1, 4, 5, 3, 2])


def data(lengths=LENGTHS, rows=None, one_each=False, seed=0):
    """Padded inputs, whose first column tells the sequence, labels, and which of them are there."""
    rng = np.random.default_rng(seed)
    count, rows = len(lengths), rows or max(lengths)
    inputs = rng.normal(size=(count, rows, 2))
    inputs[..., 0] += 10 * np.arange(count)[:, None]
    inputs[np.arange(rows) >= np.array(lengths)[:, None]] = np.nan  # padding may be anything
    shape = (count,) if one_each else (count, rows)
    return inputs, rng.normal(size=(*shape, 1)), rng.random(shape) < 0.7


def served(task, steps, seed=0):
    """The rows of a seed, (step, stream, ...), as an engine draws them, each block by itself."""
    network = rc.Network(rc.RNN(task.n_in, 2), task.n_out, rc.SquaredError())
    whole = Experiment.of(network, {APPLIED: rc.Fixed()}, 0.0, task, task.streams)
    carry, keys = whole.init(Members.of_seeds(jax.random.key(0), (seed,)).keys[0])
    draw = jax.jit(lambda number: whole.draw_rows(carry.task, keys, number)[0])
    blocks = [draw(jnp.array(number, "int32")) for number in range(-(-steps // rc.BLOCK))]
    rows = jax.tree.map(lambda *each: np.concatenate(each)[:steps], *blocks)
    return rows if task.streams > 1 else jax.tree.map(lambda leaf: leaf[:, None], rows)


def orders_in(x, rows, count):
    """Which sequence each stream has in each minibatch, from its first input; -1 where there is none."""
    first = x[::rows]
    found = np.rint(first[..., 0] / 10).astype(int)
    found[(first == 0).all(axis=-1)] = -1
    epochs = found.reshape(-1, -(-count // x.shape[1]) * x.shape[1])
    for each in epochs:
        assert sorted(each[each >= 0]) == list(range(count)), "each sequence once an epoch"
        assert (each[:count] >= 0).all(), "free streams come last"
    return epochs[:, :count]


def table(order, batch, inputs, labels, present, lengths):
    """The rows of epochs in this order, (stream, step, ...): inputs, labels, and where labels and resets are."""
    count, rows = len(lengths), inputs.shape[1]
    steps = len(order) * -(-count // batch) * rows
    x, y = np.zeros((batch, steps, inputs.shape[-1])), np.zeros((batch, steps, labels.shape[-1]))
    there, reset = np.zeros((batch, steps), bool), np.zeros((batch, steps), bool)
    reset[:, ::rows] = True
    for epoch, sequences in enumerate(order):
        for place, k in enumerate(sequences):
            begin = (epoch * -(-count // batch) + place // batch) * rows
            for t in range(lengths[k]):
                at, is_last = (place % batch, begin + t), t == lengths[k] - 1
                x[at] = inputs[k, t]
                if labels.ndim == 3 and present[k, t]:
                    there[at], y[at] = True, labels[k, t]
                if labels.ndim == 2 and present[k] and is_last:
                    there[at], y[at] = True, labels[k]
    return x, y, there, reset


@pytest.mark.parametrize(
    ("lengths", "rows", "batch", "one_each"),
    [
        (LENGTHS, None, 3, False),
        (LENGTHS, 6, 2, True),
        (LENGTHS, None, 7, True),
        ([1, 1, 1], None, 2, False),
        ([4], None, 1, True),
        ([1], None, 1, True),
        ([150, 200, 3, 7], 201, 3, False),
    ],
    ids=str,
)
def test_minibatches_have_each_sequence_once_an_epoch(lengths, rows, batch, one_each):
    inputs, labels, present = data(lengths, rows, one_each)
    present.flat[0] = True
    task = rc.Sequences(inputs, labels, lengths, batch=batch, present=present)
    count, length = len(lengths), max(lengths)
    assert type(task.epoch) is int
    assert task.epoch == length * -(-count // batch)
    steps = task.epoch * (3 if length > 9 else 60 // length)
    rows = served(task, steps)
    order = orders_in(rows.x, length, count)
    wanted = table(order, batch, inputs[:, :length], labels, present, np.array(lengths))
    for name, each in zip(("x", "label", "present", "reset"), wanted, strict=True):
        np.testing.assert_array_equal(getattr(rows, name), each.swapaxes(0, 1), err_msg=name)
    if count > 3:
        assert len(np.unique(order, axis=0)) > 1, "other epochs have other orders"
        other = orders_in(served(task, steps, seed=1).x, length, count)
        assert not np.array_equal(order, other), "and so have other seeds"
    fixed = served(dataclasses.replace(task, shuffle=False), steps)
    np.testing.assert_array_equal(
        orders_in(fixed.x, length, count), np.tile(np.arange(count), (steps // task.epoch, 1))
    )


def test_a_block_depends_on_nothing_but_its_number():
    """The state after a block is the one before it, so a run may be cut anywhere."""
    inputs, labels, _ = data()
    task = rc.Sequences(inputs, labels, LENGTHS, batch=3)
    run = lambda chunk: rc.train(
        rc.Network(rc.RNN(2, 3), 1, rc.SquaredError()), rc.RTRL(), task, steps=300, seeds=2, window=1, progress=False,
        engine=rc.ScanEngine(chunk=chunk),
    )  # fmt: skip
    whole, cut = run(300), run(7)
    np.testing.assert_array_equal(whole.loss, cut.loss)
    assert not np.array_equal(whole.loss[0], whole.loss[1])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_all_orders_are_equally_likely(count):
    draws = 40_000
    one = lambda key: orders.at(jnp.arange(count, dtype="int32"), orders.shuffle(key, count), count)
    found = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), draws)))
    _, counts = np.unique(found, axis=0, return_counts=True)
    expected = draws / len(counts)
    assert len(counts) == {2: 2, 3: 6, 4: 24}[count]
    assert np.abs(counts - expected).max() < 4.5 * expected**0.5


def test_lists_masks_and_padding_say_the_same():
    inputs, labels, present = data()
    ragged = lambda array: [each[:length] for each, length in zip(array, LENGTHS, strict=True)]
    wanted = rc.Sequences(inputs, labels, LENGTHS, batch=2, present=present)
    masked = np.ma.masked_array(labels, ~present[..., None])
    for task in (
        rc.Sequences(ragged(inputs), ragged(labels), batch=2, present=ragged(present)),
        rc.Sequences(ragged(inputs), ragged(masked), batch=2),
        rc.Sequences(ragged(inputs), np.where(present[..., None], labels, np.nan), batch=2, present=present),
        rc.Sequences(np.ma.masked_invalid(inputs), masked, LENGTHS, batch=2),
        rc.Sequences(np.array([*ragged(inputs)], object), [*labels], batch=2, present=present),
    ):
        jax.tree.map(np.testing.assert_array_equal, task, wanted)
    whole, one_each, _ = data(np.full(4, 3), one_each=True)
    plain = rc.Sequences([*whole], [*one_each])
    jax.tree.map(np.testing.assert_array_equal, plain, rc.Sequences(whole, one_each, [3, 3, 3, 3]))


def run(task, learner, steps, **settings):
    return rc.train(
        rc.Network(rc.LSTM(2, 3), 1, rc.SquaredError()), learner, task, steps=steps, seeds=[4], window=1,
        optimizer=0.01, progress=False, **settings,
    )  # fmt: skip


SMALL = {"T": 3, "r": 2}
LEARNERS = [
    kind(**{name: value for name, value in SMALL.items() if name in {field.name for field in dataclasses.fields(kind)}})
    for kind in rc.LEARNERS.values()
    if not (kind.about.layers or kind.about.sparse)
]
EVERY_TIME = {("uoro", 3), ("e-bptt", 3)}


@pytest.mark.parametrize(
    ("learner", "batch"),
    [
        pytest.param(each, batch, marks=() if (each.about.id, batch) in EVERY_TIME else pytest.mark.slow)
        for each in LEARNERS
        for batch in (1, 3)
    ],
    ids=lambda value: value.about.id if isinstance(value, rc.Learner) else str(value),
)
def test_minibatches_are_learned_as_one_long_table_with_resets(learner, batch):
    inputs, labels, present = data(seed=batch)
    inputs[..., 0] /= 10  # so that units are not saturated
    task = rc.Sequences(inputs, labels, LENGTHS, batch=batch, present=present)
    found, x = run(task, learner, 4 * task.epoch), served(task, 4 * task.epoch, seed=4).x
    first = inputs[:, 0]
    place = lambda row: next((k for k in range(len(first)) if np.array_equal(first[k], row)), -1)
    minibatches = [[place(row) for row in rows] for rows in x[:: inputs.shape[1]]]
    order = [[k for k in np.ravel(each) if k >= 0] for each in np.split(np.array(minibatches), 4)]
    assert all(sorted(each) == list(range(len(LENGTHS))) for each in order)
    x, y, there, reset = table(order, batch, inputs, labels, present, LENGTHS)
    wanted = run(rc.Arrays(x, y, present=there, reset=reset), learner, 4 * task.epoch)
    np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-9)
    for ours, theirs in zip(jax.tree.leaves(found.weights), jax.tree.leaves(wanted.weights), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    if learner.about.id == "rtrl":  # a reset that is missing is seen
        reset[0, inputs.shape[1]] = False
        other = run(rc.Arrays(x, y, present=there, reset=reset), learner, 4 * task.epoch)
        assert not np.allclose(found.loss, other.loss, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("one_each", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_held_out_losses_count_every_label_once(batch, one_each):
    inputs, labels, present = data(one_each=one_each)
    task = rc.Sequences(inputs, labels, LENGTHS, batch=batch, present=present)
    network = rc.Network(rc.GRU(2, 3), 1, rc.SquaredError())
    settings = {"steps": 40, "seeds": 2, "optimizer": 0.01, "progress": False}
    result = rc.train(network, rc.RFLO(), task, evaluate=task, evaluate_every=40, **settings)
    for seed in range(2):
        losses = []
        for k, length in enumerate(LENGTHS):
            z = network.run(result.weights_of(seed), inputs[k, :length])
            wanted = labels[k] if one_each else labels[k, :length]
            errors = np.sum((np.asarray(z)[-1:] if one_each else np.asarray(z)) - wanted, axis=-1) ** 2 / 2
            losses += list(errors[present[k : k + 1] if one_each else present[k, :length]])
        np.testing.assert_allclose(result.evaluated_loss[seed, -1], np.mean(losses), rtol=1e-9)


@pytest.mark.slow
def test_a_task_brings_its_own_streams():
    inputs, labels, _ = data()
    task = rc.Sequences(inputs, labels, LENGTHS, batch=3)
    whole = rc.Arrays(np.nan_to_num(inputs), labels)
    assert (whole.streams, whole.epoch, rc.Add().streams, rc.Add().epoch) == (7, 5, 1, None)
    network = rc.Network(rc.RNN(2, 3), 1, rc.SquaredError())
    for each, streams in ((task, 3), (whole, 7)):
        settings = {"steps": 5, "optimizer": 0.01, "progress": False}
        losses = [
            rc.train(network, rc.RFLO(), each, **settings, **more).loss
            for more in ({}, {"streams": None}, {"streams": streams})
        ]
        for loss in losses[1:]:
            np.testing.assert_array_equal(losses[0], loss)
        swept = rc.sweep(network, rc.RFLO(), each, vary={"optimizer": [0.01]}, steps=5, progress=False)
        np.testing.assert_allclose(swept["loss"].values[0], losses[0], rtol=1e-9)
        with pytest.raises(ValueError, match=r"`streams` is 2, .*: leave `streams` out, or"):
            rc.train(network, rc.RFLO(), each, **settings, streams=2)


@pytest.mark.slow
def test_a_sweep_may_vary_the_size_of_minibatches():
    inputs, labels, _ = data(one_each=True)
    task = rc.Sequences(inputs, labels, LENGTHS)
    network = rc.Network(rc.RNN(2, 3), 1, rc.SquaredError())
    found = rc.sweep(network, rc.RFLO(), task, vary={"task.batch": [1, 3]}, steps=30, window=30, progress=False)
    for batch in (1, 3):
        alone = rc.Sequences(inputs, labels, LENGTHS, batch=batch)
        wanted = rc.train(network, rc.RFLO(), alone, steps=30, window=30, progress=False)
        np.testing.assert_allclose(found["loss"].sel({"task.batch": batch}), wanted.loss, rtol=1e-9)


def test_a_split_has_every_sequence_in_one_of_two_parts():
    inputs, labels, _ = data()
    task = rc.Sequences(inputs, labels, LENGTHS, batch=3)
    rest, held_out = task.split(0.3, key=1)
    assert [(len(each.inputs), each.batch) for each in (rest, held_out)] == [(5, 3), (2, 2)]
    numbers = lambda each: np.rint(np.asarray(each.inputs)[:, 0, 0] / 10).astype(int)
    both = np.concatenate([numbers(rest), numbers(held_out)])
    assert sorted(both) == list(range(7))
    for each in (rest, held_out):
        np.testing.assert_array_equal(each.lengths, LENGTHS[numbers(each)])
        np.testing.assert_array_equal(each.labels[:, 0], labels[numbers(each), 0])
    jax.tree.map(np.testing.assert_array_equal, task.split(0.3, key=1), (rest, held_out))
    assert len({tuple(numbers(task.split(0.3, key=key)[1])) for key in range(5)}) > 1
    assert [len(each.inputs) for each in task.split(0.001)] == [6, 1]


X, Y, ONE = np.zeros((3, 4, 2)), np.zeros((3, 4, 1)), np.zeros((3, 1))
RAGGED = [np.zeros((2, 2)), np.zeros((3, 2)), np.zeros((1, 2))]


def broken(value, at=(1, 2, 0)):
    array = np.zeros((3, 4, 2))
    array[at] = value
    return array


REFUSED = {
    "no sequences": (lambda: rc.Sequences([], []), "give at least one sequence"),
    "no sequences in an array": (lambda: rc.Sequences(X[:0], Y[:0]), "give at least one sequence"),
    "no features": (lambda: rc.Sequences(X[..., :0], ONE), "`inputs` are empty, shape (3, 4, 0)"),
    "no outputs": (lambda: rc.Sequences(X, ONE[:, :0]), "`labels` are empty"),
    "two axes": (lambda: rc.Sequences(X[0], Y[0]), "array[None] for a single sequence"),
    "flat sequences": (lambda: rc.Sequences([np.zeros(3), np.zeros(2)], ONE[:2]), "array[..., None] for a single"),
    "other features": (lambda: rc.Sequences([X[0], X[0, :2, :1]], ONE[:2]), "number 1 (2, 1)"),
    "ragged within": (lambda: rc.Sequences([[[1.0], [1.0, 2.0]]], [[1.0]]), "`inputs[0]` must be one array"),
    "an empty sequence": (lambda: rc.Sequences([X[0], X[0, :0], X[0]], ONE), "`inputs[1]` has no rows"),
    "length 0": (lambda: rc.Sequences(X, Y, [4, 0, 2]), "lie in 1..4, the steps of `inputs`, and `lengths[1]` is 0"),
    "a length beyond": (lambda: rc.Sequences(X, Y, [4, 3, 5]), "`lengths[2]` is 5"),
    "lengths not whole": (lambda: rc.Sequences(X, Y, [4, 2.5, 3]), "use lengths.astype(int)"),
    "count of lengths": (lambda: rc.Sequences(X, Y, [4, 3]), "one for each of 3 sequences, and have shape (2,)"),
    "lengths twice": (lambda: rc.Sequences(RAGGED, ONE, [2, 3, 1]), "leave `lengths` out"),
    "count of labels": (lambda: rc.Sequences(X, ONE[:2]), "shape (3, 4, n_out), or one for each sequence, (3, n_out)"),
    "steps of labels": (lambda: rc.Sequences(X, Y[:, :3]), "and have shape (3, 3, 1)"),
    "rows of one label": (
        lambda: rc.Sequences(RAGGED, [np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((1, 1))]),
        "Sequence 1 has 3 rows of `inputs` and 2 of `labels`",
    ),
    "classes": (lambda: rc.Sequences(X, np.array([0, 2, 1])), "np.eye(k)[labels] for k classes"),
    "a class a step": (lambda: rc.Sequences(X, np.arange(12).reshape(3, 4)), "np.eye(k)[labels] for k classes"),
    "ragged classes": (lambda: rc.Sequences(RAGGED, [[0, 1], [1, 2, 0], [1]]), "[np.eye(k)[each] for each in labels]"),
    "all missing": (lambda: rc.Sequences(X, Y, present=np.zeros((3, 4), bool)), "`labels` are all missing"),
    "missing within": (
        lambda: rc.Sequences(X, Y, [1, 1, 1], present=np.tile(np.arange(4) > 0, (3, 1))),
        "`labels` are all missing",
    ),
    "shape of present": (lambda: rc.Sequences(X, ONE, present=np.ones((3, 4), bool)), "for each row, shape (3,)"),
    "two masks": (
        lambda: rc.Sequences(X, np.ma.masked_equal(Y + np.eye(3, 4)[..., None], 1), present=np.ones((3, 4), bool)),
        "leave one of them out",
    ),
    "a mask in part": (
        lambda: rc.Sequences(X, np.ma.masked_equal(broken(1.0), 1)), "row 2 of sequence 1 is masked in part"
    ),
    "masked inputs": (lambda: rc.Sequences(np.ma.masked_equal(broken(1.0), 1), ONE), "every step needs an input"),
    "nan": (lambda: rc.Sequences(broken(np.nan), ONE), "row 2 of sequence 1, column 0 is nan"),
    "an infinite label": (lambda: rc.Sequences(X, broken(np.inf)[:, 2]), "sequence 1, column 0 is inf"),
    "text": (lambda: rc.Sequences(X.astype(str), ONE), "`inputs` must hold real numbers"),
    "batch": (lambda: rc.Sequences(X, ONE, batch=4), "`batch` is 4, and there are 3 sequences"),
    "no batch": (lambda: rc.Sequences(X, ONE, batch=0), "`batch` of Sequences must be at least 1"),
    "all held out": (lambda: rc.Sequences(X, ONE).split(1.0), "above 0 and below 1, and is 1.0"),
    "one to split": (lambda: rc.Sequences(X[:1], ONE[:1]).split(0.5), "cannot be split"),
    "types": (lambda: trained(rc.Sequences(X.astype("f4"), ONE)), "`inputs` are float32 and the network is float64"),
    "no label yet": (lambda: trained(rc.Sequences(X, ONE), steps=3), "label in its first 3 steps"),
    "no label yet in evaluation": (
        lambda: trained(rc.Sequences(X, ONE), evaluate=rc.Sequences(X, ONE), evaluate_steps=2), "in its first 2 steps"
    ),
    "no distribution": (
        lambda: trained(rc.Sequences(X, np.full((3, 2), 0.7)), rc.SoftmaxCrossEntropy()), "sums to 1.4"
    ),
}  # fmt: skip


def trained(task, loss=None, steps=8, **settings):
    network = rc.Network(rc.RNN(2, 3), task.n_out, loss or rc.SquaredError())
    return rc.train(network, rc.RFLO(), task, steps=steps, progress=False, **settings)


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_one_clear_error(name):
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert message in str(error.value)
    assert len(str(error.value)) < 400


def test_labels_that_are_missing_or_beyond_the_end_need_not_suit_the_loss():
    labels = np.full((3, 4, 2), 0.7)
    labels[0, :2] = labels[1, 1] = 0.5
    present = np.ones((3, 4), bool)
    present[1, 0] = present[2] = False
    trained(rc.Sequences(X, labels, [2, 2, 4], present=present), rc.SoftmaxCrossEntropy())


def test_digits_beyond_those_that_jax_holds_are_refused_whatever_the_padding():
    with jax.enable_x64(False):
        stamps = 1.7e9 + np.arange(12.0).reshape(3, 4, 1)
        with pytest.raises(ValueError, match="subtract its mean first"):
            rc.Sequences(np.where(np.arange(4)[None, :, None] < 2, stamps, 0), np.zeros((3, 1)), [2, 2, 2])
