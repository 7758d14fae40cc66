"""Jobs of a queue: templates, scripts, and stand-ins for SLURM's commands that start real workers."""

import contextlib
import os
import re
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from dask import config

import places_processes as processes
import places_standins as standins
from recurra.studies.slurm import KINDS, Slurm
from recurra.training.places.base import Computed, PlaceError, PlaceLost

SMALL = """
jobs = 2
cores = 1
memory = "1 GB"
"""

SBATCH = """
import os, pathlib, subprocess, sys
state = pathlib.Path(os.environ["QUEUE"])
if (state / "refuses").exists():
    print("sbatch: error: invalid account", file=sys.stderr)
    raise SystemExit(1)
for number in range(1, 1000):
    try:
        (state / f"{number}.sh").open("x").write(pathlib.Path(sys.argv[-1]).read_text())
        break
    except FileExistsError:
        pass
with (state / f"{number}.log").open("w") as log:
    how = dict(stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    job = subprocess.Popen(["bash", str(state / f"{number}.sh")], **how)
(state / f"{number}.pid").write_text(str(job.pid))
print("Submitted batch job", number)
"""

SCANCEL = """
import os, pathlib, signal, sys
state = pathlib.Path(os.environ["QUEUE"])
(state / f"{sys.argv[1]}.cancelled").touch()
try:
    os.killpg(int((state / f"{sys.argv[1]}.pid").read_text()), signal.SIGTERM)
except ProcessLookupError:
    print("scancel: error: Invalid job id", file=sys.stderr)
    raise SystemExit(1)
"""

SQUEUE = """
import os, pathlib
for path in sorted(pathlib.Path(os.environ["QUEUE"]).glob("*.pid")):
    print(path.stem, "R" if pathlib.Path(f"/proc/{path.read_text()}").exists() else "CD")
"""


def orders(count, **settings):
    return [standins.order(number, **settings) for number in range(count)]


