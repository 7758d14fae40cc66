"""Tables as they are found in the wild, cut into rows and turned into numbers."""

import contextlib
import csv
import gzip
import io
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from recurra.cli.learning.cells import ISO, BadValueError, find_format, number, seconds
from recurra.cli.learning.columns import CATEGORY, NUMBER, TRUTH, ColumnPlan, Encoder, plan_columns
from recurra.cli.learning.options import LearnOptions
from recurra.cli.learning.rows import Position, Record, TableRows, open_rows
from recurra.cli.learning.session import state_of
from recurra.cli.learning.sources import InputError, Pipe, Source, memory, open_source


class Drip(Pipe):
    """A pipe that hands out its bytes in pieces, now and then none."""

    def __init__(self, content, rng):
        super().__init__(-1)
        self._content, self._rng, self._at = content, rng, 0

    def readinto(self, buffer):
        size = int(self._rng.integers(0, 9))
        piece = self._content[self._at : self._at + size]
        self._at += len(piece)
        self.is_late = not size and self._at < len(self._content)
        buffer[: len(piece)] = piece
        return None if self.is_late else len(piece)


def drip(content, rng):
    pipe = Drip(content, rng)
    return Source("drip", io.BufferedReader(pipe), pipe=pipe)


def rows_of(table, limit=5):
    while not table.begin():
        pass
    found = []
    while not table.ended:
        found += table.take(limit)
    return found


@pytest.fixture
def closing():
    """Closes tables in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda table: stack.enter_context(contextlib.closing(table))


def read(text):
    content = text if isinstance(text, bytes) else text.encode()
    table = TableRows(memory("a.csv", content))
    return table, rows_of(table)


def a_table(rng, rows=60):
    """CSV with quotes, quoted line ends and separators, as Python's own writer writes it, and its cells."""
    pieces = ["1", "2.5", "", 'say "hi"', "a,b", "two\nlines", "three\r\nmore\n\nlines", "ü", "–", "x" * 50]
    cells = [[str(rng.choice(pieces)) for _ in range(3)] for _ in range(rows)]
    cells = [row if any(row) else ["1", "", ""] for row in cells]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=str(rng.choice(["\n", "\r\n"])))
    writer.writerows([["one", "two", "three"], *cells])
    return text.getvalue().encode(), cells


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_the_same_however_the_bytes_arrive(seed):
    rng = np.random.default_rng(seed)
    content, cells = a_table(rng)
    table = TableRows(drip(content, rng))
    found = rows_of(table, int(rng.integers(1, 30)))
    assert table.columns == ["one", "two", "three"]
    assert [row.cells for row in found] == cells
    assert [row.number for row in found] == list(range(1, len(cells) + 1))
    for row in found:  # each row says where it ends, and at which line it starts
        assert content[: row.end[0]].endswith(row.raw)
        assert content[: row.end[0] - len(row.raw)].count(b"\n") == row.line - 1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["memory", "drip"])
def test_reading_goes_on_after_any_row(seed, kind):
    rng = np.random.default_rng(seed)
    content, _ = a_table(rng)
    source = lambda: memory("a.csv", content) if kind == "memory" else drip(content, rng)
    table = TableRows(source())
    found = rows_of(table)
    for row in [None, *found[::7], found[-1]]:
        position = Position(**json.loads(json.dumps(asdict(table.after(row)))))
        later = TableRows(source())
        later.resume(position, table.separator)
        rest = []
        while not later.ended:
            rest += later.take(4)
        done = row.number if row else 0
        assert [(each.number, each.line, each.cells) for each in rest] == [
            (each.number, each.line, each.cells) for each in found[done:]
        ]


@pytest.mark.parametrize("place", ["header", "last row", "cut"])
def test_reading_does_not_go_on_in_another_table(place):
    content = b"x,y\n1,2\n3,4\n5,6\n"
    table, rows = read(content)
    position = table.after(rows[1])
    changed = {"header": content.replace(b"x", b"z"), "last row": content.replace(b"3", b"7"), "cut": content[:9]}
    with pytest.raises(InputError, match=r"is not what it was when the checkpoint was written: up to row 2"):
        TableRows(memory("a.csv", changed[place])).resume(position, ",")


