"""The paper, reproduced, as one page."""

from collections.abc import Mapping
from typing import cast

import numpy as np

from recurra_paper.book import Book, Figure, Fresh, Section
from recurra_paper.claims import CLAIMS, Data
from recurra_paper.claims.history import CHANGES
from recurra_paper.claims.losses import scored
from recurra_paper.claims.sentences import SENTENCES
from recurra_paper.experiments import experiments
from recurra_paper.experiments.losses import FreshCurve
from recurra_paper.figures import FIGURES
from recurra_paper.figures.drawn import Columns, Table
from recurra_paper.profiles import PROFILES
from recurra_paper.sections import settings

#: of the names of runs whose seeds nothing else has used
FRESH = "fresh/"


def fresh(data: Data) -> Data:
    """The runs of fresh seeds, under the names of those that they repeat."""
    return {f"loss/{name.removeprefix(FRESH)}": run for name, run in data.items() if name.startswith(FRESH)}


def tables(data: Data) -> dict[str, Table]:
    """What every seed gave: a claim about losses or alignments can be judged again from these files alone."""
    return {
        "final_losses": _final_losses(data),
        "fresh_final_losses": _final_losses(fresh(data), FreshCurve.FIRST),
        "final_losses_by_initialization": _by_initialization(data),
        "mean_alignments": _mean_alignments(data),
    }


def _final_losses(data: Data, first: int = 0) -> Columns:
    table = Columns()
    for name, run in data.items():
        if name.startswith("loss/") and (fixed := f"{name.rpartition('/')[0]}/fixed") in data:
            _, task, alpha, learner = name.split("/")
            _seeds(table, run, data[fixed], first, task=task, alpha=alpha, learner=learner)
    return table


def _by_initialization(data: Data) -> Columns:
    table = Columns()
    for name, run in data.items():
        learner, _, init = name.partition("-loss/")
        if init and f"fixed-loss/{init}" in data:
            _seeds(table, run, data[f"fixed-loss/{init}"], 0, initialization=init, learner=learner)
    return table


def _seeds(
    table: Columns, run: Mapping[str, np.ndarray], baseline: Mapping[str, np.ndarray], first: int, **labels: str
) -> None:
    final, gone = scored(run, baseline), np.asarray(run["diverged"]) >= 0
    table.extend(**labels, seed=first + np.arange(len(final)), final_loss=final, diverged=gone)


def _mean_alignments(data: Data) -> Columns:
    table = Columns()
    for name, run in data.items():
        if not name.startswith("gradients/"):
            continue
        _, task, alpha = name.split("/")
        learners = [str(x) for x in run["learners"]]
        for i in range(1, len(learners)):
            for j in range(i):
                cosine = np.asarray(run["mean"][:, i, j], float)
                labels = dict(task=task, alpha=alpha, learner=learners[i], other=learners[j])
                table.extend(**labels, seed=np.arange(len(cosine)), mean_cosine=cosine)
    return table


ELSEWHERE = Section(
    "elsewhere",
    "Claims that are judged elsewhere",
    (
        "Some of what the paper says needs experiments that it does not show: that a learning rate of 10⁻⁴ is the "
        "fastest at which all algorithms are stable, that DNI improves over a wider range of settings than KeRNL, and "
        "that KeRNL is too noisy. The study beyond the paper judges these: `recurra beyond`.",
    ),
)

REPRODUCTION = Book(
    name="reproduction",
    command="reproduce",
    title="Online learning for recurrent networks: the paper’s claims, measured",
    lead=(
        "Marschall, Cho and Savin (2019) put the online learning algorithms for recurrent networks into one framework "
        "and compared them in experiments. Here the experiments are run again, from scratch, and what the paper says "
        "is checked claim by claim."
    ),
    profiles=PROFILES,
    experiments=experiments,
    claims=CLAIMS,
    figures={name: cast(Figure, module) for name, module in FIGURES.items()},
    tables=tables,
    sections=(*settings(), ELSEWHERE, SENTENCES, CHANGES),
    fresh=Fresh(
        fresh,
        "Claims about losses alone are judged once more, by the same criteria and by seeds that nothing else on this "
        "page has used: 512 for each learner, 128 for RTRL and 40 for r-OK. The criteria were written down before "
        "anybody had seen these runs.",
    ),
)
