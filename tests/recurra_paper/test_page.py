"""The page: figures with their claims, the score, the list of claims, sections and files."""

import csv
import json
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest

import synthetic_paper_data as synthetic
from recurra.pages import plots
from recurra.pages.page import TEMPLATE
from recurra_paper import page
from recurra_paper.book import Book, Figure, Fresh, Section
from recurra_paper.claims.base import ledger
from recurra_paper.commands import BOOKS
from recurra_paper.experiments.losses import FreshCurve
from recurra_paper.figures import FIGURES
from recurra_paper.figures.drawn import Columns, Drawn
from recurra_paper.profiles import PROFILES
from recurra_paper.reproduction import REPRODUCTION
from recurra_paper.score import SMALL, Score, Scores

VOID = {"meta", "link", "img", "br", "hr", "input"}
MADE = {"profile": {"name": "quick", "seeds": 5}, "versions": {"jax": "1.0"}, "machine": "one"}


def claim(name, status="holds", **changes):
    entry = dict(id=name, text=f"{name} learns", where="Results", figure="one", counted=False, criterion="a < b & c")
    entry |= dict(status=status, finding="", measured=f"{name} is 1", number=0.5, uncertainty=0.25, details={})
    return entry | changes


def failing(finding):
    return {"part": "a less b", "number": -0.01, "status": "does not hold", "finding": finding}


LEDGER = [
    claim("first", finding="above zero, matters"),
    claim("second", "not decided", number=None, uncertainty=None, figure="two"),
    claim("third", "does not hold", number=float("nan"), uncertainty=np.float64(0.1), finding=SMALL,
          details={"parts": [failing(SMALL)]}),
    claim("fourth", number=np.float32(-2e6), uncertainty=None, text="<script>alert(1)</script>", figure="two"),
    claim("bytes-a", figure="one", counted=True),
    claim("time-a", figure="one", counted=True),
    claim("bytes-b", "does not hold", figure="one", counted=True),
    claim("time-b", figure="one", counted=True, number=7, uncertainty=0.0),
]  # fmt: skip


class Page(HTMLParser):
    """The elements of a page, checked to be closed in the order in which they were opened, and the text of each id."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.inside = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        within = {id for _, id in self.open if id}
        self.elements.append((tag, attrs, within))
        if tag not in VOID:
            self.open.append((tag, attrs.get("id")))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), {id for _, id in self.open if id}))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] != "style":
            self.text.append(data)
            for id in {id for _, id in self.open if id}:
                self.inside[id] = self.inside.get(id, "") + data

    def values(self, *names):
        return [value for _, attrs, _ in self.elements for key, value in attrs.items() if key in names]

    def classed(self, name, within):
        """Elements of a class inside the element of an id."""
        return [a for _, a, ids in self.elements if name in (a.get("class") or "").split() and within in ids]


def figure(name, **more):
    """A figure module that draws two lines."""

    def draw(data):
        with plots.style():
            sheet = plots.sheet(3.0, 2.0)
            sheet.subplots().plot([0, 1], [0, 1])
        return Drawn(sheet, f"Caption of {name} with a < b.", f"What {name} shows", Columns(x=[0, 1], y=[0, 1]), **more)

    return cast(Figure, SimpleNamespace(NAME=name, TITLE=f"Figure {name}", needs=lambda profile: [], draw=draw))


def book(figures, **changes) -> Book:
    entries: dict[str, Any] = dict(name="b", command="b", title="A title & more", lead="How it began.", profiles={})
    entries |= dict(experiments=lambda profile: [], claims=(), figures=figures, tables=lambda data: {})
    return Book(**(entries | changes))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A page of two figures, one with a table whose rows show verdicts."""
    rows = [{"Algorithm": "A", "Memory": "n_a"}, {"Algorithm": "B", "Memory": "n"}, {"Algorithm": "C", "Memory": "–"}]
    judged = [{"memory": f"bytes-{x}", "time": f"time-{x}"} for x in "abc"]
    sections = [Section("table9", "Table 9. <All>", ["One & two."], [{"Setting": "rate", "Value": "w_in = 1"}])]
    tables = lambda data: {"final_losses": {"seed": [0, 1], "final_loss": [0.5, 0.25]}, "empty": {}}
    both = {"one": figure("one", rows=rows, judged=judged), "two": figure("two")}
    index = page.build(tmp_path_factory.mktemp("page"), book(both, sections=sections, tables=tables), {}, LEDGER, MADE)
    return index, Page(index.read_text(encoding="utf-8"))


