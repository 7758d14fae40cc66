"""What a class of one's own returns, checked once, by shapes, before anything runs.

A wrong shape would often be broadcast or cut to size without a word, and the numbers would be wrong. The classes of the
library are not checked at run time: tests do that.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PRNGKeyArray, PyTree

from recurra.cells.base import Cell, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, Learner, PastFacing
from recurra.linalg import dense
from recurra.losses import Loss
from recurra.network import Network

#: a number of steps for which a learner draws random numbers, to see what it returns
STEPS = 3


def is_own(part: Any) -> bool:
    """Whether the class of a part was written outside the library."""
    return not type(part).__module__.startswith("recurra.")


def check_returns(what: str, found: PyTree, wanted: PyTree) -> None:
    """Raise unless `found`, which `what` returned, has the structure, shapes and types of `wanted`."""
    paths, structure = jax.tree_util.tree_flatten_with_path(found)
    if structure != jax.tree.structure(wanted):
        raise TypeError(f"{what} must return {_words(wanted)}, and returns {_words(found)}.")
    for (path, leaf), like in zip(paths, jax.tree.leaves(wanted), strict=True):
        if not _is_array(leaf) or (leaf.shape, leaf.dtype) != (like.shape, like.dtype):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise TypeError(f"{what} must return {_words(like)}{place}, and returns {_words(leaf)}.")


def check_arrays(what: str, found: PyTree) -> None:
    """Raise unless every leaf of `found`, which `what` returned, is an array."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(found):
        if not _is_array(leaf):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise TypeError(f"{what} must return arrays, and returns {leaf!r}{place}: use jax.numpy.asarray.")


def check_parts(network: Network, learners: dict[str, Learner], optimizer: Any) -> None:
    """Raise unless the network, the learners and the optimizer return what the step of learning expects."""
    own = [learner for learner in learners.values() if is_own(learner)]
    is_optax = isinstance(optimizer, optax.GradientTransformation)
    if own or is_optax or is_own(network) or is_own(network.cell) or is_own(network.loss):
        jax.eval_shape(lambda key: _walk(network, own, optimizer if is_optax else None, key), jax.random.key(0))


def _walk(network: Network, learners: list[Learner], optimizer: Any, key: PRNGKeyArray) -> None:
    """Call everything once. It is traced, so nothing is computed."""
    cell, dtype = network.cell, network.cell.dtype
    if is_own(cell):
        _check_cell(cell, key)
    weights = network.init(key)
    before = cell.init_state()
    x = jnp.zeros(cell.n_in, dtype)
    after, trace, output = network.forward(weights, before, x)
    label = jnp.zeros(network.n_out, dtype)
    if is_own(network):
        check_returns(f"{type(network).__name__}.forward, as the output,", output, label)
    _, error = _judged(network.loss, output, label)
    if optimizer is not None:
        _check_optimizer(optimizer, weights.cell)
    zero = jnp.zeros((), "int32")
    cbar = network.credit(weights, error, after, x)
    tick = Tick(cell, cell.applied(weights.cell), zero, before, after, trace, label, error, cbar, loss=network.loss)
    for learner in learners:
        _check_learner(learner, tick, network.n_out, key)


def _judged(loss: Loss, output: Any, label: Any) -> tuple[Any, Any]:
    found = loss(output, label)
    if is_own(loss):
        check_returns(f"{type(loss).__name__}.__call__", found, (jax.ShapeDtypeStruct((), output.dtype), output))
    return found


def _check_cell(cell: Cell, key: PRNGKeyArray) -> None:
    name, x = type(cell).__name__, jnp.zeros(cell.n_in, cell.dtype)
    state = tuple(jnp.zeros(width, cell.dtype) for width in cell.widths)
    check_returns(f"{name}.init_state", cell.init_state(), state)
    weights = cell.init_weights(key)
    check_arrays(f"{name}.init_weights", weights)
    after, trace = _pair(f"{name}.forward", cell.forward(weights, state, x), "the next state and its trace")
    check_returns(f"{name}.forward, as the next state,", after, state)
    check_returns(f"{name}.push", cell.push(weights, trace, state), state)
    check_returns(f"{name}.pull", cell.pull(weights, trace, state), state)
    check_returns(f"{name}.deposit", dense(cell.deposit(weights, trace, state)), weights)
    M = cell.no_influence(weights)
    check_returns(f"{name}.add_immediate", cell.add_immediate(weights, trace, M), M)
    check_returns(f"{name}.contract", dense(cell.contract(weights, state, M)), weights)


