"""What a sweep gains over a loop around `train`, what Dask costs, and how workers scale. See docs/performance.md.

    python benchmarks/sweeps.py loop --members 1000 --steps 10000
    python benchmarks/sweeps.py overhead --workers 2
    python benchmarks/sweeps.py scaling --most 16

Each prints one line of JSON for each measurement. All ratios are within one run.
"""

import argparse
import json
import os
import statistics
import time

import numpy as np


def loop(members: int, steps: int, calls: int, n: int, learner: str) -> None:
    """A sweep over learning rates, and the same networks one `train` after the other, of which `calls` are made."""
    import jax
    import optax

    import recurra as rc
    from recurra.learners import LEARNERS

    network = rc.Network(rc.RNN(2, n), 2, rc.SoftmaxCrossEntropy())
    rates = np.geomspace(1e-4, 1e-1, members).tolist()
    how = {"steps": steps, "progress": False}
    began = time.perf_counter()
    rc.sweep(
        network, LEARNERS[learner](), rc.Add(), vary={"optimizer.learning_rate": rates}, optimizer=rc.Adam(), **how
    )
    swept = time.perf_counter() - began
    for name, optimizer in (("described", rc.Adam), ("of Optax", optax.adam)):
        seconds = []
        for rate in rates[:: max(members // calls, 1)][: calls + 1]:
            began = time.perf_counter()
            rc.train(network, LEARNERS[learner](), rc.Add(), optimizer=optimizer(rate), **how)
            seconds.append(time.perf_counter() - began)
        first, *others = seconds
        whole = first + statistics.mean(others) * (members - 1)
        report(
            what="loop",
            device=jax.devices()[0].device_kind,
            optimizer=name,
            learner=learner,
            n=n,
            members=members,
            steps=steps,
            sweep_seconds=swept,
            members_a_second=members / swept,
            loop_seconds=whole,
            train_seconds=statistics.mean(others),
            gain=whole / swept,
        )


def overhead(workers: int, count: int) -> None:
    """Orders that compute nothing, one after the other for each worker."""
    import sweeps  # this file, as workers import it
    from recurra.training.places.dispatching import Local
    from recurra.training.places.workers import Processes

    for name, place in (("local", Local()), (f"{workers} workers", Processes(workers))):
        began = time.perf_counter()
        with place:
            list(
                place.each(sweeps.nothing, [order_of(1, 1)] * workers)
            )  # they are there, and have imported the library
            ready = time.perf_counter()
            list(place.each(sweeps.nothing, [order_of(1, 1)] * count))
            ended = time.perf_counter()
        report(what="overhead", place=name, start_seconds=ready - began, order_seconds=(ended - ready) / count)


def scaling(most: int, steps: int) -> None:
    """The same orders by 1, 2, 4 … workers of one core each."""
    from recurra.training.computing import compute
    from recurra.training.places.workers import Processes

    every, first = sorted(os.sched_getaffinity(0)), None
    workers = 1
    while workers <= min(most, len(every)):
        os.sched_setaffinity(0, every[:workers])
        with Processes(workers) as place:
            list(place.each(compute, [order_of(64, steps // 8)] * (2 * workers)))  # compiled by all of them
            orders = [order_of(64, steps) for _ in range(4 * workers)]
            began = time.perf_counter()
            done = list(place.each(compute, orders))
            seconds = time.perf_counter() - began
        pace = sum(order.steps for order, _ in done) / seconds
        first = first or pace
        report(what="scaling", workers=workers, network_steps_a_second=pace, efficiency=pace / (workers * first))
        workers *= 2
    os.sched_setaffinity(0, every)


def plain(most: int, steps: int) -> None:
    """The same orders by 1, 2, 4 … processes of one core each, which know nothing of each other."""
    import multiprocessing

    start, every, first, count = multiprocessing.get_context("spawn"), sorted(os.sched_getaffinity(0)), None, 1
    while count <= min(most, len(every)):
        ready, found = start.Barrier(count), start.Queue()
        processes = [start.Process(target=_by_itself, args=(core, steps, ready, found)) for core in every[:count]]
        for process in processes:
            process.start()
        seconds = [found.get() for _ in processes]
        for process in processes:
            process.join()
        pace = 4 * count * order_of(64, steps).steps / max(seconds)
        first = first or pace
        report(what="plain", processes=count, network_steps_a_second=pace, efficiency=pace / (count * first))
        count *= 2


def _by_itself(core: int, steps: int, ready, found) -> None:
    os.sched_setaffinity(0, [core])
    from recurra.training.computing import compute

    compute(order_of(64, steps // 8))
    ready.wait()
    began = time.perf_counter()
    for _ in range(4):
        compute(order_of(64, steps))
    found.put(time.perf_counter() - began)


def order_of(members: int, steps: int):
    import jax

    import recurra as rc
    from recurra.engine.experiment import KnownRows
    from recurra.training.cases import Case
    from recurra.training.orders import Networks

    case = Case(rc.Network(rc.RNN(2, 32), 2), rc.RFLO(), rc.Add(), 1e-3, steps, max(steps // 100, 1))
    return Networks([case.made(KnownRows())], range(members), jax.random.key(0)).order([(0, s) for s in range(members)])


def nothing(order):
    from recurra.training.places.base import Computed

    return Computed({"final_loss": np.zeros(len(order.members))}, {}, {}, 0.0, 0.0, "", "")


def report(**found: object) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("loop")
    one.add_argument("--members", type=int, default=1000)
    one.add_argument("--steps", type=int, default=10_000)
    one.add_argument("--calls", type=int, default=20)
    one.add_argument("--n", type=int, default=32)
    one.add_argument("--learner", default="rflo")
    one = kinds.add_parser("overhead")
    one.add_argument("--workers", type=int, default=2)
    one.add_argument("--count", type=int, default=1000)
    for kind in ("scaling", "plain"):
        one = kinds.add_parser(kind)
        one.add_argument("--most", type=int, default=16)
        one.add_argument("--steps", type=int, default=100_000)
    given = vars(parser.parse_args())
    {"loop": loop, "overhead": overhead, "scaling": scaling, "plain": plain}[given.pop("kind")](**given)
