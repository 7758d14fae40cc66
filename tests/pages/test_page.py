"""A page of any package: written whole from its template, with every value escaped and none missing."""

import re

import jinja2
import pytest

from recurra.pages import plots
from recurra.pages.page import TEMPLATE, PageFigure, paragraphs, write_page


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "own_pages"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / TEMPLATE).write_text("<p>{{ text }}</p><b>{{ number | twice }}</b>{{ figure | picture }}")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder.name


def drawn():
    with plots.style():
        sheet = plots.sheet(2.0, 1.0)
        sheet.subplots().plot([0, 1], [0, 1], color=plots.COLOURS["rtrl"])
    return PageFigure("line", "A line", "It rises.", sheet)


def test_a_page_is_filled_escaped_and_stands_alone(package, tmp_path):
    path = tmp_path / "index.html"
    content = {"text": "<script>1 & 2</script>", "number": 21, "figure": drawn()}
    assert write_page(path, package, content, twice=lambda number: 2 * number) == path
    written = path.read_text(encoding="utf-8")
    assert written.startswith("<p>&lt;script&gt;1 &amp; 2&lt;/script&gt;</p><b>42</b>")
    assert "<svg" in written
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", written)


def test_a_value_that_is_missing_is_an_error_and_leaves_the_old_page(package, tmp_path):
    path = tmp_path / "index.html"
    path.write_text("before")
    with pytest.raises(jinja2.UndefinedError, match="'text' is undefined"):
        write_page(path, package, {"number": 1, "figure": drawn()}, twice=lambda number: number)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["index.html"]


def test_a_caption_is_cut_where_panels_begin():
    caption = "Losses (see above). (a) On Add. (b, c) On Mimic, e.g. (d)."
    assert paragraphs(caption) == ["Losses (see above).", "(a) On Add.", "(b, c) On Mimic, e.g. (d)."]
