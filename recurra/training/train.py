"""Train one learner over many seeds at once."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
from jaxtyping import PRNGKeyArray

from recurra import checks
from recurra.engine.choosing import engine_of
from recurra.engine.experiment import KnownRows, Start
from recurra.engine.protocol import Engine, Members
from recurra.engine.settings import unusual
from recurra.learners.base import Learner
from recurra.network import Network
from recurra.step import Optimizer
from recurra.tasks.base import Task
from recurra.training import arguments
from recurra.training.cases import Case
from recurra.training.checkpoint import EVERY, Checkpoint
from recurra.training.console import say, warn
from recurra.training.identity import Account, identity_of
from recurra.training.interrupts import Interrupted, asked_to_stop
from recurra.training.metrics import MetricFunction
from recurra.training.progress import progress as show_progress
from recurra.training.record import Sink
from recurra.training.recording import RecordFunction
from recurra.training.result import Result
from recurra.training.running import Job, run
from recurra.training.starting import starting_from

#: a number of seeds that is worth a remark
MANY = 20_000
#: how many seeds that diverged are named
TOLD = 5
#: the paper's learning rate, the fastest at which all of its algorithms settle
LEARNING_RATE = 1e-4


def train(
    network: Network,
    learner: Learner,
    task: Task,
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
    streams: int | None = None,
    key: int | PRNGKeyArray = 0,
    optimizer: Optimizer = LEARNING_RATE,
    window: int | None = None,
    probes: Mapping[str, Learner] | None = None,
    exact_probes: Sequence[str] = (),
    record: Mapping[str, RecordFunction] | None = None,
    record_every: int = 1,
    record_into: Sink | None = None,
    start: Start | None = None,
    evaluate: Task | None = None,
    evaluate_every: int | None = None,
    evaluate_steps: int | None = None,
    metrics: Mapping[str, MetricFunction] | None = None,
    engine: Engine | str = "auto",
    checkpoint: Path | str | None = None,
    checkpoint_every: int | float = EVERY,
    progress: bool | Callable[[int], None] = True,
) -> Result:
    """Train `network` on `task` with `learner`, every seed at once on all cores or the GPU.

    `seeds` is how many, or which; seed s starts from `key` folded with s, and shares its weights and stream with every
    other learner trained from the same key. `optimizer` is a learning rate for plain gradient descent or an Optax
    optimizer; the recurrent weights and the readout each keep their own state of it. With several `streams` a seed
    learns from as many streams in parallel, each with a state of its own and all with the same weights, which follow
    the mean of their gradients. The default is as many as the task's data come in: the sequences of `recurra.Arrays`,
    the `batch` of `recurra.Sequences`, and 1 for other tasks. Losses are averaged over `window` steps (a hundredth of
    the run by default).

    `probes` are further learners that see the same steps and change nothing. In a network with random feedback, those
    that `exact_probes` names get exact credit, through the readout's own weights, so that RTRL among them has the
    gradient of the loss; all others get the credit that `learner` gets. `record` maps names to functions of an
    `Outcome` (see `recurra.record`) whose results are kept for every step, or for every k-th one with
    `record_every=k`. If a learner emits late, or the task's labels come late, the last steps are missing. Records are
    kept in memory, as `Result.records`, unless `record_into` is a `recurra.record.Sink` that takes them in while the
    run goes on.

    `engine` runs the steps. "scan" takes compiled loops. "on-chip" takes one kernel on an NVIDIA GPU, or raises a
    ValueError with the reason; `recurra.OnChipEngine` lists what it needs. "auto" takes what is faster, and logs it
    under the name "recurra". An engine may have settings of its own, as `recurra.ScanEngine(group=1)`.

    `start` is what to start from: weights of the network, such as `Result.weights`, or a whole LearningState with
    optimizer, network state and traces, such as `Result.states`. It is for all seeds, or has a leading axis over
    seeds.

    With a task to `evaluate`, learning stands still after `evaluate_every` steps (a tenth of the run by default)
    and at the end. The network runs from its first state once over all data of `recurra.Arrays` or
    `recurra.Sequences`, or over `evaluate_steps` steps of another task (1,000 by default). Its rows are the same each
    time, and not those of training. `Result.evaluated_loss` has the mean losses over all labels, and
    `Result.best_weights` the weights at each seed's lowest.

    `metrics` maps names to what else is measured there, such as `recurra.Accuracy()`, `recurra.RMSE()` or a function of
    an output and its label. `Result.metrics` has their means over all labels, and progress shows them.

    With a file for `checkpoint` the run is kept there, with its records, every `checkpoint_every` seconds and when it
    stops, and the same call goes on from it. A finished run stays there too: the same call returns it at once, and a
    call with other settings takes the file over. Delete it when you have saved the result. With a `window` of your own,
    a call for more `steps` goes on from a finished run.

    `progress` shows a bar, or is called with the number of steps done. Ctrl-C, SIGTERM and SIGHUP end the run after
    the steps that are being computed and raise `recurra.Interrupted`, a KeyboardInterrupt with the `result` so far.

    On one machine the same call gives the same bits, however an engine cuts the run into pieces, and so does a run that
    goes on from a checkpoint. Several seeds may be computed together, and then the last bits of a seed depend on how
    many they are, that is on `seeds` and the number of cores; see `recurra.ScanEngine` for a way to make them not. With
    a GPU both may also decide which engine "auto" takes.

    What does not fit together is refused before anything runs: an argument of another kind is a TypeError, a value that
    makes no sense a ValueError, and a file that cannot be used a `recurra.CheckpointError`.

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=2)
    >>> result = rc.train(network, rc.RFLO(), rc.Add(t1=1, t2=2), steps=200, seeds=2)
    >>> result.loss.shape
    (2, 100)
    """
    arguments.check_outside(network, learner, task, optimizer, key, probes, start, evaluate)
    looks = evaluate, evaluate_every, evaluate_steps
    case = Case.of(
        network, learner, task, optimizer, steps, window, streams, probes, record, record_every, *looks, exact_probes,
        metrics,
    )  # fmt: skip
    which, root, record = arguments.which(seeds), checks.key_of(key), case.record
    arguments.check_sink(record_into, record)
    arguments.check_seconds("`checkpoint_every`", checkpoint_every)
    made, steps, window, record_every = case.made(KnownRows()), case.steps, case.window, case.record_every
    experiment, begins = starting_from(start, made.experiment, len(which), steps)
    held_out, began = made.held_out, 0 if experiment.began is None else int(experiment.began)
    arguments.warn_if_short(learner, steps - experiment.horizon, began)

    about = {**unusual(root), "window": window, "record": sorted(record), "record_every": record_every if record else 1}
    if record_into is not None:
        about["record_into"] = type(record_into).__qualname__
    if held_out is not None:
        about |= {"every": held_out.every, "evaluate_steps": held_out.steps, "metrics": sorted(held_out.metrics)}
    identity = lambda: identity_of([experiment, *made.trees[1:]], root, begins, {"seeds": list(which), **about})
    given = [network, learner, case.probes, optimizer, task, made.case.streams, evaluate, record, record_into]
    given += [*({} if metrics is None else metrics).values(), *exact_probes, *jax.tree.leaves(begins)]
    account = lambda: Account.of({"seeds": which, **about, "key": jax.random.key_data(root), "parts": given})
    kept = Checkpoint(arguments.checkpoint_path(checkpoint), checkpoint_every, steps, identity, account)
    runs = engine_of(engine)
    label = f"{learner.name}, {len(which)} seed{'s' * (len(which) > 1)}"
    with kept.held(), asked_to_stop() as asked, show_progress(label, steps, progress) as report:
        members = Members.of_seeds(root, which)._replace(start=begins)
        if len(which) >= MANY and progress is True:
            say(f"{label}: the weights of all of them are drawn before the first step, which takes a while.")
        job = Job(experiment, members, which, steps, window, record_every, record_into, held_out)
        result = run(job, runs, kept, asked, report, label if progress is True else None)
    if result.diverged:
        warn(_diverged(result), stacklevel=3)
    if asked.signal:
        is_kept = kept.kept_at == result.steps > 0
        kept_where = f", and in {checkpoint}, from which the same call goes on" if is_kept else ""
        message = f"Stopped after {result.steps:,} of {steps:,} steps: what there is is in the exception's `result`"
        raise Interrupted(f"{message}{kept_where}.", result, asked.signal)
    return result


def _diverged(result: Result) -> str:
    """Which seeds diverged, and when, in words."""
    first = sorted(result.diverged.items(), key=lambda pair: pair[1])
    told = ", ".join(f"seed {seed} at step {step:,}" for seed, step in first[:TOLD])
    more = f" and {len(first) - TOLD:,} more" * (len(first) > TOLD)
    return (
        f"{len(first):,} of {len(result.seeds):,} seeds diverged, as `Result.diverged` has it: {told}{more}. Their "
        "final loss is nan. Try a lower learning rate, or an optimizer that clips gradients, such as "
        "recurra.Adam(1e-3, clip=1.0)."
    )
