"""Every paper that is named by an identifier is on the page of papers."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
ARXIV = re.compile(r"arxiv(?::|\.org/(?:abs|pdf)/)\s*(\d{4}\.\d{4,5})", re.I)
DOI = re.compile(r"\b(10\.\d{4,9}/[^\s()\[\]<>\"'`]*[^\s()\[\]<>\"'`.,;:])")


def identifiers(text):
    """The arXiv numbers and DOIs of a text, without versions. DOIs do not tell small letters from capitals."""
    return {*ARXIV.findall(text), *(doi.lower() for doi in DOI.findall(text))}


def missing(named, page):
    return sorted(named - identifiers(page))


def test_every_identifier_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    files = [
        ROOT / "README.md",
        ROOT / "CITATION.cff",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "recurra").rglob("*.py"),
    ]
    named = {file: identifiers(file.read_text(encoding="utf-8")) for file in files if file != PAGE}
    assert sum(map(len, named.values())) > 20  # they are found at all
    assert not {str(file.relative_to(ROOT)): left for file, ids in named.items() if (left := missing(ids, page))}


def test_one_that_is_left_out_is_found():
    page = PAGE.read_text(encoding="utf-8")
    text = "See [a paper](https://arxiv.org/abs/9901.00001v2), arXiv:1907.02649, and doi:10.9999/none-such.1."
    assert missing(identifiers(text), page) == ["10.9999/none-such.1", "9901.00001"]
    assert missing(identifiers(page), page.replace("1907.02649", "")) == ["1907.02649"]


def test_links_lead_where_they_say():
    links = re.findall(
        r"\[(?:arXiv|doi):(\S+?)\]\(https://(?:arxiv\.org/abs|doi\.org)/(\S+?)\)", PAGE.read_text("utf-8")
    )
    assert len(links) > 20
    assert [said for said, led in links if said != led] == []
