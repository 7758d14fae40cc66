"""What is given to a step has the shapes that it needs: nothing is broadcast or cut to size without a word."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import recurra as rc
from recurra.step import DelayedStep

KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def _as_a_user():
    jaxtyping.config.update("jaxtyping_disable", True)  # which has an error of its own for arguments
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def make(streams=1, loss=None, learner=None, cell=rc.RNN):
    network = rc.Network(cell(2, 4, dtype="float32"), 3, loss or rc.SquaredError())
    return rc.LearningStep(network, learner or rc.RFLO(), 0.1, streams=streams)


def learn(step, target, present=None):
    x = jnp.ones((2,) if step.streams == 1 else (step.streams, 2), "float32")
    return step.learn(step.observe(step.init(KEY), x)[0], target, present)[1]


def observe(step, x=None, noise=None, reset=None):
    return step.observe(step.init(KEY), jnp.ones(2, "float32") if x is None else x, noise, reset)[1]


ONES = lambda *shape: jnp.ones(shape, "float32")


@pytest.mark.parametrize("loss", [rc.SquaredError(), rc.SoftmaxCrossEntropy(), rc.SigmoidCrossEntropy()])
@pytest.mark.parametrize("label", [ONES(), 1, 2.0, ONES(1), ONES(3, 1), ONES(1, 3), np.int64(2)])
def test_a_label_has_a_number_for_each_output(loss, label):
    with pytest.raises(ValueError, match=r"The label must be an array of shape \(3,\).* jax.nn.one_hot\(k, 3\)"):
        learn(make(loss=loss), label)


@pytest.mark.parametrize("label", [ONES(3), ONES(3, 1), ONES(1, 3), ONES(), ONES(3, 3, 1)])
def test_a_label_has_a_row_for_each_stream(label):
    with pytest.raises(ValueError, match=r"of shape \(3, 3\), a number for each output in each of 3 streams, and has"):
        learn(make(streams=3), label)


def test_errors_credit_and_flags():
    step = make()
    for target, what in (
        (rc.GivenError(ONES(1)), r"`error` of GivenError must be an array of shape \(3,\)"),
        (rc.GivenCredit((ONES(1),)), r"`credit\[0\]` of GivenCredit must be an array of shape \(4,\)"),
    ):
        with pytest.raises(ValueError, match=what):
            learn(step, target)
    for credit in (ONES(4), (ONES(4), ONES(4))):
        with pytest.raises(TypeError, match="`credit` of GivenCredit must be a tuple with an array for each state"):
            learn(step, rc.GivenCredit(credit))
    with pytest.raises(TypeError, match=r"The label must be an array of shape \(3,\).*, and is \[1, 0, 0\]"):
        learn(step, [1, 0, 0])
    with pytest.raises(ValueError, match=r"`present` must be an array of shape \(\), one flag, and has shape \(1,\)"):
        learn(step, ONES(3), jnp.ones(1, bool))
    with pytest.raises(ValueError, match=r"`present` must be an array of shape \(2,\), one flag in each of 2 streams"):
        learn(make(streams=2), ONES(2, 3), True)
    with pytest.raises(ValueError, match=r"`reset` must be an array of shape \(\)"):
        observe(step, reset=jnp.ones(1, bool))


def test_what_fits_is_taken():
    """NumPy's arrays, whole numbers, and None for credit of zero."""
    step, lstm = make(), make(cell=rc.LSTM)
    wanted = learn(step, ONES(3)).loss
    for label in (np.ones(3, "float32"), np.ones(3, "float32")[:]):
        assert learn(step, label).loss == wanted
    with jax.numpy_dtype_promotion("standard"):
        assert learn(step, jnp.ones(3, "int32")).loss == wanted
    found = [learn(lstm, rc.GivenCredit((ONES(4), c))).gradients["applied"] for c in (None, 0 * ONES(4))]
    assert all(map(np.array_equal, *map(jax.tree.leaves, found)))
    learn(make(streams=2), ONES(2, 3), np.array([True, False]))


@pytest.mark.parametrize("x", [ONES(3), ONES(1, 2), ONES(2, 2), ONES(), 1.0])
def test_an_input_has_a_number_for_each_of_the_networks(x):
    late = DelayedStep(make(), rows=2)
    with pytest.raises(ValueError, match=r"`x` must be an array of shape \(2,\), a number for each input"):
        observe(make(), x)
    with pytest.raises(ValueError, match=r"`x` must be an array of shape \(2,\), a number for each input"):
        late.observe(late.start(late.step.init(KEY)), x)


def online(streams=1, **kwargs):
    step = rc.OnlineStep(make(streams), **kwargs)
    return step, step.init(KEY)


@pytest.mark.parametrize("kwargs", [{}, {"scale_inputs": False, "scale_target": False, "difference": True}])
@pytest.mark.parametrize("streams", [1, 3])
def test_an_online_step_takes_rows_of_its_own_shape(streams, kwargs):
    step, state = online(streams, **kwargs)
    lines = () if streams == 1 else (streams,)
    x, y, present = ONES(*lines, 2), ONES(*lines, 3), np.ones(lines, bool)
    after = step.observe(state, x)[0]
    for flags in (present, True) if streams == 1 else (present,):
        step.told(step.learn(after, y, flags)[0], y, flags)
    for bad in (1.0, ONES(), ONES(1), ONES(3), ONES(1, 2), ONES(*lines, 1)):
        with pytest.raises(ValueError, match=r"`x` must be an array of shape \((3, )?2,?\), a number for each input"):
            step.observe(state, bad)
    for take in (step.learn, step.told):
        for bad in (1.0, ONES(), ONES(1), ONES(2), ONES(1, 3), ONES(*lines, 1)):
            with pytest.raises(ValueError, match=r"The label must be an array of shape \((3, )?3,?\)"):
                take(after, bad, present)
        with pytest.raises(ValueError, match="`present` must be an array of shape"):
            take(after, y, np.ones(2, bool))
    with pytest.raises(TypeError, match=r"The label must be an array .*, and is GivenError"):
        step.told(after, rc.GivenError(y), present)


