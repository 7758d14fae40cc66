"""What makes no sense is refused before anything runs: in one clear line that says what was wrong and what to do."""

import json
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from small_runs import arrays, train


def bad(value):
    labels = np.full((10, 2), 0.5)
    labels[3, 1] = value
    return labels


BAD_INPUT = [
    ("alpha", lambda: rc.RNN(2, 4, alpha=0.0), "alpha"),
    ("alpha above one", lambda: rc.RNN(2, 4, alpha=1.5), "1.5"),
    ("no units", lambda: rc.RNN(2, 0), "`n` of RNN"),
    ("T", lambda: rc.FutureBPTT(T=0), "`T` of FutureBPTT"),
    ("T of E-BPTT", lambda: rc.EfficientBPTT(T=-1), "-1"),
    ("r", lambda: rc.ROK(r=0), "`r` of ROK"),
    ("r not whole", lambda: rc.ROK(r=2.5), "2.5"),
    ("integer dtype", lambda: rc.RNN(2, 4, dtype="int32"), "int32"),
    ("infinite rate", lambda: rc.KeRNL(learning_rate=float("inf")), "inf"),
    ("no seeds", lambda: train(seeds=0), "`seeds` must be at least 1"),
    ("empty seeds", lambda: train(seeds=[]), "empty"),
    ("same seed twice", lambda: train(seeds=[1, 1]), "different"),
    ("no steps", lambda: train(steps=0), "`steps` must be at least 1"),
    ("window", lambda: train(window=0), "`window`"),
    ("nan rate", lambda: train(optimizer=float("nan")), "nan"),
    ("inputs", lambda: train(net=rc.Network(rc.RNN(3, 4), 2)), "3 inputs and the task 2"),
    ("outputs", lambda: train(net=rc.Network(rc.RNN(2, 4), 3)), "3 outputs and the task 2"),
    ("one axis", lambda: rc.Arrays(np.zeros(10), np.zeros((10, 2))), "two axes"),
    ("rows", lambda: rc.Arrays(np.zeros((10, 2)), np.zeros((9, 2))), "(10, 2) and (9, 2)"),
    ("no columns", lambda: rc.Arrays(np.zeros((10, 0)), np.zeros((10, 1))), "empty"),
    ("flags of another length", lambda: rc.Arrays(bad(0.5), bad(0.5), present=np.ones(9, bool)), "shape (9,)"),
    ("numbers as flags", lambda: rc.Arrays(bad(0.5), bad(0.5), reset=np.zeros(10)), "true or false for each row"),
    ("two masks", lambda: rc.Arrays(bad(0.5), np.ma.masked_less(bad(-1.0), 0), present=np.ones(10, bool)), "leave one"),
    ("softmax of one", lambda: rc.Network(rc.RNN(2, 4), 1), "SigmoidCrossEntropy"),
    ("rank above the full one", lambda: train(rc.ROK(r=500)), "at most 7"),
    ("long lag", lambda: rc.Add(t1=2**31), "`t1` times `stretch`"),
    ("long stretch", lambda: rc.Add(stretch=2**30), "`t2` times `stretch`"),
    ("plateau", lambda: train(optimizer=optax.contrib.reduce_on_plateau()), "'value'"),
    ("inside jit", lambda: jax.jit(train)(), "cannot be called inside jit"),
    ("inside vmap", lambda: jax.vmap(lambda rate: train(optimizer=rate).loss)(jnp.ones(3)), "inside jit, vmap"),
    ("inside grad", lambda: jax.grad(lambda rate: train(optimizer=rate).loss.sum())(1.0), "inside jit, vmap or grad"),
    ("too many seeds", lambda: train(seeds=2**33), "2³²"),
    ("many steps", lambda: train(steps=2**31), "below 2³¹"),
    ("record_every", lambda: train(record_every=0), "`record_every` must be at least 1"),
    ("checkpoint_every", lambda: train(checkpoint="a", checkpoint_every=-1.0), "`checkpoint_every`"),
    ("no folder", lambda: train(checkpoint="/no/such/folder/run.safetensors"), "create it first"),
    ("phi of NumPy", lambda: rc.RNN(2, 4, phi=np.tanh), "jax.numpy.tanh"),
    ("phi that mixes", lambda: rc.RNN(2, 4, phi=jax.nn.softmax), "mixes units"),
    ("phi that sorts", lambda: rc.RNN(2, 4, phi=jnp.sort), "mixes units"),
    ("phi for going backwards", lambda: rc.RNN(2, 4, phi=spike), "jax.custom_jvp"),
    ("shape of w_rec", lambda: rc.RNN(2, 4, w_rec=lambda key, n, dtype: jnp.zeros((n, 5), dtype)), "shape (4, 4)"),
    ("arity of w_rec", lambda: rc.GRU(2, 4, w_rec=lambda key, n: jnp.zeros((n, n))), "`w_rec` of GRU is called with"),
    ("shape of nu", lambda: rc.UORO(nu=lambda key, shape, dtype: jnp.zeros(3, dtype)), "`nu` of UORO must return"),
    ("arity of nu", lambda: rc.KFRTRL(nu=lambda key, shape: jnp.zeros(shape)), "`nu` of KFRTRL is called with"),
    (
        "cell as make",
        lambda: rc.cell_of(GRU_CELL, carry=jnp.zeros(4), x=2, init=GRU_CELL, unitwise=False),
        "`init` of GRUCell must draw parameters from a key",
    ),
    ("chunk", lambda: rc.ScanEngine(chunk=0), "`chunk` of ScanEngine must be at least 1"),
    ("group", lambda: rc.ScanEngine(group=0), "`group` of ScanEngine must be at least 1"),
    ("a probe that trains", lambda: probed({"applied": rc.RFLO()}), "A probe cannot be called 'applied'"),
    ("nan input", lambda: rc.Arrays(bad(np.nan), bad(0.5)), "row 3, column 1 is nan"),
    ("infinite label", lambda: rc.Arrays(bad(0.5), bad(np.inf)), "`labels` must be finite"),
    ("text", lambda: rc.Arrays(np.array([["a", "b"]]), np.zeros((1, 2))), "must hold real numbers"),
    ("no distribution", lambda: train(task=rc.Arrays(bad(0.5), bad(0.7)), steps=5), "sums to 1.2"),
    ("negative label", lambda: train(task=rc.Arrays(bad(0.5), bad(-0.1)), steps=5), "[0, 1]"),
    ("rows run out", lambda: train(task=arrays(30), steps=31), "repeat=True"),
    ("float32 rows", lambda: train(task=rc.Arrays(bad(0.5).astype("f4"), bad(0.5).astype("f4")), steps=5), "float32"),
    ("probe name", lambda: train(probes={"applied": rc.RTRL()}, record={"s": rc.record.state}), "applied"),
    ("silent probe", lambda: train(probes={"x": rc.RTRL()}), "record"),
    ("large key", lambda: train(key=2**32), "`key`"),
    ("no streams", lambda: train(streams=0), "`streams` must be at least 1"),
    ("streams of arrays", lambda: train(task=arrays(80), streams=2), "pass streams=1"),
    ("raw key", lambda: train(key=jnp.zeros(2, "uint32")), "jax.random.key(0)"),
    ("streams of sequences", lambda: train(task=arrays(80, sequences=2), streams=1), "pass streams=2"),
    ("large seeds", lambda: train(seeds=[2**33]), "2³²"),
    ("unknown dtype", lambda: rc.RNN(2, 3, dtype="foo"), "'foo'"),
    ("ragged rows", lambda: rc.Arrays([[1.0], [1.0, 2.0]], [[1.0], [1.0]]), "different lengths"),
    ("infinite rate", lambda: train(optimizer=np.inf), "finite"),
    ("mimic under cross-entropy", lambda: rc.train(mimic_net(), rc.RFLO(), mimic(), steps=5), "SquaredError"),
    ("mimic in float32", lambda: rc.train(mimic_net("float32"), rc.RFLO(), mimic(), steps=5), "float32"),
]


