"""A trained network, handed over as a model for data that arrive."""

import functools
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from recurra.engine.hardware import core_device, in_words
from recurra.engine.protocol import Ends
from recurra.engine.specialise import adopted
from recurra.network import Network, NetworkWeights
from recurra.online.model import Online
from recurra.online.step import Noise, OnlineState, OnlineStep
from recurra.saved.parts import NotDescribedError, described, rebuilt
from recurra.step import APPLIED, DelayedState, LearningState, LearningStep
from recurra.tasks.base import BLOCK

#: The states of all seeds are kept in a result if they take at most so many bytes.
MOST_BYTES = 256_000_000


@dataclass(frozen=True)
class Handover:
    """What a run leaves for those who go on: its step of learning, and where each seed is after `steps` steps.

    Before the run the learners had taken `began` steps. `resets` tells whether the task set the state back. States stay
    where they were computed until someone asks for them: `fetch` brings them to the host. It is None where they are too
    large to keep, and once it has been called.
    """

    step: LearningStep | None
    horizon: int
    steps: int
    began: int
    resets: bool
    fetch: Callable[[], Ends] | None

    @functools.cached_property
    def ends(self) -> Ends | None:
        """Where each seed is after the run."""
        ends = None if self.fetch is None else self.fetch()
        vars(self)["fetch"] = None  # and with it the states where they were computed
        return ends

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "step": _portable(self.step), "ends": self.ends, "fetch": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        step = state["step"]
        self.__dict__.update({**state, "step": rebuilt(step) if isinstance(step, dict) else step})

    @property
    def learned(self) -> int:
        """How many rows were learned from in this run."""
        return max(self.steps - self.horizon, 0)

    @property
    def states(self) -> LearningState | None:
        """Each seed's state, leaves (seed, ...), for `train(start=...)`."""
        if self.ends is None:
            return None
        state = self.ends.state.learning if isinstance(self.ends.state, DelayedState) else self.ends.state
        return state._replace(t=np.full(len(self.ends.noise), self.began + self.learned, np.int32))

    def model(self, weights: NetworkWeights, row: int | None) -> Online:
        """The model of the seed in this row of `ends`; with None, one that starts with the weights alone."""
        learning = replace(self._known_step(), probes={}, exact_probes=())  # a model has no probes
        with jax.default_device(core_device()):
            weights = jax.tree.map(jnp.asarray, weights)
            step = OnlineStep(learning, self.horizon, scale_inputs=False, scale_target=False, resets=self.resets)
            if row is None or self.ends is None:
                return Online(step, weights=weights)
            learning, states = adopted(learning, _of_applied(self.ends.state))
            step = replace(step, learning=learning)
            first = Online(step, weights=weights, specialise=False).state
            state = self._state(step, first, states, row)
            return Online.continued(step, state, rows=self.steps, waiting=min(self.steps, self.horizon))

    @property
    def network(self) -> Network:
        """The network that was trained."""
        return self._known_step().network

    def _known_step(self) -> LearningStep:
        if self.step is None:
            raise ValueError(
                "This result came from another process, and a part of its network or its optimizer could not: use an "
                "optimizer of the library's own, such as recurra.Adam(), or call `online` and `save` where the run was."
            )
        return self.step

    def _state(self, step: OnlineStep, first: OnlineState, learners: dict[str, Any], row: int) -> OnlineState:
        """The state of a model that has seen all rows of the run; `learners` are their states, leaves (seed, ...)."""
        assert self.ends is not None
        number: Any = lambda value, kind="int32": jnp.asarray(value, kind)
        ended, key, learners = jax.tree.map(lambda leaf: jnp.asarray(leaf[row]), (*self.ends, learners))
        learning = ended.learning if isinstance(ended, DelayedState) else ended
        unlabelled = first.delayed.learning.unlabelled if learning.unlabelled is None else learning.unlabelled
        learning = learning._replace(t=number(self.began + self.learned), learners=learners, unlabelled=unlabelled)
        delayed = first.delayed._replace(learning=learning, lead=learning.a)
        if isinstance(ended, DelayedState):
            delayed = delayed._replace(
                lead=ended.lead,
                waiting=ended.waiting._replace(note=None),
                oldest=number(self.learned % self.horizon),
                filled=number(min(self.steps, self.horizon)),
            )
        block, slot = divmod(self.learned, BLOCK)
        own = step.learning.own_keys(jax.random.wrap_key_data(key))
        drawn = {name: step.learning.noise_of(name, jax.random.fold_in(own[name], block), BLOCK) for name in own}
        noise = Noise(drawn, key, number(block, "uint32"), number(slot))
        return first._replace(delayed=delayed, noise=noise, started=number(True, bool))


def _portable(step: LearningStep | None) -> Any:
    """The step in a form that travels between processes; None if something in it cannot, as functions of Optax's."""
    if step is None:
        return None
    try:
        return described(step)  # what cannot be pickled can often be named, such as jax.numpy.tanh
    except NotDescribedError:
        pass
    try:
        pickle.dumps(step)
    except Exception:
        return None
    return step


def _of_applied(state: LearningState | DelayedState) -> dict[str, Any]:
    learning = state.learning if isinstance(state, DelayedState) else state
    return {APPLIED: learning.learners[APPLIED]}


def warn_of_weights_alone() -> None:
    """Say that a model starts with weights alone."""
    warnings.warn(
        f"The states of this run took more than {in_words(MOST_BYTES)} and were not kept: the model starts with the "
        "trained weights alone, a first state, and a new optimizer.",
        stacklevel=3,
    )
