"""`recurra learn` as a user meets it, with a small model in the place of the real ones."""

import csv
import gzip
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import recurra as rc
from learning_standin import Standin
from recurra.cli.learning import files, run
from recurra.saved.archive import read, write

STANDIN = [sys.executable, str(Path(__file__).parents[1] / "support" / "learning_standin.py")]


def table(rows, header=("time", "y", "x", "level")):
    return "\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n"


def some_rows(count=700, seed=0, gaps=0.0):
    rng = np.random.default_rng(seed)
    y = 50 + 10 * np.sin(np.arange(count) / 8) + rng.normal(size=count)
    rows = [
        [f"2016-01-{1 + i // 24 % 28:02} {i % 24:02}:00", f"{y[i]:.4f}", f"{rng.normal():.4f}", rng.choice(["a", "b"])]
        for i in range(count)
    ]
    for row in rows:
        for at in (1, 2, 3):
            if rng.random() < gaps:
                row[at] = rng.choice(["", "NA", "null"])
    return rows


def lines_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def result(out):
    return json.loads(out)


# What is learned, predicted and scored


@pytest.mark.parametrize(("horizon", "gaps"), [(1, 0.0), (1, 0.2), (3, 0.2), (0, 0.2), (40, 0.0)])
def test_predictions_and_scores_are_those_of_a_loop_by_hand(learn, tmp_path, horizon, gaps):
    rows = some_rows(300, 1, gaps)
    Path("a.csv").write_text(table(rows))
    how = ("--target", "y", "--horizon", horizon, "--ignore", "level", "--predictions", "p.csv", "--json")
    status, out, _ = learn("a.csv", *how)
    assert status == 0

    model, latest, first, wanted, truths = Standin(2, horizon), [None, None], [None, None], [], []
    is_missing = lambda cell: cell in ("", "NA", "null")
    shifted = [is_missing(rows[0][1]) or not horizon, is_missing(rows[0][2])]
    for row in rows:
        values = [None if is_missing(cell) else float(cell) for cell in row[1:3]]
        before = list(latest)
        for i, value in enumerate(values):
            if value is not None:
                first[i] = value if first[i] is None else first[i]
                latest[i] = value
        known = latest if horizon else [before[0], latest[1]]
        x = [0.0 if v is None else v - first[i] if shifted[i] else v for i, v in enumerate(known)]
        y = np.ma.masked_invalid([[math.nan if values[0] is None else values[0]]])
        wanted.append(model.learn_many([x], y)[0, 0])
        truths.append(math.nan if values[0] is None else values[0])
    due = np.concatenate([np.full(horizon, math.nan), wanted])[: len(rows)]

    number = lambda text: float(text) if text else math.nan
    lines = lines_of("p.csv")
    assert [int(line["row"]) for line in lines] == list(range(1, len(rows) + 1))
    assert [line["time"] for line in lines] == [row[0] for row in rows]
    np.testing.assert_array_equal([number(line["truth"]) for line in lines], truths)
    np.testing.assert_array_equal([number(line["prediction"]) for line in lines], due)
    if horizon:
        np.testing.assert_array_equal([number(line[f"forecast+{horizon}"]) for line in lines], wanted)

    # The last value known when a row was forecast. A row is scored if there was one.
    known = []
    for t in range(len(rows)):
        past = truths[: max(t + 1 - max(horizon, 1), 0)]
        known.append(next((value for value in reversed(past) if value == value), math.nan))
    scored = [t for t in range(len(rows)) if truths[t] == truths[t] and known[t] == known[t] and due[t] == due[t]]
    found = result(out)
    assert found["scored"] == len(scored)
    for name, forecasts in ((0, due), (1, np.array(known))):
        errors = np.array([forecasts[t] - truths[t] for t in scored])
        weights = (1 - 1 / 1000) ** np.arange(len(scored))[::-1]
        entry = found["forecasts"][name]
        assert math.isclose(entry["rmse"], np.sqrt(np.mean(errors**2)), rel_tol=1e-12)
        assert math.isclose(entry["mae"], np.mean(np.abs(errors)), rel_tol=1e-12)
        assert math.isclose(entry["recent_rmse"], np.sqrt(np.sum(weights * errors**2) / weights.sum()), rel_tol=1e-9)
        assert math.isclose(entry["recent_mae"], np.sum(weights * np.abs(errors)) / weights.sum(), rel_tol=1e-9)
    assert math.isclose(found["forecasts"][0]["ratio"], found["forecasts"][0]["rmse"] / found["forecasts"][1]["rmse"])
    assert found["forecast"] == (wanted[-1] if horizon else None)


