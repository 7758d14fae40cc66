"""Contestants that do the same work, called in turn: a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable

from timing import timed

#: what makes a call, and the steps of a network that the call takes
Maker = tuple[Callable[[], Callable[[], object]], int]


def in_turn(makers: dict[str, Maker], repeats: int) -> tuple[list[dict[str, float]], dict[str, float]]:
    """µs a step of every contestant in each round, and the seconds that it took to prepare. CPU seconds are counted.

    Each round begins with another contestant.
    """
    clock = time.process_time
    calls, prepared = {}, {}
    for who, (make, _) in makers.items():
        calls[who], seconds = timed(lambda make=make: called_twice(make()), clock)
        prepared[who] = max(seconds - 2 * timed(calls[who], clock)[1], 0.0)
    rounds = []
    for i in range(repeats):
        first = i % len(calls)
        order = [*calls][first:] + [*calls][:first]
        seconds = {who: timed(calls[who], clock)[1] for who in order}
        rounds.append({who: seconds[who] / count * 1e6 for who, (_, count) in makers.items()})
    return rounds, prepared


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each contestant."""
    return {who: statistics.median(taken[who] for taken in rounds) for who in rounds[0]}


def called_twice(call: Callable) -> Callable:
    """A call, ready to be timed: braintrace compiles again in its second."""
    call()
    call()
    return call
