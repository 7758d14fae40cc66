"""What is put into a file comes back the same: arrays of every type, documents, and trees of arrays."""

import json
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import recurra as rc
from driving import FOR_ONE_LAYER
from recurra.saved import archive
from recurra.saved.headers import DTYPES
from recurra.saved.trees import arrays_of, filled

BFLOAT16 = np.dtype(jnp.bfloat16)


def values(dtype, shape=(3, 5)):
    """Numbers of every bit pattern; truth values for bool."""
    drawn = np.random.default_rng(0).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    return np.asarray(drawn[..., 0] > 99) if dtype.kind == "b" else drawn.view(dtype)[..., 0]


def bits(array):
    return array.dtype, array.shape, np.ascontiguousarray(array).tobytes()


# Files


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (7,), (3, 5), (1, 2, 3, 4)], ids=str)
def test_arrays_of_every_type_and_shape_come_back(tmp_path, dtype, shape):
    array = values(dtype, shape)
    archive.write(tmp_path / "a", "model", {"x": array, "odd": np.ones(3, np.int8)}, {})
    found, _ = archive.read(tmp_path / "a", "model")
    assert list(found) == ["x", "odd"] or list(found) == ["odd", "x"]
    assert bits(found["x"]) == bits(array)
    assert found["x"].flags.writeable


def test_the_safetensors_package_reads_them_the_same(tmp_path):
    """The oracle: another program, in another language."""
    arrays = {f"a.{name}": values(dtype) for name, dtype in DTYPES.items()} | {"0-d": np.array(3.0), "ä\n": np.ones(2)}
    archive.write(tmp_path / "a", "model", arrays, {"who": "ö"})
    with safetensors.safe_open(tmp_path / "a", framework="np") as file:
        about = file.metadata()
        for name in set(arrays) - {"a.BF16"}:
            assert bits(file.get_tensor(name)) == bits(arrays[name])
    assert (about["kind"], about["recurra"], about["recurra_format"]) == ("model", rc.__version__, "1")
    assert json.loads(about["document"]) == {"who": "ö"}
    raw = dict(safetensors.deserialize((tmp_path / "a").read_bytes()))
    assert (raw["a.BF16"]["dtype"], bytes(raw["a.BF16"]["data"])) == ("BF16", arrays["a.BF16"].tobytes())


def test_a_file_that_the_safetensors_package_wrote_anew_is_still_ours(tmp_path):
    """The order of arrays and the spelling of the header are not ours to prescribe. Any other word in it is."""
    arrays = {"x": np.arange(3.0), "a": np.arange(3, dtype=np.int8)}
    archive.write(tmp_path / "a", "model", arrays, {"n": 1})
    with safetensors.safe_open(tmp_path / "a", framework="np") as file:
        about = file.metadata()
    safetensors.numpy.save_file(arrays, tmp_path / "b", about)
    found, document = archive.read(tmp_path / "b", "model")
    assert document == {"n": 1}
    assert all(bits(found[name]) == bits(arrays[name]) for name in arrays)
    safetensors.numpy.save_file(arrays, tmp_path / "b", about | {"document": '{"n": 2}'})
    with pytest.raises(archive.UselessFileError, match="does not match its checksum"):
        archive.read(tmp_path / "b", "model")


@pytest.mark.parametrize("block", [1, 100, 2**24])
def test_arrays_in_any_order_of_memory(tmp_path, monkeypatch, block):
    monkeypatch.setattr(archive, "BLOCK", block)
    square = np.arange(24.0).reshape(4, 6)
    arrays = {
        "t": square.T,
        "cut": square[:, 1:4],
        "back": square[::-1],
        "big": square.astype(">f8"),
        "line": square[0, ::2],
    }
    arrays["read-only"] = np.broadcast_to(np.float32(2), (3, 4))
    archive.write(tmp_path / "a", "run", arrays, {})
    found, _ = archive.read(tmp_path / "a", "run")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats().filter(math.isfinite) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
named = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    hnp.arrays(
        st.sampled_from([d for d in DTYPES.values() if d != BFLOAT16]), hnp.array_shapes(min_dims=0, min_side=0)
    ),
    max_size=4,
)


@settings(max_examples=100, deadline=None)
@given(arrays=named, document=st.dictionaries(st.text(), documents, max_size=3))
def test_whatever_is_written_comes_back(tmp_path_factory, arrays, document):
    path = tmp_path_factory.mktemp("any") / "a"
    archive.write(path, "any kind", arrays, document)
    found, told = archive.read(path, "any kind")
    assert json.dumps(told, sort_keys=True) == json.dumps(document, sort_keys=True)
    assert {name: bits(array) for name, array in found.items()} == {name: bits(a) for name, a in arrays.items()}
    assert len(safetensors.deserialize(path.read_bytes())) == len(arrays)