def test_nothing_depends_on_how_the_rows_are_cut(learn, monkeypatch):
    Path("a.csv").write_text(table(some_rows(300, 2, 0.1)))
    kept = []
    for batch in (1, 7, 1024):
        monkeypatch.setattr(run, "BATCH", batch)
        how = ("--target", "y", "--horizon", 2, "--coverage", 0.8, "--json", "--force")
        status, out, _ = learn("a.csv", *how, "--predictions", "p.csv", "--checkpoint", f"{batch}.learn")
        assert status == 0
        arrays, document = read(f"{batch}.learn", "learn")
        kept.append((out, Path("p.csv").read_bytes(), {name: a.tobytes() for name, a in arrays.items()}, document))
    assert kept[0] == kept[1] == kept[2]


def test_the_table_says_who_is_best(learn):
    Path("a.csv").write_text(table(some_rows()))
    status, out, err = learn("a.csv", "--target", "y")
    assert status == 0
    assert re.search(r"^race +\d", out, re.MULTILINE)
    assert "The least squares forecast, 24 lags, has the smaller error: 0." in out
    assert "700 rows of a.csv, 699 of them scored." in out
    assert "The forecast of the next row is" in out
    assert err == "The second member is better.\n"


def test_a_baseline_that_wins_is_named_with_its_period(learn):
    season = np.random.default_rng(0).normal(size=48)
    Path("a.csv").write_text(table([[f"{season[i % 48]:.5f}"] for i in range(1500)], ["y"]))
    _, out, _ = learn("a.csv", "--target", "y", "--period", 48)
    assert "The seasonal naive forecast, period 48, has the smaller error: 0." in out


@pytest.mark.parametrize("horizon", [0, 1, 4])
def test_the_range_holds_as_often_as_asked_for(learn, horizon):
    Path("a.csv").write_text(table(some_rows(1500)))
    how = ("--target", "y", "--horizon", horizon, "--coverage", 0.9)
    status, out, _ = learn("a.csv", *how, "--json", "--predictions", "p.csv")
    assert status == 0
    lines = [line for line in lines_of("p.csv") if line["low"]]
    inside = [float(line["low"]) <= float(line["truth"]) <= float(line["high"]) for line in lines]
    assert abs(np.mean(inside) - 0.9) < 0.06
    found = result(out)["range"]
    assert (found["rows"], found["inside"]) == (len(lines), sum(inside))


# Input


def test_standard_input_and_compressed_files_give_the_same(learn, tmp_path):
    content = table(some_rows(150)).encode()
    Path("a.csv").write_bytes(content)
    Path("b.csv.gz").write_bytes(gzip.compress(content))
    wanted = result(learn("a.csv", "--target", "y", "--json")[1])
    zipped = result(learn("b.csv.gz", "--target", "y", "--json")[1])
    piped = subprocess.run([*STANDIN, "learn", "-", "--target", "y", "--json"], input=content, capture_output=True)
    assert piped.returncode == 0
    assert wanted | {"input": ""} == zipped | {"input": ""} == json.loads(piped.stdout) | {"input": ""}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "a.csv is empty"),
        ("y,x\n", "a.csv has a header, and no rows"),
        ("1,2\n3,4\n", "a.csv has no header: its first line is '1, 2'"),
        ("Y,x\n3,4\n", "`target` is 'y', and a.csv has no such column: did you mean 'Y'?"),
        ("y,y\n3,4\n", "a.csv has 2 columns of the name 'y'"),
        ("y;x\n3,5;4,1\n", "commas in the numbers of the column 'y', such as '3,5'"),
        ("y\nred\nblue\n", "text in the target 'y', such as 'red'"),
        ("y,x\n1,2\n3\n", "a.csv, row 2 (line 3): it has 1 cell, and the header 2. Correct it, or leave bad rows out"),
        ("y,x\n1,2\n2,3\n3,inf\n", "row 3 (line 4), column 'x': 'inf' is infinite, or beyond"),
        ('y,x\n1,2\n"3,4\n', "row 2 (line 3): a quote is opened and not closed"),
    ],
)
def test_a_bad_table_is_one_line_and_status_2(learn, content, said):
    Path("a.csv").write_text(content)
    status, _, err = learn("a.csv", "--target", "y")
    assert status == 2
    assert said in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_rows_before_a_bad_one_are_learned_and_it_can_be_mended(learn):
    rows = [row[1:] for row in some_rows(60)]
    header = ("y", "x", "level")
    Path("good.csv").write_text(table(rows, header))
    wanted = learn("good.csv", "--target", "y", "--json")[1]
    Path("a.csv").write_text(table([*rows[:40], ["1", "soon", "a"], *rows[40:]], header))
    how = ("a.csv", "--target", "y", "--checkpoint", "c.learn", "--json")
    status, out, err = learn(*how)
    assert (status, result(out)["rows"]) == (2, 40)
    assert "a.csv, row 41 (line 42), column 'x': 'soon' is not a number" in err
    Path("a.csv").write_text(table(rows, header))
    status, out, _ = learn(*how)
    assert status == 0
    assert result(out) | {"input": ""} == result(wanted) | {"input": ""}


