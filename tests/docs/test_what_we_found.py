"""The page of findings says what its files say."""

import csv
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "what-we-found.md").read_text()
NAMES = {"F-BPTT": "f-bptt", "E-BPTT": "e-bptt", "KF-RTRL": "kf-rtrl", "UORO": "uoro", "R-KF-RTRL": "r-kf-rtrl",
         "DNI": "dni", "KeRNL": "kernl", "RFLO": "rflo", "DNI(b)": "dni-b"}  # fmt: skip
PAPERS = "0.0001"


def test_numbers_of_claims_are_those_of_the_fresh_seeds():
    claims = {claim["id"]: claim for claim in json.loads((DOCS / "reproduction" / "claims.json").read_text())}
    rows = re.findall(r"^\| `([\w.-]+)` \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 10
    for claim, quantity, said in rows:
        parts = claims[claim]["fresh"]["details"]["parts"]
        (part,) = (
            part for part in parts if part["part"].replace(", after 1,000,000 steps", "") == f"{quantity}, in gaps"
        )
        digits = 4 if part["uncertainty"] < 0.00095 else 3
        assert said == f"{part['number']:.{digits}f} ± {part['uncertainty']:.{digits}f}"
    again = [claim for claim in claims.values() if "fresh" in claim]
    statuses = [claim["fresh"]["status"] for claim in again]
    counts = [statuses.count(status) for status in ("holds", "does not hold", "not decided")]
    assert (len(again), counts) == (29, [22, 6, 1])
    assert sum(claim["status"] == claim["fresh"]["status"] for claim in again) == 27


@pytest.fixture(scope="module")
def losses():
    """Of each learner, (seed, rate)."""
    found, rates = defaultdict(dict), defaultdict(set)
    with (DOCS / "best-rates" / "add.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            rates[row["learner"]].add(float(row["rate"]))
            found[row["learner"]][int(row["seed"]), float(row["rate"])] = float(row["final_loss"])
    table = lambda x: np.array(
        [[found[x][seed, rate] for rate in sorted(rates[x])] for seed in range(len(found[x]) // len(rates[x]))]
    )
    return sorted(rates["rtrl"]), {x: table(x) for x in found}


def test_best_rates_and_distances_are_those_of_every_seeds_losses(losses):
    rates, every = losses
    best = {x: int(np.argmin(each[0::2].mean(axis=0))) for x, each in every.items()}
    there = {x: each[1::2, best[x]] for x, each in every.items()}
    few = len(there["rtrl"])
    gap = there["fixed"][:few] - there["rtrl"]

    def told(d):
        """A ratio of means, with the error of a jackknife over seeds."""
        without = np.array([np.delete(d, i).mean() / np.delete(gap, i).mean() for i in range(few)])
        return d.mean() / gap.mean(), np.sqrt((few - 1) * without.var())

    rows = re.findall(r"^\| ([^|`]+?) \| ([\d.e-]+) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
    assert {name for names, *_ in rows for name in names.split(", ")} == set(NAMES)
    for names, rate, _, _ in rows:
        for name in names.split(", "):
            assert rates[best[NAMES[name]]] == float(rate)
    papers = rates.index(float(PAPERS))
    for names, _, *columns in rows:
        for i, name in enumerate(names.split(", ")):
            x = NAMES[name]
            at_papers = every[x][1::2, papers][:few] - every["rtrl"][1::2, papers]
            for column, d in zip(columns, (at_papers, there[x][:few] - there["rtrl"]), strict=True):
                said = column.split(", ")[min(i, column.count(", "))].split(" ± ")
                value, error = told(d)
                assert float(said[0]) == pytest.approx(value, abs=0.0051)
                assert float(said[1]) == pytest.approx(error, abs=max(0.0075, 0.15 * error))