@pytest.mark.parametrize("added", ["\n5,6\n", "\r\n5,6\n"])
def test_a_last_line_without_an_end_may_get_one(added):
    table, rows = read("x,y\n1,2\n3,4")
    later = TableRows(memory("a.csv", b"x,y\n1,2\n3,4" + added.encode()))
    later.resume(table.after(rows[-1]), ",")
    assert [row.cells for row in later.take(9)] == [["5", "6"]]


def test_a_last_line_without_an_end_must_not_become_longer():
    table, rows = read("x,y\n1,2\n3,4")
    later = TableRows(memory("a.csv", b"x,y\n1,2\n3,45\n"))
    later.resume(table.after(rows[-1]), ",")
    with pytest.raises(InputError, match="row 2, was not complete when it was read"):
        later.take(9)


@pytest.mark.parametrize(
    ("text", "columns", "cells"),
    [
        ("a,b\n1,2\n", ["a", "b"], [["1", "2"]]),
        ("a;b\r\n1,5;2\r\n", ["a", "b"], [["1,5", "2"]]),
        ("a\tb\n1\t2\n\t\n", ["a", "b"], [["1", "2"], ["", ""]]),
        ("a|b\n1|2\n", ["a", "b"], [["1", "2"]]),
        ("x\n1\n\n2\n   \n", ["x"], [["1"], ["2"]]),
        ("\n\n a , b \n1,2", ["a", "b"], [["1", "2"]]),
        ("\ufeffa,b\n1,2\n", ["a", "b"], [["1", "2"]]),
        ('"a,1";b\n"x;y";2\n', ["a,1", "b"], [["x;y", "2"]]),
        ('"a\nb",c\n1,2\n', ["a\nb", "c"], [["1", "2"]]),
        ('a,b\n5" pipe,2\n', ["a", "b"], [['5" pipe', "2"]]),
        ("a,b\n\x00,2\n", ["a", "b"], [["\x00", "2"]]),
        ("a,b\n" + "9" * 10**6 + ",2\n", ["a", "b"], [["9" * 10**6, "2"]]),
        ('a,b\n"' + "x" * 10**6 + '",2\n', ["a", "b"], [["x" * 10**6, "2"]]),
        ("a,b\r\r\n1,2\r\r\n", ["a", "b"], [["1", "2"]]),
    ],
)
def test_tables_of_every_make(text, columns, cells):
    table, rows = read(text)
    assert (table.columns, [row.cells for row in rows]) == (columns, cells)
    assert not any(row.problem for row in rows)


def test_what_is_not_utf_8_is_latin_1():
    table, rows = read("Temp é,b\n1,ü\n".encode("latin-1") + "2,ü\n".encode())
    assert table.columns == ["Temp é", "b"]
    assert [row.cells for row in rows] == [["1", "ü"], ["2", "ü"]]


def test_a_quote_that_is_not_closed_spoils_one_row_only():
    _, rows = read('a,b\n1,2\n"3,4\n5,6\n7,8\n')
    assert [row.problem for row in rows] == ["", "a quote is opened and not closed", "", ""]
    assert [row.cells for row in rows if not row.problem] == [["1", "2"], ["5", "6"], ["7", "8"]]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('"1"2,3', "it is no valid CSV (',' expected after '\"')"),
        (
            "1\r2,3",
            "it is no valid CSV (new-line character seen in unquoted field)",
        ),
    ],
)
def test_rows_that_are_no_csv_say_so(line, problem):
    _, rows = read(f"a,b\n{line}\n3,4\n")
    assert [row.problem for row in rows] == [problem, ""]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n \n", "is empty"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        (b"a,b\r1,2\r3,4\r", "old Macs"),
        (b"PAR1....\n....\n", "Parquet"),
    ],
)
def test_what_is_no_table_is_refused(content, said):
    with pytest.raises(InputError, match=said):
        read(content)


