"""The page of a search, and the file of its numbers."""

import dataclasses
import html.parser
import json
import math
import re

import numpy as np
import pytest

from recurra.studies.tuning.page import write_search
from recurra.studies.tuning.tuned import write_tuned
from tuning_standin import MIXED, RATE, Bounds, Noisy, tuned


class Bad(Noisy):
    def loss(self, point, seed, steps):
        return math.nan


class Alike(Noisy):
    def loss(self, point, seed, steps):
        return 0.25


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    """Searches of all kinds: by name."""
    new = lambda: tmp_path_factory.mktemp("search")
    return {
        "three settings": tuned(new(), Noisy(1), Bounds(24, seeds=2), MIXED),
        "a few trials": tuned(new(), Noisy(2), Bounds(3, seeds=1, confirm_seeds=1), RATE, batch=1),
        "nothing to search": tuned(new(), Alike(), Bounds(3, seeds=1), {}),
        "all diverge": tuned(new(), Bad(), Bounds(6), RATE),
        "all alike": tuned(new(), Alike(), Bounds(6), RATE),
    }


class Reader(html.parser.HTMLParser):
    """Tags that are not closed, links that lead outside, and the text."""

    def __init__(self):
        super().__init__()
        self.open, self.outside, self.text, self.ids = [], [], "", []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        for key, value in attributes:
            if key in ("src", "href", "xlink:href") and not value.startswith(("#", "data:")):
                self.outside.append(value)
            if key == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attributes):
        self.ids += [value for key, value in attributes if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(path):
    reader = Reader()
    reader.feed(path.read_text())
    assert reader.open == []
    assert reader.outside == []
    assert len(reader.ids) == len(set(reader.ids))
    return re.sub(r"\s+", " ", reader.text)


def test_the_page_says_what_was_found(tmp_path, searches):
    cases = [
        dataclasses.replace(each, case={"learner": learner, "task": "add"})
        for each, learner in zip(searches.values(), ("rflo", "uoro", "kernl", "dni", "rtrl"), strict=True)
    ]
    text = read(write_search(tmp_path, cases, "<b>study</b>.toml"))
    assert "<b>study</b>.toml, tuned" in text
    for title in ("RFLO", "UORO", "KeRNL", "DNI", "RTRL"):
        assert title in text
    for found in cases:
        if found.chosen is None:
            continue
        mean, error = found.chosen.confirmed, found.chosen.standard_error
        assert f"{mean:.3f}"[:5] in text
        if error is not None and error > 0:
            assert re.search(rf"{mean:.2f}\d* ± {error:.2f}", text)
    assert "No settings were found under which networks do not diverge." in text
    assert (tmp_path / "tuned.html").stat().st_size < 1_500_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["three settings", "a few trials", "nothing to search", "all diverge", "all alike"])
def test_every_search_has_a_page(tmp_path, searches, name):
    found = searches[name]
    text = read(write_search(tmp_path, [found], "study.toml"))
    assert "RFLO, Add" in text
    assert f"All {len(found.trials)} trials" in text
    again = (tmp_path / "tuned.html").read_bytes()
    write_search(tmp_path, [found], "study.toml")
    assert (tmp_path / "tuned.html").read_bytes() == again


@pytest.mark.slow
def test_a_setting_chosen_at_the_end_of_its_range_is_pointed_out(tmp_path, searches):
    def page(rate):
        found = searches["three settings"]
        chosen = dataclasses.replace(found.chosen, settings={"learning_rate": rate, "n": 9, "w_rec": "orthogonal"})
        return read(write_search(tmp_path, [dataclasses.replace(found, chosen=chosen)], "study.toml"))

    assert "the chosen value of learning rate." in page(1.2e-5)
    assert "perhaps better beyond it" not in page(1e-3)


def test_the_numbers_in_a_file(tmp_path, searches):
    path = write_tuned(tmp_path, list(searches.values()))
    cases = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["cases"]
    for case, found in zip(cases, searches.values(), strict=True):
        assert len(case["trials"]) == len(found.trials)
        taken = sum(trial["steps"][-1] for trial in case["trials"]) * len(case["seeds"])
        assert taken == case["network_steps"]["search"]
        if case["chosen"] is not None:
            kept = [loss for loss in case["chosen"]["losses"] if loss is not None]
            assert case["chosen"]["confirmed"] == pytest.approx(np.mean(kept))
            assert case["chosen"]["settings"] in [trial["settings"] for trial in case["trials"]]
