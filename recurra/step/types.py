"""What goes into a step of learning, what goes on from it, and what is known of it."""

from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.cells.base import Credit, State, Weights
from recurra.network import NetworkWeights


class GivenError(NamedTuple):
    """An error dL/dz of your own, in the place of a label; its loss is not known (nan).

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=1, loss=rc.SquaredError())
    >>> step = rc.LearningStep(network, rc.RFLO(), 1e-2)
    >>> seen, output = step.observe(step.init(jax.random.key(0)), jnp.ones(2))
    >>> state, outcome = step.learn(seen, rc.GivenError(jnp.array([0.3])))
    """

    error: Float[Array, "*streams n_out"]


class GivenCredit(NamedTuple):
    """Credit dL/da of your own, for each state variable, in the place of a label; the readout stands still.

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=1, loss=rc.SquaredError())
    >>> step = rc.LearningStep(network, rc.RFLO(), 1e-2)
    >>> seen, output = step.observe(step.init(jax.random.key(0)), jnp.ones(2))
    >>> state, outcome = step.learn(seen, rc.GivenCredit((jnp.ones(8),)))
    """

    credit: Credit


class LearningState(NamedTuple):
    """Everything that goes from one step to the next.

    `t` is the number of the next step. After some 2³⁰ steps it is set back by a number that no learner notices. There
    is no such number for several learners with long and unlike T: they must not run for 2³¹ steps.
    `unlabelled` counts steps since the latest label, and `first` is the step of the latest reset. Each is None in a run
    that has no missing labels, or no resets. `key` draws the random numbers of learners; it is None where they are
    passed to every step. With several streams, what each stream has of its own has a leading axis over streams.
    """

    t: Int[Array, ""]
    weights: NetworkWeights
    optimizers: tuple[PyTree, PyTree]
    a: State
    learners: dict[str, PyTree]
    unlabelled: Int[Array, "*streams"] | None
    first: Int[Array, "*streams"] | None
    key: PRNGKeyArray | None = None


class Observed(NamedTuple):
    """A step whose input has arrived and whose label has not."""

    state: LearningState
    x: Float[Array, "*streams n_in"]
    noise: dict[str, PyTree]
    before: State
    after: State
    trace: Any
    output: Float[Array, "*streams n_out"]
    reset: Bool[Array, "*streams"] | None


class Outcome(NamedTuple):
    """All that is known of one step once it is over, as a recorder sees it.

    `t` is the number of the step. `weights` are those that the step was taken with: outputs, losses and gradients come
    before the weights follow.

    `error` is dL/dz, and `credit` the immediate credit cbar for each state variable, None for one that the readout does
    not see. With random feedback it is the credit through the random weights, which the applied learner gets.
    `present` tells whether there was a label; without one, error and credit are zero, and the loss is nan.

    `gradients`, `emitted` and `learners` have one entry for each learner: "applied" for the one that trains, and the
    probes under their names. `learners` has what each of them keeps after the step, in the form in which an engine runs
    it; `recurra.ScanEngine(specialise=False)` runs them as published.

    With several streams, input, label, output, state, error, credit, `present` and `learners` have a leading axis over
    streams; loss and gradients are means over streams, and `emitted` tells whether any stream emitted.

    >>> network, task = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), rc.Add(t1=1, t2=2)
    >>> largest = lambda outcome: jnp.max(jnp.abs(outcome.output))
    >>> result = rc.train(network, rc.RFLO(), task, steps=200, record={"largest": largest})
    >>> result.records["largest"].shape
    (1, 200)
    """

    t: Int[Array, ""]
    weights: NetworkWeights
    input: Float[Array, "*streams n_in"]
    label: Float[Array, "*streams n_out"]
    output: Float[Array, "*streams n_out"]
    loss: Float[Array, ""]
    state: PyTree[Float[Array, "*streams n"]]
    gradients: dict[str, Weights]
    emitted: dict[str, Bool[Array, ""]]
    error: Float[Array, "*streams n_out"]
    credit: tuple[Float[Array, "*streams n"] | None, ...]
    present: Bool[Array, "*streams"]
    learners: dict[str, PyTree]