def test_a_line_without_end_is_refused():
    with pytest.raises(InputError, match="line 2, is longer than 16 MB"):
        read(b"a,b\n" + b"x" * (2**24 + 70_000))


def test_compressed_files_are_known_by_their_content(tmp_path, closing):
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert rows_of(closing(open_rows(str(path), follow=False)))[0].cells == ["1", "2"]
    with pytest.raises(InputError, match="cannot be followed"):
        open_source(path, follow=True)
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:-12])
    with pytest.raises(InputError, match="is damaged"):
        rows_of(closing(open_rows(str(path), follow=False)))
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="zip archive"):
        open_rows(str(path), follow=False)


def test_a_growing_file_is_read_as_it_grows(tmp_path, closing):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n")
    table = closing(TableRows(open_source(path, follow=True)))
    assert not table.begin()
    with path.open("ab", buffering=0) as file:
        file.write(b'1,2\n3,"x\n')
        assert table.begin()
        assert [row.cells for row in table.take(9)] == [["1", "2"]]
        assert table.take(9) == []  # neither a line nor a quote is cut
        file.write(b'y"\n5,')
        assert [row.cells for row in table.take(9)] == [["3", "x\ny"]]
        file.write(b"6\n")
        assert [row.cells for row in table.take(9)] == [["5", "6"]]
    assert not table.ended


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.write_bytes(b"a\n"), "became shorter"),
        (lambda path: path.unlink(), "was removed"),
        (lambda path: path.with_name("b").replace(path), "was replaced"),
    ],
)
def test_a_followed_file_that_changes_otherwise_ends_the_run(tmp_path, closing, change, said):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,2\n")
    path.with_name("b").write_bytes(b"a,b\n1,2\n3,4\n")
    table = closing(TableRows(open_source(path, follow=True)))
    assert table.begin()
    change(path)
    with pytest.raises(InputError, match=said):
        table.take(9)


@pytest.mark.parametrize("text", ["", " ", "NA", "nan", "NaN", "null", "None", "nil", "n/a", "-nan"])
def test_missing_values(text):
    assert number(text) is None


def test_none_is_missing_among_numbers_and_a_value_among_texts():
    rows = [["1", "None", "none"], ["None", "None", "rain"], ["2", "3.5", "nil"]]
    found = chosen(header=["y", "x", "sky"], rows=rows)
    assert [(each.kind, each.levels) for each in found.inputs] == [
        (NUMBER, ()), (NUMBER, ()), (CATEGORY, ("nil", "none", "rain")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["inf", "-Infinity", "1e39", "-3.5e38", "1e400", "x", "1_000", "3,14", "0x1", "1 2", "\x001"]
)
def test_bad_values(text):
    with pytest.raises(BadValueError):
        number(text)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1.0), (" -2.5e3 ", -2500.0), ("3.4028234e38", 3.4028234e38), (".5", 0.5)]
)
def test_good_values(text, value):
    assert number(text) == value


# Which columns are used, and how

HEADER = ["date", "y", "level", "wind", "dry", ""]
ROWS = [
    ["2016-01-01 00:00", "1", "low", "3.5", "true", "0"],
    ["2016-01-01 01:00", "2", "high", "", "FALSE", "1"],
    ["2016-01-01 02:00", "", "low", "4", "True", "2"],
]


def asked(target="y", horizon=1, **options):
    return LearnOptions(file="a.csv", target=target, horizon=horizon, **options)


def chosen(options=None, header=HEADER, rows=ROWS):
    return plan_columns("a.csv", header, rows, options or asked())


