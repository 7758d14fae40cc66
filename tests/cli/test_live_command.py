"""`recurra live`: what it prints and writes, run again, and what is typed wrong."""

import json

import pytest

from recurra.cli import app


@pytest.fixture
def live(capsys, tmp_path, monkeypatch):
    """Runs `recurra live` in an empty folder: (status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        status = app.execute(["live", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


SMALL = ("--n", 4, "--steps", 300, "--seeds", 2)


@pytest.mark.slow
def test_learners_are_compared_on_a_page_and_the_same_command_reads_what_is_kept(live, tmp_path):
    xarray = pytest.importorskip("xarray")
    asked = (
        "--env",
        "t-maze",
        "--set",
        "length=2",
        "--learner",
        "rtrl",
        "--learner",
        "bptt:2",
        *SMALL,
        "--out",
        "maze",
    )
    status, printed, said = live(*asked)
    assert status == 0, said
    assert [line.split()[0] for line in printed.splitlines()] == ["Learner", "rtrl", "bptt:2"]
    page = (tmp_path / "maze" / "index.html").read_text()
    assert "TMaze, AC" in page
    assert page.count("<svg") == 3
    assert "length=2" in page
    with xarray.open_dataset(tmp_path / "maze" / "bptt-2.nc", engine="h5netcdf") as data:
        assert data.reward.sizes == {"seed": 2, "step": 100}
        before = float(data.last_return.mean())
    status, printed, _ = live(*asked, "--json")
    assert status == 0
    told = json.loads(printed)
    assert told["lives"]["bptt:2"]["last_return"] == pytest.approx(before)
    assert told["lives"]["bptt:2"]["steps_per_second"] is None, "nothing was computed again"


@pytest.mark.slow
def test_predictions_and_rows_of_gymnasium_have_pages_too(live, tmp_path):
    pytest.importorskip("gymnasium")
    status, printed, _ = live("--env", "trace-conditioning", "--agent", "td", *SMALL, "--out", "tone")
    assert status == 0
    assert "–" in printed, "there are no episodes"
    assert (tmp_path / "tone" / "index.html").read_text().count("<svg") == 3
    status, *_ = live("--env", "gymnasium:CartPole-v1", "--seen", "0,2", "--normalise", *SMALL, "--out", "pole")
    assert status == 0
    assert (tmp_path / "pole" / "index.html").read_text().count("<svg") == 2
    assert not list((tmp_path / "pole").glob("*.life"))


WRONG = {
    "nothing of that name": (("--env", "maze"), "`env` is 'maze', which is unknown: choose from memory-chain"),
    "no such setting": (("--env", "t-maze", "--set", "size=3"), "no setting 'size', but: length, patience."),
    "a value that cannot be": (("--env", "t-maze", "--set", "length=-3"), "`length` of TMaze must be at least 1"),
    "a learner of losses": (("--env", "t-maze", "--learner", "dni"), "must be a past-facing learner"),
    "no learner": (("--env", "t-maze", "--learner", "rtlr"), "`learner` must be 'rtrl'"),
    "no window": (("--env", "t-maze", "--learner", "bptt:x"), "such as bptt:8"),
    "nothing to do": (("--env", "trace-conditioning"), "with --agent td"),
    "hidden entries": (("--env", "t-maze", "--seen", "0;2"), "as --seen 0,2"),
    "entries that are not there": (("--env", "t-maze", "--seen", "9"), "0 to 3, and is (9,)"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_typed_wrong_is_one_line(what, live):
    arguments, expected = WRONG[what]
    status, printed, said = live(*arguments)
    assert status == 2
    assert not printed
    assert expected in said
    assert len(said.splitlines()) == 1


def test_a_list_names_our_environments(live):
    status, printed, _ = live("--env", "list")
    assert status == 0
    assert [line.split()[0] for line in printed.splitlines()][:2] == ["memory-chain", "repeat-first"]
