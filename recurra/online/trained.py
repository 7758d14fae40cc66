"""A network and its weights as one thing: to run, and to keep in a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from recurra import checks
from recurra.network import Network, NetworkWeights
from recurra.online import keeping
from recurra.saved.parts import NotDescribedError, described, outlined, rebuilt
from recurra.saved.trees import arrays_of, filled

#: The state of a network; of several sequences with a leading axis over them.
State = tuple[Float[ArrayLike, "..."], ...]


@dataclass(frozen=True, eq=False, repr=False)
class TrainedNetwork:
    """A network with its weights, which runs and learns nothing: what `recurra.load` makes of a saved network.

    `run` takes whole sequences, and `step` one row after the other. To go on learning, start from its weights:
    `recurra.train(trained.network, ..., start=trained.weights)`, or `recurra.Online(step, weights=trained.weights)`.

    Weights of another network, and numbers that are not finite, are a ValueError that names the array.

    >>> network = rc.Network(rc.GRU(n_in=3, n=8), n_out=2)
    >>> trained = rc.TrainedNetwork(network, network.init(jax.random.key(0)))
    >>> trained.run(np.zeros((50, 3))).shape  # a sequence of 50 steps
    (50, 2)
    >>> trained.run(np.zeros((50, 16, 3))).shape  # 16 such sequences
    (50, 16, 2)
    >>> state = trained.start()
    >>> for x in np.zeros((50, 3)):
    ...     state, output = trained.step(state, x)
    >>> output.shape
    (2,)
    """

    network: Network
    weights: NetworkWeights

    def __post_init__(self) -> None:
        if not isinstance(self.network, Network):
            raise TypeError(f"`network` must be a recurra.Network, and is a {type(self.network).__name__}.")
        self.network.check_weights(self.weights)
        object.__setattr__(self, "weights", jax.tree.map(jnp.asarray, self.weights))

    def __repr__(self) -> str:
        return f"TrainedNetwork({self.network!r})"

    def run(
        self, inputs: Float[ArrayLike, "steps *sequences n_in"], state: State | None = None
    ) -> Float[Array, "steps *sequences n_out"]:
        """The outputs for a sequence of inputs, or for several; from `state`, or from the first state.

        Several sequences have an axis after that of time, and a `state` then has a leading one over sequences.
        """
        return self.network.run(self.weights, inputs, state)

    def start(self, sequences: int | None = None) -> State:
        """The first state, for `step`; with a number of `sequences` that of so many, on a leading axis."""
        if sequences is None:
            return _first(self.network)
        return _first(self.network, checks.whole_number("`sequences`", sequences))

    def step(
        self, state: State, x: Float[ArrayLike, "*sequences n_in"]
    ) -> tuple[State, Float[Array, "*sequences n_out"]]:
        """The state after a row of inputs, and the output; for several sequences, one row for each.

        It is compiled at the first call. An array of another shape is a ValueError that names it.
        """
        cell = self.network.cell
        x = jnp.asarray(x, cell.dtype)
        if x.ndim not in (1, 2) or x.shape[-1] != cell.n_in:
            raise ValueError(
                f"`x` must have shape ({cell.n_in},), or for several sequences (sequences, {cell.n_in}), and has shape "
                f"{x.shape}."
            )
        return _step(self.network, self.weights, state, x)

    def state_arrays(self) -> dict[str, np.ndarray]:
        """All numbers that a file keeps of it."""
        return keeping.under("weights", arrays_of(self.weights))

    def description(self) -> dict[str, Any]:
        """All else that a file keeps of it, as JSON; with parts of a user's own, as much as can be told of them."""
        try:
            return {"network": described(self.network)}
        except NotDescribedError as error:
            outline = outlined(self.network)
            return {"own_parts": error.reason, "outline": outline, **keeping.functions_of(self.network)}

    @staticmethod
    def from_saved(
        description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], like: "TrainedNetwork | Network | None" = None
    ) -> "TrainedNetwork":
        """The network of which these were made; ValueError if none was. `like` has parts that no file describes."""
        network = like.network if isinstance(like, TrainedNetwork) else like
        if network is not None:
            keeping.check_template(description, "network", network)
            keeping.check_functions(description, network)
        elif "own_parts" in description:
            raise keeping.NeedsTemplate(
                f"{description['own_parts']}, so a file cannot describe it. Load it with a network built in the same "
                "way: rc.load(path, like=network)."
            )
        else:
            network = rebuilt(description.get("network"))
        if not isinstance(network, Network):
            raise ValueError(f"it describes a {type(network).__name__}, and no network")
        like_weights = jax.eval_shape(network.init, jax.random.key(0))
        return TrainedNetwork(network, filled(like_weights, keeping.within(arrays, "weights"), finite=True))


def _first(network: Network, *sequences: int) -> State:
    return jax.tree.map(lambda a: jnp.broadcast_to(a, (*sequences, *a.shape)), network.cell.init_state())


@eqx.filter_jit
def _step(network: Network, weights: NetworkWeights, state: State, x: Array) -> tuple[State, Array]:
    like = _first(network, *x.shape[:-1])
    checks.fits("state", state, like, of="network")  # here, so that it costs nothing once it is compiled

    def step(state: Any, x: Array) -> tuple[State, Array]:
        after, _, output = network.forward(weights, state, x)
        return after, output

    return (step if x.ndim == 1 else jax.vmap(step))(state, x)
