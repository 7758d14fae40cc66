"""What the README and the docs show really runs, and the metadata of learners are the paper's."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import recurra as rc
from driving import distance, drive, problem
from recurra_paper.setup import LEARNERS as PAPER

ROOT = Path(__file__).parents[2]


def code(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def run(script, cwd, leave_out=()):
    """Runs a script in a process of its own, without some of the session's environment variables."""
    environment = {name: value for name, value in os.environ.items() if name not in leave_out}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)


def test_the_readme_s_example_prints_three_losses_that_fall(tmp_path):
    example = code("README.md")[0]
    assert example.strip() in (ROOT / "examples" / "three_learners.py").read_text()
    assert len(example.strip().splitlines()) <= 15
    # The losses differ by far more than their errors already. The example is compiled as a user's program is, as
    # `make docs` compiles all pages.
    done = run(example.replace("20_000", "5_000"), tmp_path, leave_out=["XLA_FLAGS"])
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(\S.*?) +(0\.\d+) ± (0\.\d+)$", done.stdout, re.M)
    assert [name for name, _, _ in lines] == ["Fixed W", "RFLO", "RTRL"]
    fixed, _, rtrl = (float(loss) for _, loss, _ in lines)
    assert rtrl < fixed


@pytest.mark.slow
def test_the_equinox_module_of_the_docs_trains(tmp_path):
    done = run(code("docs/cells.md")[-1].replace("10_000", "200"), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_blocks_of_the_page_on_the_on_chip_engine_run(tmp_path):
    """Without a GPU: the engine is refused with the reason, and a rule of one's own is registered."""
    done = run("\n".join(code("docs/on-chip.md")).replace("20_000", "500"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "it needs an NVIDIA GPU" in done.stdout


def test_the_parts_of_the_docs_train_and_their_slopes_are_derivatives(tmp_path):
    blocks = code("docs/your-own-parts.md")
    check = """
z, label = jnp.array([0.3, -2.0, 5.0]), jnp.array([0.0, 0.5, 4.9])
loss = Huber(0.7)
assert jnp.allclose(jax.grad(lambda z: loss(z, label)[0])(z), loss(z, label)[1])
assert float(loss(jnp.zeros(1), jnp.zeros(1))[0]) == 0
"""
    done = run("\n".join([*blocks, check]), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_cells_of_the_docs_train(tmp_path):
    """Every example runs as it stands; on the gated cell SnAp-1 is RTRL if units hear themselves alone."""
    check = """
cell = Forgetful(2, 4, w_rec=rc.cells.diagonal)
one = {name: rc.online_grad(cell, learner) for name, learner in (("snap", rc.SnAp1()), ("rtrl", rc.RTRL()))}
weights, c = cell.init_weights(jax.random.key(0)), jnp.arange(4.0)
found = {}
for name, grad in one.items():
    state = grad.init(weights, jax.random.key(1))
    for t in range(5):
        state = grad.observe(weights, state, jnp.array([0.3 * t, 1.0]))
    gradient = grad.gradient(weights, state, c)
    found[name] = [jnp.diag(gate.rec) if gate.rec is not None else gate.bias[:, 0] for gate in gradient]
assert all(jnp.allclose(x, y, atol=1e-6) for x, y in zip(found["snap"], found["rtrl"])), found
"""
    done = run("\n".join([*code("docs/cells.md"), check]), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_long_runs_of_the_docs(tmp_path):
    done = run("\n".join(code("docs/long-runs.md")), tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Result\(1 seed, [\d,]+ steps \(interrupted\), final loss 0\.\d+\)", done.stdout)
    assert (tmp_path / "run.safetensors").exists()


@pytest.mark.slow
def test_the_stream_of_the_docs_is_forecast_and_goes_on(tmp_path):
    check = """
errors = forecasts[:-1, 0] - values[401:]
assert model.rows == 500 and np.abs(errors).mean() < 0.8 * np.abs(np.diff(values[400:])).mean(), errors
"""
    done = run("\n".join([code("docs/streams.md")[0], check]), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_streams_of_the_docs(tmp_path):
    check = "assert low[0] < forecast[0] < high[0] and forecasts.shape == (200, 1)"
    done = run("\n".join([*code("docs/streams.md"), check]), tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"MAE: [\d.]+", done.stdout)


def test_the_learner_of_the_docs_trains_and_is_rflo_in_its_limit():
    scope = {}
    for block in code("docs/add-a-learner.md"):
        exec(block.replace("seeds=2)", "seeds=2, progress=False)"), scope)
    assert scope["result"].loss.shape[0] == 2
    network, weights, xs, ys = problem(lambda n_in, n: rc.RNN(n_in, n, 0.4))
    for decay, equal in ((0.6, True), (0.5, False)):
        ours = drive(network, scope["Trace"](decay=decay), weights, xs, ys)[-1][0]
        apart = distance(ours, drive(network, rc.RFLO(), weights, xs, ys)[-1][0])
        assert apart < 1e-12 if equal else apart > 1e-3


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("rtrl", ("past", "M_kij", False, False, "n³", "n⁴")),
        ("uoro", ("past", "A_k B_ij", True, False, "n²", "n²")),
        ("kf-rtrl", ("past", "A_j B_ki", True, False, "n²", "n³")),
        ("r-kf-rtrl", ("past", "A_i B_kj", True, False, "n²", "n³")),
        ("r-ok", ("past", "Σ_l A_lj B_lki", True, True, "rn²", "rn³")),
        ("kernl", ("past", "A_ki B_ij", False, True, "n²", "n²")),
        ("rflo", ("past", "δ_ki B_ij", False, False, "n²", "n²")),
        ("e-bptt", ("–", "–", False, False, "nT", "n²")),
        ("f-bptt", ("future", "–", False, False, "nT", "n²T")),
        ("dni", ("future", "A_li", False, True, "n²", "n²")),
    ],
)
def test_axes_are_the_paper_s(name, row):
    about = rc.LEARNERS[name].about
    ours = (rc.LEARNERS[name].facing, about.tensor, about.stochastic, about.numerical, about.memory, about.time)
    assert ours == row


def test_hyperparameters_start_at_the_paper_s_values():
    """Its Table 3 and Appendix B; where a task needs others, the paper's experiments set them."""
    values = lambda learner: {f.name: getattr(learner, f.name) for f in fields(learner) if f.name != "nu"}
    assert {name: values(rc.LEARNERS[name]()) for name in PAPER if values(rc.LEARNERS[name]())} == {
        "uoro": {"initial_scale": 1.0},
        "kf-rtrl": {"initial_scale": 1.0},
        "r-kf-rtrl": {"initial_scale": 1.0},
        "r-ok": {"r": 4},
        "kernl": {"learning_rate": 5.0, "perturbation": 1e-3, "first_alpha": 0.8, "late_perturbation": False},
        "e-bptt": {"T": 10},
        "f-bptt": {"T": 10},
        "dni": {"learning_rate": 1e-3, "target_interval": 5},
        "dni-b": {"learning_rate": 1e-3, "jacobian_rate": 1e-3, "target_interval": 5},
    }


RECOMPUTE = str(ROOT / "docs" / "recompute.py")


def test_paired_claims_follow_from_the_page_s_files_alone(tmp_path):
    """Every loss, alignment and gain is judged again; a number that is changed, by a tenth of a percent, is found."""
    command = [sys.executable, RECOMPUTE, str(ROOT / "docs" / "reproduction")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 250
    check = runpy.run_path(RECOMPUTE)["check"]  # what it does, without a process for each change
    shutil.copytree(ROOT / "docs" / "reproduction" / "data", tmp_path / "data")
    shutil.copy(ROOT / "docs" / "reproduction" / "claims.json", tmp_path)
    for name in ("final_losses", "final_losses_by_initialization", "mean_alignments"):
        table = tmp_path / "data" / f"{name}.csv"
        before = table.read_text()
        head, first, *rest = before.splitlines()
        column = head.split(",").index("mean_cosine" if name == "mean_alignments" else "final_loss")
        cells = first.split(",")
        cells[column] = str(float(cells[column]) * 1.001)
        table.write_text("\n".join([head, ",".join(cells), *rest]) + "\n")
        assert check(tmp_path)[1], name
        table.write_text(before)
    assert not check(tmp_path)[1]
