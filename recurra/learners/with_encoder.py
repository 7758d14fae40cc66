"""Learning a cell and the encoder before it, each with a rule of its own.

    u(t) = encoder(w, x(t)),     a(t) = f(a(t-1), u(t)),     E(t) = da(t)/dw

What the encoder's parameters w did at earlier steps is still in the state. So their influence obeys the same relation
as that of the cell's weights, E(t) = J E(t-1) + ∂a/∂u ∂u/∂w, whatever learner the cell has. Three rules keep more or
less of E, and a learner that takes any cell can have it as a part of M. docs/how-to/encoders.md shows what each of them
is worth: a network whose encoder follows the present step alone may end worse than one whose encoder never learns.
"""

import abc
import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, LazyWeights, Tangent
from recurra.cells.encoded import Encoded, EncodedWeights
from recurra.cells.tick import Tick
from recurra.cells.unitwise import UnitwiseCell
from recurra.learners.base import About, Learner, PastFacing
from recurra.learners.following import check_given_credit
from recurra.learners.rtrl import RTRL
from recurra.linalg import add_or_zero, mul, zeros_like


class EncoderRule(checks.Part):
    """How the parameters of an encoder are learned: an estimate of E, as a past-facing learner has one of M."""

    def check(self, cell: Encoded) -> None:
        """Raise if it cannot learn before this cell."""
        return None

    @abc.abstractmethod
    def init(self, cell: Encoded) -> Any:
        """The state before the first step: E = 0."""

    @abc.abstractmethod
    def advance(self, tick: Tick, E: Any) -> Any:
        """The estimate of E(t) from that of E(t-1)."""

    @abc.abstractmethod
    def contract(self, cell: Encoded, weights: EncodedWeights, c: Credit, E: Any) -> PyTree[Array]:
        """c E."""


class Traced(EncoderRule):
    """E(t) = J E(t-1) + ∂a/∂u ∂u/∂w, with J within units, or with `whole` all of J.

    It keeps a number for each pair of a state variable and a parameter. Within units it needs a unit-wise cell, and
    costs as much time. It is exact for units that do not hear each other. With `whole` it is exact for any cell.

    >>> learner = rc.WithEncoder(rc.SnAp1(), rc.Traced(whole=True))
    """

    whole: bool = False

    def __check_init__(self) -> None:
        checks.flag(self, "whole")

    def check(self, cell: Encoded) -> None:
        if not self.whole and not isinstance(cell.cell, UnitwiseCell):
            raise TypeError(
                f"`Traced()` follows the encoder within units, and {cell.cell.name} is no unit-wise cell: use "
                "recurra.Traced(whole=True), which takes any cell."
            )

    def init(self, cell: Encoded) -> Tangent:
        return cell.no_encoder_influence()

    def advance(self, tick: Tick, E: Tangent) -> Tangent:
        kept = tick.push(E) if self.whole else _within_units(tick, E)
        return tuple(map(jnp.add, kept, _encoded(tick.cell).encoder_influence(tick.weights, tick.trace)))

    def contract(self, cell: Encoded, weights: EncodedWeights, c: Credit, E: Tangent) -> PyTree[Array]:
        return cell.contract_encoder(weights, c, E)


class PresentStep(EncoderRule):
    """E = ∂a/∂u ∂u/∂w: what the encoder did at earlier steps is left out, and nothing is kept.

    >>> learner = rc.WithEncoder(rc.SnAp1(), rc.PresentStep())
    """

    def init(self, cell: Encoded) -> None:
        return None

    def advance(self, tick: Tick, E: None) -> Any:
        return tick.trace

    def contract(self, cell: Encoded, weights: EncodedWeights, c: Credit, E: Any) -> PyTree[Array]:
        return cell.deposit_encoder(weights, E, c)


class Frozen(EncoderRule):
    """E = 0: the encoder stays as it is, as a baseline or because it was trained before.

    >>> learner = rc.WithEncoder(rc.SnAp1(), rc.Frozen())
    """

    def init(self, cell: Encoded) -> None:
        return None

    def advance(self, tick: Tick, E: None) -> None:
        return None

    def contract(self, cell: Encoded, weights: EncodedWeights, c: Credit, E: None) -> PyTree[Array]:
        return zeros_like(weights.encoder)


class Encoding(NamedTuple):
    """What the learner of the cell keeps, and the estimate of E."""

    M: PyTree
    E: Any