def test_claims_stand_beside_their_figure_failing_first(small):
    _, read = small
    briefs = {name: [x["class"].split()[1] for x in read.classed("brief", name)] for name in ("one", "two")}
    assert briefs == {"one": ["does-not-hold", "holds"], "two": ["not-decided", "holds"]}
    one, two = read.inside["one"], read.inside["two"]
    assert one.index("third learns") < one.index("first learns")
    assert "above zero, matters" in one
    assert "0.5 ± 0.25".replace(" ", "\u00a0") in one.replace(" ", "\u00a0")
    assert "second learns" in two
    assert "second" not in one
    assert "a\u00a0<\u00a0b & c" in one
    folded = [tag for tag, _, ids in read.elements if tag == "details" and ids & {"one", "two"}]
    assert len(folded) == 4
    assert "<script>alert(1)</script>" in two
    assert not any(tag == "script" for tag, *_ in read.elements)


def test_counts_share_one_table(small):
    _, read = small
    assert sum(tag == "table" and "one" in ids for tag, _, ids in read.elements) == 1
    verdicts = [(x["class"], x["href"]) for x in read.classed("badge", "one") if "href" in x]
    assert verdicts == [
        ("badge holds", "#claim-bytes-a"),  # both of its claims hold
        ("badge does-not-hold", "#claim-bytes-b"),
        ("badge holds", "#claim-time-b"),
    ]
    assert "✗ memory" in read.inside["one"]
    assert "✓ time" in read.inside["one"]
    assert "bytes-a learns" not in read.inside["one"]
    assert "4 claims" in read.inside["one"]


def test_the_list_has_every_claim_once_and_filters_that_need_no_script(small):
    index, read = small
    listed = read.classed("claim", "claims")
    assert sorted(x["id"] for x in listed) == sorted(f"claim-{row['id']}" for row in LEDGER)
    statuses = [next(row["status"] for row in LEDGER if f"claim-{row['id']}" == x["id"]) for x in listed]
    assert statuses == sorted(statuses, key=page.STATUSES.index)
    radios = {a["id"]: a["name"] for tag, a, _ in read.elements if tag == "input"}
    assert set(radios.values()) == {"status", "kind"}
    assert {"show-all", "show-any"} == {a["id"] for tag, a, _ in read.elements if tag == "input" and "checked" in a}
    css = index.read_text(encoding="utf-8").partition("</style>")[0]
    for status, which in product(page.STATUSES, page.KINDS):
        for name in (status.replace(" ", "-"), which):
            assert f"#claims:has(#show-{name}:checked) .claim:not(.{name}) {{ display: none; }}" in css
    for row, found in ((row, x["class"].split()) for row in LEDGER for x in listed if x["id"] == f"claim-{row['id']}"):
        assert found == ["claim", row["status"].replace(" ", "-"), "counted" if row["counted"] else "sampled"]
    assert "#claims:has(#show-not-decided:checked):has(#show-counted:checked) .nothing" in css
    assert "#claims:has(#show-holds:checked):has(#show-counted:checked) .nothing" not in css
    assert "7" in read.inside["claim-time-b"]
    assert "±" not in read.inside["claim-time-b"]
    for words in ("✗ does not hold", "? not decided", "✓ holds", "−2×10⁶", "quick"):
        assert words in " ".join(read.text)


def test_the_ledger_is_a_file(small):
    kept = json.loads((small[0].parent / "claims.json").read_text(encoding="utf-8"))
    assert [entry["id"] for entry in kept] == [row["id"] for row in LEDGER]
    assert [entry["number"] for entry in kept][:4] == [0.5, None, None, -2e6]


