"""What is measured of gated networks: final losses in units of the gap, mean cosines, and correlations."""

from collections.abc import Callable
from itertools import product

import numpy as np
from jaxtyping import Float

from recurra_paper.analysis import correlations, scored
from recurra_paper.beyond.gated.runs import CELL_NAMES, CELLS, gradients_name, loss_name
from recurra_paper.claims.base import Data, Undecided, arrays, known_gap
from recurra_paper.setup import TASK_NAMES, TASKS, shown

#: a cell and a task
Condition = tuple[str, str]


def title(condition: Condition) -> str:
    """A condition in words."""
    cell, task = condition
    return f"{CELL_NAMES[cell]} on {TASK_NAMES[task]}"


def run_in(data: Data, name: Callable[[str, str], str]) -> list[Condition]:
    """The conditions of which an experiment was run, by its name; at least one."""
    found: list[Condition] = [condition for condition in product(CELLS, TASKS) if name(*condition) in data]
    if not found:
        raise Undecided(f"Not decided: no experiment like {name('gru', 'add')} was run.")
    return found


def trained(data: Data) -> list[Condition]:
    """The conditions in which learners were trained."""
    return run_in(data, lambda cell, task: loss_name(cell, task, "fixed"))


def compared(data: Data) -> list[Condition]:
    """The conditions in which gradients were compared."""
    return run_in(data, gradients_name)


def final_loss(data: Data, condition: Condition, learner: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's loss at the end."""
    run, fixed = (arrays(data, loss_name(*condition, name)) for name in (learner, "fixed"))
    return scored(run, {name: values[: len(run["loss"])] for name, values in fixed.items()})


def gap(data: Data, condition: Condition) -> Float[np.ndarray, " seeds"]:
    """Fixed W's loss less RTRL's at each seed, if its mean is above zero at 95 % confidence."""
    values = final_loss(data, condition, "fixed") - final_loss(data, condition, "rtrl")
    return known_gap(values, f"with the {title(condition)}")


def aligned(data: Data, condition: Condition, x: str, y: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's mean cosine of two learners' gradients."""
    name = gradients_name(*condition)
    found = arrays(data, name)
    learners = [str(learner) for learner in found["learners"]]
    absent = [shown(learner) for learner in (x, y) if learner not in learners]
    if absent:
        raise Undecided(f"Not decided: {name} is without {' and '.join(absent)}.")
    cosine = np.asarray(found["mean"][:, learners.index(x), learners.index(y)], float)
    if not np.isfinite(cosine).all():
        raise Undecided(f"Not decided: in {name} {shown(x)} and {shown(y)} never emitted at the same step.")
    return cosine


def length_correlation(data: Data, condition: Condition, learner: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's correlation, over steps, of a learner's cosine with RTRL and the logarithm of its norm."""
    name = gradients_name(*condition)
    found = arrays(data, name)
    noisy = [str(learner) for learner in found["noisy"]]
    if learner not in noisy:
        raise Undecided(f"Not decided: {name} is without {shown(learner)}.")
    row = noisy.index(learner)
    return correlations(np.asarray(found["pair_cosine"][row], float), np.asarray(found["pair_log_norm"][row], float))