def _check_learner(learner: Learner, tick: Tick, n_out: int, key: PRNGKeyArray) -> None:
    name, cell, weights = type(learner).__name__, tick.cell, tick.weights
    state = learner.init(cell, weights, key, n_out)
    check_arrays(f"{name}.init", state)
    noise = learner.noise(cell, key, STEPS)
    for path, leaf in jax.tree_util.tree_leaves_with_path(noise):
        if not _is_array(leaf) or leaf.shape[:1] != (STEPS,):
            place = f" at {jax.tree_util.keystr(path)}" if path else ""
            raise TypeError(
                f"{name}.noise must return a row for each of the {STEPS} steps it was asked for, and returns "
                f"{_words(leaf)}{place}."
            )
    row = jax.tree.map(lambda leaf: leaf[0], noise)
    if isinstance(learner, PastFacing):
        _check_alike(f"{name}.advance", learner.advance(tick, state, row), state)
    found = _pair(f"{name}.step", learner.step(tick, state, row), "a gradient, or None, and the next state")
    _check_gradient(f"{name}.step", *found, weights, state)
    if learner.period:
        found = _pair(f"{name}.due", learner.due(cell, weights, state), "a gradient, or None, and the next state")
        _check_gradient(f"{name}.due", *found, weights, state)
    for unlabelled in (None, tick.t):
        emits = learner.emits(tick.t, unlabelled)
        if not isinstance(emits, bool):
            check_returns(f"{name}.emits", emits, jax.ShapeDtypeStruct((), jnp.dtype(bool)))


def _check_alike(what: str, found: PyTree, wanted: PyTree) -> None:
    """Raise unless `found` has the structure of `wanted`, in which None stands for any part."""
    try:
        jax.tree.map(lambda *_: None, wanted, found, is_leaf=lambda leaf: leaf is None)
    except ValueError:
        raise TypeError(f"{what} must return {_words(wanted)}, and returns {_words(found)}.") from None


def check_about(learner: Learner) -> None:
    """Raise unless a learner says what it is, and its lag and period are whole numbers."""
    name, about = type(learner).__name__, getattr(learner, "about", None)
    if not isinstance(about, About):
        raise TypeError(f"{name} must say what it is: give it `about = recurra.About({name.lower()!r}, {name!r})`.")
    for what, field in (("lag", about.lag), ("period", about.period)):
        value = None if field is None else getattr(learner, field, None)
        if field is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise TypeError(
                f"`about` of {name} names {field!r} as its {what}, which must be a whole number of at least 0, and is "
                f"{value!r}: mend the field, or leave it out."
            )


def _check_gradient(what: str, gradient: Any, after: PyTree, weights: Weights, state: PyTree) -> None:
    if gradient is not None:
        check_returns(f"{what}, as the gradient,", dense(gradient), weights)
    check_returns(f"{what}, as the next state,", after, state)


def _check_optimizer(optimizer: optax.GradientTransformation, weights: Weights) -> None:
    state = optimizer.init(weights)
    try:
        updates, _ = optimizer.update(weights, state, weights)
    except TypeError as error:
        raise TypeError(
            f"`optimizer` asks for more than gradients, states and weights ({error}), as those with a line search do: "
            "choose another, such as optax.adam(1e-3)."
        ) from error
    check_returns("`optimizer.update`", updates, weights)


def _pair(what: str, found: Any, meaning: str) -> tuple[Any, Any]:
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(f"{what} must return {meaning}, and returns {_words(found)}.")
    return found[0], found[1]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def _words(tree: PyTree) -> str:
    """Shapes and types, as JAX writes them."""
    leaf = lambda x: f"{x.dtype.name}[{','.join(map(str, x.shape))}]" if _is_array(x) else repr(x)
    told: Callable[[Any], Any] = lambda x: _Bare(leaf(x))
    return str(jax.tree.map(told, tree))


class _Bare(str):
    """Text without quotation marks inside a printed structure."""

    def __repr__(self) -> str:
        return str(self)
