"""What a person sees of `recurra learn`: the page, and the table while it runs. And a real model, for once."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from processes import read_until
from recurra.cli.learning.scores import MOST, MOST_NOTES, Notes, Scores
from recurra.online.settling import Waiting
from recurra.saved.archive import read

STANDIN = [sys.executable, str(Path(__file__).parents[1] / "support" / "learning_standin.py")]


def put(rows, name="a.csv", header=("when", "y", "kind")):
    lines = [",".join(map(str, row)) for row in [header, *rows]]
    Path(name).write_text("\n".join(lines) + "\n")


def some_rows(count):
    rng = np.random.default_rng(0)
    return [(f"2016-01-{1 + i // 24:02}T{i % 24:02}:00", f"{rng.normal():.3f}", "ab"[i % 2]) for i in range(count)]


class Page(HTMLParser):
    """The text of a page, its headings, and whether all its tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.addresses = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in ("meta", "link", "br", "img", "path", "use", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path", "use"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_stands_alone_and_tells_it_all(learn):
    put(some_rows(600))
    status, _, err = learn("a.csv", "--target", "y", "--coverage", 0.8, "--out", "page", "--on-bad", "skip")
    assert status == 0
    assert "The page is page/index.html.\n" in err
    page = Page(Path("page/index.html").read_text())
    assert page.open == []
    assert all(address.startswith(("#", "data:")) for address in page.addresses)  # it needs nothing else
    text = re.sub(r"\s+", " ", " ".join(page.text))
    for said in (
        "y, 1 row ahead", "a.csv", "has the small", "600 rows of a.csv, 599 of them scored.", "race",
        "seasonal naive, no period found", "The range held the truth in", "Error over time",
        "Predictions beside the truth", "What was chosen", "The second member is better.", "kind = another",
    ):  # fmt: skip
        assert said in text, said


@pytest.mark.parametrize(("rows", "horizon"), [(1, 1), (2, 0), (3, 5), (40, 1)])
def test_a_page_of_few_rows_is_a_page(learn, rows, horizon):
    put(some_rows(rows))
    status, out, err = learn("a.csv", "--target", "y", "--horizon", horizon, "--out", "page")
    assert status == 0, err
    assert Page(Path("page/index.html").read_text()).open == []
    assert ("No row was scored" in out) == (rows <= max(horizon, 1))


def test_names_are_no_markup_and_no_formula(learn):
    name = "<b>$x^$ & 'co'"
    put([(i, i % 3) for i in range(50)], header=(name, "other"))
    status, _, err = learn("a.csv", "--target", name, "--out", "page")
    assert status == 0, err
    text = Path("page/index.html").read_text()
    assert "<b>" not in text
    assert "&lt;b&gt;$x^$ &amp; &#39;co&#39;" in text


@pytest.mark.parametrize("values", [[7.0] * 60, [1e38, -1e38] * 30, [0.0] * 30 + [1e-30] * 30])
def test_strange_series_have_a_page_too(learn, values):
    put([(i, value, "a") for i, value in enumerate(values)])
    status, out, err = learn("a.csv", "--target", "y", "--out", "page", "--json", "--time", "when")
    assert status == 0, err
    assert json.loads(out)["rows"] == 60
    assert Page(Path("page/index.html").read_text()).open == []


def test_a_page_that_finds_no_room_costs_the_status_alone(learn, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    put(some_rows(50))
    monkeypatch.setattr("recurra.pages.page.write_whole", full)
    status, out, err = learn("a.csv", "--target", "y", "--out", "page")
    assert (status, "50 rows of a.csv" in out) == (1, True)
    assert "The page could not be written to page: No space left on device." in err


# While it runs


@pytest.mark.slow
def test_a_terminal_shows_the_errors_so_far(tmp_path):
    ours, theirs = pty.openpty()
    (tmp_path / "a.csv").write_text("y\n" + "".join(f"{i % 5}\n" for i in range(3000)))
    environment = {**os.environ, "SLOWLY": "0.3", "TERM": "xterm-256color", "COLUMNS": "100"}
    how = {"cwd": tmp_path, "env": environment, "stdout": subprocess.DEVNULL, "stderr": theirs}
    with subprocess.Popen([*STANDIN, "learn", "a.csv", "--target", "y"], **how) as process:
        os.close(theirs)
        shown = read_until(ours, b"least squares, 24 lags")
        shown += read_until(ours, b"rows/s")
        process.send_signal(signal.SIGINT)
        shown += read_until(ours, b"Interrupted after")
        assert process.wait(60) == 130
    os.close(ours)
    assert b"a.csv: compiling" in shown
    assert b"Recent RMSE" in shown


def test_a_log_has_a_line_now_and_then(learn, monkeypatch):
    monkeypatch.setattr("recurra.training.progress.LOG_EVERY", 0.0)
    put(some_rows(300))
    _, _, err = learn("a.csv", "--target", "y")
    lines = [line for line in err.splitlines() if "RMSE" in line]
    assert len(lines) == 3  # a batch ends where shares are noted, and at the end
    assert re.match(r"a.csv: 128 rows \(\d+%\); RMSE race [\d.]+ \(recent [\d.]+\), last value [\d.]+ \(", lines[0])
    assert re.match(r"a.csv: 300 rows \(100%\), [\d,]+ rows/s; RMSE race", lines[-1])


# What a run remembers


def test_windows_are_joined_and_lose_nothing():
    rng = np.random.default_rng(0)
    truth, forecasts = rng.normal(size=5000), rng.normal(size=(5000, 2))
    truth[rng.random(5000) < 0.3] = np.nan
    scores = Scores(2)
    for start in range(0, 5000, 37):
        scores.add(truth[start : start + 37], forecasts[start : start + 37])
        assert len(scores.windows()[0]) <= MOST
    ends, errors = scores.windows()
    assert ends[-1] == 5000
    for first, last, found in zip([0, *ends[:-1]], ends, errors, strict=True):
        wrong = forecasts[first:last] - truth[first:last, None]
        np.testing.assert_allclose(found, np.sqrt(np.nanmean(wrong**2, axis=0)), rtol=1e-12)


def test_errors_are_those_of_river():
    metrics = pytest.importorskip("river.metrics")
    rng = np.random.default_rng(0)
    truth, forecasts = 100 * rng.normal(size=5000), 100 * rng.normal(size=(5000, 2))
    truth[rng.random(5000) < 0.3] = np.nan
    scores = Scores(2)
    scores.add(truth, forecasts)
    for column, found in enumerate(scores.errors()[:, :2]):
        wanted = metrics.RMSE(), metrics.MAE()
        for y, forecast in zip(truth, forecasts[:, column], strict=True):
            if np.isfinite(y):
                for metric in wanted:
                    metric.update(y, forecast)
        np.testing.assert_allclose(found, [metric.get() for metric in wanted], rtol=1e-12)


def test_shares_are_noted_evenly_however_long_a_run_is():
    notes = Notes()
    for row in range(1, 200_001):
        if row % 128 == 0:
            notes.add(row, float(row), [1.0 * row, -1.0 * row])
    assert len(notes.rows) < MOST_NOTES
    assert set(np.diff(notes.rows)) == {notes.every}
    np.testing.assert_array_equal(notes.shares(), [[row, -row] for row in notes.rows])


def test_what_waits_is_handed_out_when_its_row_comes():
    waiting, values = Waiting(5), np.arange(40.0)[:, None]
    assert [waiting.pass_on(value) for value in values] == [None] * 5 + list(values[:35])


# A real model


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--learner", "rflo", "--n", "4", "--lags", "3"), ()])
def test_a_real_model_in_parts_is_the_same_as_at_once(tmp_path, how):
    rng = np.random.default_rng(0)
    rows = [
        f"{np.sin(i / 5) + rng.normal() / 9:.4f},{'' if i % 9 == 0 else rng.normal()},{'ab'[i % 2]}\n"
        for i in range(700)
    ]
    outs = []
    for name, counts in (("whole", (700,)), ("parts", (1, 300, 700))):
        folder = tmp_path / name
        folder.mkdir()
        for count in counts:
            (folder / "a.csv").write_text("y,x,kind\n" + "".join(rows[:count]))
            program = [sys.executable, "-c", "from recurra.cli import main; main()", "learn", "a.csv", "--target", "y"]
            files = ["--checkpoint", "c.learn", "--predictions", "p.csv", "--ignore", "kind", "--horizon", "2"]
            done = subprocess.run([*program, *files, "--json", *how], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        arrays, _ = read(folder / "c.learn", "learn")
        outs.append((done.stdout, (folder / "p.csv").read_bytes(), {key: a.tobytes() for key, a in arrays.items()}))
    assert outs[0] == outs[1]
    errors = {line["name"]: line["rmse"] for line in json.loads(outs[0][0])["forecasts"]}
    assert min(errors, key=errors.__getitem__) != "last value"


@pytest.mark.slow
def test_a_value_that_is_too_large_for_a_real_model_is_a_bad_row(tmp_path):
    rows = [f"{i % 5},{1e30 if i == 150 else i % 3}\n" for i in range(200)]
    (tmp_path / "a.csv").write_text("y,x\n" + "".join(rows))
    program = [sys.executable, "-c", "from recurra.cli import main; main()", "learn", "a.csv", "--target", "y"]
    small = ["--learner", "rflo", "--n", "3", "--lags", "2"]
    done = subprocess.run([*program, *small], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "error: a.csv, row 151 (line 152), column 'x': 1e+30, which is too large for float32. Correct" in done.stderr
    done = subprocess.run([*program, *small, "--on-bad", "skip"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "199 rows of a.csv" in done.stdout) == (0, True)