def test_bad_rows_can_be_left_out_as_if_they_were_not_there(learn):
    rows = [row[1:] for row in some_rows(300)]
    header = ("y", "x", "level")
    Path("good.csv").write_text(table(rows, header))
    wanted = result(learn("good.csv", "--target", "y", "--json")[1])
    bad = [["1", "2"], ["soon", "1", "a"], ["1", "1e39", "b"], ["1", "2", "a", "b"]]
    mixed = list(rows)
    for at, row in zip((0, 57, 128, 304), bad, strict=True):
        mixed.insert(at, row)
    Path("a.csv").write_text(table(mixed, header))
    status, out, _ = learn("a.csv", "--target", "y", "--json", "--on-bad", "skip")
    found = result(out)
    assert (status, found["skipped"], len(found["bad_rows"])) == (0, 4, 3)
    assert found["bad_rows"][1] == "row 58 (line 59), column 'y': 'soon' is not a number"
    assert found | {"skipped": 0, "bad_rows": [], "input": ""} == wanted | {"input": ""}
    _, out, _ = learn("a.csv", "--target", "y", "--on-bad", "skip")
    assert "Bad rows that were left out: 4. row 1 (line 2): it has 2 cells, and the header 3; row 58" in out
    assert "; and 1 more." in out


def test_a_row_that_the_model_rejects_is_a_bad_row(learn):
    rows = [[i, i % 7] for i in range(40)]
    Path("a.csv").write_text(table([*rows[:20], [3, 777.25], *rows[20:]], ["y", "x"]))
    Path("b.csv").write_text(table(rows, ["y", "x"]))
    status, _, err = learn("a.csv", "--target", "y")
    assert (status, "row 21 (line 22): 777.25 is not liked here" in err) == (2, True)
    found = result(learn("a.csv", "--target", "y", "--json", "--on-bad", "skip")[1])
    wanted = result(learn("b.csv", "--target", "y", "--json")[1])
    assert found["forecasts"] == wanted["forecasts"]


@pytest.mark.slow
def test_a_model_that_diverges_ends_the_run_and_leaves_the_checkpoint(learn, monkeypatch):
    rows = [[i % 5, i % 7] for i in range(200)]
    Path("a.csv").write_text(table([*rows[:150], [3, 666.25], *rows], ["y", "x"]))
    monkeypatch.setattr(files.SavedRun, "is_due", lambda self, count: count == 128)
    how = ("--target", "y", "--checkpoint", "c.learn", "--predictions", "p.csv", "--out", "page", "--json")
    status, out, err = learn("a.csv", *how)
    assert status == 1
    assert "error: The model diverged: try another one.\n" in err
    assert result(out)["rows"] == 150
    assert len(lines_of("p.csv")) == 150
    assert Path("page/index.html").exists()
    assert read("c.learn", "learn")[1]["session"]["rows"] == 128


# Going on


