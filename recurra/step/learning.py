"""A network, its learners and an optimizer, taken one step further."""

import zlib
from collections.abc import Callable, Collection
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Credit, State, Weights
from recurra.cells.tick import Tick
from recurra.learners import check_pairing, suited
from recurra.learners.base import Learner, PastFacing
from recurra.linalg import average, dense, where, zeros_like
from recurra.losses import SquaredError
from recurra.network import Network, NetworkWeights
from recurra.step.contracts import check_about, check_parts
from recurra.step.counting import set_back
from recurra.step.given import check_noise, check_row, check_target
from recurra.step.optimizers import Optimizer, checked_optimizer, descend_if, init_optimizer
from recurra.step.readouts import RLS
from recurra.step.types import GivenCredit, GivenError, LearningState, Observed, Outcome

#: the name under which states, noise and outcomes have what belongs to the learner that trains
APPLIED = "applied"


def _names(given: Collection[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"`exact_probes` must have the names of probes, as ('rtrl',) does, and is {given!r}.")
    return tuple(given)


_WITHOUT, _INSTEAD = "was made for a run without", "start from the state that `LearningStep.init` returns"


class LearningStep(checks.Part):
    """A network, the learner that trains it, and an optimizer that follows the learner's gradients.

    `probes` are other learners by name. They see the same steps, and change nothing. With several `streams` the network
    runs in as many copies that share their weights, each on data of its own, and descends along the mean of their
    gradients.

    In a network with random feedback, probes get the credit that the applied learner gets, through the random weights,
    and so does RTRL: it is then no truth. The probes that `exact_probes` names get credit through the readout's own
    weights in its place, so RTRL among them has the gradient of the loss. In a network without random feedback all
    credit is exact, and the field changes nothing; nor does it where credit of your own is given.

    The readout follows the optimizer too, unless `readout` is a rule of its own. Parts that do not fit are a
    TypeError.

    States, noise and outcomes have an entry for each learner: "applied" for the one that trains, and the probes under
    their names.

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=2)
    >>> step = rc.LearningStep(network, rc.RFLO(), optimizer=1e-2)
    >>> seen, output = step.observe(step.init(jax.random.key(0)), jnp.ones(2))
    >>> state, outcome = step.learn(seen, jnp.array([1.0, 0.0]))
    """

    network: Network
    learner: Learner
    optimizer: Optimizer = eqx.field(converter=checked_optimizer)
    probes: dict[str, Learner] = eqx.field(default_factory=dict)
    streams: int = 1
    readout: RLS | None = None
    exact_probes: tuple[str, ...] = eqx.field(static=True, default=(), converter=_names)

    def __post_init__(self) -> None:
        if isinstance(self.network, Network):
            self.learner = suited(self.learner, self.network.cell)
            if isinstance(self.probes, dict):
                self.probes = {name: suited(probe, self.network.cell) for name, probe in self.probes.items()}

    def __check_init__(self) -> None:
        if not isinstance(self.network, Network):
            raise TypeError(f"`network` must be a recurra Network, and is {self.network!r}.")
        checks.whole(self, "streams")
        if not isinstance(self.probes, dict):
            raise TypeError(
                f"`probes` must map names to learners, as {{'rflo': recurra.RFLO()}} does, and is {self.probes!r}."
            )
        if APPLIED in self.probes:
            raise ValueError(f"A probe cannot be called {APPLIED!r}: that is the learner that trains.")
        for name in self.exact_probes:
            if name not in self.probes:
                known = ", ".join(map(repr, self.probes)) or "there is none"
                raise ValueError(f"`exact_probes` names {name!r}, which must be a probe: {known}.")
        if self.readout is not None and not isinstance(self.readout, RLS):
            raise TypeError(f"`readout` must be recurra.RLS() or None, and is {self.readout!r}.")
        if self.readout is not None and self.network.head is not None:
            raise TypeError(
                "Recursive least squares is a rule for the linear readout, and the network has a `head` of your own: "
                "leave `readout` or `head` out."
            )
        if self.readout is not None and not isinstance(self.network.loss, SquaredError):
            raise TypeError(
                f"Recursive least squares needs squared error, and the network's loss is {self.network.loss!r}: use "
                "loss=recurra.SquaredError(), or leave `readout` out."
            )
        if self.readout is not None:
            self.readout.check(self.network)
        for name, learner in self.learners.items():
            _check_learner(name, learner)
            check_pairing(learner, self.network.cell)
        check_parts(self.network, self.learners, self.optimizer)

    @property
    def learners(self) -> dict[str, Learner]:
        """All learners by name, the one that trains first."""
        return {APPLIED: self.learner, **self.probes}

    def __hash__(self) -> int:
        # `jax.jit(step.observe)` keeps what it compiled by this; the generated hash would stumble over the dictionary.
        return hash(tuple(jax.tree.leaves(self)))

    def init(self, key: PRNGKeyArray) -> LearningState:
        """The state before the first step, after which any step may lack its label, or set the state back."""
        key_weights, key_learners = jax.random.split(key)
        state = self.start_from(self.first_weights(key_weights), key_learners, gaps=True, resets=True)
        return state._replace(key=jax.random.fold_in(key, 0))

    def first_weights(self, key: PRNGKeyArray) -> NetworkWeights:
        """The weights before the first step."""
        weights = self.network.init(key)
        return weights if self.readout is None else weights._replace(readout=zeros_like(weights.readout))

    def start_from(
        self, weights: NetworkWeights, key_learners: PRNGKeyArray, gaps: bool = False, resets: bool = False
    ) -> LearningState:
        """The state before the first step, with given weights and without a key.

        It counts only what is needed: steps since the latest label where there are `gaps`, and since the latest reset
        where there are `resets`. Weights of another network are a ValueError.
        """
        self.network.check_weights(weights)
        cell = self.network.cell
        applied = cell.applied(weights.cell)
        first = lambda name: lambda key: self.learners[name].init(cell, applied, key, self.network.n_out)
        learners = {name: self.each_stream(first(name), own) for name, own in self.own_keys(key_learners).items()}
        count = lambda wanted: self.in_every_stream(jnp.zeros((), "int32")) if wanted else None
        return LearningState(
            jnp.zeros((), "int32"),
            weights,
            (init_optimizer(self.optimizer, weights.cell), self._init_readout(weights)),
            self.in_every_stream(cell.init_state()),
            learners,
            count(gaps),
            count(resets),
        )

    def _init_readout(self, weights: NetworkWeights) -> PyTree:
        if self.readout is not None:
            return self.readout.init(self.network)
        return init_optimizer(self.optimizer, weights.readout)

    def noise(self, key: PRNGKeyArray, steps: int) -> dict[str, PyTree]:
        """The random numbers of so many steps for every learner, axes time and streams first. `observe` takes a row."""
        return {name: self.noise_of(name, own, steps) for name, own in self.own_keys(key).items()}

    def noise_of(self, name: str, key: PRNGKeyArray, steps: int) -> PyTree:
        """The random numbers of one learner, from a key of its own."""
        drawn = self.each_stream(lambda key: self.learners[name].noise(self.network.cell, key, steps), key)
        return drawn if self.streams == 1 else jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), drawn)

    def own_keys(self, key: PRNGKeyArray) -> dict[str, PRNGKeyArray]:
        """A key for each learner: it depends on its name alone, so that a probe changes nothing for the others."""
        number = lambda name: 0 if name == APPLIED else zlib.crc32(name.encode())
        return {name: jax.random.fold_in(key, number(name)) for name in self.learners}

    def observe(
        self,
        state: LearningState,
        x: Float[Array, "*streams n_in"],
        noise: dict[str, PyTree] | None = None,
        reset: Bool[Array, "*streams"] | None = None,
    ) -> tuple[Observed, Float[Array, "*streams n_out"]]:
        """Input x arrives. Returns the step so far, to be passed to `learn`, and the output.

        Random numbers of the learners are drawn with the key of the state, unless `noise` has them: one row of what the
        method `noise` returns. Where `reset` is true, the state is first set back to its start. Arrays of another shape
        are a ValueError, and of another type, such as complex numbers or flags that are not bool, a TypeError.
        """
        if reset is not None and state.first is None:
            raise ValueError(f"`reset` was given, and the state {_WITHOUT} resets: {_INSTEAD}.")
        check_row(self.network.cell.n_in, self.streams, x, reset)
        state, noise = self._drawn(state, noise)

        def look(a: State, x: Array, reset: Array | None) -> tuple[State, State, Any, Array]:
            a = a if reset is None else where(reset, self.network.cell.init_state(), a)
            return a, *self.network.forward(state.weights, a, x)

        before, after, trace, output = self.over_streams(look)(state.a, x, reset)
        return Observed(state, x, noise, before, after, trace, output, reset), output

    def _drawn(self, state: LearningState, noise: dict[str, PyTree] | None) -> tuple[LearningState, dict[str, PyTree]]:
        """The state with its next key, and the random numbers of one step: those that are given, or drawn ones."""
        draw = lambda key: jax.tree.map(lambda rows: rows[0], self.noise(key, 1))
        shapes = jax.eval_shape(draw, jax.random.key(0))
        if noise is not None:
            check_noise(noise, shapes)
            return state, noise
        if not jax.tree.leaves(shapes):  # no learner needs any
            return state, shapes
        if state.key is None:
            raise ValueError(
                "The state has no key to draw random numbers with: pass `noise`, or give it one with "
                "state._replace(key=jax.random.key(0))."
            )
        key, own = jax.random.split(state.key)
        return state._replace(key=key), draw(own)

    def learn(
        self,
        seen: Observed,
        target: Float[Array, "*streams n_out"] | GivenError | GivenCredit,
        present: Bool[Array, "*streams"] | None = None,
    ) -> tuple[LearningState, Outcome]:
        """The label arrives, or an error or credit in its place. Returns the next state, and what is known of the step.

        A label counts only where `present` is true. One of another shape than the output is a ValueError.
        """
        check_target(self.network, self.streams, target, present)
        state, t = seen.state, seen.state.t
        counted = _steps_since_label(state, present)
        unlabelled = None if present is None else counted
        first = state.first if seen.reset is None or state.first is None else jnp.where(seen.reset, t, state.first)
        applied, pull = self.network.cell.applied_with_pull(state.weights.cell)
        loss, label, error, cbar, readout, found, learners = self._look(seen, applied, target, present, first)
        gradients, emitted = {}, {}
        for name, learner in self.learners.items():
            emits = learner.emits(t, unlabelled)
            gradient = None if found[name] is None else self._mean(found[name], emits)
            if learner.period:
                ends = (t + 1) % learner.period == 0
                now, learners[name] = self._due_if(ends, name, applied, learners[name], unlabelled)
                gradient = gradient if now is None else now
            gradients[name] = zeros_like(state.weights.cell) if gradient is None else pull(gradient)
            emitted[name] = jnp.any(emits) if self.streams > 1 else jnp.asarray(emits)

        moves = self.learners[APPLIED].emits(t, unlabelled)
        judged = False if isinstance(target, GivenCredit) else True if present is None else present
        optimizers, weights = state.optimizers, state.weights
        cell = descend_if(moves, self.optimizer, gradients[APPLIED], optimizers[0], weights.cell)
        out = self._follow(judged, seen, readout)
        weights = weights._replace(cell=cell[0], readout=out[0])
        t_next, first = set_back(self.learners, t + 1, first)
        after = LearningState(t_next, weights, (cell[1], out[1]), seen.after, learners, counted, first, state.key)
        shown = t, state.weights, seen.x, label, seen.output, loss, seen.after, gradients, emitted
        # A constant of NumPy's, so that it is no operation of a program that does not look at it.
        given = np.ones(() if self.streams == 1 else self.streams, bool) if present is None else present
        return after, Outcome(*shown, error, cbar, cast(Array, given), learners)

    def _follow(self, judged: Array | bool, seen: Observed, gradient: PyTree) -> tuple[PyTree, PyTree]:
        """The readout after the step, and what its rule or optimizer keeps."""
        readout, kept = seen.state.weights.readout, seen.state.optimizers[1]
        if self.readout is None:
            return descend_if(judged, self.optimizer, self._mean(gradient, judged), kept, readout)
        heard = self.over_streams(self.network.heard)(seen.after, seen.x)
        u = jnp.concatenate([jnp.ones_like(heard[..., :1]), heard], axis=-1)
        return self.readout.follow(judged, gradient.b, u, kept, readout)

    def _look(
        self, seen: Observed, applied: Weights, target: Any, present: Array | None, first: Array | None
    ) -> tuple[Array, Array, Array, PyTree, Any, dict[str, Any], dict[str, PyTree]]:
        """Loss, label, error, immediate credit and gradient of the readout, for every stream; then each learner's
        gradient and next state."""
        cell, weights, t = self.network.cell, seen.state.weights, seen.state.t

        def of_stream(seen: Observed, target: Any, present: Array | None, first: Array | None, learners: dict) -> tuple:
            loss, label, error, cbar = self._judged(weights, seen, target, present)
            views = seen.before, seen.after, seen.trace, label, error, cbar, seen.reset, first, self.network.loss
            tick = Tick(cell, applied, t, *views)
            ticks: dict[str, Any] = dict.fromkeys(self.learners, tick)
            if self.exact_probes and weights.feedback is not None:
                exact = self._judged(weights._replace(feedback=None), seen, target, present)[3]
                ticks |= dict.fromkeys(self.exact_probes, eqx.tree_at(lambda tick: tick.cbar, tick, exact))
            pairs = {n: learner.step(ticks[n], learners[n], seen.noise[n]) for n, learner in self.learners.items()}
            readout = self.network.readout_gradient(weights, error, seen.after, seen.x)
            return loss, label, error, cbar, readout, *({n: pair[i] for n, pair in pairs.items()} for i in (0, 1))

        # The state has no leading axis over streams, but for those of the learners, which are passed by themselves.
        alone = seen._replace(state=cast(Any, None))
        loss, *others = self.over_streams(of_stream)(alone, target, present, first, seen.state.learners)
        return self._mean_loss(loss, present), *others

    def loss_of(self, output: Float[Array, "*streams n_out"], target: Any, present: Array | None) -> Float[Array, ""]:
        """The loss of an output, whichever step it is from; nan where there is no label."""
        if isinstance(target, GivenError | GivenCredit):
            return jnp.full((), jnp.nan, output.dtype)
        loss = self.over_streams(lambda output, label: self.network.loss(output, label)[0])(output, target)
        return self._mean_loss(loss if present is None else jnp.where(present, loss, jnp.nan), present)

    def _mean_loss(self, loss: Array, present: Array | None) -> Float[Array, ""]:
        if self.streams == 1:
            return loss
        return average(loss) if present is None else _mean_where(present, loss)

    def due(self, name: str, state: LearningState, is_due: Bool[Array, ""] | bool = True) -> LearningState:
        """The state after the work that is due of the learner `name`, if `is_due`.

        `learn` does this work itself at every `period`-th step. It is here for loops whose steps leave it out.
        """

        def change(part: tuple[PyTree, Weights, PyTree]) -> tuple[PyTree, Weights, PyTree]:
            learner, weights, optimizer = part
            applied, pull = self.network.cell.applied_with_pull(weights)
            gradient, learner = self._due(name, applied, learner, state.unlabelled)
            if name != APPLIED or gradient is None:
                return learner, weights, optimizer
            moves = self._labelled(name, state.unlabelled)
            return learner, *descend_if(moves, self.optimizer, pull(gradient), optimizer, weights)

        part = state.learners[name], state.weights.cell, state.optimizers[0]
        part = change(part) if is_due is True else jax.lax.cond(is_due, change, lambda part: part, part)
        return state._replace(
            learners=state.learners | {name: part[0]},
            weights=state.weights._replace(cell=part[1]),
            optimizers=(part[2], state.optimizers[1]),
        )

    def _judged(
        self, weights: NetworkWeights, seen: Observed, target: Any, present: Array | None
    ) -> tuple[Array, Array, Array, Credit]:
        """Loss, label, error and immediate credit of one stream."""
        nothing, unknown = jnp.zeros_like(seen.output), jnp.full((), jnp.nan, seen.output.dtype)
        if isinstance(target, GivenCredit):
            loss, label, error, cbar = unknown, nothing, nothing, target.credit
        else:
            given = isinstance(target, GivenError)
            loss, error = (unknown, target.error) if given else self.network.loss(seen.output, target)
            label, cbar = nothing if given else target, self.network.credit(weights, error, seen.after, seen.x)
        if present is None:
            return loss, label, error, cbar
        counts = lambda tree: where(present, tree, zeros_like(tree))
        return jnp.where(present, loss, jnp.nan), counts(label), counts(error), counts(cbar)

    def _due(
        self, name: str, weights: Weights, state: PyTree, unlabelled: Array | None
    ) -> tuple[Weights | None, PyTree]:
        learner, cell = self.learners[name], self.network.cell
        due = lambda state: learner.due(cell, weights, state)
        if self.streams > 1 and isinstance(learner, PastFacing):
            found, state = jax.lax.map(due, state)  # one stream after the other: what it carries stays in the cache
        else:
            found, state = self.over_streams(due)(state)
        return None if found is None else self._mean(found, self._labelled(name, unlabelled)), state

    def _labelled(self, name: str, unlabelled: Array | None) -> Array | bool:
        """Whether a learner's last period had a label."""
        return True if unlabelled is None else unlabelled < self.learners[name].period

    def _due_if(
        self, is_due: Array, name: str, weights: Weights, state: PyTree, unlabelled: Array | None
    ) -> tuple[Weights | None, PyTree]:
        due = lambda state: self._due(name, weights, state, unlabelled)
        nothing = zeros_like(jax.eval_shape(due, state)[0])
        return jax.lax.cond(is_due, due, lambda state: (nothing, state), state)

    def _mean(self, gradient: PyTree, counts: Array | bool) -> PyTree:
        """The mean over the streams that count, multiplied out."""
        return dense(gradient) if self.streams == 1 else average(gradient, self._share(counts))

    def _share(self, counts: Array | bool | None) -> Float[Array, " streams"] | None:
        """Each stream's share in a mean over those that count; None if all do."""
        if not isinstance(counts, Array) or counts.ndim == 0:
            return None
        number = counts.astype(self.network.cell.dtype)
        return number / jnp.maximum(jnp.sum(number), 1)

    def over_streams(self, f: Callable) -> Callable:
        """f, mapped over streams; f itself for a single one."""
        return f if self.streams == 1 else jax.vmap(f)

    def each_stream(self, draw: Callable[..., PyTree], key: PRNGKeyArray, *of_stream: PyTree) -> PyTree:
        """What `draw` returns for every stream, each with a key of its own."""
        return (
            draw(key, *of_stream)
            if self.streams == 1
            else jax.vmap(draw)(jax.random.split(key, self.streams), *of_stream)
        )

    def in_every_stream(self, tree: PyTree[Array]) -> PyTree[Array]:
        """The tree, repeated for every stream; the tree itself for a single one."""
        repeat = lambda leaf: jnp.broadcast_to(leaf, (self.streams, *leaf.shape))
        return tree if self.streams == 1 else jax.tree.map(repeat, tree)


def _check_learner(name: Any, learner: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"A learner's name must be text, and is {name!r}.")
    if not isinstance(learner, Learner):
        what = "`learner`" if name == APPLIED else f"The learner {name!r}"
        raise TypeError(f"{what} must be a learner such as recurra.RFLO(), and is {learner!r}.")
    check_about(learner)


def _steps_since_label(state: LearningState, present: Array | None) -> Array | None:
    if present is None:
        return None if state.unlabelled is None else jnp.zeros_like(state.unlabelled)
    if state.unlabelled is None:
        raise ValueError(f"`present` was given, and the state {_WITHOUT} missing labels: {_INSTEAD}.")
    # After 2³¹ steps the sum would be negative; the count then stays where it is.
    return jnp.where(present, 0, jnp.maximum(state.unlabelled + 1, state.unlabelled))


def _mean_where(present: Bool[Array, " streams"], loss: Float[Array, " streams"]) -> Float[Array, ""]:
    """The mean over labelled streams; nan if there are none."""
    return jnp.sum(jnp.where(present, loss, 0)) / jnp.sum(present).astype(loss.dtype)