GRU_CELL = eqx.nn.GRUCell(2, 4, key=jax.random.key(0))


@jax.custom_vjp
def spike(x):
    return (x > 0).astype(x.dtype)


spike.defvjp(lambda x: (spike(x), x), lambda x, g: (g * jnp.exp(-x * x),))


def probed(probes):
    return rc.LearningStep(mimic_net(), rc.RFLO(), 0.1, probes)


def mimic():
    return rc.Mimic(rc.RNN(2, 3), outputs=2)


def mimic_net(dtype=None):
    return rc.Network(rc.RNN(2, 4, dtype=dtype), 2)


#: What only a program without type checking lets through as far as our own checks.
WRONG_TYPES = {
    "train(key='a')": "`key` must be a whole number, and is 'a'",
    "train(seeds=2.5)": "`seeds` must be a whole number, and is 2.5",
    "train(seeds=[1.7, 2])": "Each of `seeds` must be a whole number, and is 1.7",
    "train(probes=[rc.RTRL()])": "`probes` must map names",
    "train(probes={'x': rc.RTRL})": "`probes['x']` must be a learner",
    "train(record=rc.record.state)": "`record` must map names",
    "train(optimizer='sgd')": "`optimizer` must be a learning rate, recurra.Adam() or an Optax optimizer, and is 'sgd'",
    "rc.RNN(2, 3, np.float32(2))": "at most 1.0, and is 2",
    "rc.RNN(2, 3, jnp.array(2.0))": "at most 1.0, and is 2",
    "rc.RNN(2, 3, [0.5])": "`alpha` of RNN must be a number",
    "rc.RNN(2, 3, 'fast')": "`alpha` of RNN must be a number",
    "rc.RNN(2, 3, phi='tanh')": "`phi` of RNN must be a function",
    "rc.UORO(nu='signs')": "`nu` of UORO must be a function",
    "rc.Arrays(np.full((3, 2), 1e300), np.full((3, 2), 0.5))": "row 0, column 0",
    "rc.Arrays(np.zeros((5, 2)), np.zeros((5, 2)), repeat='no')": "`repeat` of Arrays must be True or False",
    "rc.Sequences(np.zeros((3, 5, 2)), np.zeros((3, 2)), batch=1.5)": "`batch` of Sequences must be a whole number",
    "rc.Sequences(np.zeros((3, 5, 2)), np.zeros((3, 2)), shuffle=1)": "`shuffle` of Sequences must be True or False",
    "rc.Sequences(np.zeros((3, 5, 2)), np.zeros((3, 2))).split('half')": "`part` must be a number, and is 'half'",
    "rc.Add(sampled=1)": "`sampled` of Add must be True or False",
    "rc.KeRNL(late_perturbation='yes')": "`late_perturbation` of KeRNL must be True or False",
    "rc.Network(rc.RNN(2, 3), 2, random_feedback='no')": "`random_feedback` of Network must be True or False",
    "rc.ScanEngine(group=2.5)": "`group` of ScanEngine must be a whole number",
    "rc.ScanEngine(specialise='no')": "`specialise` of ScanEngine must be True or False",
    "train(probes={1: rc.RTRL()}, record={'s': rc.record.state})": "`probes` must map names, which are text",
    "train(record={'x': lambda outcome: 'text'})": "`record['x']` must return arrays or numbers",
    "train(optimizer=optax.lbfgs())": "`optimizer` asks for more than gradients, states and weights",
    "train(engine='gpu')": "`engine` must be 'auto', 'on-chip' or 'scan', and is 'gpu'",
    "train(engine=rc.ScanEngine)": "`engine` must be 'auto', 'scan', 'on-chip' or an engine such as",
    "train(engine=rc.OnChipEngine())": "it needs an NVIDIA GPU, and JAX computes on",
    "train(engine=rc.OnChipEngine(warps=3))": "`warps` of OnChipEngine must be a power of two",
    "train(checkpoint=7)": "`checkpoint` must be a file",
    "rc.LearningStep(net, {'applied': rc.RFLO()}, 0.1)": "`learner` must be a learner such as recurra.RFLO(), and is {",
    "rc.LearningStep(net, rc.RFLO(), 0.1, [rc.RTRL()])": "`probes` must map names to learners",
    "rc.LearningStep(net, rc.RFLO(), 0.1, {'x': 0.1})": "The learner 'x' must be a learner",
}
WITHOUT_CHECKS = """
import json, sys
import jax.numpy as jnp, numpy as np, optax
import recurra as rc
net = rc.Network(rc.RNN(2, 3), 2)
def train(**settings):
    return rc.train(net, rc.RFLO(), rc.Add(1, 2), steps=10, progress=False, **settings)
def message(call):
    try:
        return f"no error: {eval(call)}"
    except (TypeError, ValueError) as error:
        return str(error)
print(json.dumps({call: message(call) for call in json.loads(sys.argv[1])}))
other = train(optimizer=jnp.array(0.01), seeds=np.int64(2), key=np.int64(3))
assert np.array_equal(other.loss, train(optimizer=0.01, seeds=2, key=3).loss)
assert train(streams=np.int64(2)).seeds == (0,)
train(seeds=np.array(2), engine=rc.ScanEngine(chunk=np.int64(7), group=np.int64(1)), checkpoint_every=np.int64(3))
assert train(seeds=jnp.arange(2)).seeds == (0, 1)
for size in np.array([3]):
    parts = rc.RNN(np.int64(2), size, alpha=np.float32(0.5)), np.int32(2)
    net = rc.Network(*parts, random_feedback=np.True_)
    assert type(net.cell.n) is int and type(net.cell.alpha) is float and type(net.random_feedback) is bool
    for learner in (rc.FutureBPTT(T=size), rc.EfficientBPTT(T=size), rc.ROK(r=size)):
        result = rc.train(net, learner, rc.Add(size, 2 * size, sampled=np.False_), steps=np.int64(20), progress=False)
        assert np.isfinite(result.loss).all()
"""