def test_a_run_in_parts_is_the_run_at_once_bit_for_bit(learn):
    rows = some_rows(500, 3, 0.1)
    how = ("--target", "y", "--horizon", 3, "--coverage", 0.9, "--ignore", "level", "--json")
    Path("a.csv").write_text(table(rows))
    wanted = learn("a.csv", *how, "--predictions", "all.csv", "--checkpoint", "all.learn")[1]
    for count in (1, 2, 130, 131, 499, 500):
        Path("a.csv").write_text(table(rows[:count]))
        status, out, err = learn("a.csv", *how, "--predictions", "p.csv", "--checkpoint", "c.learn")
        assert status == 0
        assert "nothing new" not in err
    status, again, err = learn("a.csv", *how, "--predictions", "p.csv", "--checkpoint", "c.learn")
    assert (status, again, err) == (0, out, "There is nothing new in a.csv since row 500.\n")
    assert out.replace("p.csv", "all.csv") == wanted
    assert Path("p.csv").read_bytes() == Path("all.csv").read_bytes()
    (a, _), (b, _) = read("c.learn", "learn"), read("all.learn", "learn")
    assert {name: array.tobytes() for name, array in a.items()} == {name: array.tobytes() for name, array in b.items()}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--horizon", 2), "--horizon is 2, and was 1"),
        (("--ignore", "x,level"), "--ignore is x,level, and was level"),
        (("--key", 7), "--key is 7, and was 0"),
        (("--learner", "uoro"), "--learner is uoro, and was not given"),
        (("--coverage", 0.5), "--coverage is 0.5, and was not given"),
    ],
)
def test_changed_settings_are_refused(learn, changed, said):
    Path("a.csv").write_text(table(some_rows(50)))
    how = ("a.csv", "--target", "y", "--checkpoint", "c.learn")
    assert learn(*how, "--ignore", "level")[0] == 0
    before = Path("c.learn").read_bytes()
    more = changed if changed[0] == "--ignore" else ("--ignore", "level", *changed)
    status, _, err = learn(*how, *more)
    assert status == 2
    assert said in err
    assert Path("c.learn").read_bytes() == before


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda: Path("c.learn").write_bytes(Path("c.learn").read_bytes()[:-9]),
            "`checkpoint` is c.learn, and c.learn",
        ),
        (lambda: Path("c.learn").write_text("something else"), "is no file of recurra"),
        (lambda: Path("p.csv").write_text("row"), "which has 3 bytes, and the checkpoint says"),
        (lambda: Path("a.csv").write_text("time,y,x,level\n"), "is not what it was when the checkpoint was written"),
        (lambda: Path("a.csv").unlink(), "There is no file a.csv"),
    ],
)
def test_what_is_left_of_a_run_is_read_with_suspicion(learn, spoil, said):
    Path("a.csv").write_text(table(some_rows(50)))
    how = ("a.csv", "--target", "y", "--checkpoint", "c.learn", "--predictions", "p.csv")
    assert learn(*how)[0] == 0
    spoil()
    status, _, err = learn(*how)
    assert (status, said in err) == (2, True), err


def test_a_checkpoint_of_another_version_is_refused(learn):
    Path("a.csv").write_text(table(some_rows(50)))
    how = ("a.csv", "--target", "y", "--checkpoint", "c.learn")
    assert learn(*how)[0] == 0
    arrays, document = read("c.learn", "learn")
    for spoiled in ({name: a for name, a in arrays.items() if name != "scores/recent"}, arrays):
        rest = document if spoiled is not arrays else {**document, "session": {"model": document["session"]["model"]}}
        write("c.learn", "learn", spoiled, rest)
        status, _, err = learn(*how)
        assert (status, "which another version of recurra wrote, or which is not whole" in err) == (2, True), err


# Files


