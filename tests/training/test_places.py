"""Who computes what, with workers that are only played; this process as a place; templates of jobs."""

import threading
from collections import Counter

import pytest

import places_standins as standins
from recurra.training.places import dispatching
from recurra.training.places.base import Attempt, Computed, Failure, PlaceError, one_line
from recurra.training.places.dispatching import SPARE, DeviceThreads, Local, Worker, dispatch
from recurra.training.places.workers import share


class Played:
    """Workers that compute when they are asked for something finished, each in turn. `act` says what becomes of it."""

    def __init__(self, workers, act=lambda worker, number: "done"):
        self.workers, self.act = dict(workers), act
        self.held = {worker: [] for worker in workers}
        self.log, self.most = [], 0

    def present(self):
        return self.workers

    def begin(self, number, worker, order):
        self.held.setdefault(worker, []).append((number, order))
        self.most = max(self.most, sum(map(len, self.held.values())))

    def withdraw(self, number):
        for orders in self.held.values():
            orders[:] = [each for each in orders if each[0] != number]

    def finished(self, seconds):
        ended = []
        for worker in list(self.workers):
            if self.held.get(worker):
                number, order = self.held[worker][0]
                name = order.points[0]
                self.log.append((worker, name))
                match self.act(worker, name):
                    case "done":
                        result = Attempt(worker, standins.computed(order))
                    case "unfit":
                        result = Attempt(worker, reason=f"{worker} has others", is_unfit=True)
                    case "dies":
                        del self.workers[worker]
                        self.workers[f"{worker}'"] = Worker()
                        continue
                    case reason:
                        result = Attempt(worker, reason=reason)
                del self.held[worker][0]
                ended.append((number, result))
        return ended

    def run(self, orders):
        return {order.points[0]: result for order, result in dispatch(self, orders)}


PLAIN = {"a": Worker(), "b": Worker(), "c": Worker()}


def orders(count, **settings):
    return [standins.order(number, **settings) for number in range(count)]


def test_orders_are_drawn_when_there_is_room_for_them():
    drawn = ended = 0

    def many():
        nonlocal drawn
        for order in orders(500):
            drawn += 1
            assert drawn - ended <= 2 * len(PLAIN) + 1  # those that end together are told one by one
            yield order

    played = Played(PLAIN)
    for _ in dispatch(played, many()):
        ended += 1
    assert (drawn, ended) == (500, 500)
    assert played.most <= len(PLAIN)
    assert sorted(name for _, name in played.log) == list(range(500))  # each is computed once


def test_an_order_that_fails_is_tried_once_more_elsewhere_and_then_is_a_failure():
    played = Played(PLAIN, lambda worker, number: f"trouble at {worker}" if number == 4 else "done")
    results = played.run(orders(9))
    tried = [worker for worker, number in played.log if number == 4]
    assert len(tried) == len(set(tried)) == 2
    assert results.pop(4) == Failure(f"trouble at {tried[0]}; then trouble at {tried[1]}", tuple(tried))
    assert all(isinstance(result, Computed) for result in results.values())
    assert len(results) == 8


def test_an_order_that_fails_once_comes_to_its_outcome():
    tries = Counter()

    def act(worker, number):
        tries[number] += 1
        return "trouble" if tries[number] == 1 else "done"

    results = Played(PLAIN, act).run(orders(20))
    assert all(isinstance(result, Computed) for result in results.values())
    assert set(tries.values()) == {2}


def test_a_worker_alone_tries_again_itself():
    results = Played({"a": Worker()}, lambda worker, number: "trouble" if number == 0 else "done").run(orders(3))
    assert results[0] == Failure("trouble", ("a", "a"))
    assert isinstance(results[1], Computed)


def test_only_the_order_that_was_being_computed_is_blamed_for_the_death_of_its_worker():
    played = Played(PLAIN, lambda worker, number: "dies" if number == 0 else "done")
    results = played.run(orders(30))
    assert sum(number == 0 for _, number in played.log) == 2
    assert isinstance(results[0], Failure)
    assert "was gone before it was finished" in results[0].reason
    assert all(isinstance(results[number], Computed) for number in range(1, 30))


def test_orders_wait_for_workers_that_come_late():
    played, looks = Played({}), 0
    usual = played.finished

    def finished(seconds):
        nonlocal looks
        looks += 1
        if looks == 3:
            played.workers["late"] = Worker()
        return usual(seconds)

    played.finished = finished
    assert len(played.run(orders(4))) == 4


def test_accelerators_take_the_orders_that_gain_by_them_and_the_others_take_the_rest():
    played = Played({"gpu": Worker(accelerated=True), "a": Worker(), "b": Worker()})
    mixed = [standins.order(number, gains=number % 3 == 0) for number in range(60)]
    played.run(mixed)
    assert {worker for worker, number in played.log if number % 3 == 0} == {"gpu"}
    assert {worker for worker, number in played.log[:50] if number % 3} == {"a", "b"}


def test_workers_without_an_accelerator_help_only_where_many_orders_wait_for_one():
    played = Played({"gpu": Worker(accelerated=True), "a": Worker(), "b": Worker()})
    played.run([standins.order(number, gains=True) for number in range(60)])
    by = {worker: [at for at, (who, _) in enumerate(played.log) if who == worker] for worker in played.workers}
    assert min(len(each) for each in by.values()) > 5
    assert max(by["a"] + by["b"]) < len(played.log) - SPARE  # the last ones are left to the accelerator
    few = Played({"gpu": Worker(accelerated=True), "a": Worker()})
    few.run([standins.order(number, gains=True) for number in range(SPARE)])
    assert {worker for worker, _ in few.log} == {"gpu"}


