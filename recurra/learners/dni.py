"""Decoupled neural interfaces (Jaderberg et al. 2017), and their biological form (Marschall et al. 2019)."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.algebra import either, matvec, outer, total, vecmat
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.feedback import random_feedback
from recurra.learners.base import FutureFacing, Tick, unitwise

#: linear maps by output and by input: Map[p][l] takes vector l to a term of vector p
Map = tuple[tuple[Float[Array, "_ _"], ...], ...]


class Synthesizer(NamedTuple):
    """c ≈ A ã, its slow copy A* that bootstraps, and what the target for the previous step needs."""

    A: Map
    A_star: Map
    label: Float[Array, " n_out"]
    cbar: Credit


class DNI(FutureFacing):
    """c(t) ≈ A ã(t), with features ã = (a, y*, 1), of a what the readout sees.

    A descends ½‖A ã(t-1) - (cbar(t-1) + (A* ã(t)) J(t))‖²; A* becomes A every `target_interval` steps.
    """

    learning_rate: float | Float[Array, ""] = 1e-3
    target_interval: int = 5

    name: ClassVar[str] = "DNI"
    facing: ClassVar = "future"
    tensor: ClassVar[str] = "A_li"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = True
    memory: ClassVar[str] = "n²"
    time: ClassVar[str] = "n²"
    unitwise: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.whole(self, "target_interval")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Synthesizer:
        return first_synthesizer(cell, key, n_out)

    def credit(self, tick: Tick, state: Synthesizer) -> tuple[Credit, Any, Synthesizer]:
        bootstrap = tick.pull(apply(state.A_star, features(tick.state, tick.label)))
        state = fitted(tick, state, tick.cbar, bootstrap, self.learning_rate, self.target_interval)
        return apply(state.A, features(tick.state, tick.label)), tick.trace, state


class BiologicalState(NamedTuple):
    """DNI's state, the learned Jacobian of the firing rates, and fixed feedback weights."""

    synthesizer: Synthesizer
    J: Map
    W_fb: Float[Array, "n_out n"]


class DNIb(FutureFacing):
    """DNI from what a neuron could know: firing rates a[0], random feedback and a learned Jacobian.

    The bootstrapped credit passes through tanh, cbar through fixed random weights, and J is replaced by a matrix that
    learns to predict a[0](t) from a[0](t-1) by the perceptron rule. It starts at w_rec; a cell with several gates
    starts it at their mean. Its feedback weights are its own, whether or not the network's credit is exact. What a unit
    keeps to itself, such as an LSTM's memory, is assigned no credit of its own.
    """

    learning_rate: float | Float[Array, ""] = 1e-3
    jacobian_rate: float | Float[Array, ""] = 1e-3
    target_interval: int = 5

    name: ClassVar[str] = "DNI(b)"
    facing: ClassVar = "future"
    tensor: ClassVar[str] = "A_li"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = True
    memory: ClassVar[str] = "n²"
    time: ClassVar[str] = "n²"
    unitwise: ClassVar[bool] = True

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "jacobian_rate", least=0.0)
        checks.whole(self, "target_interval")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> BiologicalState:
        cell = unitwise(cell)
        key_A, key_fb = jax.random.split(key)
        heard = [gate.rec for gate in weights if gate.rec is not None]
        return BiologicalState(
            first_synthesizer(cell, key_A, n_out, credited=1),
            ((total(*heard) / len(heard),),),
            random_feedback(key_fb, n_out, cell.n, cell.dtype),
        )

    def credit(self, tick: Tick, state: BiologicalState) -> tuple[Credit, Any, BiologicalState]:
        J = descended(state.J, tick.before[:1], tick.state[:1], self.jacobian_rate)
        cbar = (vecmat(tick.error, state.W_fb),)
        (synthetic,) = apply(state.synthesizer.A_star, features(tick.state, tick.label))
        bootstrap = (vecmat(jnp.tanh(synthetic), J[0][0]),)
        synthesizer = fitted(tick, state.synthesizer, cbar, bootstrap, self.learning_rate, self.target_interval)
        (c,) = apply(synthesizer.A, features(tick.state, tick.label))
        hidden = (None for _ in tick.state[1:])
        return (c, *hidden), tick.trace, BiologicalState(synthesizer, J, state.W_fb)


def features(a: State, label: Float[Array, " n_out"]) -> State:
    """ã = (a[0], y*, 1): what the readout sees of the state, which unlike an LSTM's memory stays bounded."""
    return (a[0], label, jnp.ones(1, label.dtype))


def apply(A: Map, inputs: State) -> State:
    """A ã."""
    return tuple(total(*map(matvec, row, inputs)) for row in A)


def descended(A: Map, inputs: State, target: State, rate: float | Float[Array, ""]) -> Map:
    """One step of A down ½‖A inputs - target‖²."""
    error = map(jnp.subtract, apply(A, inputs), target)
    return tuple(
        tuple(a - rate * outer(e, u) for a, u in zip(row, inputs, strict=True)) for row, e in zip(A, error, strict=True)
    )


def fitted(
    tick: Tick, state: Synthesizer, cbar: Credit, bootstrap: State, rate: float | Float[Array, ""], interval: int
) -> Synthesizer:
    """A one step nearer to the target of the previous step, cbar(t-1) + bootstrap."""
    target = tuple(total(u, c) for u, c in zip(state.cbar, bootstrap, strict=True))
    label = jnp.where(tick.t == 0, tick.label, state.label)
    A = descended(state.A, features(tick.before, label), target, rate)
    A_star = either(jax.lax.rem(tick.t + 1, np.int32(interval)) == 0, A, state.A_star)
    return Synthesizer(A, A_star, tick.label, cbar)


def first_synthesizer(cell: Cell, key: PRNGKeyArray, n_out: int, credited: int | None = None) -> Synthesizer:
    """A ~ N(0, 1/√n) for the first `credited` state variables, all by default; nothing known of a previous step."""
    outputs, inputs = cell.widths[:credited], (cell.widths[0], n_out, 1)
    keys = jax.random.split(key, (len(outputs), len(inputs)))
    std = cell.widths[0] ** -0.5
    A = tuple(
        tuple(std * jax.random.normal(keys[p, l], (rows, columns), cell.dtype) for l, columns in enumerate(inputs))
        for p, rows in enumerate(outputs)
    )
    nothing = (jnp.zeros(outputs[0], cell.dtype), *(None for _ in outputs[1:]))
    return Synthesizer(A, A, jnp.zeros(n_out, cell.dtype), nothing)
