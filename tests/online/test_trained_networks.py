"""A trained network in a file: what is loaded computes what was saved, whole sequences or row by row."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from flax import nnx

import recurra as rc
from recurra.saved import archive
from small_runs import arrays, regression, series

slow = pytest.mark.slow
KEY = jax.random.key(0)
XS = np.random.default_rng(0).normal(size=(7, 3, 2))


def mlp(n_in=4, n_out=2, width=4):
    return eqx.nn.MLP(n_in, n_out, width, 1, jnp.tanh, dtype=jnp.float64, key=KEY)


def foreign(unitwise):
    """A cell of Equinox, read unit by unit or as a whole."""
    own = eqx.nn.GRUCell(2, 4, dtype=jnp.float64, key=KEY)
    return rc.cell_of(own, carry=jnp.zeros(4), x=2, unitwise=unitwise)


def with_head(head, **settings):
    return lambda: rc.Network(rc.GRU(2, 4), 2, head=head, **settings)


KINDS = {
    "plain": lambda: rc.Network(rc.LSTM(2, 4, dtype="float32"), 2, skip=True, random_feedback=True),
    "a stack": lambda: rc.Network(rc.Stack(rc.RTU(2, 3), rc.GRU(6, 4)), 2, rc.SquaredError()),
    "a head": with_head(mlp()),
    "a head of NNX": with_head(nnx.Linear(4, 2, param_dtype=jnp.float64, rngs=nnx.Rngs(0))),
    "a read cell": lambda: rc.Network(foreign(None), 2),
    "a general cell": lambda: rc.Network(foreign(unitwise=False), 2),
}
if hasattr(rc, "Encoded"):
    KINDS["an encoder"] = lambda: rc.Network(rc.Encoded(mlp(2, 3), rc.GRU(3, 4), x=2), 2)
OWN = [kind for kind in KINDS if kind not in ("plain", "a stack")]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_is_loaded(tmp_path, kind):
    network = KINDS[kind]()
    weights = network.init(jax.random.key(3))
    wanted, several = network.run(weights, XS[:, 0]), network.run(weights, XS)
    rc.save(tmp_path / "network", network, weights)
    if kind in OWN:
        with pytest.raises(
            rc.SavedFileError, match=r"needs a template: .* built in the same way: rc\.load\(path, like="
        ):
            rc.load(tmp_path / "network")
    loaded = rc.load(tmp_path / "network", like=KINDS[kind]() if kind in OWN else None)
    assert type(loaded) is rc.TrainedNetwork
    np.testing.assert_array_equal(loaded.run(XS[:, 0]), wanted)
    np.testing.assert_array_equal(loaded.run(XS), several)
    state, states = loaded.start(), loaded.start(3)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if network.cell.dtype == "float32" else {"rtol": 1e-12, "atol": 1e-14}
    for t, row in enumerate(XS):
        state, output = loaded.step(state, row[0])
        states, outputs = loaded.step(states, row)
        np.testing.assert_allclose(output, wanted[t], **tolerance)
        np.testing.assert_allclose(outputs, several[t], **tolerance)
    np.testing.assert_allclose(loaded.run(XS, states)[0], loaded.step(states, XS[0])[1], **tolerance)
    again = tmp_path / "again"
    rc.save(again, loaded)
    assert again.read_bytes() == (tmp_path / "network").read_bytes()
    rc.load(again, like=loaded)


def test_a_step_is_compiled_once():
    calls = []

    def head(params, u):
        calls.append(1)
        return params["W"] @ u

    network = rc.Network(rc.GRU(2, 4), 2, head=rc.module_of(head, {"W": jnp.ones((2, 4))}, x=4))
    trained = rc.TrainedNetwork(network, network.init(KEY))
    state, _ = trained.step(trained.start(), XS[0, 0])
    known = len(calls)
    for row in XS[:, 0]:
        state, _ = trained.step(state, row)
    other = rc.TrainedNetwork(network, network.init(KEY))
    other.step(other.start(), XS[0, 0])
    assert len(calls) == known


# Results


def test_results_are_saved_with_resets_streams_and_a_head(tmp_path):
    task = arrays(40, sequences=2, reset=np.tile(np.arange(40) % 10 == 0, (2, 1)))
    network = with_head(mlp())()
    result = rc.train(network, rc.RFLO(), task, steps=40, streams=2, seeds=[4, 2], evaluate=task, progress=False)
    for seed, best in ((4, False), (2, False), (2, True)):
        result.save(tmp_path / "network", seed, best)
        loaded = rc.load(tmp_path / "network", like=network)
        np.testing.assert_array_equal(loaded.run(XS), network.run(result.weights_of(seed, best), XS))
    with pytest.raises(ValueError, match=r"`seed` must be one of \(4, 2\), and is None"):
        result.save(tmp_path / "network")
    with pytest.raises(ValueError, match="`seed` must be one of"):
        result.save(tmp_path / "network", seed=3)


def test_a_result_that_is_not_finite_is_not_saved(tmp_path):
    x, y = series(40)
    result = rc.train(regression(), rc.RFLO(), rc.Arrays(x, y), steps=40, optimizer=1e200, progress=False)
    with pytest.raises(ValueError, match="The network of seed 0 is not finite"):
        result.save(tmp_path / "network")
    assert not list(tmp_path.iterdir())


def test_a_result_without_a_network_says_so(tmp_path):
    result = rc.train(regression(), rc.Fixed(), rc.Arrays(*series(8)), steps=8, progress=False)
    object.__setattr__(result, "handover", None)
    with pytest.raises(ValueError, match=r"not made by `train`.*rc|recurra\.save\(path, network, weights\)"):
        result.save(tmp_path / "network")


# What is not a trained network


@pytest.fixture
def without_type_checks():
    jaxtyping.config.update("jaxtyping_disable", True)  # which has errors of its own for arguments
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


NETWORK = KINDS["plain"]()
WEIGHTS = NETWORK.init(KEY)
TRAINED = rc.TrainedNetwork(NETWORK, WEIGHTS)
NAN = jax.tree.map(lambda leaf: leaf * jnp.nan, WEIGHTS)
SEEDS = jax.tree.map(lambda leaf: leaf[None], WEIGHTS)
LARGE = np.arange(1e6).reshape(1000, 1000)

BAD = {
    "no weights": (lambda: rc.save("file", NETWORK), TypeError, "`weights` are missing"),
    "weights alone": (lambda: rc.save("file", WEIGHTS), TypeError, "got a NetworkWeights"),
    "an array": (lambda: rc.save("file", LARGE), TypeError, "got a ndarray"),
    "a list": (lambda: rc.save("file", LARGE.tolist()), TypeError, "got a list"),
    "the wrong way round": (lambda: rc.save(NETWORK, "file"), TypeError, "got a str: 'file'"),
    "weights of a model": (lambda: rc.save("file", TRAINED, WEIGHTS), TypeError, "leave them out"),
    "other weights": (lambda: rc.save("file", NETWORK, regression().init(KEY)), ValueError, "is not of this network"),
    "weights of all seeds": (lambda: rc.save("file", NETWORK, SEEDS), ValueError, r"Result\.weights_of\(seed\)"),
    "nan": (lambda: rc.save("file", NETWORK, NAN), ValueError, "must be finite"),
    "a list as weights": (lambda: rc.save("file", NETWORK, [LARGE]), TypeError, "must be NetworkWeights"),
    "a state of others": (lambda: TRAINED.step(TRAINED.start(2), XS[0, 0]), ValueError, "`state.* must have shape"),
    "no state": (lambda: TRAINED.step((), XS[0, 0]), ValueError, "`state` is not of this network"),
    "another width": (lambda: TRAINED.step(TRAINED.start(), LARGE[0]), ValueError, r"must have shape \(2,\)"),
    "a sequence": (lambda: TRAINED.step(TRAINED.start(), XS), ValueError, r"and has shape \(7, 3, 2\)"),
    "no sequences": (lambda: TRAINED.start(0), ValueError, "`sequences` must be at least 1"),
    "rows of another width": (lambda: TRAINED.run(LARGE), ValueError, "`inputs` must have shape"),
    "no network": (lambda: rc.TrainedNetwork(rc.RNN(2, 4), WEIGHTS), TypeError, "and is a RNN"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_errors_are_short_and_no_file_is_left(tmp_path, monkeypatch, without_type_checks, case):
    monkeypatch.chdir(tmp_path)
    call, kind, words = BAD[case]
    with pytest.raises(kind, match=words) as error:
        call()
    assert len(str(error.value)) < 400
    assert not list(tmp_path.iterdir())


def test_templates_that_do_not_fit(tmp_path):
    """Also such whose arrays have the same names and shapes."""
    path, make = tmp_path / "network", with_head(mlp())
    drawn = rc.GRU(2, 4, w_rec=rc.cells.gaussian)
    rc.save(path, make(), make().init(KEY))
    for like, words in {
        with_head(mlp(), loss=rc.SquaredError()): "`loss` of Network is a SoftmaxCrossEntropy in the file, and a S",
        lambda: rc.Network(drawn, 2, head=mlp()): r"`w_rec` of GRU is recurra.* in the file.*; build `like` as",
        with_head(mlp(width=5)): "whose functions compute something else than those of `like`",
        lambda: rc.Network(rc.GRU(2, 4), 2): "`head` of Network is a Module in the file, and None in `like`",
        lambda: rc.Online(rc.forecaster(n_in=1).step): "a model of class TrainedNetwork, and `like` is a Online",
    }.items():
        with pytest.raises(rc.SavedFileError, match=words):
            rc.load(path, like=like())
    rc.save(path, TRAINED)
    with pytest.raises(rc.SavedFileError, match=r"`cell` of Network is a LSTM .* a GRU in `like`; leave `like` out"):
        rc.load(path, like=make())
    rc.save(path, rc.forecaster(n_in=1))
    with pytest.raises(rc.SavedFileError, match="holds a model of class Online, and `like` is a TrainedNetwork"):
        rc.load(path, like=TRAINED)


def changed(document, path, value):
    if not path:
        return value
    first, *rest = path
    return {**document, first: changed(document[first], rest, value)}


def places(document, path=()):
    for name, part in document.items():
        yield (*path, name)
        if isinstance(part, dict):
            yield from places(part, (*path, name))


WRONG = (None, 10**9, {}, {"part": "RNN", "fields": {}})
MORE = (-1, 3, "x", [], [1], {"a": 1}, True, 1e30)


@pytest.mark.parametrize(
    ("network", "wrong"),
    [(NETWORK, WRONG), *(pytest.param(each, WRONG + MORE, marks=slow) for each in (NETWORK, KINDS["a head"]()))],
    ids=["own", "own, more", "a head"],
)
def test_files_that_lie_are_refused(tmp_path, network, wrong):
    """A file that is wrong in one place gives a network, or a `SavedFileError`, and nothing else."""
    path, like = tmp_path / "bad", None if network is NETWORK else network
    rc.save(path, network, network.init(KEY))
    arrays, document = archive.read(path, "model")
    said = []
    for place in places(document):
        for value in wrong:
            archive.write(path, "model", arrays, changed(document, place, value))
            try:
                assert type(rc.load(path, like)) is rc.TrainedNetwork
            except rc.SavedFileError as error:
                said.append(str(error))
    assert len(said) > 20
    assert max(map(len, said)) < 600
    for name, array in arrays.items():
        others = {each: arrays[each] for each in arrays if each != name}
        for bad in ({}, {name: array[..., None]}, {name: array * np.nan}, {name: array.astype("int8")}):
            archive.write(path, "model", {**others, **bad}, document)
            with pytest.raises(rc.SavedFileError, match="cannot be used"):
                rc.load(path, like)
    archive.write(path, "checkpoint", arrays, document)
    with pytest.raises(rc.SavedFileError, match="holds something else"):
        rc.load(path, like)
    archive.write(path, "model", arrays, document)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(rc.SavedFileError, match="does not match its checksum"):
        rc.load(path, like)