@pytest.mark.parametrize(
    ("arrays", "document", "message"),
    [
        ({"x": np.array(["text"])}, {}, "put text into the document"),
        ({"x": np.array([None])}, {}, "of type object"),
        ({"x": np.array([1j])}, {}, "of type complex128"),
        ({"x": np.array(["2020-01-01"], "M8[D]")}, {}, "datetime64"),
        ({"": np.ones(1)}, {}, "must be text, not empty"),
        ({"__metadata__": np.ones(1)}, {}, "not '__metadata__'"),
        ({}, {"x": math.nan}, "not JSON compliant"),
        ({}, {"x": 10**30}, "31 digits"),
        ({}, {"x": object()}, "not JSON serializable"),
        ({}, {"x": "a" * 4_000_000}, "has room for 4,000,000"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path, arrays, document, message):
    archive.write(tmp_path / "a", "model", {"kept": np.ones(2)}, {})
    before = (tmp_path / "a").read_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        archive.write(tmp_path / "a", "model", arrays, document)
    assert (tmp_path / "a").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# Trees


class Pair(NamedTuple):
    left: object
    right: object


def tree():
    return Pair(
        {"a.b": jnp.ones(2), "a": {"b": jnp.zeros(3, "int8"), "%2E": np.float32(2)}, ":": (None, 1.5, True, 7)},
        [jax.random.key(3), jax.random.split(jax.random.key(4, impl="rbg"), 2), np.arange(4), jnp.ones((), "bfloat16")],
    )


def plain(leaf):
    return (
        jax.random.key_data(leaf)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
    )


def test_trees_come_back_with_their_types(tmp_path):
    archive.write(tmp_path / "a", "model", arrays_of(tree()), {})
    found = filled(tree(), archive.read(tmp_path / "a", "model")[0])
    assert jax.tree.structure(found) == jax.tree.structure(tree())
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(tree()), strict=True):
        assert isinstance(one, jax.Array) if isinstance(other, jax.Array) else type(one) is type(other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
        assert bits(np.asarray(plain(one))) == bits(np.asarray(plain(other)))


def test_names_tell_where_a_leaf_is_and_are_unique():
    step = rc.LearningStep(rc.Network(rc.LSTM(2, 3), 2), rc.UORO(), 0.1)
    names = list(arrays_of(step.init(jax.random.key(0))))
    assert {"t", "weights.cell.0.rec", "weights.readout.W", "a.1", "learners.applied.B.3.bias"} <= set(names)
    assert len(arrays_of(tree())) == len(jax.tree.leaves(tree()))
    assert list(arrays_of(jnp.ones(3))) == ["array"]
    assert {"right.0:threefry2x32", "right.1:rbg"} <= set(arrays_of(tree()))
    with pytest.raises(TypeError, match="'x' must be an array or a number, and is 'text'"):
        arrays_of({"x": "text"})


@pytest.mark.parametrize("kind", ["arrays", "shapes"])
@pytest.mark.parametrize("learner", FOR_ONE_LAYER.values(), ids=FOR_ONE_LAYER)
def test_the_state_of_every_learner_goes_on(learner, kind, tmp_path):
    step = rc.LearningStep(rc.Network(rc.RNN(2, 3), 2), learner(), optax.sgd(1e-3, 0.9))
    state = step.init(jax.random.key(1))
    archive.write(tmp_path / "a", "model", arrays_of(state), {})
    like = step.init(jax.random.key(2)) if kind == "arrays" else jax.eval_shape(step.init, jax.random.key(2))
    found = filled(like, archive.read(tmp_path / "a", "model")[0], finite=True)
    assert jax.tree.structure(found) == jax.tree.structure(state)
    assert all(
        bits(np.asarray(plain(a))) == bits(np.asarray(plain(b)))
        for a, b in zip(*map(jax.tree.leaves, (found, state)), strict=True)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b.0": None}, "the array 'b.0' is missing"),
        ({"c": np.ones(2)}, "the array 'c' is there, and nothing of that name is expected"),
        ({"a": np.ones(3, np.float32)}, r"the array 'a' is float32\[3\], and float32\[2\] is expected"),
        ({"a": np.ones(2, np.float64)}, r"the array 'a' is float64\[2\], and float32\[2\] is expected"),
        ({"k:threefry2x32": None, "k:rbg": np.ones(4, "u4")}, "the array 'k' is rbg, and threefry2x32 is expected"),
        ({"k:threefry2x32": None, "k": np.ones(2, "u4")}, "the array 'k' is no key, and threefry2x32 is expected"),
        ({"k:threefry2x32": np.ones(3, "u4")}, r"is uint32\[3\], and uint32\[2\] is expected"),
        ({"k:threefry2x32": np.ones(2, "i4")}, r"is int32\[2\], and uint32\[2\] is expected"),
        ({"b.0": np.array([1, np.nan], BFLOAT16)}, "the array 'b.0' holds nan or an infinity"),
        ({"a": np.array([1, np.inf], np.float32)}, "the array 'a' holds nan or an infinity"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(change, message):
    like = {"a": jnp.ones(2, "float32"), "b": (jnp.ones(2, "bfloat16"), None), "k": jax.random.key(0)}
    arrays = {name: array for name, array in (arrays_of(like) | change).items() if array is not None}
    with pytest.raises(ValueError, match=message):
        filled(like, arrays, finite=True)


def test_nan_is_kept_where_it_may_be():
    found = filled({"a": jnp.ones(2)}, {"a": np.array([np.nan, -np.inf])})
    np.testing.assert_array_equal(found["a"], [np.nan, -np.inf])
