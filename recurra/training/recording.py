"""What is recorded of every step, and how a step waits for gradients that come late."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

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
        """Empty rings."""
        dtype = step.network.cell.dtype
        of_stream = lambda size: step.in_every_stream(jnp.zeros(size, dtype))
        ring = lambda steps: lambda leaf: jnp.zeros((steps, *leaf.shape), leaf.dtype)
        hold = ring(self.delay)
        return Outcome(
            input=hold(of_stream(step.network.cell.n_in)),
            label=hold(of_stream(step.network.n_out)),
            output=hold(of_stream(step.network.n_out)),
            loss=hold(jnp.zeros((), dtype)),
            state=jax.tree.map(hold, state.a),
            gradients={name: jax.tree.map(ring(steps), state.weights.cell) for name, steps in self.waits.items()},
            emitted={name: ring(steps)(jnp.zeros((), bool)) for name, steps in self.waits.items()},
        )

    def __call__(self, state: Outcome, outcome: Outcome, t: Int[Array, ""]) -> tuple[Outcome, PyTree[Array]]:
        """The rings after step t, and what the functions return for the outcome that is complete now."""
        leaves, treedef = jax.tree.flatten(outcome)
        pairs = list(zip(leaves, treedef.flatten_up_to(state), strict=True))
        whole = [ring[t % len(ring)] if len(ring) else leaf for leaf, ring in pairs]
        rings = [ring.at[t % len(ring)].set(leaf) if len(ring) else ring for leaf, ring in pairs]
        late = jax.tree.unflatten(treedef, whole)
        return jax.tree.unflatten(treedef, rings), {name: f(late) for name, f in self.functions.items()}
