"""Tables 2 and 3 of the paper: every setting in use, read from the objects that are run.

What an object has no field for, how weights and states start, is said in words here and nowhere else; a test compares
the words with what is drawn.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from recurra import Add, Learner, Mimic, Network, Task
from recurra_paper.book import Section
from recurra_paper.experiments.losses import ALL_FAMILIES
from recurra_paper.figures.drawn import listed
from recurra_paper.setup import ALPHAS, CURVES, LEARNING_RATE, TASKS, kind_of, learner_of, network_of, shown, task_of

#: each task at each alpha, by its heading
CONDITIONS = {f"{task.capitalize()}, α = {alpha}": (task, alpha) for task in TASKS for alpha in ALPHAS}
#: how the weights of a network start
WEIGHTS = {"w_in": "N(0, 1/√n_in)", "w_out": "N(0, 1/√n)", "b_out": "0", "w_fb": "N(0, 1/√n_out)"}
#: how the state of a learner starts, by its name; `initial_scale` multiplies what is drawn
STARTS = {
    "rtrl": "M_kij = 0",
    "uoro": "A_k ~ N(0, 1), B_ij ~ N(0, 1)",
    "kf-rtrl": "A_j ~ N(0, 1), B_ki ~ N(0, 1/√n)",
    "r-kf-rtrl": "A_i ~ N(0, 1), B_kj ~ N(0, 1/√n)",
    "r-ok": "A_lj = 0, B_lki = 0",
    "kernl": "A_ki = δ_ki, B_ij = 0",
    "rflo": "B_ij = 0",
    "dni": "A_li ~ N(0, 1/√n)",
    "dni-b": "A_li ~ N(0, 1/√n), J_ij = w_rec",
}
#: fields of learners that have a column of their own, and the names of others
COLUMNS = {"nu": "ν", "learning_rate": "Learning rate", "perturbation": "Perturbation σ", "T": "T"}
OTHERS = {
    "r": "rank r",
    "first_alpha": "first α_i",
    "target_interval": "steps τ until A* is renewed",
    "jacobian_rate": "learning rate of J",
    "initial_scale": "scale of the start",
    "late_perturbation": "noise reaches the copy a step late",
}
NONE = "–"


def settings() -> tuple[Section, Section]:
    """Both tables."""
    return network_settings(), learner_settings()


def network_settings() -> Section:
    """Table 2: what does not depend on the learner."""
    runs = {heading: task_of(*condition) for heading, condition in CONDITIONS.items()}
    networks = {heading: network_of(runs[heading], alpha) for heading, (_, alpha) in CONDITIONS.items()}
    rows = [
        {"Setting": name} | {heading: said(told(runs[heading], networks[heading])) for heading in CONDITIONS}
        for name, told in _NETWORK.items()
    ]
    families = listed(f"{name} ({_lowered(_sentence(draw))})" for name, draw in ALL_FAMILIES.items())
    return Section(
        "table2",
        "Table 2. Settings of networks and tasks",
        (
            "N(0, s) is normal with mean zero and standard deviation s. Weights are trained by plain gradient descent, "
            "one step of data at a time.",
            f"Figure 8 draws w_rec in these ways: {families}.",
        ),
        rows,
    )


def learner_settings() -> Section:
    """Table 3: what is particular to a learner; a row for each set of conditions in which it is the same."""
    rows = []
    for name in CURVES:
        groups: dict[str, list[str]] = {}
        found: dict[str, Learner] = {}
        for heading, condition in CONDITIONS.items():
            learner = learner_of(name, *condition)
            groups.setdefault(repr(learner), []).append(heading)
            found[repr(learner)] = learner
        rows += [_learner_row(name, found[key], headings) for key, headings in groups.items()]
    return Section(
        "table3",
        "Table 3. Settings of the learners",
        (
            "N(0, s) is normal with mean zero and standard deviation s. All learners train W and W_out with the "
            "learning rate of Table 2; the learning rate here is that of what a learner fits. DNI(b)'s feedback "
            f"weights are drawn from {WEIGHTS['w_fb']} and stay.",
        ),
        rows,
    )


def _learner_row(name: str, learner: Learner, headings: list[str]) -> dict[str, str]:
    values = {field.name: getattr(learner, field.name) for field in dataclasses.fields(learner)}
    other = [f"{OTHERS.get(key, key.replace('_', ' '))}: {said(x)}" for key, x in values.items() if key not in COLUMNS]
    return {
        "Algorithm": shown(name),
        "Task": "all" if len(headings) == len(CONDITIONS) else "; ".join(headings),
        "Initial values": said(STARTS.get(kind_of(name).about.id)),
        **{title: said(values.get(key)) for key, title in COLUMNS.items()},
        "Other": "; ".join(other) or NONE,
    }


def said(value: Any) -> str:
    """A field's value: numbers and words as they are, functions by the start of their description."""
    match value:
        case None:
            return NONE
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case str():
            return value.replace("(0, ", "(0,\u00a0")
        case _ if callable(value):
            return _sentence(value).partition(":")[0]
        case _:
            return str(value)


def _sentence(thing: Any) -> str:
    """The first sentence of its description, without the full stop; its name where it has none."""
    described = " ".join((thing.__doc__ or "").split())
    return described.partition(". ")[0].removesuffix(".") or getattr(thing, "__name__", str(thing))


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def _of(kind: type[Task], told: Callable[[Any], Any]) -> Callable[[Task, Network], Any]:
    """Something that only tasks of one kind have."""
    return lambda task, network: told(task) if isinstance(task, kind) else None


#: Rows of Table 2: what is said of a task and the network that learns it.
_NETWORK: Mapping[str, Callable[[Any, Any], Any]] = {
    "learning rate": lambda task, network: LEARNING_RATE,
    "units n": lambda task, network: network.cell.n,
    "inverse time constant α": lambda task, network: network.cell.alpha,
    "nonlinearity φ": lambda task, network: network.cell.phi.__name__,
    "inputs n_in": lambda task, network: network.cell.n_in,
    "outputs n_out": lambda task, network: network.n_out,
    "loss": lambda task, network: _sentence(type(network.loss)).partition(",")[0].replace("-", "−"),
    "feedback": lambda task, network: "random" if network.random_feedback else "exact, through w_out",
    "initial w_rec": lambda task, network: network.cell.w_rec,
    "initial w_in": lambda task, network: WEIGHTS["w_in"],
    "initial b_rec": lambda task, network: network.cell.first_bias[0],
    "initial w_out": lambda task, network: WEIGHTS["w_out"],
    "initial b_out": lambda task, network: WEIGHTS["b_out"],
    "number format": lambda task, network: str(network.cell.dtype),
    "lags t₁, t₂": _of(Add, lambda task: f"{task.t1}, {task.t2}"),
    "steps that an input lasts": lambda task, network: task.stretch,
    "units of the target": _of(Mimic, lambda task: task.target.n),
    "α of the target": _of(Mimic, lambda task: task.target.alpha),
    "initial w_rec of the target": _of(Mimic, lambda task: task.target.w_rec),
    "biases of the target": _of(Mimic, lambda task: f"N(0, {task.bias:g})"),
}