def test_kinds_are_told_from_the_first_rows():
    found = chosen()
    assert [(each.name, each.kind, each.levels) for each in found.inputs] == [
        ("y", NUMBER, ()), ("level", CATEGORY, ("high", "low")), ("wind", NUMBER, ()), ("dry", TRUTH, ()),
    ]  # fmt: skip
    assert found.time is not None
    assert (found.time.name, found.time_format) == ("date", ISO)
    assert ColumnPlan(**json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize(
    ("choice", "horizon", "names"),
    [
        (asked("y"), 0, ["y", "level", "wind", "dry"]),
        (asked("y", features=["wind"]), 1, ["y", "wind"]),
        (asked("y", features=["y"]), 1, ["y"]),
        (asked("y", ignore=["level", "dry"]), 1, ["y", "wind"]),
        (asked("wind", features=["y"]), 0, ["wind", "y"]),
    ],
)
def test_columns_can_be_chosen(choice, horizon, names):
    assert [each.name for each in chosen(replace(choice, horizon=horizon)).inputs] == names


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (asked("Y"), "`target` is 'Y', and a.csv has no such column: did you mean 'y'"),
        (asked("lvel"), "did you mean 'level'"),
        (asked("nothing at all"), "its columns are date, y, level, wind, dry"),
        (asked("y", ignore=["y"]), "which is the target"),
        (asked("y", features=["wind"], ignore=["wind"]), "both name 'wind'"),
        (asked("y", time="wind", features=["wind"]), "something else too"),
        (asked("y", time="level"), "'low' in it is no date or time"),
        (asked("level"), "text in the target 'level', such as 'low'"),
    ],
)
def test_a_wrong_choice_of_columns_is_explained(choice, said):
    with pytest.raises(InputError, match=said):
        chosen(choice)


def test_horizon_0_needs_another_column():
    with pytest.raises(InputError, match="no column beside the target"):
        chosen(asked("y", 0, features=["y"]))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (["y", "a", "y"], "2 columns of the name 'y'"),
        (["1", "2.5", "-3"], "has no header"),
        (["2016-01-01", "2.5", "-3"], "has no header"),
        (["", "", ""], "without names"),
    ],
)
def test_headers_that_are_none(header, said):
    with pytest.raises(InputError, match=said):
        chosen(header=header, rows=[["1", "2", "3"]])


def test_texts_that_are_no_categories_are_refused():
    rows = [[str(i), f"text {i}"] for i in range(40)]
    with pytest.raises(InputError, match=r'40 different texts in the column \'name\', such as .* --ignore "name"'):
        chosen(header=["y", "name"], rows=rows)
    assert [each.name for each in chosen(asked("y", ignore=["name"]), ["y", "name"], rows).inputs] == ["y"]
    with pytest.raises(InputError, match="long texts"):
        chosen(header=["y", "name"], rows=[["1", "x" * 10**6]])


@pytest.mark.parametrize("column", ["y", "x"])
def test_decimal_commas_are_refused(column):
    rows = [["3,14", "2,5"], ["1.234,5", "7,0"]] if column == "y" else [["1", "3,14"], ["2", "1.234,5"]]
    with pytest.raises(InputError, match=f"commas in the numbers of the column '{column}', such as '3,14'"):
        chosen(header=["y", "x"], rows=rows)


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ("2016-01-31", "2016-01-31T00:00"), ("2016-01-31T17:05:09Z", "2016-01-31T17:05:09"),
        ("2016-01-31 17:05:09+01:00", "2016-01-31T16:05:09"), ("2016/01/31 17:05", "2016-01-31T17:05"),
        ("01/31/2016", "2016-01-31T00:00"), ("31.01.2016 17:05", "2016-01-31T17:05"),
        ("1/31/2016 5:05 PM", "2016-01-31T17:05"), ("31 Jan 2016", "2016-01-31T00:00"),
    ],
)  # fmt: skip
def test_dates_are_known_as_they_are_commonly_written(cell, wanted):
    how = find_format([cell])
    assert how is not None
    assert seconds(cell, how) == np.datetime64(wanted).astype("datetime64[s]").astype(int)
    assert math.isnan(seconds("soon", how))


@pytest.mark.parametrize("cells", [[], ["20160131"], ["17"], ["2016-01-31", "soon"], ["1.5"]])
def test_what_is_no_date_is_not_taken_for_one(cells):
    assert find_format(cells) is None or cells == ["20160131"]
    assert chosen(header=["y", "x"], rows=[["1", cell] for cell in cells if cell != "soon"][:1] or [["1", "2"]]).inputs