def test_files_of_others_are_not_overwritten(learn):
    Path("a.csv").write_text(table(some_rows(50)))
    Path("p.csv").write_text("mine")
    Path("page").mkdir()
    Path("page/index.html").write_text("mine")
    for option, path in (("--predictions", "p.csv"), ("--out", "page")):
        status, _, err = learn("a.csv", "--target", "y", option, path)
        assert (status, "--force" in err) == (2, True)
    assert Path("p.csv").read_text() == Path("page/index.html").read_text() == "mine"
    status, _, _ = learn("a.csv", "--target", "y", "--predictions", "p.csv", "--out", "page", "--force")
    assert status == 0
    assert learn("a.csv", "--target", "y", "--out", "page")[0] == 0  # its own page may be replaced


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--predictions", "no/p.csv"), "there is no folder no"),
        (("--checkpoint", "."), "which is a folder"),
        (("--predictions", "a.csv", "--force"), "which is the input"),
        (("--checkpoint", "c", "--predictions", "c"), "choose two names"),
        (("--coverage", "1.5"), "between 0 and 1"),
        (("--coverage", "nan"), "between 0 and 1"),
        (("--learning-rate", "-1"), "above 0"),
        (("--learner", "ouro"), "did you mean 'uoro'?"),
        (("--cell", "transformer"), f"hoose from {', '.join(rc.CELLS)}."),
        (("--on-bad", "panic"), "choose from stop, skip"),
        (("--horizon", "-1"), "--horizon"),
        (("--demo", "sea"), "Name one input"),
        (("--checkpoint-every", "nan"), "a number of seconds"),
    ],
)
def test_wrong_options_are_explained(learn, arguments, said):
    Path("a.csv").write_text(table(some_rows(50)))
    status, _, err = learn("a.csv", "--target", "y", *arguments)
    assert (status, said in err) == (2, True), err
    assert {path.name for path in Path().iterdir()} == {"a.csv"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Name one input"),
        (("a.csv",), "`target` is missing"),
        (("a.cvs", "--target", "y"), "Did you mean a.csv?"),
        ((".", "--target", "y"), "is a folder"),
        (("-", "--target", "y", "--follow"), "`follow` is for files"),
        (("--demo", "lorentz"), "did you mean 'lorenz'?"),
        (("--demo", "sea", "--follow"), "a demo does not grow"),
    ],
)
def test_wrong_inputs_are_explained(learn, arguments, said):
    Path("a.csv").write_text(table(some_rows(50)))
    status, _, err = learn(*arguments)
    assert (status, said in err) == (2, True), err


def test_a_full_disk_costs_checkpoints_and_not_the_run(learn, monkeypatch):
    Path("a.csv").write_text(table(some_rows(600)))
    real, calls = files.write, []

    def full(path, *arguments):
        calls.append(path)
        if 2 <= len(calls) <= 4:
            raise OSError(28, "No space left on device")
        real(path, *arguments)

    monkeypatch.setattr(files, "write", full)
    how = ("a.csv", "--target", "y", "--checkpoint", "c.learn", "--checkpoint-every", 0)
    status, _, err = learn(*how)
    assert status == 0
    assert len(calls) > 4
    assert err.count("could not be written: No space left on device. The one before it stays") == 1
    assert "could be written again" in err

    calls.clear()
    Path("c.learn").unlink()
    status, out, err = learn(*how, "--on-full", "stop")
    assert status == 1
    assert "error: The checkpoint c.learn could not be written: No space left on device." in err
    assert "128 rows of a.csv" in out
    assert read("c.learn", "learn")[1]["session"]["rows"] == 0


def test_a_disk_that_stays_full_is_told_by_the_status(learn, monkeypatch):
    Path("a.csv").write_text(table(some_rows(300)))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    status, out, _ = learn("a.csv", "--target", "y", "--checkpoint", "c.learn")
    assert (status, "300 rows" in out, os.path.exists("c.learn")) == (1, True, False)


def test_a_page_says_what_it_needs(learn, monkeypatch):
    Path("a.csv").write_text(table(some_rows(50)))
    monkeypatch.setattr("recurra.cli.environment._is_installed", lambda name: False)
    status, _, err = learn("a.csv", "--target", "y", "--out", "page")
    wanted = "`recurra learn --out` needs matplotlib and jinja2, which are not installed: pip install 'recurra[stream]'"
    assert (status, err) == (2, f"error: {wanted}\n")


def test_two_runs_do_not_share_a_checkpoint(learn):
    from recurra.saved.whole_files import held

    Path("a.csv").write_text(table(some_rows(50)))
    with held(Path("c.learn")):
        status, _, err = learn("a.csv", "--target", "y", "--checkpoint", "c.learn")
    assert (status, "which another run is writing" in err) == (2, True)


# Whatever is in a table