def test_title_lead_sections_and_tables_are_the_book_s(small):
    index, read = small
    for words in (
        "A title & more",
        "How it began.",
        "Table 9. <All>",
        "One & two.",
        "Caption of one with a\u00a0<\u00a0b.",
    ):
        assert words in "".join(read.text)
    assert "win\u00a0=\u00a01" in read.inside["table9"]
    assert "final_losses.csv" in read.inside["numbers"]
    assert "empty" not in read.inside["numbers"]
    with (index.parent / "data" / "final_losses.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["seed", "final_loss"], ["0", "0.5"], ["1", "0.25"]]
    order = ["one", "two", "table9", "numbers", "claims", "settings"]
    found = [id for id in read.values("id") if id in order]
    assert found == order


def test_all_parts_of_a_claim_are_listed(tmp_path):
    decides = dict(
        part="x less y", number=1.0, uncertainty=0.5, claimed="above zero", status="holds", finding="matters"
    )
    parts = [decides, dict(part="z", number=None, uncertainty=None)]
    index = page.build(tmp_path, book({}), {}, [claim("x", details={"parts": parts})], MADE)
    told = Page(index.read_text(encoding="utf-8")).inside["claim-x"]
    for words in ("All 2 parts", "x less y", "holds: matters", "reported"):
        assert words in told


def test_verdicts_of_fresh_seeds_stand_beside_the_others(tmp_path):
    again = lambda status: {**claim("x", status), "finding": "as it is"}
    rows = [claim("same", fresh=again("holds")), claim("decided", "not decided", fresh=again("holds")), claim("alone")]
    fresh = Fresh(lambda data: data, "Seeds that are new.")
    index = page.build(tmp_path, book({}, fresh=fresh), {}, rows, MADE)
    told = " ".join(Page(index.read_text(encoding="utf-8")).inside["fresh"].split())
    assert "Seeds that are new." in told
    assert "Of 2 such claims, 1 has the same verdict." in told
    assert "decided learns" in told
    assert "alone learns" not in told


def test_fresh_seeds_judge_what_needs_no_other_runs():
    data, changed = synthetic.full_data(), synthetic.world()
    changed["loss"]["add/1"]["kf-rtrl"] = 0.6
    other = {name.replace("loss/", "fresh/", 1): run for name, run in synthetic.full_data(1, 8, changed).items()
             if name.startswith("loss/")}  # fmt: skip
    claims = {each.id: each for each in REPRODUCTION.claims}
    some = [claims[id] for id in ("add-tie-1", "mimic-tie-1", "align-past", "align-dissociates")]
    rows = ledger(some, {**data, **other}, PROFILES["quick"], REPRODUCTION.fresh.data(other))
    assert [row["status"] for row in rows] == ["holds"] * 4
    assert [row["fresh"]["status"] for row in rows if "fresh" in row] == ["does not hold", "holds"]
    table = REPRODUCTION.tables({**data, **other})["fresh_final_losses"]
    assert sorted(set(table["seed"])) == list(range(FreshCurve.FIRST, FreshCurve.FIRST + 8))


def test_the_score_tells_small_failures_counts_and_chance():
    scores = Scores.of(LEDGER)
    assert scores.every == Score(8, 5, 2, 1, 1, 1)
    assert scores.counted == Score(4, 3, 1, 0, 0)
    assert scores.open_to_chance == Score(4, 2, 1, 1, 1, 1)
    sampled, counted, chance = scores.sentences()
    assert sampled == (
        "Of 4 claims that rest on samples, 2 hold, 1 does not hold (by a difference too small to matter), and 1 is not "
        "decided by these runs (which cannot be judged, because what it takes was not run or had not learnt)."
    )
    assert counted == (
        "4 more claims rest on counts, such as bytes or operations, which cannot vary and fail only by a mistake. Of "
        "4, 3 hold, 1 does not hold, and 0 are not decided by these runs."
    )
    assert chance.startswith("What rests on samples is judged at 95% confidence. Nothing is corrected")
    assert "by chance about one in 20 may be misjudged, here fewer than one." in chance
    many = Scores.of([claim(str(i)) for i in range(60)])
    assert "here about 3." in many.sentences()[-1]
    # One part that matters is enough: the claim does not fail by little.
    both = claim(
        "both", "does not hold", finding=SMALL, details={"parts": [failing(SMALL), failing("below zero, matters")]}
    )
    assert Score.of([both]).small == 0
    unknown = claim("unknown", "not decided") | {"number": None}
    assert Score.of([unknown, unknown]).unjudged == 2
    assert "2 are not decided by these runs (2 of them cannot be judged, because" in str(Score.of([unknown, unknown]))
    assert len(many.sentences()) == 2
    assert Scores.of([]).sentences() == ["No claims were checked."]
    assert "cannot vary" in Scores.of([claim("x", counted=True)]).sentences()[-1]
    with pytest.raises(ValueError, match="not perhaps"):
        Scores.of([claim("x", "perhaps")])


def test_what_was_not_run_is_left_out_and_named(tmp_path):
    missing = SimpleNamespace(NAME="no", TITLE="Figure that is missing", needs=lambda p: ["x"], draw=lambda data: None)
    shown = book({"one": figure("one"), "no": cast(Figure, missing)})
    read = Page(page.build(tmp_path, shown, {}, [claim("x", "not decided", figure="no")], {}).read_text("utf-8"))
    assert {path.stem for path in (tmp_path / "figures").glob("*.svg")} == {"one"}
    assert "Figure that is missing" in " ".join(read.text)
    assert "x learns" in read.inside["claims"]
    empty = Page(page.build(tmp_path, shown, {}, [], {}).read_text("utf-8"))
    assert "No claims were checked." in " ".join(empty.text)
    assert "claims" not in empty.inside


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """The paper's own figures on one page, and what was drawn."""
    data = synthetic.full_data()
    drawn = {name: module.draw(data) for name, module in FIGURES.items()}
    about = lambda name: dict(NAME=name, TITLE=FIGURES[name].TITLE, needs=FIGURES[name].needs)
    once = {name: SimpleNamespace(**about(name), draw=lambda data, found=found: found) for name, found in drawn.items()}
    return page.build(tmp_path_factory.mktemp("paper"), book(cast(Any, once)), {}, [claim("x")], MADE), drawn


def test_the_page_stands_alone(paper):
    index, drawn = paper
    text = index.read_text(encoding="utf-8")
    read = Page(text)
    links = read.values("href", "src", "xlink:href")
    assert not [link for link in links if "//" in link and not link.startswith("data:")]
    assert "@import" not in text
    assert "url(http" not in text
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    files = [link for link in links if not link.startswith(("#", "data:"))]
    assert len(files) == 1 + sum(2 + len(found.tables) for found in drawn.values())
    assert all((index.parent / file).is_file() for file in files)
    pictures = [attrs for tag, attrs, _ in read.elements if tag == "img" or attrs.get("role") == "img"]
    assert len(pictures) == len(FIGURES)
    assert all(attrs.get("alt") or attrs.get("aria-label") for attrs in pictures)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_comes_with_its_files(paper, name):
    folder, found = paper[0].parent, paper[1][name]
    root = ElementTree.parse(folder / "figures" / f"{name}.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter())) > 50
    assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "data" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == list(found.table)
    assert {len(column) for column in found.table.values()} == {len(rows)}
    assert rows


@pytest.mark.parametrize("which", BOOKS)
def test_every_claim_of_a_book_names_one_of_its_figures(which):
    assert {claim.figure for claim in BOOKS[which].claims} <= set(BOOKS[which].figures)
    assert len({claim.id for claim in BOOKS[which].claims}) == len(BOOKS[which].claims)


def test_the_twenty_counts_of_table_1_stand_in_its_rows(paper):
    rows = [claim(x.id, figure=x.figure, counted=x.counted) for x in BOOKS["reproduction"].claims]
    found = page.beside("table1", paper[1]["table1"], rows)
    assert found["in_table"] == 20
    assert not found["claims"]
    headings = list(paper[1]["table1"].rows[0])
    assert headings == [
        "Algorithm",
        "Facing",
        "Tensor",
        "Update",
        "Memory",
        "bytes, p",
        "Time",
        "operations, p",
        "seconds, p",
    ]


def test_the_template_is_part_of_the_package():
    assert (Path(page.__file__).parent / TEMPLATE).is_file()
