"""What is registered is known everywhere: to files, to `import recurra`, and to the tables of the documentation."""

import re

import recurra as rc
from recurra import checks
from recurra.saved.parts import PARTS
from recurra.training.aliases import ALIASES
from reference_pages import DOCS

TABLES = (rc.CELLS, rc.TASKS, rc.LOSSES, rc.OPTIMIZERS)


def in_table(page, first):
    """The names of the library in the first column of a table of the documentation."""
    table = (DOCS / page).read_text(encoding="utf-8").partition(f"| {first} |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `rc.")]
    return {name for cell in cells for name in re.findall(r"`rc\.(\w+)", cell)}


def test_names_on_the_command_line_are_those_of_the_classes():
    assert set(rc.CELLS) == {
        *("rnn", "lstm", "gru", "lif", "alif", "lru", "rtu", "nonlinear-rtu", "elstm", "columnar-lstm", "min-gru")
    }
    assert set(rc.TASKS) == {"add", "adding", "copy", "digits", "evidence", "mimic", "parity", "pattern"}
    assert set(rc.LOSSES) == {"softmax-cross-entropy", "sigmoid-cross-entropy", "squared-error"}
    assert set(rc.OPTIMIZERS) == {"sgd", "adam", "rmsprop", "obgd", "adaptive-obgd"}
    assert {name: kind.__name__ for name, kind in rc.ENGINES.items()} == {
        "auto": "AutoEngine", "scan": "ScanEngine", "on-chip": "OnChipEngine"
    }  # fmt: skip


def test_all_registered_parts_are_public_and_can_be_described_by_files():
    for table in TABLES:
        for kind in table.values():
            assert getattr(rc, kind.__name__) is kind
            assert PARTS[kind.__name__] is kind
    assert "Arrays" not in PARTS


def test_the_tables_of_cells_and_tasks_are_complete():
    assert in_table("cells.md", "cell") == {kind.__name__ for kind in rc.CELLS.values()} | {"cell_of", "Stack"}
    assert in_table("tasks.md", "task") == {kind.__name__ for kind in rc.TASKS.values()}


def test_a_part_is_registered_by_being_imported():
    class Base(checks.Part): ...

    class NewXYZCell(Base): ...

    class Other(Base):
        command = "anything"

    names = {"NewXYZCell": NewXYZCell, "Other": Other, "number": 1, "Task": rc.Task}
    found = checks.registered(names, Base)
    assert found == {"new-xyz-cell": NewXYZCell, "anything": Other}
    assert checks.registered(names, Base, leave_out=(Other,)) == {"new-xyz-cell": NewXYZCell}
    assert checks.registered(names, rc.Task) == {}, "what is abstract is no part"


def test_the_table_of_short_names_is_complete():
    rows = (DOCS / "studies.md").read_text(encoding="utf-8").partition("| short name | path |")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)`", rows, re.M)) == ALIASES
