"""Tables 2 and 3: what they say is what is run."""

import re

import jax
import numpy as np
import pytest

from recurra import cells, learners
from recurra.network import Network
from recurra_paper import sections
from recurra_paper.setup import CURVES, shown

N = 64


def cell_of(section, setting):
    return next(row for row in section.rows if row["Setting"] == setting)


def test_every_task_alpha_and_learner_has_its_settings():
    network, learner = sections.settings()
    assert [section.name for section in (network, learner)] == ["table2", "table3"]
    headings = ["Add, α = 1", "Add, α = 0.5", "Mimic, α = 1", "Mimic, α = 0.5"]
    assert all(list(row) == ["Setting", *headings] for row in network.rows)
    assert list(cell_of(network, "lags t₁, t₂").values())[1:] == ["6, 10", "3, 5", "–", "–"]
    assert list(cell_of(network, "steps that an input lasts").values())[1:] == ["1", "2", "1", "2"]
    assert list(cell_of(network, "inputs n_in").values())[1:] == ["2", "2", "32", "32"]
    assert {row["Algorithm"] for row in learner.rows} == {shown(name) for name in CURVES}
    dni = {row["Task"]: row["Learning rate"] for row in learner.rows if row["Algorithm"] == "DNI"}
    assert dni == {"Add, α = 1": "0.05", "Add, α = 0.5; Mimic, α = 1; Mimic, α = 0.5": "0.001"}
    kernl = next(row for row in learner.rows if row["Algorithm"] == "KeRNL")
    assert (kernl["Learning rate"], kernl["Perturbation σ"], kernl["Task"]) == ("5", "0.001", "all")
    assert next(row for row in learner.rows if row["Algorithm"] == "F-BPTT")["T"] == "10"


def test_a_change_of_the_code_changes_the_tables(monkeypatch):
    original = sections.learner_of
    changed = lambda name, *condition: learners.KeRNL(7.0) if name == "kernl" else original(name, *condition)
    monkeypatch.setattr(sections, "learner_of", changed)
    network = sections.network_of
    cell = lambda task: cells.RNN(n_in=task.n_in, n=9, w_rec=cells.gaussian)
    other = lambda task, alpha: Network(cell(task), task.n_out, network(task, alpha).loss)
    monkeypatch.setattr(sections, "network_of", other)
    table2, table3 = sections.settings()
    assert next(row for row in table3.rows if row["Algorithm"] == "KeRNL")["Learning rate"] == "7"
    assert cell_of(table2, "units n")["Add, α = 1"] == "9"
    assert cell_of(table2, "initial w_rec")["Add, α = 1"].startswith("Independent entries")


@pytest.mark.parametrize("name", sections.STARTS)
def test_states_start_as_the_words_say(name):
    cell = cells.RNN(n_in=N, n=N)
    weights = cell.init_weights(jax.random.key(0))
    state = learners.LEARNERS[name]().init(cell, weights, jax.random.key(1), N)
    said = re.findall(r"([A-Z])_\w+ ([~=] (?:N\(0, [^)]+\)|\w+))", sections.STARTS[name])
    assert len(said) == sections.STARTS[name].count("=") + sections.STARTS[name].count("~") > 0
    for letter, how in said:
        whole = getattr(state, "synthesizer", state) if letter == "A" else state
        found = getattr(whole, letter, state)
        expected = {"= 0": 0.0, "= δ_ki": N**-0.5, "= w_rec": N**-0.5, "~ N(0, 1)": 1.0, "~ N(0, 1/√n)": N**-0.5}[how]
        assert spread(found) == pytest.approx(expected, rel=0.3)
        if how == "= w_rec":
            np.testing.assert_array_equal(found[0][0], weights[0].rec)
        if how == "= δ_ki":
            np.testing.assert_array_equal(found[0][0], np.eye(N))


def test_weights_start_as_the_words_say():
    n_in, n_out = 2 * N, 3 * N
    network = Network(cells.RNN(n_in=n_in, n=N), n_out, random_feedback=True)
    weights = network.init(jax.random.key(0))
    parts = {
        "w_in": weights.cell[0].inp,
        "w_out": weights.readout.W,
        "b_out": weights.readout.b,
        "w_fb": weights.feedback,
    }
    scales = {"N(0, 1/√n_in)": n_in**-0.5, "N(0, 1/√n)": N**-0.5, "N(0, 1/√n_out)": n_out**-0.5, "0": 0.0}
    assert set(parts) == set(sections.WEIGHTS)
    for name, words in sections.WEIGHTS.items():
        assert spread(parts[name]) == pytest.approx(scales[words], rel=0.05)


def spread(tree):
    """The root mean square of all entries."""
    flat = np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)])
    return float(np.sqrt(np.mean(flat**2)))