def test_without_an_accelerator_anybody_takes_orders_that_would_gain_by_one():
    assert len(Played(PLAIN).run([standins.order(number, gains=True) for number in range(10)])) == 10


def test_a_worker_with_other_versions_gets_no_more_orders():
    played = Played(PLAIN, lambda worker, number: "unfit" if worker == "b" else "done")
    results = played.run(orders(50))
    assert all(isinstance(result, Computed) for result in results.values())
    assert sum(worker == "b" for worker, _ in played.log) == 1  # the one by which that is found


def test_if_all_workers_have_other_versions_every_order_fails_and_says_so():
    played = Played({"a": Worker(), "b": Worker()}, lambda worker, number: "unfit")
    results = played.run(orders(3))
    assert {type(result) for result in results.values()} == {Failure}
    assert all({"a has others", "b has others"} == set(result.reason.split("; then ")) for result in results.values())


def test_no_worker_has_more_than_one_order():
    played = Played({"a": Worker(), "b": Worker()})
    usual = played.finished

    def slow_a(seconds):
        """`a` finishes nothing as long as `b` has something to do."""
        if not played.held["b"]:
            return usual(seconds)
        kept, played.held["a"] = played.held["a"], []
        ended = usual(seconds)
        played.held["a"] = kept
        return ended

    played.finished = slow_a
    played.run(orders(9))
    assert played.most == 2
    assert Counter(worker for worker, _ in played.log) == {"a": 1, "b": 8}


def test_a_worker_that_begins_nothing_gets_nothing():
    played = Played({"a": Worker(), "b": Worker()})
    usual, looks = played.finished, 0

    def finished(seconds):
        nonlocal looks
        looks += 1
        if looks == 2:
            played.workers["a"] = Worker(is_ready=False)
        return usual(seconds)

    played.finished = finished
    results = played.run(orders(20))
    assert len(results) == 20
    assert sum(worker == "a" for worker, _ in played.log) <= 2


def test_stopping_leaves_nothing_begun():
    played = Played(PLAIN)
    going = dispatch(played, orders(20))
    next(going)
    going.close()
    assert not any(played.held.values())


# --- this process


def test_this_process_goes_on_after_an_order_that_fails(tmp_path):
    given = [
        standins.order(0),
        standins.order(1, raises="no"),
        standins.order(2, raises_once=str(tmp_path / "once")),
        standins.order(3),
    ]
    with Local() as place:
        assert place.workers() == 1
        results = {order.points[0]: result for order, result in place.each(standins.compute, iter(given))}
    assert results[1] == Failure("ValueError: no", ("here", "here"))
    for number in (0, 2, 3):
        assert (results[number].values["loss"] == standins.computed(given[number]).values["loss"]).all()


def test_this_process_draws_one_order_at_a_time():
    drawn = []
    going = Local().each(standins.compute, (drawn.append(order.points[0]) or order for order in orders(5)))
    next(going)
    next(going)
    assert drawn == [0, 1]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_interruptions_pass_through_at_once(interruption):
    def compute(order):
        tries.append(order)
        raise interruption

    tries = []
    with Local() as place, pytest.raises(interruption):
        list(place.each(compute, orders(3)))
    assert len(tries) == 1


def test_with_several_accelerators_each_has_a_thread_and_its_device_is_the_default(monkeypatch):
    import jax

    both = threading.Barrier(3, timeout=20)  # two accelerators and the cores, at the same time
    seen = {}

    def compute(order):
        both.wait()
        seen[threading.get_ident()] = jax.config.jax_default_device
        return standins.computed(order)

    device = jax.local_devices()[0]
    threads = DeviceThreads({"gpu:0": device, "gpu:1": device}, compute)
    mixed = [standins.order(number, gains=number % 3 != 0) for number in range(3)]
    assert len(list(dispatch(threads, mixed))) == 3
    threads.stop()
    assert set(seen.values()) == {device}
    assert len(seen) == 3
    assert jax.config.jax_default_device is None
    monkeypatch.setattr(dispatching, "accelerators", lambda: [device] * 4)
    assert Local().workers() == 5


def test_a_reason_is_one_line():
    assert one_line(MemoryError("")) == "MemoryError"
    assert one_line(ValueError("\n  first\tthing \nsecond")) == "ValueError: first thing"
    assert len(one_line(ValueError("x" * 10_000))) == 300


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16])
def test_workers_share_the_cores_evenly(count):
    cores = list(range(3, 19))
    shares = [share(cores, number, count) for number in range(count)]
    assert sorted(core for each in shares for core in each) == cores
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_workers_without_a_core_of_their_own_share_one():
    assert [share([0, 1], number, 5) for number in range(5)] == [[0], [1], [0], [1], [0]]
    assert share([0, 1], 7, 1) == [0, 1]  # the number of a job, whose only worker has all its cores


def test_there_must_be_a_worker():
    from recurra.training.places.workers import Processes

    with pytest.raises(PlaceError, match="at least one worker, and 0"):
        Processes(0)
