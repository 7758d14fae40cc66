"""`recurra reproduce`, as its user meets it: from an empty folder, again, killed half-way, and with bad input."""

import dataclasses
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest

import recurra as rc
from recurra import FolderError, NotKeptError
from recurra.cli import app
from recurra.saved import archive
from recurra.training.checkpoint import CheckpointError, UselessCheckpointError
from recurra_paper.beyond.book import BEYOND
from recurra_paper.commands import report_command, run_command
from recurra_paper.experiments import Experiment, experiments
from recurra_paper.experiments.gradients import LEARNERS, Alignments
from recurra_paper.experiments.lattice import HORIZON, STEPS, Lattice
from recurra_paper.experiments.losses import LossCurve
from recurra_paper.figures import FIGURES
from recurra_paper.page import STATUSES
from recurra_paper.profiles import TINY
from recurra_paper.reproduce import reproduce as reproduce_runs
from recurra_paper.reproduction import REPRODUCTION
from recurra_paper.store import Store

COMMAND = [sys.executable, "-c", "from recurra.cli import main; main()"]


def recurra(*arguments, cwd, **kwargs):
    return subprocess.run([*COMMAND, *arguments], cwd=cwd, capture_output=True, text=True, timeout=1800, **kwargs)


@pytest.mark.slow
def test_all_of_it_then_killed_and_taken_up_again(tmp_path):
    """Every figure, the ledger and the page; then some runs are lost, made again under SIGKILL, and nothing differs."""
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs")}
    arguments = ["reproduce", "--profile", "tiny", "--out"]
    done = recurra(*arguments, "whole", cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "left" in done.stderr
    whole = tmp_path / "whole"
    for name in FIGURES:
        assert (whole / "figures" / f"{name}.svg").stat().st_size > 1000
        assert (whole / "data" / f"{name}.csv").stat().st_size > 20
    ledger = json.loads((whole / "claims.json").read_text())
    assert {claim["status"] for claim in ledger} <= set(STATUSES)
    assert all(set(claim) >= {"id", "text", "where", "criterion", "measured"} for claim in ledger)
    page = (whole / "index.html").read_text()
    assert all(f'id="{name}"' in page for name in FIGURES)
    assert all(claim["id"] in page for claim in ledger)

    chance = random.Random(0)
    lost = chance.sample(sorted(path for path in (whole / "runs").iterdir() if "scaling" not in path.name), 12)
    kept = sorted(path for path in (whole / "runs").iterdir() if path not in lost)
    shutil.copytree(whole, tmp_path / "killed", ignore=lambda *_: [path.name for path in lost])
    for made in sorted(chance.sample(range(12), 2)):
        process = subprocess.Popen(
            [*COMMAND, *arguments, "killed"], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
        )
        while (
            process.poll() is None
            and len(list((tmp_path / "killed" / "runs").glob("*.safetensors"))) < len(kept) + made
        ):
            time.sleep(0.05)
        time.sleep(2 * chance.random())
        process.kill()
        assert process.wait() == -signal.SIGKILL
    done = recurra(*arguments, "killed", cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed" / "claims.json").read_bytes() == (whole / "claims.json").read_bytes()

    before = {path.name: path.stat().st_mtime_ns for path in (whole / "runs").iterdir()}
    (whole / "index.html").unlink()
    again = recurra("report", "whole", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert before == {path.name: path.stat().st_mtime_ns for path in (whole / "runs").iterdir()}
    assert (whole / "index.html").read_text() == page


@pytest.mark.slow
def test_the_whole_study(tmp_path):
    done = recurra("beyond", "--profile", "tiny", "--out", "study", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "study" / "index.html").read_text()
    assert all(f'id="{name}"' in page for name in BEYOND.figures)
    assert all(claim.id in page for claim in BEYOND.claims)
    assert recurra("report", "study", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "fig1"], "There is no target fig1. The targets are: table1"),
        (["reproduce", "--profile", "huge"], "The profiles are: quick, paper"),
        (["reproduce", "--out", "mine"], "belong to no reproduction"),
        (["beyond", "fig1"], "There is no target fig1. The targets are: demands"),
        (["beyond", "--profile", "paper"], "The profiles are: quick, full"),
        (["reproduce", "--seeds", "1"], "`seeds` must be at least 2"),
        (["report", "nothing"], "holds no kept runs"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    monkeypatch.chdir(tmp_path)
    assert app.execute(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert (tmp_path / "mine" / "letter.txt").read_text() == "keep me"


def test_a_damaged_run_is_named_and_a_changed_setting_is_another_run(tmp_path):
    store = Store(tmp_path / "runs")
    first, second = experiments(TINY)[:2]
    store.put(first, {"x": np.arange(3)}, seconds=1.0)
    np.testing.assert_array_equal(store.get(first)["x"], [0, 1, 2])
    assert store.get(second) is None
    (kept,) = (tmp_path / "runs" / "runs").glob("*.safetensors")
    kept.write_bytes(kept.read_bytes()[:50])
    with pytest.raises(FolderError, match=kept.name):
        store.get(first)


def test_what_an_experiment_is_built_from_is_part_of_its_key(monkeypatch, tmp_path):
    store, curve = Store(tmp_path / "runs"), LossCurve("add", "1", "dni", 2, 100)
    store.put(curve, {"x": np.arange(3)}, seconds=1.0)
    monkeypatch.setattr("recurra_paper.experiments.losses.learner_of", lambda *_: rc.DNI(learning_rate=0.3))
    assert store.get(curve) is None


def test_a_checkpoint_that_cannot_serve_is_done_again(tmp_path):
    store, curve = Store(tmp_path / "runs"), LossCurve("add", "1", "rflo", 2, 300)
    expected = curve.run(store.checkpoint(curve), lambda part: None)
    store.checkpoint(curve).write_bytes(b"garbage")
    found = reproduce_runs(store, [curve], lambda *_: None)[curve.name]
    np.testing.assert_array_equal(found["loss"], expected["loss"])


def test_a_mark_that_cannot_be_read_and_a_killed_first_moment(tmp_path):
    Store(tmp_path / "ours")
    (tmp_path / "ours" / "recurra.json").write_text("")
    with pytest.raises(FolderError, match="writes it anew"):
        report_command(tmp_path / "ours")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / ".recurra.json.partial").touch()
    Store(tmp_path / "half")


@dataclass(frozen=True)
class Instant(Experiment):
    """An experiment that takes no time."""

    known_as: str
    cost: float = 1.0

    @property
    def name(self):
        return self.known_as

    def run(self, checkpoint, advance):
        advance(0.5)
        return {"x": np.arange(3)}


#: the paper without its experiments
BOOK = dataclasses.replace(REPRODUCTION, experiments=lambda profile: [])


@pytest.fixture
def instants():
    """Two experiments in the place of all."""
    return [Instant("first"), Instant("second")]


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch, instants):
    store = Store(tmp_path / "runs")
    reproduce_runs(store, instants[:1], lambda *_: None)
    monkeypatch.setattr(archive, "write_whole", full)
    with pytest.raises(NotKeptError, match=r"^Not kept: second \(No space left on device.* goes on from there\.$"):
        reproduce_runs(store, instants, lambda *_: None)
    monkeypatch.setattr("recurra_paper.page._write", full)
    with pytest.raises(NotKeptError, match="recurra report"):
        run_command(BOOK, ["past_future"], "tiny", tmp_path / "runs")
    assert store.get(instants[0]) is not None


def test_what_found_no_room_beside_others_is_tried_once_more(tmp_path, monkeypatch, instants):
    store, tried, write_whole = Store(tmp_path / "runs"), [], archive.write_whole

    def full_at_first(path, write):
        tried.append(path)
        if len(tried) == 1:
            full()
        write_whole(path, write)

    monkeypatch.setattr(archive, "write_whole", full_at_first)
    with pytest.raises(NotKeptError, match="no room for a while"):
        reproduce_runs(store, instants[:1], lambda *_: None)
    assert store.get(instants[0]) is not None


def test_a_full_disk_is_found_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("recurra_paper.store.try_place", full)
    with pytest.raises(FolderError, match="No space left on device"):
        run_command(REPRODUCTION, [], "tiny", tmp_path / "runs")


def test_only_a_useless_checkpoint_is_removed(tmp_path, monkeypatch, instants):
    """One that cannot be written or read now may still serve."""
    store = Store(tmp_path / "runs")
    store.checkpoint(instants[0]).write_text("half of it")

    for kind, remains in ((CheckpointError, True), (UselessCheckpointError, False)):

        def refused(*_, kind=kind):
            raise kind("It cannot be used.")

        monkeypatch.setattr(Instant, "run", refused)
        with pytest.raises(NotKeptError, match="It cannot be used"):
            reproduce_runs(store, instants[:1], lambda *_: None)
        assert store.checkpoint(instants[0]).exists() == remains


def test_a_folder_is_for_one_job_at_a_time(tmp_path):
    store = Store(tmp_path / "runs")
    store.remember({"profile": dataclasses.asdict(TINY)})
    (tmp_path / "runs" / "runs" / ".killed.safetensors.1234.partial").touch()
    with store.own.held():
        for command in (
            lambda: report_command(store.directory),
            lambda: run_command(REPRODUCTION, [], "tiny", store.directory),
        ):
            with pytest.raises(FolderError, match=r"in use by another .* wait until it has ended"):
                command()
    assert not list((tmp_path / "runs").rglob(".*"))


@pytest.mark.parametrize("book", [REPRODUCTION, BEYOND], ids=lambda book: book.name)
def test_names_are_unique(book):
    for profile in book.profiles.values():
        names = [experiment.name for experiment in book.experiments(profile)]
        assert len(set(names)) == len(names)
        for figure in book.figures.values():
            assert all(any(name.startswith(prefix) for name in names) for prefix in figure.needs(profile))
    assert len({claim.id for claim in book.claims}) == len(book.claims)
    assert {claim.figure for claim in book.claims} <= set(book.figures)


def test_a_folder_belongs_to_one_book(tmp_path):
    Store(tmp_path / "runs").remember({"book": "beyond", "profile": {"name": "tiny"}})
    with pytest.raises(FolderError, match=r"holds runs of `recurra beyond`: choose another folder"):
        run_command(REPRODUCTION, [], "tiny", tmp_path / "runs")
    Store(tmp_path / "old").remember({"profile": {"name": "paper", "lost": 3}})
    with pytest.raises(FolderError, match=r"another version of recurra: run `recurra reproduce --profile paper"):
        report_command(tmp_path / "old")


@pytest.mark.parametrize("learner", ["rtrl", "f-bptt", "e-bptt"])
def test_lattice_is_what_the_rule_sums(learner, tmp_path):
    """RTRL: all s up to t, at t. F-BPTT: s alone, t up to s + T. E-BPTT: the triangle of a segment."""
    enters = Lattice(learner).run(tmp_path, lambda part: None)["enters"]
    now, s, t = np.ogrid[:STEPS, :STEPS, :STEPS]
    T = HORIZON
    expected = {
        "rtrl": (s <= t) & (t == now),
        "f-bptt": (s == now - T) & (s <= t) & (t <= now),
        "e-bptt": ((now + 1) % T == 0) & (now - T < s) & (s <= t) & (t <= now),
    }[learner]
    np.testing.assert_array_equal(enters, np.broadcast_to(expected, enters.shape))


def test_windows_are_summed_over_pieces():
    """Cosines of windowed sums against brute force, however the steps arrive; RTRL is the first learner."""
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(2, 100, len(LEARNERS), 5)).astype(np.float32)
    whole, cut = Alignments(LEARNERS, 2, 100), Alignments(LEARNERS, 2, 100)
    whole.take(gradients)
    for part in np.split(gradients, [7, 8, 50], axis=1):
        resumed = Alignments(LEARNERS, 2, 100)  # as after a kill
        if cut.histogram.any():
            resumed.restore({name: array.copy() for name, array in cut.state().items()})
        cut = resumed
        cut.take(part)
    arrays = cut.arrays()
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(arrays[name], array)
    for q, w in enumerate(arrays["windows"]):
        whole = 100 // w
        sums = gradients[:, : whole * w].reshape(2, whole, w, len(LEARNERS), 5).sum(axis=2)
        norm = np.linalg.norm(sums, axis=-1)
        cos = np.einsum("stip,stjp->stij", sums, sums) / norm[..., None] / norm[:, :, None]
        np.testing.assert_allclose(arrays["window_cosine"][..., q], cos.mean(axis=1), atol=1e-5)
    assert arrays["histogram"].sum(-1).min() == 200
