"""The study beyond the paper as one page."""

from itertools import chain
from typing import cast

from recurra_paper.beyond import (
    best_rates,
    demands,
    dni_b,
    gated,
    intervention,
    kernl,
    mechanism,
    predictor,
    rates,
    unexplored,
)
from recurra_paper.beyond.history import CHANGES
from recurra_paper.beyond.profiles import PROFILES, Profile
from recurra_paper.book import Book, Figure
from recurra_paper.experiments.base import Experiment

QUESTIONS = (demands, predictor, intervention, rates, best_rates, mechanism, kernl, gated, dni_b, unexplored)


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, each once: questions may share some."""
    every = chain.from_iterable(question.experiments(profile) for question in QUESTIONS)
    return list({experiment.name: experiment for experiment in every}.values())


BEYOND = Book(
    name="beyond",
    command="beyond",
    title="Online learning for recurrent networks: beyond the paper",
    lead=(
        "Marschall, Cho and Savin (2019) compare the online learning algorithms for recurrent networks and leave "
        "questions open in their Discussion. Here each question is an experiment. What we expected was written down "
        "as a claim with its criterion before the full runs, but for the claims about decompositions, some of whose "
        "losses were known. It stands beside what was found. Criteria that were changed later are listed at the end."
    ),
    profiles=PROFILES,
    experiments=experiments,
    claims=tuple(chain.from_iterable(question.CLAIMS for question in QUESTIONS)),
    figures={question.NAME: cast(Figure, question) for question in QUESTIONS},
    tables=lambda data: {},
    sections=(CHANGES,),
)
