"""The command line as a user meets it: what it prints, keeps, refuses, and leaves behind when interrupted."""

import ast
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import recurra
from processes import read_until
from recurra.cli import app
from recurra.network import NetworkWeights
from recurra.saved.whole_files import held, write_whole
from recurra.step.optimizers import descend, init_optimizer
from recurra.studies.language import top_names
from recurra.studies.parts import build
from recurra.studies.settings import checked
from recurra.training.result import Result
from small_runs import asks_to_stop_after

PROGRAM = [sys.executable, "-c", "from recurra.cli import main; main()"]
SMALL = ["--n", "3", "--seeds", "2", "--steps", "60"]


@pytest.fixture
def recurra_command(capsys, tmp_path, monkeypatch):
    """Runs a command in an empty folder: (status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        status = app.execute([str(each) for each in arguments])
        return status, *capsys.readouterr()

    return run


def in_a_process(folder, *arguments):
    """The real program, outside the strict settings of this session: (status, standard output, standard error)."""
    done = subprocess.run([*PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def instant_training(monkeypatch):
    """Replaces training by a result that a test makes up: a function of the learner, by its class."""
    made = {}

    def fake_train(network, learner, task, *, steps, seeds, **_):
        loss, changes = made[type(learner)]
        values = {
            "seeds": tuple(range(seeds)), "step": np.array([steps // 2, steps]),
            "loss": np.stack([np.ones(seeds), np.array(loss, float)], axis=1),
            "weights": NetworkWeights(None, None, None), "records": {}, "record_every": 1, "diverged": {},
            "steps": steps, "interrupted": False, "seconds": 1.0, "compile_seconds": 1.0,
        }  # fmt: skip
        if isinstance(changes, BaseException):
            raise changes
        result = Result(**(values | changes))
        if result.interrupted:
            raise recurra.Interrupted("Stopped.", result, signal.SIGTERM)
        return result

    monkeypatch.setattr(recurra, "train", fake_train)
    return made


# Listing


def test_learners_lists_every_one_with_its_axes(recurra_command):
    status, out, err = recurra_command("learners")
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line and not line.startswith(" ")}
    for name, learner in recurra.LEARNERS.items():
        about = learner.about
        assert all(text in rows[name] for text in (about.name, learner.facing, about.tensor, about.time))
        assert ("stochastic" in rows[name], "numerical" in rows[name]) == (about.stochastic, about.numerical)
        assert about.cells in rows[name]


def test_learners_as_json(recurra_command):
    status, out, err = recurra_command("learners", "--json")
    listed = json.loads(out)
    assert (status, err) == (0, "")
    assert [each["name"] for each in listed] == list(recurra.LEARNERS)
    assert next(each for each in listed if each["name"] == "uoro") == {
        "name": "uoro", "algorithm": "UORO", "facing": "past", "tensor": "A_k B_ij", "stochastic": True,
        "numerical": False, "memory": "n²", "time": "n²", "unitwise": False, "cells": "any",
        "hyperparameters": {"nu": "signs", "initial_scale": 1.0},
    }  # fmt: skip


def test_version_and_help(recurra_command):
    assert recurra_command("--version") == (0, f"recurra {recurra.__version__}\n", "")
    assert "train" in recurra_command()[1]
    options = recurra_command("train", "--help")[1]
    for name in ("learner", "set", *top_names()):
        assert f"--{name.replace('_', '-')}" in options


# Training


@pytest.mark.slow
def test_train_keeps_and_prints_several_learners(tmp_path):
    learners = ["--learner", "fixed", "--learner", "rflo", "--learner", "e-bptt"]
    status, out, err = in_a_process(tmp_path, "train", *learners, *SMALL, "--window", "20", "--out", "runs.nc")
    assert status == 0, err
    assert "Saved in runs.nc" in err
    with xarray.open_dataset(tmp_path / "runs.nc", engine="h5netcdf") as data:
        assert dict(data.sizes) == {"learner": 3, "seed": 2, "step": 3}
        assert list(data.learner.values) == ["fixed", "rflo", "e-bptt"]
        assert data.step.values.tolist() == [20, 40, 60]
        assert data.loss.dims == ("learner", "seed", "step")
        assert np.isfinite(data.loss).all()
        assert (data.diverged_at == -1).all()
        config = json.loads(data.attrs["config"])
        assert data.attrs["recurra_version"] == recurra.__version__
        final = data.loss.isel(step=-1).mean("seed")
    assert config["learners"] == ["fixed", "rflo", "e-bptt"]
    assert {name: value for name, value in config.items() if name.startswith("learner.")} == {"learner.e-bptt.T": 10}
    assert (config["n"], config["steps"], config["task.t1"], config["cell"]) == (3, 60, 6, "rnn")
    assert "task.outputs" not in config
    names, losses = zip(*(line.split()[:2] for line in out.splitlines()[1:4]), strict=True)
    losses = [float(loss) for loss in losses]
    assert losses == sorted(losses, reverse=True)
    assert losses == pytest.approx(final.sel(learner=list(names)).values, rel=1e-4)


#: a command, and the same run by hand
BOTH = """
import sys, recurra
from recurra.cli.app import execute
execute(sys.argv[1:])
cell = recurra.GRU(3, 3, dtype="float32")
network, task = recurra.Network(cell, 2, recurra.SquaredError()), recurra.Mimic(cell, 2)
learner = recurra.EfficientBPTT(T=4)
result = recurra.train(network, learner, task, steps=60, seeds=2, key=5, optimizer=0.01, progress=False)
print(float(result.final_loss().mean()))
"""


def test_train_is_what_the_library_does(tmp_path):
    (tmp_path / "run.toml").write_text(
        'task = "mimic"\nlearners = ["rtrl"]\nsteps = 999\nkey = 5\n'
        '[set]\n"task.target.n_in" = 3\ntask.outputs = 7\n[learner.e-bptt]\nT = 4\n[learner.uoro]\nnu = "gaussian"\n'
    )
    overrides = ["--learner", "e-bptt", *SMALL, "--cell", "gru", "--learning-rate", "0.01", "--json"]
    overrides += ["--set", "task.outputs=2"]
    command = [sys.executable, "-c", BOTH, "train", "--config", "run.toml", *overrides]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    report, end = json.JSONDecoder().raw_decode(out)
    assert (report["config"]["learners"], report["config"]["learner.e-bptt.T"]) == (["e-bptt"], 4)
    assert (report["config"]["steps"], report["config"]["key"]) == (60, 5)
    assert report["results"][0]["final_loss"] == float(out[end:])


@pytest.mark.parametrize("optimizer", recurra.OPTIMIZERS)
def test_every_optimizer_can_be_built(optimizer):
    chosen = build(checked({"learners": ["rtrl"], "optimizer": optimizer, "learning_rate": 0.5})).optimizer
    weights = jnp.ones(2)
    with jax.numpy_dtype_promotion("standard"):  # Optax itself mixes dtypes
        moved, _ = descend(chosen, weights, init_optimizer(chosen, weights), weights)
    assert (np.asarray(moved) < 1).all()


def test_diverged_seeds_are_named_and_left_out(recurra_command, instant_training):
    instant_training[recurra.UORO] = [2.0, np.nan, 4.0], {"diverged": {1: 12}}
    instant_training[recurra.RTRL] = [np.nan] * 3, {"diverged": {0: 3, 1: 4, 2: 5}}
    arguments = ("train", "--learner", "uoro", "--learner", "rtrl", "--seeds", 3, "--out", "runs.nc")
    status, out, _ = recurra_command(*arguments)
    assert status == 0
    assert "uoro diverged: seed 1 at step 12; the mean is over the others." in out
    assert "rtrl diverged: seed 0 at step 3, seed 1 at step 4, seed 2 at step 5; no seed is left" in out
    assert out.splitlines()[2].split()[:6] == ["uoro", "3", "1", "2", "of", "3"]
    with xarray.open_dataset("runs.nc", engine="h5netcdf") as data:
        assert data.diverged_at.values.tolist() == [[-1, 12, -1], [3, 4, 5]]

    result = json.loads(recurra_command(*arguments, "--force", "--json")[1])["results"]
    assert [(each["learner"], each["final_loss"], each["diverged"]) for each in result] == [
        ("rtrl", None, {"0": 3, "1": 4, "2": 5}), ("uoro", 3.0, {"1": 12}),
    ]  # fmt: skip


# What goes wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--learner", "uro"], ["`learners`", "'uro'", "did you mean 'uoro'", "dni-b"]),
        ([], ["`learners`", "at least one", "uoro"]),
        (["--learner", "rtrl", "--learner", "rtrl"], ["`learners`", "'rtrl'", "2 times"]),
        (["--task", "sorting"], ["`task`", "'sorting'", "copy, digits, evidence, mimic"]),
        (["--alpha", "0"], ["`alpha`", "above 0.0 and at most 1.0", "0.0"]),
        (["--n", "0"], ["`n`", "at least 1", "0"]),
        (["--set", "task.t1=0"], ["`t1` of Add", "at least 1", "0"]),
        (["--task", "mimic", "--set", "task.target.n_in=0"], ["`n_in`", "at least 1", "0"]),
        (["--set", "task.t1"], ["--set PATH=VALUE", "'task.t1'"]),
        (["--set", "task.lenght=5"], ["`task.lenght`", "did you mean 'length'"]),
        (["--set", "tsk.t1=5"], ["`tsk`", "did you mean 'task'"]),
        (["--set", "task.t1=many"], ["`task.t1`", "a whole number", "'many'"]),
        (["--set", "task.sampled=1"], ["`task.sampled`", "true or false", "1"]),
        (["--set", "network.cell.phi=rleu"], ["`network.cell.phi`", "did you mean 'relu'"]),
        (["--set", "network.cell.alpha=1", "--alpha", "1"], ["alpha", "given twice"]),
        (["--set", "network.cell.n_in=3"], ["`network.cell.n_in`", "follow from the task"]),
        (["--set", "optimizer.b1=0.5"], ["`optimizer.b1`", "no effect", "'sgd'", "'adam'"]),
        (["--steps", "0"], ["`steps`", "at least 1", "0"]),
        (["--steps", "many"], ["`steps`", "a whole number", "'many'"]),
        (["--steps", "1e5"], ["`steps`", "a whole number", "100000.0"]),
        (["--seeds", "0"], ["`seeds`", "at least 1", "0"]),
        (["--window", "0"], ["`window`", "at least 1", "0"]),
        (["--key", str(2**32)], ["`key`", "at most 4294967295"]),
        (["--learning-rate", "inf"], ["`learning_rate`", "a finite number", "inf"]),
        (["--optimizer", "adm"], ["`optimizer`", "'adm'", "did you mean 'adam'"]),
        (["--task", "mimic", "--set", "task.t2=4"], ["`task.t2`", "no effect", "'mimic'", "'add'"]),
        (["--cell", "lstm", "--alpha", "0.5"], ["`alpha`", "no effect", "'lstm'", "'rnn'"]),
        (["--lerning-rate", "1"], ["--lerning-rate", "--learning-rate"]),
        (["--set", "network.cell.cells.².n=4"], ["`network.cell.cells.².n`", "not a setting"]),
        (["--set", "network.cell.cells.30000000.n=4"], ["layer 30000000", "at most 100 layers"]),
        (["--layers", "30000000"], ["`layers`", "at most 100", "30000000"]),
        (["--set", f"network{'.cell' * 1500}=4"], ["`network.cell", "1,501 names", "more than 40"]),
        (["--n", "100000000000"], ["`n`", "at most 16777216", "100000000000"]),
        (["--set", "task.target.n_in=100000000000"], ["`task.target.n_in`", "at most 16777216"]),
        (["--seeds", "100000000000"], ["`seeds`", "at most 4294967296"]),
        (["--set", "t1=3"], ["`t1`", "recurra 0.1", "`task.t1` now", "docs/migration.md"]),
        (["uoro"], ["uoro"]),
        (["--out", "missing/runs.nc"], ["`out`", "missing", "create it"]),
        (["--out", "."], ["`out`", "folder", "runs.nc"]),
        (["--out", os.devnull, "--force"], ["`out`", "ordinary file"]),
        (["--out", "there.nc"], ["`out`", "there.nc", "--force"]),
        (["--checkpoint", "."], ["`checkpoint`", "folder", "run.safetensors"]),
        (["--checkpoint", "missing/run"], ["`checkpoint`", "missing/run", "create it"]),
        (["--checkpoint", "there.nc"], ["there.nc", "no file of recurra", "it is empty", "Delete it"]),
        (["--checkpoint", os.devnull], ["/dev/null", "not an ordinary file"]),
        (["--config", "missing.toml"], ["`config`", "missing.toml", "No such file"]),
        (["--config", "."], ["`config`", "folder"]),
        (["--config", "/dev/zero"], ["`config`", "/dev/zero", "longer than 1 MB"]),
    ],
)
def test_a_bad_option_is_one_line(recurra_command, arguments, words):
    Path("there.nc").touch()
    named = [] if "--learner" in arguments or not arguments else ["--learner", "uoro"]
    _expect_one_line(recurra_command("train", *named, *arguments), words)
    assert os.listdir() == ["there.nc"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("stpes = 5", ["`stpes`", "did you mean 'steps'", "learning_rate"]),
        ("steps = '5'", ["`steps`", "a whole number", "'5'"]),
        ("set.task.sampled = 1", ["`task.sampled`", "true or false", "1"]),
        ("learners = 'uoro'", ["`learners`", "a list", "'uoro'"]),
        ("learner = 'uoro'", ["`learner`", "a table", "`learners`"]),
        ("[learner.kern]\nrate = 5", ["`learner.kern`", "did you mean 'kernl'"]),
        ("[learner.kernl]\nrate = 5", ["`learner.kernl.rate`", "did you mean 'learning_rate'", "perturbation"]),
        ("[learner.kernl]\nlearning_rate = true", ["`learner.kernl.learning_rate`", "a number", "True"]),
        ("[learner.kernl]\nperturbation = 0", ["`perturbation` of KeRNL", "above 0.0", "0.0"]),
        ("[learner.uoro]\nnu = 'sign'", ["`learner.uoro.nu`", "'sign'", "signs, gaussian, uniform"]),
        ("[learner.rflo]\nnu = 'signs'", ["`learner.rflo.nu`", "has none"]),
        ("[learner.rtrl]\nlazy = true", ["`learner.rtrl.lazy`", "has none"]),
        ("steps = = 5", ["run.toml, line 1", "not valid TOML"]),
        ("\udcff", ["`config`", "run.toml", "TOML"]),
        ("n = " + "[" * 10_000, ["run.toml", "nested too deeply"]),
        ("a" + ".a" * 1500 + " = 3", ["run.toml", "nested too deeply"]),
        ("[vary]\nalpha = [0.1]", ["run.toml, line 1", "`vary` belongs to the file of a study", "`recurra sweep`"]),
        ("samples = 3", ["`samples` belongs to the file of a study"]),
        ("task_options.t1 = 3", ["`task_options.t1`", "`task.t1` now", "docs/migration.md"]),
        ("cell_options.alpha = 3", ["`cell_options.alpha`", "`network.cell.alpha` now"]),
    ],
)
def test_a_bad_file_is_one_line(recurra_command, line, words):
    Path("run.toml").write_text(line, errors="surrogateescape")
    learners = [] if line.startswith("learners") else ["--learner", "kernl"]
    _expect_one_line(recurra_command("train", "--config", "run.toml", *learners), words)


#: a file's lines, options beside it, and what is said at the head of each line
LOCATED = [
    (["learners = ['rflo', 'kernl']", "stpes = 5", "[set]", "task.t1 = 0.5", "[learner.kernl]"], [],
     ["run.toml, line 2: `stpes` is not", "run.toml, line 4: `task.t1` must", "run.toml, line 5: [learner.kernl] is"]),
    (["learners = ['rflo', 'rfol']", "set = 3", "alpha = 0.5", "network.cell.alpha = 0.4"], [],
     ["run.toml, line 1: `learners` is", "run.toml, line 2: `set` must",
      "run.toml, line 4: `alpha` is given twice, also in line 3"]),
    (["steps = 5"], [], ["run.toml: `learners` is missing"]),
    (["", "task.length = 3", "alpha = 0.5"], ["--learner", "rflo", "--cell", "gru"],
     ["run.toml, line 2: `task.length` has no effect", "run.toml, line 3: `alpha` has no effect"]),
    # constructors
    (["learning_rate = 0.1", "[learner.kernl]", "learning_rate = -1.0"], ["--learner", "kernl"],
     ["run.toml, line 3: `learning_rate` of KeRNL"]),
    (["learning_rate = -0.1", "[learner.kernl]", "learning_rate = 0.1"], ["--learner", "kernl"],
     ["run.toml, line 1: `learning_rate` of SGD"]),
    # what is typed is in no line
    (["learners = ['rflo']", "alpha = 'a'"], ["--alpha", "b"], ["`alpha` must be a number, and is 'b'"]),
    (["learners = ['rflo']", "alpha = 0.5"], ["--alpha", "3"], ["`alpha` of RNN"]),
    (["learners = ['rflo']"], ["--alpha", "0.5", "--set", "alpha=0.4"], ["`alpha` is given twice: leave one"]),
    (["learners = ['rflo']"], ["--set", "alpha=0.5", "--set", "alpha=0.4"], ["`alpha` is given twice: leave one"]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "typed", "said"), LOCATED)
def test_mistakes_in_a_file_are_named_by_their_line(recurra_command, lines, typed, said):
    Path("run.toml").write_text("\n".join(lines))
    status, out, err = recurra_command("train", "--config", "run.toml", *typed)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == len(said), err
    for line, head in zip(err.splitlines(), said, strict=True):
        assert line.startswith(f"error: {head}")


def test_a_bad_command_is_one_line(recurra_command):
    _expect_one_line(recurra_command("trian"), ["trian", "train"])


def test_an_unwritable_folder_is_found_before_the_run(recurra_command, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("recurra.cli.output.try_place", refuse)
    _expect_one_line(
        recurra_command("train", "--learner", "uoro", "--out", "a.nc"), ["`out`", "a.nc", "Permission denied"]
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory."),
            "RESOURCE_EXHAUSTED: Out of memory. Try fewer",
        ),
        (MemoryError("It would take 9 TB: take fewer seeds."), "It would take 9 TB: take fewer seeds.\n"),
        (MemoryError(), "Out of memory. Try fewer"),
    ],
)
def test_out_of_memory_does_not_stop_the_others(recurra_command, instant_training, error, said):
    """The way out comes from whoever knows it: `recurra.train`, or else the command."""
    instant_training[recurra.RTRL] = [1.0], error
    instant_training[recurra.UORO] = [1.0], {}
    status, out, err = recurra_command("train", "--learner", "rtrl", "--learner", "uoro", "--seeds", 1, "--json")
    assert status == 1
    assert f"error: rtrl failed: {said}" in err
    assert [each["learner"] for each in json.loads(out)["results"]] == ["uoro"]


def test_a_disk_that_was_full_for_a_while_costs_nothing(recurra_command, instant_training, monkeypatch):
    instant_training[recurra.RTRL] = [1.0], {}
    instant_training[recurra.UORO] = [1.0], MemoryError("It would take 9 TB.")
    tried = []

    def full_at_first(*arguments, **how):
        tried.append(arguments)
        if len(tried) == 1:
            raise OSError(28, "No space left on device")
        write_whole(*arguments, **how)

    monkeypatch.setattr("recurra.training.result.write_whole", full_at_first)
    learners = ("--learner", "rtrl", "--learner", "uoro")
    _, _, err = recurra_command("train", *learners, "--seeds", 1, "--out", "a.nc")
    first, _, last = err.splitlines()
    assert first == (
        "error: `out` is a.nc, which could not be written: No space left on device. It is tried again after the next "
        "learner."
    )
    assert last == "Saved in a.nc."
    with xarray.open_dataset("a.nc", engine="h5netcdf") as data:
        assert list(data.learner.values) == ["rtrl"]


# Interruption


def test_interrupted_learner_is_kept_and_the_rest_skipped(recurra_command, instant_training):
    instant_training[recurra.RTRL] = [1.0], {}
    instant_training[recurra.UORO] = [2.0], {"interrupted": True, "steps": 70, "step": np.array([50, 70])}
    learners = ("--learner", "rtrl", "--learner", "uoro", "--learner", "dni")
    status, out, err = recurra_command("train", *learners, "--seeds", 1, "--steps", 100, "--out", "a.nc", "--json")
    report = json.loads(out)
    assert status == 128 + signal.SIGTERM
    assert report["interrupted"]
    assert report["not_trained"] == ["dni"]
    assert "uoro stopped after 70 of 100 steps; not trained: dni" in err
    with xarray.open_dataset("a.nc", engine="h5netcdf") as data:
        assert data.steps_done.values.tolist() == [100, 70]
        assert data.attrs["interrupted"] == 1
        assert np.isnan(data.loss.sel(learner="uoro", step=100)).all()


def test_ctrl_c_while_compiling_keeps_what_was_finished(recurra_command, instant_training):
    instant_training[recurra.RTRL] = [1.0], {}
    instant_training[recurra.UORO] = [1.0], KeyboardInterrupt()
    status, out, err = recurra_command("train", "--learner", "rtrl", "--learner", "uoro", "--seeds", 1, "--out", "a.nc")
    assert status == 130
    assert "rtrl" in out
    assert "not trained: uoro" in err
    assert Path("a.nc").exists()


TWO = ["train", "--learner", "fixed", "--learner", "rflo", *SMALL[:4], "--steps", "3000", "--window", "100"]


@pytest.mark.slow
def test_the_same_command_goes_on_from_its_checkpoints(recurra_command, monkeypatch):
    """Also with the same --out. The bits are those of a command that was never interrupted."""
    train, kept = recurra.train, ["--checkpoint", "run.safetensors", "--out", "runs.nc"]

    def stopped(network, learner, *arguments, **how):
        progress = asks_to_stop_after(500) if isinstance(learner, recurra.RFLO) else False
        return train(network, learner, *arguments, **how, progress=progress)

    assert recurra_command(*TWO, "--out", "whole.nc")[0] == 0
    monkeypatch.setattr(recurra, "train", stopped)
    status, _, err = recurra_command(*TWO, *kept)
    assert status == 128 + signal.SIGINT
    assert "rflo stopped after" in err
    assert "The same command goes on from there." in err
    monkeypatch.setattr(recurra, "train", train)
    for _ in range(2):  # a finished one too
        status, _, err = recurra_command(*TWO, *kept)
        assert (status, err.splitlines()[-1]) == (0, "Saved in runs.nc.")
    assert sorted(os.listdir()) == ["run-fixed.safetensors", "run-rflo.safetensors", "runs.nc", "whole.nc"]
    with xarray.open_dataset("runs.nc", engine="h5netcdf") as data, xarray.open_dataset("whole.nc") as whole:
        assert data.identical(whole)


def test_what_a_checkpoint_cannot_serve_is_one_line(recurra_command, monkeypatch):
    train, command = recurra.train, ["train", "--learner", "fixed", *SMALL, "--checkpoint", "run"]
    monkeypatch.setattr(recurra, "train", lambda *parts, **how: train(*parts, **how, progress=asks_to_stop_after(1)))
    assert recurra_command(*command, "--out", "runs.nc")[0] == 128 + signal.SIGINT
    monkeypatch.setattr(recurra, "train", train)
    _expect_one_line(recurra_command(*command, "--key", "5"), ["run belongs to a run with other settings", "delete it"])
    other = recurra_command(*command, "--key", "5", "--out", "runs.nc")
    _expect_one_line(other, ["`out` is runs.nc, which exists"])  # other settings have made it
    _expect_one_line(recurra_command("train", "--learner", "fixed", *SMALL, "--out", "runs.nc"), ["which exists"])
    with held(Path("run")):
        _expect_one_line(recurra_command(*command), ["run cannot be used: another run is using it", "Wait for it"])
    assert sorted(os.listdir()) == ["run", "runs.nc"]
    status, out, err = recurra_command(*command, "--out", "runs.nc")  # the same as the first
    assert (status, err.splitlines()[-1]) == (0, "Saved in runs.nc.")
    assert out.splitlines()[1].split()[6] == "60"


def test_a_checkpoint_that_fails_a_later_learner_costs_that_learner_alone(recurra_command, instant_training):
    instant_training[recurra.RTRL] = [1.0], {}
    instant_training[recurra.UORO] = [1.0], recurra.CheckpointError("It belongs to another run.")
    status, out, err = recurra_command("train", "--learner", "rtrl", "--learner", "uoro", "--seeds", 1, "--json")
    assert (status, err) == (1, "error: uoro failed: It belongs to another run.\n")
    assert json.loads(out)["failed"] == {"uoro": "It belongs to another run."}
    _expect_one_line(recurra_command("train", "--learner", "uoro", "--seeds", 1), ["It belongs to another run."])


def test_ctrl_c_in_a_terminal(tmp_path):
    """A real signal to a real process, once its progress bar shows that steps are being taken."""
    leader, follower = pty.openpty()
    arguments = [
        "train",
        "--learner",
        "fixed",
        "--learner",
        "rflo",
        "--n",
        "2",
        "--seeds",
        "1",
        "--steps",
        str(10**9),
    ]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [*PROGRAM, *arguments, "--window", "1000", "--out", "runs.nc"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=follower,
    ) as process:  # fmt: skip
        os.close(follower)
        deadline = threading.Timer(600, process.kill)
        deadline.start()
        shown = read_until(leader, b"steps/s")
        process.send_signal(signal.SIGINT)
        shown += read_until(leader, b"never")
        out = process.communicate()[0].decode()
        deadline.cancel()
        deadline.join()
    os.close(leader)
    assert process.returncode == 130
    assert b"Interrupted: fixed stopped after" in shown
    assert b"not trained: rflo" in shown
    assert out.splitlines()[1].startswith("fixed")
    with xarray.open_dataset(tmp_path / "runs.nc", engine="h5netcdf") as data:
        assert 0 < data.step[-1] < 10**9
        assert data.steps_done == data.step[-1]


# Imports


def test_the_command_answers_without_jax():
    code = "import sys, recurra.cli.app as app; app.execute(['train', '--help']); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    assert "typer" in loaded
    assert not {"jax", "equinox", "optax", "numpy", "xarray"} & set(loaded)


def test_lazy_names_are_those_that_type_checkers_see():
    source = ast.parse(Path(recurra.__file__).with_name("public.py").read_text())
    imports = [node for node in source.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname for node in imports for alias in node.names}
    assert None in seen  # `from recurra.learners import *`
    rooms = (recurra.cells, recurra.learners, recurra.tasks, recurra.step, recurra.losses)
    seen = (seen - {None}).union(*(room.__all__ for room in rooms))
    assert seen == set(recurra.__all__)
    assert seen <= set(dir(recurra))
    for name in seen:
        assert getattr(recurra, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = recurra.Nothing


def test_settings_are_listed_from_any_path(recurra_command):
    status, out, _ = recurra_command("settings")
    names = [line.split()[0] for line in out.splitlines()[1:] if line.strip() and not line.startswith(" ")]
    assert status == 0
    own = ("steps", "task", "task.length", "cell", "n", "alpha", "network.random_feedback", "optimizer.momentum")
    assert {*own, "learning_rate", "learner.kernl.perturbation"} <= set(names)
    assert len(set(names)) == len(names)
    below = recurra_command("settings", "task.target")[1]
    assert "task.target.alpha" in below
    assert "optimizer" not in below
    alone = recurra_command("settings", "alpha")[1].splitlines()
    assert [line.split()[0] for line in alone] == ["Setting", "alpha"]
    assert recurra_command("settings", "network.cell.cells")[0] == 0
    _expect_one_line(recurra_command("settings", "lerning_rate"), ["did you mean 'learning_rate'"])
    _expect_one_line(recurra_command("settings", "task.lenght"), ["`task.lenght`", "did you mean 'length'"])


def _expect_one_line(outcome, words):
    status, out, err = outcome
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


@pytest.mark.slow
def test_bench_measures_and_writes(tmp_path):
    asked = ["--learner", "rflo", "--learner", "rtrl", "--n", "4", "--seeds", "1", "--streams", "1", "--streams", "3"]
    asked += ["--repeats", "1", "--out", "speed"]
    status, out, errors = in_a_process(tmp_path, "bench", *asked)
    assert status == 0, errors
    assert "of its arithmetic" in out
    rows = json.loads((tmp_path / "speed" / "bench.json").read_text())["rows"]
    assert [(row["learner"], row["streams"]) for row in rows] == [("rflo", 1), ("rflo", 3), ("rtrl", 1), ("rtrl", 3)]
    assert all(row["least"] <= row["micros"] <= row["most"] and row["share"] > 0 for row in rows)
    assert rows[0]["state_bytes"] == 4 * (4 * 7)  # a number for each weight
    assert (tmp_path / "speed" / "bench-rnn.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("asked", "message"),
    [(["--learner", "x"], "choose from rtrl"), (["--cell", "x"], "rnn"), (["--n", "0"], "at least 1")],
)
def test_bench_refuses_what_it_does_not_know(recurra_command, asked, message):
    status, _, errors = recurra_command("bench", *asked)
    assert status == 2
    assert message in errors


def test_a_second_process_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.delenv(name, raising=False)
    programs = lambda: {file.name for file in (tmp_path / "cache" / "recurra").rglob("*-cache")}
    assert in_a_process(tmp_path, "train", "--learner", "rflo", *SMALL)[0] == 0
    kept = programs()
    assert all(any(part in name for name in kept) for part in ("advance", "init", "fold_in"))  # small ones too
    assert in_a_process(tmp_path, "train", "--learner", "rflo", "--learning-rate", "0.02", "--key", "5", *SMALL)[0] == 0
    assert programs() == kept