class WithEncoder(PastFacing):
    """A past-facing `learner` for a cell, and an `encoder` rule for the encoder before it (`recurra.Encoded`).

    The rule is `recurra.Traced()` unless another is given: `Traced(whole=True)`, `PresentStep()` or `Frozen()`. With
    None the encoder is part of the cell for the learner, which must take any cell and may then be of any kind.

    A learner that is given alone for a network with an encoder is taken as `WithEncoder(learner)` if it is past-facing,
    emits at once and its cell is unit-wise. Others, and RTRL, are taken as `WithEncoder(learner, None)`, so that RTRL
    is exact.

    >>> import equinox as eqx
    >>> encoder = eqx.nn.MLP(3, 4, width_size=8, depth=1, key=jax.random.key(0))
    >>> network = rc.Network(rc.Encoded(encoder, rc.GRU(n_in=4, n=8), x=3), n_out=2)
    >>> step = rc.LearningStep(network, rc.WithEncoder(rc.SnAp1(), rc.PresentStep()), 1e-2)
    """

    learner: Any
    encoder: Any = eqx.field(default_factory=Traced)  # an `EncoderRule` or None

    def __check_init__(self) -> None:
        if self.encoder is None:
            if not isinstance(self.learner, Learner):
                raise TypeError(f"`learner` of WithEncoder must be a learner, and is {self.learner!r:.100}.")
            return
        if not isinstance(self.encoder, EncoderRule):
            raise TypeError(
                "`encoder` of WithEncoder must be Traced(), PresentStep(), Frozen() or None, and is "
                f"{self.encoder!r:.100}."
            )
        check_given_credit("WithEncoder", self.learner)

    @property
    def about(self) -> About:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the learner with the rule in its names, for any cell: `check` looks at the one behind the encoder."""
        about = self.learner.about
        rule = "inside" if self.encoder is None else checks.command_name(type(self.encoder))
        rule += " in whole" * (self.encoder == Traced(whole=True))
        names = {"id": f"{about.id} {rule}", "name": f"{self.learner.name}, encoder {rule}"}
        return dataclasses.replace(about, **names, unitwise=False, lag=None, period=None)

    def check(self, cell: Cell) -> None:
        from recurra.learners import check_pairing

        if not isinstance(cell, Encoded):
            raise TypeError(
                f"WithEncoder is for a cell behind an encoder, and {cell.name} has none: use "
                f"{type(self.learner).__name__}() itself, or recurra.Encoded(encoder, cell)."
            )
        check_pairing(self.learner, cell.cell)
        self.encoder.check(cell)

    def init(self, cell: Cell, weights: EncodedWeights, key: PRNGKeyArray, n_out: int) -> Encoding:
        cell = _encoded(cell)
        return Encoding(self.learner.init(cell.cell, weights.cell, key, n_out), self.encoder.init(cell))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        return self.learner.noise(_encoded(cell).cell, key, steps)

    def advance(self, tick: Tick, state: Encoding, noise: PyTree) -> Encoding:
        within = dataclasses.replace(
            tick, cell=_encoded(tick.cell).cell, weights=tick.weights.cell, trace=tick.trace.cell
        )
        return Encoding(self.learner.advance(within, state.M, noise), self.encoder.advance(tick, state.E))

    def contract(self, cell: Cell, weights: EncodedWeights, c: Credit, state: Encoding) -> LazyWeights:
        cell = _encoded(cell)
        of_cell = self.learner.contract(cell.cell, weights.cell, c, state.M)
        return EncodedWeights(of_cell, self.encoder.contract(cell, weights, c, state.E))

    def forget(self, cell: Cell, state: Encoding) -> Encoding:
        return Encoding(self.learner.forget(_encoded(cell).cell, state.M), zeros_like(state.E))


def suited(learner: Learner, cell: Cell) -> Learner:
    """The learner as it learns with a cell: where the cell has an encoder, one that has no rule for it gets one."""
    if isinstance(learner, WithEncoder):
        return learner.learner if learner.encoder is None else learner
    if not isinstance(cell, Encoded) or not isinstance(cell.cell, UnitwiseCell) or not isinstance(learner, PastFacing):
        return learner
    return learner if isinstance(learner, RTRL) or learner.lag or learner.period else WithEncoder(learner)


def _within_units(tick: Tick, E: Tangent) -> Tangent:
    """What is left of E by the part of J that lies within units."""
    cell: Any = _encoded(tick.cell).cell
    keep = cell.own_jacobian(tick.weights.cell, tick.trace.cell)
    return tuple(add_or_zero(e, *map(mul, row, E)) for e, row in zip(E, keep, strict=True))


def _encoded(cell: Cell) -> Encoded:
    """The cell, typed as one with an encoder."""
    assert isinstance(cell, Encoded)
    return cell