def mess(rng, count):
    """Rows with all that can go wrong, and for each what is wrong with it: nothing, its width, or a column."""
    any_of = lambda choices: choices[int(rng.integers(len(choices)))]
    good = lambda: [f"{rng.normal() * 10.0 ** rng.integers(-3, 4):.6g}", f"{rng.normal():.3f}", any_of("ab")]
    missing = ["", "NA", "nan", "null", " ", "None"]
    bad = [
        "inf",
        "-inf",
        "1e39",
        "1e999",
        "soon",
        "3,14",
        "1_0",
        "\x00",
        "0x10",
        "é",
        "x" * 3000,
        "--1",
        "1e",
        "Infinity",
    ]
    rows, wrong = [], []
    for _ in range(count):
        row, what = good(), None
        dice = rng.random()
        if dice < 0.15:
            row[int(rng.integers(3))] = any_of(missing)
        elif dice < 0.25:
            what = int(rng.integers(2))
            row[what] = any_of(bad)
        elif dice < 0.3:
            row, what = any_of([row[:1], row[:2], [*row, "1"]]), "width"
        elif dice < 0.35:
            row[2] = any_of(["c", "é", "\x00", "new, one", 'a "b"', "two\nlines"])
        rows.append(row)
        wrong.append(what)
    return rows, wrong


def check_mess(learn, seed, count):
    rng = np.random.default_rng(seed)
    rows, wrong = mess(rng, count)
    first = [["1.5", "2.5", "a"], ["0.5", "1", "b"], *([["1", "2", "a"]] * 40)]
    with open("a.csv", "w", newline="", encoding=str(rng.choice(["utf-8", "latin-1"]))) as file:
        writer = csv.writer(
            file, delimiter=str(rng.choice([",", ";", "\t"])), lineterminator=str(rng.choice(["\n", "\r\n"]))
        )
        writer.writerows([["y", "x", "kind"], *first, *rows])
    horizon = int(rng.choice([0, 1, 1, 5]))
    how = ("a.csv", "--target", "y", "--horizon", horizon, "--json")
    status, out, err = learn(*how, "--on-bad", "skip", "--predictions", "p.csv", "--force")
    assert status == 0, err
    found = result(out)
    assert found["skipped"] == sum(what is not None for what in wrong)
    assert found["rows"] == len(first) + sum(what is None for what in wrong)
    assert [int(line["row"]) for line in lines_of("p.csv")] == [
        *range(1, len(first) + 1),
        *(len(first) + 1 + i for i, what in enumerate(wrong) if what is None),
    ]
    at = next((i for i, what in enumerate(wrong) if what is not None), None)
    status, out, err = learn(*how)
    if at is None:
        assert status == 0
        return
    assert status == 2
    assert result(out)["rows"] == len(first) + at
    place = (
        "cells, and the header 3|cell, and the header 3" if wrong[at] == "width" else f"column '{'yx'[wrong[at]]}': "
    )
    assert re.search(rf"error: a.csv, row {len(first) + at + 1:,} \(line [\d,]+\)(, |: it has \d )({place})", err), err


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_in_a_table_the_answer_is_right(learn, seed):
    check_mess(learn, seed, 500)


@pytest.mark.slow
def test_whatever_is_in_many_tables_the_answer_is_right(learn):
    for seed in range(100):
        check_mess(learn, 1000 + seed, 500)


@pytest.mark.parametrize("seed", range(40))
def test_bytes_at_random_give_no_traceback(learn, seed):
    rng = np.random.default_rng(seed)
    pieces = [
        b"y",
        b"x",
        b",",
        b";",
        b"\n",
        b"\r\n",
        b'"',
        b"1",
        b"2.5",
        b"\x00",
        b"\xff",
        b"\xc3\xa9",
        b"nan",
        b" ",
        b"\t",
    ]
    noise = b"".join(pieces[int(i)] for i in rng.integers(0, len(pieces), 300))
    Path("a.csv").write_bytes([b"", b"y,x\n", b"y\n", b"\xef\xbb\xbfy;x\n1;2\n"][seed % 4] + noise)
    status, _, err = learn("a.csv", "--target", "y", "--on-bad", ["stop", "skip"][seed % 2])
    assert status in (0, 2)
    assert status == 0 or err.startswith("error: ")
