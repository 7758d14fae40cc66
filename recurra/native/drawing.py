"""Random numbers: JAX's own, bit for bit. A key is two words; Threefry-2x32 makes others of them."""

import jax

from recurra.native.moving import storage_of
from recurra.native.rules import COperation, Results, rule
from recurra.native.statements import Call, Writer
from recurra.native.values import NotWrittenError, Value, View, of_view


@rule("random_wrap", "random_unwrap")
def _same(writer: Writer, site: COperation, key: Value) -> Value:
    return Value(site.shape, site.dtype, key.template, key.leaves)


@rule("random_seed")
def _seed(writer: Writer, site: COperation, seed: Value) -> Value:
    if site.shape != (2,):
        raise NotWrittenError("'random_seed' of several numbers")
    target = writer.fresh((2,), "uint32")
    token = storage_of(target).token
    writer.add(Call(f"{token}[0] = 0; {token}[1] = (unsigned){writer.scalar(seed)};", (storage_of(target),)))
    return of_view(target)


@rule("random_fold_in")
def _fold_in(writer: Writer, site: COperation, key: Value, data: Value) -> Value:
    if site.shape != (2,):
        raise NotWrittenError("'random_fold_in' of several keys")
    target = writer.fresh((2,), "uint32")
    name = writer.helper("threefry")
    text = f"{name}({_words(writer, key)}, 0, {writer.scalar(data)}, {storage_of(target).token});"
    writer.add(Call(text, (storage_of(target),)))
    return of_view(target)


@rule("random_split")
def _split(writer: Writer, site: COperation, key: Value) -> Value:
    _check_partitionable()
    if key.shape != (2,):
        raise NotWrittenError("'random_split' of several keys")
    target = writer.fresh(site.shape, "uint32")
    count = storage_of(target).size // 2
    name, token = writer.helper("threefry"), storage_of(target).token
    text = f"for (int i = 0; i < {count}; i++) {name}({_words(writer, key)}, 0, (unsigned)i, {token} + 2 * i);"
    writer.add(Call(text, (storage_of(target),)))
    return of_view(target)


@rule("random_bits")
def _bits(writer: Writer, site: COperation, key: Value) -> Results:
    _check_partitionable()
    keys = writer.packed(key)
    count = keys.size // 2
    target = writer.fresh(site.shape, site.dtype)
    size = storage_of(target).size
    width = site.params["bit_width"]
    if width not in (32, 64):
        raise NotWrittenError(f"'random_bits' of {width} bits")
    name = writer.helper(f"random_words_{width}")
    token = storage_of(target).token
    first = keys.place(["0"] * len(keys.shape))
    at = f"{storage_of(keys).token} + {first}"
    if count == 1:
        text = f"{name}({at}, {token}, {size});"
    else:
        each = size // count
        text = f"for (int i = 0; i < {count}; i++) {name}({at} + 2 * i, {token} + {each} * i, {each});"
    writer.add(Call(text, (storage_of(target),)))
    return of_view(target)


def _words(writer: Writer, key: Value) -> str:
    view: View = writer.packed(key)
    place = view.place(["0"])
    return storage_of(view).token + (f" + {place}" if place != "0" else "")


def _check_partitionable() -> None:
    if not jax.config.jax_threefry_partitionable:  # pyright: ignore[reportAttributeAccessIssue]
        raise NotWrittenError("random numbers with jax_threefry_partitionable=False")
