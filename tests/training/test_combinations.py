"""Random combinations of everything a run is made of, sensible and not.

Each of them either trains to finite numbers, the same to the last bit when the run is cut otherwise, or is refused by
an error of the library's own before anything runs. `make test` tries a few; by hand, for thousands:

    RECURRA_COMBINATIONS=5000 python -m pytest -m '' tests/training/test_combinations.py --hypothesis-seed=1
"""

import os
import traceback
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import HealthCheck, Phase, assume, event, given, note, settings
from hypothesis import strategies as st

import recurra as rc

COUNT = int(os.environ.get("RECURRA_COMBINATIONS", "5"))
#: the few of `make test` are the same in every run; thousands by hand differ with --hypothesis-seed
FIXED = "RECURRA_COMBINATIONS" not in os.environ
LIBRARY = str(Path(rc.__file__).parent)


def one_of(*values):
    return st.sampled_from(values)


def rarely(strange, usual):
    """Mostly a usual value, seldom a strange one."""
    return st.integers(0, 49).flatmap(lambda i: strange if i == 27 else usual)


DTYPES = rarely(one_of("int32", "float99"), one_of("float32", "float32", "float64", "float64", "bfloat16"))
SIZES = rarely(one_of(0, -1), st.integers(1, 6))
RATES = rarely(one_of(-1.0, float("nan"), float("inf")), one_of(0.0, 1e-3, 1e-2))
PHI = rarely(one_of(jax.nn.softmax, jnp.cumsum, np.tanh), one_of(jnp.tanh, jax.nn.relu6, jax.nn.sigmoid, jnp.sin))
W_REC = one_of(rc.cells.orthogonal, rc.cells.gaussian, rc.cells.symmetric, rc.cells.diagonal)
#: SnAp-n needs sparse weights, and Layered a stack: both have tests of their own
LEARNERS = tuple(kind for kind in rc.LEARNERS.values() if not (kind.about.sparse or kind.about.layers))
LOSSES = rc.SoftmaxCrossEntropy, rc.SigmoidCrossEntropy, rc.SquaredError
RECORD = {"state": rc.record.state, "norms": rc.record.gradient_norms, "t": lambda o: (o.t, o.weights.readout.b)}
NOISE = one_of(rc.noise.signs, rc.noise.gaussian, rc.noise.uniform)


@st.composite
def cells(draw, n_in, dtype, kinds):
    kind, n = draw(one_of(*kinds)), draw(SIZES)
    if kind == "general":
        assume(n > 0 and dtype in ("float32", "float64"))
        make = lambda: eqx.nn.GRUCell(n_in, n, key=jax.random.key(0), dtype=jnp.dtype(dtype))
        return lambda: rc.cell_of(make(), carry=jnp.zeros(n, dtype), x=n_in, unitwise=False)
    shared = {"n_in": n_in, "n": n, "w_rec": draw(W_REC), "dtype": dtype}
    if kind == "rnn":
        more = {"alpha": draw(rarely(one_of(0.0, 1.5), one_of(1.0, 0.3))), "phi": draw(PHI)}
        return lambda: rc.RNN(**shared, **more)
    return lambda: {"gru": rc.GRU, "lstm": rc.LSTM}[kind](**shared)


@st.composite
def learners(draw):
    kind = draw(one_of(*LEARNERS))
    length = rarely(one_of(0, -3), st.integers(1, 9))
    rate = rarely(one_of(-1.0, float("nan")), one_of(0.0, 1e-3))
    fields = {
        "nu": NOISE,
        "initial_scale": rarely(one_of(-1.0), one_of(0.0, 0.1)),
        "r": rarely(one_of(0, 500), st.integers(1, 3)),
        "T": length,
        "target_interval": length,
        "learning_rate": rate,
        "jacobian_rate": rate,
        "first_alpha": rarely(one_of(2.0), one_of(0.0, 0.8)),
        "late_perturbation": st.booleans(),
        "decay": rarely(one_of(-1.0, 2.0), one_of(0.0, 0.9)),
        "lam": rarely(one_of(-1.0, 2.0), one_of(0.0, 0.9)),
    }
    own = {name: draw(fields[name]) for name in kind.__dataclass_fields__ if name in fields}
    return lambda: kind(**own)