def template(folder, text):
    path = folder / "jobs.toml"
    path.write_text(text)
    return path


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A folder in which jobs are noted; its commands are found before any others. All jobs end with the test."""
    state, commands = tmp_path / "queue", tmp_path / "commands"
    state.mkdir()
    commands.mkdir()
    for name, program in (("sbatch", SBATCH), ("scancel", SCANCEL), ("squeue", SQUEUE)):
        (commands / name).write_text(f"#!{sys.executable}\n{program}")
        (commands / name).chmod(0o755)
    for name, value in processes.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("QUEUE", str(state))
    yield state
    for each in state.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(each.read_text()), signal.SIGKILL)


def families(state):
    """The processes of jobs that have not ended."""
    leaders = {int(path.read_text()) for path in state.glob("*.pid")}
    return [each for each in psutil.process_iter() if _leader(each) in leaders and each.status() != "zombie"]


def _leader(process):
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def test_the_script_is_shown_and_nothing_is_submitted(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no sbatch
    text = f"""
    jobs = 10
    cores = 16
    memory = "64 GB"
    walltime = "02:00:00"
    queue = "cpu"
    account = "rnn"
    interface = "lo"
    log_directory = "{tmp_path}/logs"
    python = "/opt/recurra/bin/python"
    job_extra_directives = ["--exclusive"]
    job_script_prologue = ["module load cuda"]
    worker_extra_args = ["--lifetime", "110m"]
    """
    script = Slurm(template(tmp_path, text)).print_job()
    lines = script.splitlines()
    for line in ("-p cpu", "-A rnn", "--cpus-per-task=16", "--mem=60G", "-t 02:00:00", "--exclusive", "-n 1"):
        assert f"#SBATCH {line}" in lines
    assert lines.index("module load cuda") < lines.index("export RECURRA_WORKERS_HERE=1")
    command = lines[-1]
    assert command.startswith("/opt/recurra/bin/python -m distributed.cli.dask_worker tcp://SCHEDULER:PORT ")
    for words in ("--nthreads 1 ", "--memory-limit 0 ", "--lifetime 110m", "--interface lo", "--no-dashboard"):
        assert words in command
    assert "--nworkers" not in command
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.toml"]


def test_the_template_of_the_docs(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text()
    first, tls = re.findall(r"```toml\n(.*?)```", page, re.S)
    first = first.replace('log_directory = "logs"', f'log_directory = "{tmp_path}/logs"')
    script = Slurm(template(tmp_path, first)).print_job()
    assert "#SBATCH --mem=30G" in script
    assert "--interface ib0" in script
    processes.certificates(tmp_path)
    assert f"--tls-ca-file {tmp_path}/cert.pem" in Slurm(template(tmp_path, first + tls)).print_job()


@pytest.mark.parametrize("kind", KINDS)
def test_every_queue_has_a_script(tmp_path, kind):
    needed = {"htcondor": 'disk = "1 GB"', "oar": 'memory_per_core_property_name = "not_applicable"'}
    extra = f"{needed.get(kind, '')}\n"
    script = Slurm(template(tmp_path, f'kind = "{kind}"\n{extra}{SMALL}processes = 4\n')).print_job()
    assert "distributed.cli.dask_worker" in script
    assert "--nthreads 1" in script
    assert "--nworkers 4" in script
    assert "RECURRA_WORKERS_HERE=4" in script


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'{SMALL}\nwalltme = "1:00"',
            r"jobs\.toml, line 6: `walltme` is no option of SLURMCluster\..* `walltime`",
        ),
        (f"{SMALL}\nwalltime = 01:00:00", "line 6: `walltime` is datetime.time.* must be text"),
        (f'{SMALL}\nhost = "0.0.0.0"', r"line 6: `host` cannot be given here: write it under \[scheduler_options\]"),
        (f'{SMALL}\nenv_extra = ["a"]', "`env_extra` cannot be given here: it is called `job_script_prologue`"),
        (f'{SMALL}\nkind = "slrum"', "line 6: `kind` is 'slrum', and must be one of slurm, pbs"),
        (f"{SMALL}\nprocesses = 0", "`processes` is 0, and must be a whole number from 1"),
        (f'{SMALL}\njob_script_prologue = "a"', "`job_script_prologue` is 'a', and must be a list"),
        (f'{SMALL}\n[tls]\nca_file = "a"', r"\[tls\] must have the three files"),
        ('jobs = true\ncores = 1\nmemory = "much"', "line 1: `jobs` is True.*\n.*line 3: `memory` is 'much'"),
        ("", "`jobs` is missing.*\n.*`cores` is missing.*\n.*`memory` is missing"),
        ("jobs = ", r"jobs\.toml: The file is not valid TOML"),
        ('kind = "htcondor"' + SMALL, "disk"),
        (f'{SMALL}\n[tls]\nca_file = "a"\ncert = "b"\nkey = "c"', "a cannot be read"),
    ],
)
def test_templates_that_are_wrong(tmp_path, text, said):
    with pytest.raises(PlaceError, match=said):
        Slurm(template(tmp_path, text)).print_job()


def test_a_template_that_is_not_there(tmp_path):
    with pytest.raises(PlaceError, match="cannot be read: No such file"):
        Slurm(tmp_path / "nothing.toml")


def test_a_machine_without_a_queue(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlaceError, match="`sbatch` is not there: is this a machine from which jobs are submitted"):
        Slurm(template(tmp_path, SMALL)).__enter__()


@pytest.mark.slow
def test_jobs_compute_a_study_and_end_with_it(tmp_path, queue, capfd):
    given, listening = orders(12, seconds=0.2), processes.listening()
    with processes.nobody_left(), Slurm(template(tmp_path, SMALL)) as place:
        assert place.workers() == 2
        results = list(place.each(standins.compute, iter(given)))
        assert processes.listening() - listening <= {"127.0.0.1"}
        assert len(families(queue)) >= 2
        assert processes.listening(families(queue)) == {"127.0.0.1"}
    assert sorted(order.points[0] for order, _ in results) == list(range(12))
    for order, result in results:
        assert result.values["loss"].tobytes() == standins.computed(order).values["loss"].tobytes()
    assert len({result.worker for _, result in results}) == 2
    _until(lambda: not families(queue))
    assert sorted(path.name for path in queue.glob("*.cancelled")) == ["1.cancelled", "2.cancelled"]
    # A busy machine starts workers slowly, which is told too.
    said = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("Waiting for workers")]
    assert len(said) == 1
    assert "on this machine alone" in said[0]
    assert "`interface`" in said[0]


@pytest.mark.slow
def test_workers_of_one_job_share_its_cores(tmp_path, queue):
    given = orders(8, seconds=0.3)
    with Slurm(template(tmp_path, SMALL.replace("jobs = 2", "jobs = 1") + "processes = 2\n")) as place:
        assert place.workers() == 2
        results = list(place.each(standins.compute, given))
    cores = {result.worker: set(result.device.split(",")) for _, result in results}
    assert len(cores) == 2
    if len(os.sched_getaffinity(0)) > 1:
        assert not set.intersection(*cores.values())


@pytest.mark.slow
def test_a_job_that_ends_is_asked_for_again(tmp_path, queue, capfd):
    results = []
    with config.set({"distributed.deploy.lost-worker-timeout": "500ms"}), Slurm(template(tmp_path, SMALL)) as place:
        for each in place.each(standins.compute, (standins.order(number, seconds=0.5) for number in range(20))):
            results.append(each)
            if len(results) == 3:
                os.killpg(int((queue / "1.pid").read_text()), signal.SIGKILL)
    assert sorted(order.points[0] for order, _ in results) == list(range(20))
    assert all(isinstance(result, Computed) for _, result in results)
    assert (queue / "3.sh").exists()
    assert "1 of 2 jobs ended and is asked for again" in capfd.readouterr().err


@pytest.mark.slow
def test_jobs_that_only_die_are_not_asked_for_without_an_end(tmp_path, queue):
    given = [standins.order(number, dies=True) for number in range(8)]
    options = SMALL.replace("jobs = 2", "jobs = 1") + "nanny = false\n"
    with config.set({"distributed.deploy.lost-worker-timeout": "500ms"}), Slurm(template(tmp_path, options)) as place:
        going = place.each(standins.compute, given)
        with pytest.raises(PlaceLost, match="All jobs have ended, and the last ones brought no outcome"):
            list(going)
    assert len(list(queue.glob("*.sh"))) == 1


@pytest.mark.slow
def test_a_queue_that_refuses(tmp_path, queue):
    (queue / "refuses").touch()
    said = r"No job could be submitted\. The queue said: sbatch: error: invalid account"
    with Slurm(template(tmp_path, SMALL)) as place, pytest.raises(PlaceError, match=said):
        list(place.each(standins.compute, orders(3)))


@pytest.mark.slow
def test_it_is_said_who_can_reach_a_scheduler(tmp_path, queue, capfd):
    found = [each.address for all in psutil.net_if_addrs().values() for each in all if each.family.name == "AF_INET"]
    own = next((each for each in found if not each.startswith("127.")), None)
    if own is None:
        pytest.skip("this machine has no network")
    text = SMALL + f'[scheduler_options]\nhost = "{own}"\n'
    before = processes.listening()
    with Slurm(template(tmp_path, text)) as place:
        assert len(list(place.each(standins.compute, orders(2)))) == 2
        assert own in processes.listening() - before
    said = capfd.readouterr().err
    assert re.search(rf"listens at tcp://{re.escape(own)}:\d+\. Dask runs what it is sent: whoever reaches", said)


@pytest.mark.slow
def test_jobs_with_certificates(tmp_path, queue, capfd):
    files = processes.certificates(tmp_path)
    text = SMALL + f'[tls]\nca_file = "{files.ca_file.name}"\ncert = "{files.cert.name}"\nkey = "{files.key.name}"\n'
    place = Slurm(template(tmp_path, text))
    assert f"--tls-key {files.key}" in place.print_job()
    assert "tls://SCHEDULER:PORT" in place.print_job()
    with place:
        assert len(list(place.each(standins.compute, orders(3)))) == 3
    assert "tls://" in (queue / "1.sh").read_text()


def _until(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert holds()
