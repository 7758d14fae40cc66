"""Tasks that tell learners apart: every label is what the inputs before it imply, found out with NumPy alone."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.experiment import Experiment
from recurra.tasks.base import BLOCK, Rows
from recurra.tasks.digits import FILE
from recurra.tasks.pattern import Signal

SHORT = {"cue": 20, "pause": 10, "delay": 40, "decision": 30, "dt": 10}


@eqx.filter_jit
def first_state(task, dtype, key):
    return task.init(key, dtype)


@eqx.filter_jit
def next_block(task, dtype, key, number, state):
    return task.block(state, jax.random.fold_in(key, number), number, dtype)


def stream(task, blocks=6, dtype="float64", seed=0, traced=True):
    """Rows as NumPy has them; what is None stays None. Traced tasks share programs."""
    made, dtype, key = task.traced() if traced else task, jnp.dtype(dtype), jax.random.key(seed)
    state, parts = first_state(made, dtype, jax.random.fold_in(key, 1_000_000)), []
    for number in range(blocks):
        rows, state = next_block(made, dtype, key, jnp.asarray(number, "int32"), state)
        parts.append(rows)
    rows = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    assert (rows.x.shape, rows.label.shape) == ((blocks * BLOCK, task.n_in), (blocks * BLOCK, task.n_out))
    assert rows.x.dtype == rows.label.dtype == dtype
    return rows


def rows_by(rows, expected):
    """Asserts that present labels are the expected ones, and that absent ones are zero."""
    due = np.array([label is not None for label in expected])
    np.testing.assert_array_equal(rows.present, due)
    np.testing.assert_array_equal(rows.label[~due], 0)
    np.testing.assert_allclose(rows.label[due], np.array([label for label in expected if label is not None]), rtol=1e-6)


def near(values, mean, deviation):
    """Asserts that the mean is what it should be, within four standard errors."""
    assert abs(np.mean(values) - mean) < 4 * deviation / np.sqrt(len(values))


# Copy


def copies(x, delay):
    """What the inputs imply: a label or None for each row, and where strings begin with their lengths."""
    symbols = x.shape[1] - 2
    seen, expected, begins = x.argmax(axis=1), [None] * len(x), {}
    t = 0
    while t < len(x):
        start, string = t, []
        while t < len(x) and seen[t] < symbols:
            string.append(seen[t])
            t += 1
        for wanted in [symbols] * delay + [symbols + 1] + [symbols] * len(string):
            assert t >= len(x) or seen[t] == wanted
            t += 1
        begins[start] = len(string)
        for i, symbol in enumerate(string):
            if (due := start + len(string) + delay + 1 + i) < len(x):
                expected[due] = np.eye(symbols)[symbol]
    return expected, begins


COPIES = [
    rc.Copy(5, 3),
    rc.Copy(1, 0, reset=False),
    rc.Copy(7, 2, symbols=4, varied=True),
    rc.Copy(60, 90, symbols=4),  # longer than a block
]


@pytest.mark.parametrize("task", COPIES, ids=str)
def test_strings_are_copied_after_the_marker(task):
    rows = stream(task)
    assert (rows.x.sum(axis=1) == 1).all()
    expected, begins = copies(rows.x, task.delay)
    rows_by(rows, expected)
    whole = list(begins.values())[:-1]
    assert set(whole) == set(range(1, 8)) if task.varied else set(whole) == {task.length}
    if task.reset:
        np.testing.assert_array_equal(np.flatnonzero(rows.reset), list(begins))
    else:
        assert rows.reset is None


def test_a_copy_that_is_late_would_be_noticed():
    rows = stream(COPIES[0])
    late = Rows(rows.x, np.roll(rows.label, 1, axis=0), np.roll(rows.present, 1), rows.reset)
    for wrong in (late, rows._replace(label=late.label), rows._replace(label=rows.label[:, ::-1])):
        with pytest.raises(AssertionError):
            rows_by(wrong, copies(wrong.x, 3)[0])


def test_lengths_and_symbols_are_equally_likely_and_steps_before_tell_nothing():
    """So that whoever knows nothing of the string loses log(symbols)."""
    rows = stream(rc.Copy(3, 1, symbols=3, varied=True), blocks=60)
    lengths = np.array(list(copies(rows.x, 1)[1].values()))
    for length in (1, 2, 3):
        near(lengths == length, 1 / 3, 0.5)
    labels = rows.label[rows.present].argmax(axis=1)
    for symbol in range(3):
        near(labels == symbol, 1 / 3, 0.5)
        near(labels[1:][labels[:-1] == 0] == symbol, 1 / 3, 0.5)
    uniform = np.full(3, 1 / 3)
    assert -(rows.label[rows.present] @ np.log(uniform)).mean() == pytest.approx(np.log(3))


# Adding


def sums(x, length):
    expected = [None] * len(x)
    for last in range(length - 1, len(x), length):
        (first, second) = marked = np.flatnonzero(x[last - length + 1 : last + 1, 1])
        assert first < length // 2 <= second
        expected[last] = x[last - length + 1 + marked, 0].sum(keepdims=True)
    return expected


@pytest.mark.parametrize("length", [2, 7, pytest.param(100, marks=pytest.mark.slow), 300])
def test_the_sum_of_two_marked_numbers(length):
    rows = stream(rc.Adding(length), blocks=10)
    rows_by(rows, sums(rows.x, length))
    np.testing.assert_array_equal(np.flatnonzero(rows.reset), np.arange(0, len(rows.x), length))
    assert set(np.unique(rows.x[:, 1])) <= {0, 1}
    assert ((rows.x[:, 0] >= 0) & (rows.x[:, 0] < 1)).all()


def test_the_answer_1_has_a_squared_error_of_a_sixth_and_marked_numbers_are_like_others():
    rows = stream(rc.Adding(5, reset=False), blocks=80)
    assert rows.reset is None
    near((rows.label[rows.present, 0] - 1) ** 2, 1 / 6, 0.2)
    for mark in (0, 1):
        near(rows.x[rows.x[:, 1] == mark, 0], 1 / 2, 0.3)
        near((rows.x[rows.x[:, 1] == mark, 0] - 1 / 2) ** 2, 1 / 12, 0.1)
    places = np.flatnonzero(rows.x[: len(rows.x) // 5 * 5, 1]) % 5
    for place, often in enumerate([1 / 4, 1 / 4, 1 / 6, 1 / 6, 1 / 6]):
        near(places == place, often, 0.5)


def test_a_sum_of_other_numbers_would_be_noticed():
    rows = stream(rc.Adding(7))
    shifted = np.column_stack([np.roll(rows.x[:, 0], 1), rows.x[:, 1]])
    with pytest.raises(AssertionError):
        rows_by(rows._replace(x=shifted), sums(shifted, 7))


# Parity


def parities(x, bits, delay):
    b = np.concatenate([np.zeros(bits + delay, int), x[:, 0].astype(int)])  # before the first all are 0
    odd = np.array([b[t + 1 : t + 1 + bits].sum() % 2 for t in range(len(x))])
    return np.column_stack([odd, 1 - odd])


@pytest.mark.parametrize(("bits", "delay"), [(1, 0), (2, 3), (5, 0), (3, 90), (150, 10)])
def test_parity_of_the_latest_bits_some_steps_late(bits, delay):
    rows = stream(rc.Parity(bits, delay))
    assert rows.present is rows.reset is None
    np.testing.assert_array_equal(rows.x.sum(axis=1), 1)
    np.testing.assert_array_equal(rows.label, parities(rows.x, bits, delay))
    for other in ((bits + 1, delay), (bits, delay + 1)):
        assert not np.array_equal(rows.label, parities(rows.x, *other))


def test_fewer_than_all_bits_tell_nothing_about_a_parity():
    rows = stream(rc.Parity(3, 1), blocks=40)
    bit, odd = rows.x[:, 0], rows.label[:, 0]
    near(bit, 0.5, 0.5)
    for past in (0, 1, 2, 3):
        known = bit[3 - past : len(bit) - past]
        near(odd[3:][known == 1], 0.5, 0.5)
    both = bit[2:-1] * bit[1:-2] == 1  # two of the three
    near(odd[3:][both], 0.5, 0.5)


# Pattern


def test_a_pattern_is_four_sinusoids_out_of_spikes_that_repeat():
    task = rc.Pattern(period=100, inputs=6, outputs=3, rate=30.0)
    rows = stream(task)
    np.testing.assert_array_equal(rows.x[100:], rows.x[:-100])
    np.testing.assert_array_equal(rows.label[100:], rows.label[:-100])
    assert rows.present is None
    np.testing.assert_array_equal(np.flatnonzero(rows.reset), np.arange(0, len(rows.x), 100))
    assert set(np.unique(rows.x)) == {0, 1}
    near(rows.x[:100].ravel(), 0.3, 0.5)
    assert len(np.unique(rows.x[:100], axis=0)) > 30
    one = rows.label[:100]
    np.testing.assert_allclose(np.abs(one).max(axis=0), 1, rtol=1e-6)
    size = np.abs(np.fft.rfft(one, axis=0))
    cycles = [1, 2, 3, 5]
    np.testing.assert_allclose(np.delete(size, cycles, axis=0), 0, atol=1e-4)
    assert (size[cycles].max(axis=0) < 4 * size[cycles].min(axis=0)).all()  # all amplitudes are from [0.5, 2]
    other = stream(task, seed=1)
    assert not np.array_equal(other.x, rows.x)
    assert not np.allclose(other.label, rows.label, atol=0.1)


def test_streams_start_at_other_places_of_one_pattern():
    for period in (11, 12, 30):
        task = rc.Pattern(period=period, inputs=2, rate=5.0)
        zero = jnp.zeros((), "int32")
        first = Signal(jnp.zeros((1, 4)), jnp.zeros((1, 4)), zero.astype("uint32"), zero)
        begins = jax.vmap(task.in_stream, (None, 0))(first, jnp.arange(period, dtype="int32")).t
        assert sorted(begins.tolist()) == list(range(period))
    rows = streams(rc.Pattern(period=20, inputs=5, rate=5.0))
    for stream, shift in ((1, 13), (2, 6)):
        np.testing.assert_array_equal(rows.x[:100, stream], rows.x[shift : shift + 100, 0])
        np.testing.assert_array_equal(rows.label[:100, stream], rows.label[shift : shift + 100, 0])
        assert not np.array_equal(rows.x[:100, stream], rows.x[:100, 0])


# Evidence


def decisions(x, task):
    """What the inputs imply if every population spikes at every step it may, and there is no noise."""
    per = lambda name: getattr(task, name) // task.dt
    interval = per("pause") + per("cue")
    length = task.cues * interval + per("delay") + per("decision")
    expected, cues = [None] * len(x), []
    for start in range(0, len(x), length):
        part = x[start : start + length].reshape(-1, 4, task.neurons)
        assert (part == part[..., :1]).all()
        left, right, recall, noise = part[..., 0].T
        assert not noise.any()
        seen = left + right
        wanted = ([0] * per("pause") + [1] * per("cue")) * task.cues + [0] * (per("delay") + per("decision"))
        np.testing.assert_array_equal(seen, wanted[: len(part)])
        np.testing.assert_array_equal(recall, ([0] * (length - per("decision")) + [1] * per("decision"))[: len(part)])
        if len(part) == length:
            sides = right[: task.cues * interval].reshape(task.cues, interval)[:, -1]
            cues.append(sides)
            label = [0.0, 1.0] if sides.mean() > 0.5 else [1.0, 0.0]
            expected[start + length - per("decision") : start + length] = [label] * per("decision")
    return expected, length, np.array(cues)


def complete(rows, length):
    whole = len(rows.x) // length * length
    return jax.tree.map(lambda leaf: leaf[:whole], rows)


def test_the_side_with_more_cues_is_the_label():
    task = rc.Evidence(**SHORT, rate=100.0, noise=0.0, neurons=2)
    rows = stream(task, blocks=80)
    expected, length, cues = decisions(rows.x, task)
    assert length == task.steps == 28
    rows_by(complete(rows, length), expected[: len(rows.x) // length * length])
    np.testing.assert_array_equal(np.flatnonzero(rows.reset), np.arange(0, len(rows.x), length))
    # Both sides are as likely, whatever the last cue alone may say, and two cues of an episode go together.
    labels = rows.label[rows.present][::3, 1]
    near(labels, 0.5, 0.5)
    near(cues[:, 0], 0.5, 0.5)
    near(cues[:, 0] == cues[:, 6], 0.7**2 + 0.3**2, 0.5)
    swapped = rows._replace(label=rows.label[:, ::-1])
    with pytest.raises(AssertionError):
        rows_by(complete(swapped, length), expected[: len(rows.x) // length * length])


def test_evidence_is_as_published():
    """Episodes of 2250 ms, 40 neurons, 40 Hz, and noise of 10 Hz."""
    task = rc.Evidence()
    assert (task.n_in, task.n_out, task.steps, rc.Evidence(dt=10).steps) == (40, 2, 2250, 225)
    rows = stream(task, blocks=36)  # two episodes
    assert len(rows.x) == 36 * BLOCK > 2 * 2250
    np.testing.assert_array_equal(np.flatnonzero(rows.reset), [0, 2250, 4500])
    np.testing.assert_array_equal(np.flatnonzero(rows.present), [*range(2100, 2250), *range(4350, 4500)])
    left, right, recall, noise = rows.x[:2250].reshape(2250, 4, 10).transpose(1, 0, 2)
    near(noise.ravel(), 0.01, 0.1)
    near(recall[2100:].ravel(), 0.04, 0.2)
    assert not recall[:2100].any()
    cues = (left + right)[:1050].reshape(7, 150, 10)
    assert not cues[:, :50].any()
    near(cues[:, 50:].ravel(), 0.04, 0.2)
    assert not (left + right)[1050:].any()
    on_right = right[:1050].reshape(7, -1).any(axis=1)
    assert not (on_right & left[:1050].reshape(7, -1).any(axis=1)).any()  # a cue is on one side
    np.testing.assert_array_equal(rows.label[2249], [on_right.sum() < 4, on_right.sum() > 3])


# Digits


IMAGES = np.random.default_rng(0).integers((0,) * 65, (17,) * 64 + (10,), (400, 65))


@pytest.fixture
def scikit_learn(tmp_path, monkeypatch):
    """A package with a file of images, which cannot be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)
    path = tmp_path / "sklearn" / FILE
    path.parent.mkdir(parents=True)
    (tmp_path / "sklearn" / "__init__.py").write_text("raise ImportError('this must not be imported')")
    np.savetxt(path, IMAGES, fmt="%g", delimiter=",")
    return path


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("test", [False, True])
def test_digits_are_shown_in_parts_and_named_at_the_end(scikit_learn, rows, test):
    task = rc.Digits(rows=rows, test=test)
    steps, part = (8 if rows else 64), (IMAGES[-360:] if test else IMAGES[:-360])
    assert (task.n_in, task.n_out) == (64 // steps, 10)
    seen = stream(task)
    assert len(seen.x) % steps == 0
    expected = [None] * len(seen.x)
    met = set()
    for start in range(0, len(seen.x), steps):
        image = 16 * seen.x[start : start + steps].ravel()
        (k,) = np.flatnonzero((part[:, :-1] == image).all(axis=1))
        expected[start + steps - 1] = np.eye(10)[part[k, -1]]
        met.add(k)
    rows_by(seen, expected)
    assert len(met) > 6
    np.testing.assert_array_equal(np.flatnonzero(seen.reset), np.arange(0, len(seen.x), steps))


def test_without_scikit_learn_digits_say_what_to_install(monkeypatch):
    monkeypatch.setattr("recurra.tasks.digits.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"Digits needs a file of scikit-learn, .* pip install 'recurra\[digits\]'"):
        rc.Digits()


@pytest.mark.parametrize("content", ["something else", "1,2,3\n", ("0.5," * 64 + "1\n") * 400])
def test_a_file_that_changed_is_said_to_be_so(scikit_learn, content):
    scikit_learn.write_bytes(content.encode())
    with pytest.raises(ImportError, match="this version of scikit-learn does not have as it was"):
        rc.Digits()


# All of them


TASKS = {
    "Copy": lambda: rc.Copy(3, 2, varied=True),
    "Adding": lambda: rc.Adding(9),
    "Parity": lambda: rc.Parity(3, 2),
    "Pattern": lambda: rc.Pattern(30, 4, 2, rate=10.0),
    "Evidence": lambda: rc.Evidence(cues=3, **SHORT, neurons=2),
    "Digits": lambda: rc.Digits(rows=True),
}
REGRESSIONS = ("Adding", "Pattern")


@pytest.fixture(params=TASKS)
def task(request, scikit_learn):
    return TASKS[request.param]()


def often(*names):
    """All of them; those that are not named here are slow."""
    marks = lambda name: () if name in names else pytest.mark.slow
    return pytest.mark.parametrize("task", [pytest.param(name, marks=marks(name)) for name in TASKS], indirect=True)


def network_for(task, dtype="float64"):
    loss = rc.SquaredError() if type(task).__name__ in REGRESSIONS else rc.SoftmaxCrossEntropy()
    return rc.Network(rc.RNN(task.n_in, 3, dtype=dtype), task.n_out, loss)


def streams(task, count=3):
    """The first block of several streams, (step, stream, feature), as an engine draws it."""
    dtype, zero = jnp.dtype("float64"), jnp.zeros((), "int32")
    step = Experiment.of(network_for(task), {"applied": rc.Fixed()}, 0.0, task, count).step

    @jax.jit
    def draw(key):
        state = jax.vmap(task.in_stream, (None, 0))(task.init(key, dtype), jnp.arange(count, dtype="int32"))
        return step.each_stream(lambda key, state: task.block(state, key, zero, dtype)[0], key, state)

    return jax.tree.map(lambda leaf: np.asarray(leaf).swapaxes(0, 1), draw(jax.random.key(0)))


@pytest.mark.parametrize(
    ("dtype", "rounding"), [("float32", 1e-6), pytest.param("bfloat16", 0.02, marks=pytest.mark.slow)]
)
@often("Copy", "Pattern", "Digits")
def test_precisions_see_the_same_rows(task, dtype, rounding):
    other, wide = stream(task, 3, dtype), stream(task, 3)
    for name in ("x", "label"):
        np.testing.assert_allclose(getattr(other, name).astype(float), getattr(wide, name), atol=rounding)
    for name in ("present", "reset"):
        np.testing.assert_array_equal(getattr(other, name), getattr(wide, name))


@often("Parity", "Digits")
def test_streams_differ_from_the_start(task):
    rows = streams(task)
    begin = rows.x[:60]
    assert not np.array_equal(begin[:, 0], begin[:, 1])
    assert not np.array_equal(begin[:, 1], begin[:, 2])


@often("Copy", "Parity", "Pattern", "Digits")
def test_numbers_may_be_arrays_of_the_program(task):
    jax.tree.map(np.testing.assert_array_equal, stream(task, 3), stream(task, 3, traced=False))


@pytest.mark.parametrize(
    "tasks",
    [
        (rc.Copy(4, 0), rc.Copy(4, 5), rc.Copy(4, 2)),
        (rc.Adding(100), rc.Adding(70)),
        (rc.Parity(2, 3), rc.Parity(5, 8)),
        (rc.Evidence(dt=10), rc.Evidence(dt=5, delay=50)),
    ],
    ids=lambda tasks: type(tasks[0]).__name__,
)
def test_another_length_compiles_nothing_anew(tasks):
    fixed = [eqx.partition(task.traced(), eqx.is_array)[1] for task in tasks]
    assert all(eqx.tree_equal(each, fixed[0]) for each in fixed)


@pytest.mark.slow
def test_a_run_cut_in_the_middle_of_an_episode_sees_the_same(task):
    run = lambda chunk, seed: rc.train(
        network_for(task), rc.Fixed(), task, steps=200, seeds=[seed], streams=2, window=10, optimizer=0.05,
        engine=rc.ScanEngine(chunk=chunk), progress=False,
    )  # fmt: skip
    whole, cut, other = run(200, 0), run(7, 0), run(200, 1)
    assert np.isfinite(whole.loss).any()
    np.testing.assert_array_equal(whole.loss, cut.loss)
    jax.tree.map(np.testing.assert_array_equal, whole.weights, cut.weights)
    assert not np.array_equal(whole.loss, other.loss)


def test_a_loss_that_does_not_fit_is_refused(task):
    class Picky(rc.Loss):
        def __call__(self, z, label):
            return jnp.sum(z), z

        def check_labels(self, labels):
            raise ValueError("never")

    name = type(task).__name__
    check = lambda loss: task.check(loss, 10, 1, jnp.dtype("float64"))
    use = "SquaredError" if name in REGRESSIONS else "SoftmaxCrossEntropy"
    with pytest.raises(ValueError, match=rf"Labels of {name} are .*, and the loss is Picky: use .*recurra\.{use}\(\)"):
        check(Picky())
    check(rc.SquaredError())
    if name in REGRESSIONS:
        with pytest.raises(ValueError, match=r"the loss is SigmoidCrossEntropy: use .*SquaredError"):
            check(rc.SigmoidCrossEntropy())
    else:
        check(rc.SoftmaxCrossEntropy())
        check(rc.SigmoidCrossEntropy())


WRONG = [
    (lambda: rc.Copy(0), "`length` of Copy must be at least 1"),
    (lambda: rc.Copy(3, -1), "`delay` of Copy must be at least 0"),
    (lambda: rc.Copy(3, symbols=1), "`symbols` of Copy must be at least 2"),
    (lambda: rc.Copy(3, 2**20), r"An episode of Copy may have at most 1,048,576 steps, and has 1,048,583\."),
    (lambda: rc.Adding(1), "`length` of Adding must be at least 2"),
    (lambda: rc.Parity(0), "`bits` of Parity must be at least 1"),
    (lambda: rc.Parity(2, 2**20), "`bits` plus `delay` of Parity must be at most 1,048,576, and is 1,048,578"),
    (lambda: rc.Pattern(10), "`period` of Pattern must be at least 11"),
    (lambda: rc.Pattern(100, rate=101.0), "`rate` of Pattern must be at least 0.0 and at most 100.0, and is 101"),
    (lambda: rc.Evidence(cues=4), "`cues` of Evidence must be odd, so that one side has more, and is 4"),
    (lambda: rc.Evidence(dt=40), "`pause` of Evidence must be whole steps of `dt`, and is 50 ms with steps of 40 ms"),
    (lambda: rc.Evidence(rate=1001.0), "`rate` of Evidence must be at least 0.0 and at most 1000.0"),
    (lambda: rc.Evidence(bias=1.5), "`bias` of Evidence must be at least 0.0 and at most 1.0"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_numbers_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
