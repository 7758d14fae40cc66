"""The page on looking inside says what learners keep: its table is that of the code."""

import re

import jax
import pytest

import recurra as rc
from recurra_paper.setup import LEARNERS as PAPER
from reference_pages import DOCS

N, N_IN, N_OUT = 5, 2, 3
M = N + N_IN + 1
#: sizes that tell which is which
WORDS = {N: "n", N_IN: "n_in", N_OUT: "n_out", M: "m", N * M: "n·m", N * N: "n²", 1: "1", 10: "T", 11: "T+1", 4: "r"}


def table():
    """For each learner the arrays it keeps, in their order, with their shapes in words."""
    text = (DOCS / "how-to" / "look-inside.md").read_text("utf-8")
    rows = text.partition("| learner | what it keeps | arrays and their shapes |")[2].partition("\n\n")[0]
    found = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\|$", rows, re.M)
    return {name: re.findall(r"`([^`]+)` \(([^)]*)\)", arrays) for name, arrays in found}


def kept(learner):
    cell = rc.RNN(N_IN, N)
    state = learner.init(cell, cell.init_weights(jax.random.key(0)), jax.random.key(1), N_OUT)
    path = lambda keys: jax.tree_util.keystr(keys).removeprefix(".")
    shape = lambda leaf: ", ".join(WORDS[size] for size in leaf.shape)
    return [(path(keys), shape(leaf)) for keys, leaf in jax.tree_util.tree_leaves_with_path(state)]


def test_the_table_has_the_learners_of_the_paper():
    assert set(table()) == {rc.LEARNERS[name].__name__ for name in PAPER}
    assert len(set(WORDS.values())) == len(WORDS)


@pytest.mark.parametrize("name", PAPER)
def test_the_table_has_what_a_learner_keeps(name):
    found = table()
    kind = rc.LEARNERS[name]
    assert found[kind.__name__] == kept(kind())
    assert name == "fixed" or any(found[other] != kept(kind()) for other in found if other != kind.__name__)
