"""Whatever is drawn at random in a run is drawn anew: no two parts of it share their random numbers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from marks import often
from recurra.engine.experiment import Experiment
from recurra.engine.protocol import Members
from recurra.training.evaluating import Evaluation

#: All layers, inputs and outputs are equally many, so numbers of one key would be the same numbers.
N = 8
SEEDS, STREAMS = 2, 2
slow = pytest.mark.slow


def drawn_in(experiment):
    """All that is drawn for a run by its name, one vector for each seed and stream: what it starts with, two blocks."""

    def drawn(key):
        carry, keys = experiment.init(key)
        blocks = [experiment.draw(carry, keys, jnp.array(number, "int32"))[0] for number in range(2)]
        once = carry.learning.weights, carry.task.weights, carry.task.readout
        return once, (carry.learning.learners, [(rows.x, noise) for rows, noise in blocks])

    found = jax.vmap(drawn)(Members.of_seeds(jax.random.key(0), range(SEEDS)).keys)
    vectors = {}
    for path, leaf in jax.tree.leaves_with_path(found):
        has_streams = path[0].idx == 1
        if has_streams and leaf.shape[1] != STREAMS:  # in blocks the axis of steps is before that of streams
            leaf = leaf.swapaxes(1, 2)
        for seed, stream in itertools.product(range(SEEDS), range(STREAMS) if has_streams else [...]):
            name = f"{jax.tree_util.keystr(path)}, seed {seed}, stream {stream}"
            vectors[name] = np.ravel(np.asarray(leaf)[seed, stream])[: N * N]
    return vectors


def test_no_two_parts_of_a_run_share_random_numbers():
    """Weights of layers, feedback, learners of layers, probes of one kind, streams, seeds, inputs and noise."""
    stack = rc.Stack(*(rc.RNN(N, N, 0.5, w_rec=rc.cells.gaussian) for _ in range(3)))
    network = rc.Network(stack, N, random_feedback=True)
    layered = rc.Layered((rc.UORO(), rc.RFLO(), rc.UORO()), rc.RandomTargets())
    learners = {"applied": rc.DNI(), "dni": rc.DNI(), "targets": layered, "local": rc.Layered(handed=rc.LocalLosses())}
    vectors = drawn_in(Experiment.of(network, learners, 0.1, rc.Mimic(rc.RNN(N, N), N), streams=STREAMS))
    is_random = lambda name, own: own.size == N * N and own.std() > 0 and ".A_star" not in name  # a copy of A
    vectors = {name: own for name, own in vectors.items() if is_random(name, own)}
    assert len(vectors) > 100
    alike = np.abs(np.corrcoef([*vectors.values()])) - np.eye(len(vectors))
    one, other = ([*vectors][at] for at in np.unravel_index(alike.argmax(), alike.shape))
    assert alike.max() < 0.7, f"{one} is like {other}"  # by chance it is 0.5, among so many pairs of 64 numbers


def test_random_weights_are_as_large_as_they_are_said_to_be():
    """1/√n where they meet n units, and 1/√n_out where they meet the outputs."""
    n_out, sizes = 6, (40, 90, 60)
    cells = [rc.RNN(n_in, n, w_rec=rc.cells.gaussian) for n_in, n in zip((30, *sizes), sizes, strict=False)]
    network = rc.Network(rc.Stack(*cells), n_out, random_feedback=True)
    weights = network.init(jax.random.key(0))
    fixed = lambda handed: handed.init(network.cell, jax.random.key(1), n_out)
    targets, local = fixed(rc.RandomTargets()), fixed(rc.LocalLosses())
    assert targets[-1] is None
    wanted = [(weights.readout.W, sizes[-1]), (weights.feedback, n_out), *((B, n_out) for B in targets[:-1])]
    wanted += [*zip(local, sizes, strict=True), *((w[0].rec, n) for w, n in zip(weights.cell, sizes, strict=True))]
    for drawn, n in wanted:
        assert abs(np.std(drawn) * n**0.5 - 1) < 0.15, drawn.shape
    assert len({np.shape(drawn) for drawn, _ in wanted}) > 5, "sizes are told apart"


#: tasks without what a run needs to be told, and small enough
TASKS = {
    "add": rc.Add(1, 2),
    "adding": rc.Adding(5),
    "copy": rc.Copy(2),
    "evidence": rc.Evidence(cues=1, cue=2, pause=1, delay=1, decision=2, rate=400.0, noise=100.0),
    "mimic": rc.Mimic(rc.RNN(2, 3), 2),
    "parity": rc.Parity(),
}


def test_every_task_that_draws_rows_is_tried():
    """A pattern is the same in every period, and images of digits are those of a file."""
    assert {*TASKS, "pattern", "digits"} == {*rc.TASKS}


@pytest.mark.parametrize("name", often(TASKS, "add"))
def test_held_out_rows_are_no_rows_of_training(name):
    task = TASKS[name]
    network = rc.Network(rc.RNN(task.n_in, 3), task.n_out, task.default_loss())
    training = Experiment.of(network, {"applied": rc.Fixed()}, 0.0, task)
    held_out = Evaluation.of(network, task, None, None, 100, 1).experiment

    def blocks():
        for experiment in (training, held_out):
            carry, keys = experiment.init(jax.random.key(0))
            state = carry.task
            for number in range(2):
                rows, state = experiment.draw_rows(state, keys, jnp.array(number, "int32"))
                yield rows.x.ravel()

    alike = np.corrcoef([*blocks()])[np.triu_indices(4, 1)]
    assert alike.max() < 0.9, alike