@st.composite
def arrays(draw, loss, dtype, sequences):
    """Rows of one's own: sometimes with missing labels, episodes or values that make no sense."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    length, n_in, n_out = (
        draw(st.integers(1, 300)),
        draw(st.integers(1, 3)),
        draw(rarely(st.just(1), st.integers(2, 3))),
    )
    shape = (length,) if sequences == 1 else (sequences, length)
    inputs, labels = rng.normal(size=(*shape, n_in)), rng.random((*shape, n_out))
    if loss is LOSSES[0]:
        labels /= labels.sum(axis=-1, keepdims=True)
    strange = draw(rarely(one_of("nan", "text", "shape", "range"), st.none()))
    if strange == "nan":
        inputs.flat[0] = np.nan
    labels = {"shape": labels[..., 0], "range": labels - 5, "text": labels.astype(str)}.get(strange, labels)
    known = {"float32": "float32", "float64": "float64"}.get(dtype)
    if known and strange != "text":
        inputs, labels = inputs.astype(known), labels.astype(known)
    flags = lambda share: rng.random(shape) < share
    present, reset = (flags(share) if draw(st.booleans()) else None for share in (0.7, 0.1))
    repeat = draw(rarely(st.just(False), st.just(True)))
    return n_in, n_out, lambda: rc.Arrays(inputs, labels, present, reset, repeat)


@st.composite
def combinations(draw, kinds):
    """Settings of `rc.train`, as functions that may raise."""
    dtype, streams = draw(DTYPES), draw(rarely(one_of(0), one_of(1, 1, 2)))
    kind = draw(one_of("add", "mimic", "arrays"))
    loss = draw(rarely(one_of(*LOSSES), one_of(*(LOSSES[2:] if kind == "mimic" else LOSSES))))
    if kind == "add":
        lags = {"t1": draw(SIZES), "t2": draw(SIZES), "stretch": draw(SIZES), "sampled": draw(st.booleans())}
        n_in, n_out, task = 2, 2, lambda: rc.Add(**lags)
    elif kind == "mimic":
        n_in, n_out = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        target = draw(cells(n_in, dtype, ("rnn", "gru", "lstm")))
        task = lambda: rc.Mimic(target(), outputs=n_out)
    else:
        n_in, n_out, task = draw(arrays(loss, dtype, max(streams, 1)))
    n_out = draw(rarely(st.just(n_out + 1), st.just(n_out)))
    rate = draw(RATES)
    optimizer = draw(one_of(lambda: rate, lambda: optax.adam(rate), lambda: optax.sgd(rate, 0.9)))
    optimizer = draw(rarely(st.just(optax.contrib.reduce_on_plateau), st.just(optimizer)))
    record = draw(st.sets(one_of(*RECORD), max_size=2))
    names = rarely(st.just("applied"), one_of("a", "b"))
    probes = (
        draw(st.dictionaries(names, learners(), max_size=1))
        if record or draw(rarely(st.just(True), st.just(False)))
        else {}
    )
    cell, random_feedback = draw(cells(n_in, dtype, kinds)), draw(st.booleans())
    return {
        "network": lambda: rc.Network(cell(), n_out, loss(), random_feedback),
        "learner": draw(learners()),
        "task": task,
        "optimizer": optimizer,
        "probes": lambda: {name: probe() for name, probe in probes.items()},
        "record": lambda: {name: RECORD[name] for name in record},
    }, {
        "steps": draw(rarely(one_of(0, 2**31), st.integers(1, 300))),
        "seeds": draw(rarely(one_of(0, [1, 1], [-1]), one_of(1, 2, [3, 7], 13))),
        "streams": streams,
        "window": draw(rarely(one_of(0), one_of(None, 7, 1000))),
        "record_every": draw(rarely(one_of(0), one_of(1, 5))),
        "key": draw(rarely(one_of(-1, 2**32), st.integers(0, 9))),
    }


def made(parts):
    """The parts, made; or the error, if the library refused one of them."""
    try:
        return {name: make() for name, make in parts.items()}
    except (ValueError, TypeError) as error:
        return by_library(error)


def trained(parts, numbers, chunk, group):
    """The result; or the error, if the library refused the combination before the first step."""
    taken = []
    try:
        return rc.train(**parts, **numbers, engine=rc.ScanEngine(chunk=chunk, group=group), progress=taken.append)
    except (ValueError, TypeError) as error:
        assert not any(taken), "it was refused late"
        return by_library(error)


def by_library(error):
    raised = traceback.extract_tb(error.__traceback__)[-1].filename
    if not raised.startswith(LIBRARY):
        raise AssertionError(f"not the library refused it, but {raised}") from error
    return error


@pytest.mark.parametrize(
    "kinds", [("rnn", "general"), pytest.param(("gru", "lstm"), marks=pytest.mark.slow)], ids=" ".join
)
@settings(
    max_examples=COUNT,
    derandomize=FIXED,
    phases=[Phase.generate],  # a failure is told as it is: to make it smaller would compile hundreds of programs
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data(), chunk=st.integers(1, 400), group=one_of(None, 1, 2))
def test_every_combination_trains_or_is_refused(kinds, data, chunk, group):
    combination = data.draw(combinations(kinds))
    with jax.numpy_dtype_promotion("standard"):  # Optax needs it
        parts, numbers = made(combination[0]), combination[1]
        note(f"{parts} {numbers}")
        result = parts if isinstance(parts, Exception) else trained(parts, numbers, chunk, group)
        event(f"{type(result).__name__}: {str(result)[:60]}" if isinstance(result, Exception) else "trained")
        if isinstance(result, Exception):
            return
        again = trained(parts, numbers, chunk + 37, group)
    assert not result.diverged
    assert np.isfinite(result.loss[~np.isnan(result.loss)]).all()
    assert all(np.isfinite(np.asarray(leaf, "float64")).all() for leaf in jax.tree.leaves(result.weights))
    bits = lambda result: [
        np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((result.loss, result.weights, result.records))
    ]
    assert bits(result) == bits(again)
