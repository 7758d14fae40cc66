"""What is recorded of every step, and how a step waits for gradients that come late."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from recurra.programs import seen_by
from recurra.step import LearningState, LearningStep, Outcome

#: a function of an `Outcome` whose result is kept for every step
RecordFunction = Callable[[Outcome], PyTree[Array]]


class StepRecorder(eqx.Module):
    """Calls every function with the outcome of a step, once all gradients of the step are known.

    A late gradient is recorded at the step it belongs to. With a learner that emits late, outcomes are passed on
    `delay` steps late, but complete. Until then they wait in rings; each ring is as long as its content has to wait.
    """

    functions: Mapping[str, RecordFunction]
    delay: int
    waits: dict[str, int]

    @staticmethod
    def of(functions: Mapping[str, RecordFunction], learners: Mapping[str, Any]) -> "StepRecorder | None":
        """A recorder for these learners; None if there is nothing to record."""
        delay = max(learner.lag for learner in learners.values())
        waits = {name: delay - learner.lag for name, learner in learners.items()}
        return StepRecorder(dict(functions), delay, waits) if functions else None

    def init(self, step: LearningStep, state: LearningState) -> Outcome:
        """Empty rings. A part of the outcome that no function looks at has a ring of length 0, and costs no memory."""
        shape = lambda tree: jax.eval_shape(lambda: tree)
        dtype, scalar = step.network.cell.dtype, lambda kind: shape(jnp.zeros((), kind))
        of_stream = lambda size: shape(step.in_every_stream(jnp.zeros(size, dtype)))
        no_error = jnp.zeros(step.network.n_out, dtype)
        no_input = jnp.zeros(step.network.cell.n_in, dtype)
        credit = lambda weights, a: step.over_streams(lambda a: step.network.credit(weights, no_error, a, no_input))(a)
        one = Outcome(
            t=scalar("int32"),
            weights=shape(state.weights),
            input=of_stream(step.network.cell.n_in),
            label=of_stream(step.network.n_out),
            output=of_stream(step.network.n_out),
            loss=scalar(dtype),
            state=shape(state.a),
            gradients={name: shape(state.weights.cell) for name in self.waits},
            emitted={name: scalar(bool) for name in self.waits},
            error=of_stream(step.network.n_out),
            credit=jax.eval_shape(credit, state.weights, state.a),
            present=shape(step.in_every_stream(jnp.zeros((), bool))),
            learners=shape(state.learners),
        )
        same = lambda wait: lambda _: wait
        waits = jax.tree.map(same(self.delay), one)._replace(
            gradients={name: jax.tree.map(same(wait), one.gradients[name]) for name, wait in self.waits.items()},
            emitted=self.waits,
        )
        wanted = jax.tree.unflatten(jax.tree.structure(one), self._looked_at(one))
        ring = lambda leaf, wait, wanted: jnp.zeros((wait if wanted else 0, *leaf.shape), leaf.dtype)
        return jax.tree.map(ring, one, waits, wanted)

    def _looked_at(self, one: Outcome) -> list[bool]:
        """Which leaves of an outcome the functions look at."""
        program = jax.make_jaxpr(self._kept)(one).jaxpr
        seen = set().union(*seen_by(program))
        return [i in seen for i in range(len(program.invars))]

    def _kept(self, outcome: Outcome) -> dict[str, PyTree[Array]]:
        return {name: _arrays(name, f(outcome)) for name, f in self.functions.items()}

    def __call__(self, state: Outcome, outcome: Outcome, t: Int[Array, ""]) -> tuple[Outcome, PyTree[Array]]:
        """The rings after step t, and what the functions return for the outcome that is complete now."""
        leaves, treedef = jax.tree.flatten(outcome)
        pairs = list(zip(leaves, treedef.flatten_up_to(state), strict=True))
        whole = [ring[t % len(ring)] if len(ring) else leaf for leaf, ring in pairs]
        rings = [ring.at[t % len(ring)].set(leaf) if len(ring) else ring for leaf, ring in pairs]
        late = jax.tree.unflatten(treedef, whole)
        return jax.tree.unflatten(treedef, rings), self._kept(late)


def _arrays(name: str, found: Any) -> PyTree[Array]:
    try:
        return jax.tree.map(jnp.asarray, found)
    except TypeError as error:
        raise TypeError(f"`record[{name!r}]` must return arrays or numbers, and returned {found!r}.") from error