def test_wrong_types_are_one_clear_error_and_numbers_of_numpy_and_jax_are_numbers():
    command = [sys.executable, "-c", WITHOUT_CHECKS, json.dumps(list(WRONG_TYPES))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for call, found in json.loads(done.stdout).items():
        assert WRONG_TYPES[call] in found, (call, found)


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in BAD_INPUT], ids=[case[0] for case in BAD_INPUT])
def test_bad_input_is_one_clear_error(call, message):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert message in str(error.value)
    assert len(str(error.value)) < 400


def test_many_terms_are_said_to_take_long():
    with pytest.warns(UserWarning, match="each step decomposes 66 terms"):
        rc.LearningStep(rc.Network(rc.RNN(2, 64), 2), rc.ROK(r=65), 0.1)


@pytest.mark.parametrize("name", [name for name, learner in rc.LEARNERS.items() if learner.about.unitwise])
def test_a_learner_the_cell_cannot_serve(name):
    cell = rc.cell_of(eqx.nn.GRUCell(2, 4, key=jax.random.key(0)), carry=jnp.zeros(4), x=2, unitwise=False)
    with pytest.raises(TypeError, match="and GRUCell is a general cell"):
        train(rc.LEARNERS[name](), net=rc.Network(cell, 2))


def test_a_general_cell_that_does_not_fit():
    cell = eqx.nn.GRUCell(2, 4, key=jax.random.key(0))
    with pytest.raises(TypeError, match="could not be called"):
        rc.cell_of(cell, carry=jnp.zeros(4), x=3, unitwise=False)
    with pytest.raises(TypeError, match="share one dtype"):
        rc.cell_of(cell, carry=jnp.zeros(4, "float32"), x=2, unitwise=False)
    with pytest.raises(TypeError, match="`init` of GRUCell must draw parameters like those"):
        rc.cell_of(cell, carry=jnp.zeros(4), x=2, init=lambda key: eqx.nn.GRUCell(2, 5, key=key), unitwise=False)


def test_a_general_cell_keeps_arrays_that_are_no_weights():
    class Shifted(eqx.Module):
        cell: eqx.nn.GRUCell
        order: jax.Array

        def __call__(self, x, state):
            return self.cell(x, state)[self.order]

    make = lambda order: Shifted(eqx.nn.GRUCell(2, 4, key=jax.random.key(0)), jnp.array(order))
    losses = [
        train(rc.RTRL(), net=rc.Network(rc.cell_of(make(order), carry=jnp.zeros(4), x=2, unitwise=False), 2)).loss
        for order in ([0, 1, 2, 3], [3, 0, 1, 2])
    ]
    assert not np.array_equal(*losses)
