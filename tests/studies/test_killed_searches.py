"""A search that is stopped, killed, damaged or shared comes to what it would have come to."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import TrialState

from recurra.studies.tuning.storage import DAMAGED, JOURNAL, SystemLock, open_storage, optuna_silenced
from recurra.studies.tuning.tuned import TUNED, TuningError, write_tuned
from tuning_standin import RATE, Bounds, Noisy, tuned

BOUNDS = Bounds(trials=28, seeds=2, confirm_seeds=3)


def search(folder, objective=None, **more):
    return tuned(folder, objective, BOUNDS, batch=10, **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder and the result of a search that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    objective = Noisy()
    return folder, search(folder, objective), objective.calls


def states(folder):
    with optuna_silenced():
        [summary] = optuna.get_all_study_summaries(open_storage(folder))
        study = optuna.load_study(study_name=summary.study_name, storage=open_storage(folder))
        return [trial.state for trial in study.get_trials()]


class Stopped(Noisy):
    """Ctrl-C while it computes for the nth time."""

    after = 0

    def advance(self, points, seeds, stop):
        if len(self.calls) == self.after:
            raise KeyboardInterrupt
        return super().advance(points, seeds, stop)


def test_the_same_search_twice_is_the_same(tmp_path, whole):
    assert search(tmp_path) == whole[1]


def test_another_key_is_another_search(tmp_path, whole):
    assert search(tmp_path, key=1).trials != whole[1].trials


def test_what_is_done_is_not_done_again(whole):
    folder, result, _ = whole
    objective, before = Noisy(), (folder / JOURNAL).read_bytes()
    assert search(folder, objective) == result
    assert objective.calls == []
    assert (folder / JOURNAL).read_bytes() == before


@pytest.mark.parametrize("times", [[4, -2], pytest.param(None, marks=pytest.mark.slow)])
def test_a_search_that_is_interrupted_goes_on(tmp_path, whole, times):
    """At each time something is computed; what was finished before is not done again."""
    _, result, calls = whole
    for after in range(len(calls)) if times is None else [each % len(calls) for each in times]:
        (tmp_path / str(after)).mkdir()
        first, second = Stopped(), Noisy()
        first.after = after
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / str(after), first)
        assert TrialState.RUNNING not in states(tmp_path / str(after))
        assert search(tmp_path / str(after), second) == result
        begun = max(number for number in range(after + 1) if calls[number][1] == calls[0][1])
        if after >= len(calls) - 2:  # finalists and confirmation
            begun = after
        # those that were still on their way are begun again, and come as far as before
        assert second.calls == [(calls[after][0], stop) for _, stop in calls[begun:after]] + calls[after:]


@pytest.mark.slow
def test_interrupted_again_and_again(tmp_path, whole):
    for _ in range(60):
        objective = Stopped()
        objective.after = 3
        with contextlib.suppress(KeyboardInterrupt):
            assert search(tmp_path, objective) == whole[1]
            break
    else:
        pytest.fail("it does not get on")


@pytest.mark.parametrize("part", [0.03, 0.48, 0.91])
def test_a_journal_that_ends_anywhere_is_gone_on_with(tmp_path, whole, part):
    """As a kill or a power cut leaves it: in the middle of a line, or of a trial."""
    journal = (whole[0] / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(journal[: int(part * len(journal))])
    assert search(tmp_path) == whole[1]


@pytest.mark.slow
def test_a_journal_may_end_after_any_line(tmp_path, whole):
    lines = (whole[0] / JOURNAL).read_bytes().splitlines(keepends=True)
    for number in range(0, len(lines), 3):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / JOURNAL).write_bytes(b"".join(lines[:number]) + lines[number][: number % 40])
        assert search(tmp_path / str(number)) == whole[1], number


@pytest.mark.parametrize("tail", [b'{"op_code":', bytes(300), b"garbage\n", b'"text"\n', b"\xff\xfe"])
def test_a_damaged_last_line_is_put_aside(tmp_path, whole, tail):
    journal = (whole[0] / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(journal + tail)
    assert search(tmp_path) == whole[1]
    assert (tmp_path / JOURNAL).read_bytes() == journal
    assert (tmp_path / DAMAGED).read_bytes() == tail.rstrip(b"\n") + b"\n"


def test_optuna_alone_does_not_get_over_a_damaged_last_line(tmp_path):
    """Why there is a lock and a mending of our own."""
    path = str(tmp_path / JOURNAL)
    storage = JournalStorage(JournalFileBackend(path))
    with optuna_silenced():
        optuna.create_study(storage=storage, study_name="a")
    with open(path, "ab") as file:
        file.write(b'{"op_code": 4, "wor')
    storage = JournalStorage(JournalFileBackend(path))  # it reads what is whole
    with optuna_silenced(), pytest.raises(AssertionError):
        optuna.create_study(storage=storage, study_name="b")  # is added to the broken line
    with optuna_silenced(), pytest.raises(json.JSONDecodeError):
        optuna.create_study(storage=storage, study_name="c")


def test_damage_elsewhere_is_an_error_that_names_the_line(tmp_path, whole):
    lines = (whole[0] / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[6] = b'{"op_code": 4, "wor\n'
    (tmp_path / JOURNAL).write_bytes(b"".join(lines))
    with pytest.raises(TuningError, match=rf"journal.log, line 7 of {len(lines)} cannot be read: .*op_code"):
        search(tmp_path)
    assert (tmp_path / JOURNAL).read_bytes() == b"".join(lines)


def test_a_disk_that_fills_up_loses_nothing(tmp_path, whole, monkeypatch):
    right, written = JournalFileBackend.append_logs, []

    def full(self, logs):
        written.append(logs)
        if len(written) < 200:
            return right(self, logs)
        with SystemLock(tmp_path / JOURNAL).journal.open("ab") as file:
            file.write(json.dumps(logs[0]).encode()[:30])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JournalFileBackend, "append_logs", full)
    with pytest.raises(OSError, match="No space left"):
        search(tmp_path)
    monkeypatch.undo()
    assert search(tmp_path) == whole[1]


def test_another_search_in_the_same_folder_is_refused(whole):
    for change in ({"key": 5}, {"seeds": range(3, 9)}, {"space": RATE}):
        with pytest.raises(TuningError, match=r"has a search with other settings[\s\S]* then, .* now"):
            search(whole[0], **change)


def test_trials_that_another_takes_over_are_an_error(tmp_path):
    """As on a file system without locks, where a living process looks like a dead one."""

    class Robbed(Noisy):
        def advance(self, points, seeds, stop):
            if len(self.calls) == 1:
                with optuna_silenced():
                    [summary] = optuna.get_all_study_summaries(open_storage(tmp_path))
                    study = optuna.load_study(study_name=summary.study_name, storage=open_storage(tmp_path))
                    for trial in study.get_trials(states=(TrialState.RUNNING,)):
                        study.tell(trial.number, state=TrialState.FAIL)
            return super().advance(points, seeds, stop)

    with pytest.raises(TuningError, match="file system without locks"):
        search(tmp_path, Robbed())


def test_optuna_speaks_as_before(tmp_path, capfd):
    before = optuna.logging.get_verbosity()
    search(tmp_path)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


# ---- processes of their own


@contextlib.contextmanager
def started(folder, pause=0.05):
    """A process that searches, which ends in any case."""
    support = Path(__file__).parents[1] / "support"
    command = [sys.executable, str(support / "tuning_standin.py"), str(folder), str(pause), str(BOUNDS.trials), "10"]
    environment = {**os.environ, "PYTHONPATH": f"{support}{os.pathsep}{support.parents[1]}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_search_that_is_killed_goes_on(tmp_path, whole):
    with started(tmp_path, pause=0.2) as process:
        for _ in range(4):  # in the second batch
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert TrialState.RUNNING in states(tmp_path)
    assert search(tmp_path) == whole[1]
    assert TrialState.FAIL in states(tmp_path)


def places(found):
    return sorted(trial["place"] for trial in found["trials"])


def test_two_processes_share_a_search_and_one_is_killed(tmp_path):
    with started(tmp_path, pause=0.3) as first, started(tmp_path, pause=0.1) as second:
        first.stdout.readline()
        second.stdout.readline()
        first.send_signal(signal.SIGKILL)
        assert second.wait(timeout=60) == 0
    [found] = json.loads((tmp_path / TUNED).read_text())["cases"]
    assert places(found) == list(range(BOUNDS.trials))
    assert len({json.dumps(trial["settings"]) for trial in found["trials"]}) == BOUNDS.trials
    assert found["chosen"] is not None
    assert TrialState.RUNNING not in states(tmp_path)
    assert TrialState.FAIL in states(tmp_path)


@pytest.mark.slow
def test_four_processes_come_to_one_result(tmp_path):
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started(tmp_path)) for _ in range(4)]
        said = [[json.loads(line) for line in process.stdout] for process in processes]
        assert [process.wait(timeout=60) for process in processes] == [0] * 4
    [found] = json.loads((tmp_path / TUNED).read_text())["cases"]
    assert places(found) == list(range(BOUNDS.trials))
    confirmed = [phase for lines in said for phase, _ in lines if phase != "search"]
    assert sorted(confirmed) == ["confirmation", "finalists"]  # by one of them
    assert sum(any(phase == "search" for phase, _ in lines) for lines in said) > 1
    write_tuned(tmp_path, [search(tmp_path)])
    assert json.loads((tmp_path / TUNED).read_text())["cases"] == [found]
    assert TrialState.FAIL not in states(tmp_path)


HOLDER = """
import sys, time
from pathlib import Path
from recurra.studies.tuning.storage import SystemLock
SystemLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_is_free_when_its_holder_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / JOURNAL)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        process.stdout.readline()
        process.kill()
        process.wait()
        start = time.monotonic()
        lock = SystemLock(tmp_path / JOURNAL)
        lock.acquire()
        lock.release()
        assert time.monotonic() - start < 5  # Optuna's own takes 30 seconds