def test_an_online_step_with_lags_takes_a_row_without_them():
    step, state = online(lags=2, lagged=1)
    step.observe(state, ONES(1))
    with pytest.raises(ValueError, match=r"`x` must be an array of shape \(1,\)"):
        step.observe(state, ONES(2))


@pytest.mark.parametrize("key", [jnp.array(5), jax.random.split(KEY, 3), jnp.ones(2), jnp.ones(3, "uint32")])
def test_a_key_is_one_key(key):
    network = make().network
    train = lambda: rc.train(network, rc.RFLO(), rc.Arrays(np.ones((4, 2)), np.ones((4, 3))), steps=4, key=key)
    for start in (lambda: rc.Online(online()[0], key=key), train):
        with pytest.raises(TypeError, match=r"`key` must be a number or one key such as jax\.random\.key\(0\), and is"):
            start()


def test_numbers_are_real_and_flags_are_true_or_false():
    step, complex_label = make(), jnp.ones(3, "complex64")
    for target, what in (
        (complex_label, "The label"),
        (np.array(["a", "b", "c"]), "The label"),
        (rc.GivenError(complex_label), "`error` of GivenError"),
        (rc.GivenCredit((jnp.ones(4, "complex64"),)), r"`credit\[0\]` of GivenCredit"),
    ):
        with pytest.raises(TypeError, match=f"{what} must hold real numbers, and holds "):
            learn(step, target)
    with pytest.raises(TypeError, match="`x` must hold real numbers, and holds complex64"):
        observe(step, jnp.ones(2, "complex64"))
    late, (stream, state) = DelayedStep(step), online()
    for flag in (0.3, 2, 1, np.int64(1), ONES()):
        with pytest.raises(TypeError, match="`present` must hold True or False, and holds "):
            learn(step, ONES(3), flag)
        with pytest.raises(TypeError, match="`reset` must hold True or False, and holds "):
            observe(step, reset=flag)
        with pytest.raises(TypeError, match="`reset` must hold True or False, and holds "):
            late.observe(late.start(step.init(KEY)), ONES(2), flag)
        with pytest.raises(TypeError, match="`present` must hold True or False, and holds "):
            stream.learn(stream.observe(state, ONES(2))[0], ONES(3), flag)
    sequences, first = online(resets=True, lags=2, lagged=1, horizon=2)
    for flag in (True, np.bool(False), np.array(True), jnp.array(False)):
        learn(step, ONES(3), flag)
        sequences.learn(sequences.observe(first, ONES(1), flag)[0], ONES(3), flag, flag)
    for take in (
        lambda flag: sequences.observe(first, ONES(1), flag),
        lambda flag: sequences.learn(first, ONES(3), True, flag),
    ):
        with pytest.raises(TypeError, match="`reset` must hold True or False, and holds "):
            take(0.3)
        with pytest.raises(ValueError, match=r"`reset` must be an array of shape \(\), one flag"):
            take(np.ones(1, bool))


def test_noise_is_one_row():
    step, without = make(learner=rc.UORO()), make()
    rows = step.noise(KEY, 4)
    observe(step, noise=jax.tree.map(lambda rows: rows[0], rows))
    with pytest.raises(ValueError, match=r"`noise` must be one row.* must be \{'applied': \(\(4,\),\)\}, and are \{"):
        observe(step, noise=rows)
    for noise in (rows, {"applied": "anything"}, {}):
        with pytest.raises(ValueError, match=r"None for a learner that needs none.* must be \{'applied': None\}"):
            observe(without, noise=noise)
    grad = rc.OnlineGrad(rc.RNN(2, 4, dtype="float32"), rc.UORO())
    weights = grad.cell.init_weights(KEY)
    state = grad.init(weights, KEY)
    rows = grad.noise(KEY, 4)
    grad.observe(weights, state, ONES(2), noise=jax.tree.map(lambda rows: rows[0], rows))
    with pytest.raises(ValueError, match="`noise` must be one row"):
        grad.observe(weights, state, ONES(2), noise=rows)


def test_a_step_starts_from_weights_of_its_network():
    step = make()
    online = rc.OnlineStep(step)
    other, gru = (make(cell=cell).network.init(KEY) for cell in (lambda *_, dtype: rc.RNN(2, 5, dtype=dtype), rc.GRU))
    for weights, what in ((other, r"`weights.cell.w.rec` must have shape \(4, 4\)"), (gru, "is not of this network")):
        with pytest.raises(ValueError, match=what):
            step.start_from(weights, KEY)
        with pytest.raises(ValueError, match=what):
            online.init(KEY, weights)
        with pytest.raises(ValueError, match=what):
            rc.Online(online, weights=weights)
    nan = jax.tree.map(lambda leaf: leaf * jnp.nan, step.network.init(KEY))
    for make_one in (lambda: rc.Online(online, weights=nan), lambda: step.start_from(nan, KEY)):
        with pytest.raises(ValueError, match=r"`weights.cell.w.rec` must be finite"):
            make_one()