def test_a_time_may_be_seconds_where_it_is_named():
    header, rows = ["y", "when"], [["1", "1451606400"], ["2", "1451606460"]]
    assert [each.name for each in chosen(header=header, rows=rows).inputs] == ["y", "when"]
    found = chosen(asked("y", time="when"), header, rows)
    assert [each.name for each in found.inputs] == ["y"]
    assert seconds("1451606400", found.time_format) == seconds("1451606400000", found.time_format)


# Rows as numbers


def encoded(rows, header=HEADER, first=ROWS, horizon=1):
    encoder = Encoder(chosen(asked(horizon=horizon), header, first))
    return encoder, *encoder.encode([Record(i + 1, i + 2, b"", cells) for i, cells in enumerate(rows)])


def test_rows_become_numbers():
    _, batch, bad = encoded([*ROWS, ["2016-01-01 03:00", "NA", "new", "5", "", ""]])
    assert bad is None
    np.testing.assert_array_equal(batch.y, [1, 2, math.nan, math.nan])
    np.testing.assert_array_equal(
        batch.x,  # y, high, low, another level, wind, dry
        [[1, 0, 1, 0, 3.5, 1], [2, 1, 0, 0, 3.5, 0], [2, 0, 1, 0, 4, 1], [2, 0, 0, 1, 5, 1]],
    )
    np.testing.assert_array_equal(np.diff(batch.seconds), 3600)


def test_before_the_first_known_value_an_input_is_0_and_its_deviation_afterwards():
    _, batch, _ = encoded([["1", ""], ["2", ""], ["3", "50"], ["4", ""], ["5", "49"]], ["y", "x"], [["1", "50"]])
    np.testing.assert_array_equal(batch.x[:, 1], [0, 0, 0, 0, -1])
    _, batch, _ = encoded([["1", "50"], ["2", ""], ["3", "49"]], ["y", "x"], [["1", "50"]])
    np.testing.assert_array_equal(batch.x[:, 1], [50, 50, 49])


def test_with_horizon_0_the_input_of_the_target_is_its_value_before():
    rows = [["5", "1"], ["7", "2"], ["", "3"], ["8", "4"]]
    encoder, batch, _ = encoded(rows, ["y", "x"], rows, horizon=0)
    np.testing.assert_array_equal(batch.x, [[0, 1], [0, 2], [2, 3], [2, 4]])  # deviations from the first, 5
    np.testing.assert_array_equal(batch.y, [5, 7, math.nan, 8])
    assert encoder.plan.names == ["y, a row before", "x"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1", "2"], r"row 2 \(line 3\): it has 2 cells, and the header 6"),
        (["", "inf", "low", "1", "true", ""], r"row 2 \(line 3\), column 'y': 'inf' is infinite"),
        (["", "1", "low", "1e39", "true", ""], "column 'wind': '1e39' is infinite, or beyond"),
        (["", "1", "low", "soon", "true", ""], "column 'wind': 'soon' is not a number"),
        (["", "1", "low", "3,5", "true", ""], "'3,5' is not a number; numbers have a decimal point"),
        (["", "1", "low", "1", "maybe", ""], "column 'dry': 'maybe' is not a number"),
        (["", "1", "low", "1", "7", ""], "column 'dry': '7' is neither true nor false"),
        (["", "9" * 10**6, "low", "1", "", ""], "column 'y': '9{40}…' is infinite"),
    ],
)
def test_a_bad_row_is_named_and_leaves_no_trace(cells, said):
    encoder, batch, bad = encoded([ROWS[0], cells, ROWS[1]])
    assert len(batch.y) == 1
    assert bad is not None
    with pytest.raises(type(bad), match=said):
        raise bad
    clean, _, _ = encoded([ROWS[0]])
    for name, array in state_of(clean).items():
        np.testing.assert_array_equal(state_of(encoder)[name], array)
