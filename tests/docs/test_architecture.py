"""The architecture page tells of the house as it is: its rooms are those of the contract, and its files are there."""

import re
import sys
import tomllib

from reference_pages import DOCS, ROOT

PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")


def rooms_of_the_contract():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [room.strip("()") for room in project["tool"]["importlinter"]["contracts"][0]["layers"]]


def rooms_of_the_page(page):
    table = page.partition("| room of `recurra/` |")[2].partition("\n\n")[0]
    return [name.removesuffix(".py").rstrip("/") for name in re.findall(r"^\| `([\w./]+)`", table, re.M)]


def test_the_table_has_the_rooms_of_the_contract_in_their_order():
    assert rooms_of_the_page(PAGE) == rooms_of_the_contract()
    assert rooms_of_the_page(PAGE.replace("| `tasks/`", "| `games/`")) != rooms_of_the_contract()


def missing(page):
    named = re.findall(r"`(recurra(?:_paper)?/[\w./]*)`", page)
    assert len(named) > 20
    return [name for name in named if not (ROOT / name).exists()]


def test_every_file_of_the_page_is_there():
    assert missing(PAGE) == []
    assert missing(PAGE.replace("engine/plan.py", "engine/no_plan.py")) == ["recurra/engine/no_plan.py"]


def test_the_picture_has_every_room(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "figures"))
    import rooms

    assert rooms.layers() == rooms_of_the_contract()
    drawn = (DOCS / "figures" / "rooms.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in drawn for name in rooms.layers())
    del sys.modules["rooms"]
