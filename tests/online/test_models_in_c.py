"""A model in C computes what the model in Python does, goes back and forth, and refuses what is wrong."""

import re
import subprocess
import zlib

import jax
import numpy as np
import pytest

import recurra as rc
from models_in_c import COMPILERS, InC, compiled, needs_c, sanitizes
from online_models import full_step, learning_step, plain_step, stream
from recurra.learners import LEARNERS

pytestmark = needs_c

DOUBLE, SINGLE = (1e-9, 1000), (1e-4, 100)


def difference(model, other):
    """The largest difference between two states, relative to the numbers of each array."""
    pairs = zip(jax.tree.leaves(model.state), jax.tree.leaves(other.state), strict=True)
    arrays = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]
    return max(float(np.max(np.abs(a - b))) / (1 + float(np.max(np.abs(a)))) for a, b in arrays if a.size)


def check_alike(tmp_path, step, dtype="float64", missing=0.2, key=1):
    """Predictions and all of the state after many rows are those of the model in Python."""
    tolerance, rows = DOUBLE if dtype == "float64" else SINGLE
    model = rc.Online(step, key=key)
    within = InC(model, tmp_path)
    streams = step.learning.streams
    X, Y = stream(rows, n_in=step.n_in, n_out=step.n_out, streams=streams, missing=0.0 if streams > 1 else missing)
    X, Y = X + 5, Y * 3 + 100
    expected = model.learn_many(X, Y).reshape(rows, -1)
    found = within.learn_many(X.reshape(rows, -1), Y.reshape(rows, -1))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=100 * tolerance)
    assert np.abs(expected[-1] - expected[-2]).max() > 100 * tolerance  # it has learned to follow the target
    (tmp_path / "after.bin").write_bytes(within.exported())
    after = rc.load(tmp_path / "after.bin", like=model)
    assert (after.rows, after._waiting) == (model.rows, model._waiting)
    assert difference(after, model) < 100 * tolerance


STEPS = {
    "rflo": lambda dtype: rc.OnlineStep(learning_step(learner=rc.RFLO(), dtype=dtype, optimizer=0.05)),
    "uoro, least squares, lags, late labels": lambda dtype: full_step(2, learner=rc.UORO(), dtype=dtype),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in STEPS for dtype in ("float64", "float32") if (name, dtype) != ("rflo", "float32")],
)
def test_it_computes_what_python_does(tmp_path, name, dtype):
    check_alike(tmp_path, STEPS[name](dtype), dtype)


def step_of(learner, cell="gru", dtype="float64", **kwargs):
    """A step with scaled rows and labels, for every learner: where it needs layers or sparse weights it gets them."""
    kwargs = {"optimizer": rc.Adam(1e-2, clip=1.0), **kwargs}
    if learner.about.layers:
        net = rc.Network(rc.Stack(rc.RNN(2, 4, dtype=dtype), rc.GRU(4, 3, dtype=dtype)), 1, rc.SquaredError())
        return rc.OnlineStep(rc.LearningStep(net, learner, **kwargs))
    if learner.about.sparse:
        sparse = rc.RNN(2, 6, w_rec=rc.cells.Sparsely(0.4), dtype=dtype)
        return rc.OnlineStep(rc.LearningStep(rc.Network(sparse, 1, rc.SquaredError()), learner, **kwargs))
    return rc.OnlineStep(learning_step(learner=learner, cell=cell, dtype=dtype, n=6, **kwargs))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner(tmp_path, learner, cell, dtype):
    check_alike(tmp_path, step_of(LEARNERS[learner](), cell, dtype), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("cell", rc.CELLS)
def test_every_cell(tmp_path, cell):
    cell = rc.CELLS[cell](2, 4, dtype="float64")
    network = rc.Network(cell, 1, rc.SquaredError())
    learner = rc.RTRL()
    check_alike(tmp_path, rc.OnlineStep(rc.LearningStep(network, learner, rc.Adam(1e-3, clip=1.0))))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", rc.OPTIMIZERS)
def test_every_optimizer(tmp_path, optimizer):
    check_alike(tmp_path, step_of(rc.RFLO(), optimizer=rc.OPTIMIZERS[optimizer](1e-2)))


@pytest.mark.slow
@pytest.mark.parametrize("loss", rc.LOSSES)
def test_every_loss(tmp_path, loss):
    network = rc.Network(rc.GRU(2, 4, dtype="float64"), 2, rc.LOSSES[loss]())
    step = rc.OnlineStep(rc.LearningStep(network, rc.RFLO(), 0.05), scale_target=False)
    model = rc.Online(step)
    within = InC(model, tmp_path)
    X, Y = stream(300, n_out=2)
    Y = np.exp(Y) / np.exp(Y).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(within.learn_many(X, Y), model.learn_many(X, Y), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_several_streams(tmp_path):
    check_alike(tmp_path, step_of(rc.RFLO(), streams=2))


@pytest.mark.slow
def test_a_long_stream_in_single_precision(tmp_path):
    model = rc.Online(step_of(rc.RFLO(), dtype="float32", optimizer=rc.Adam(1e-3, clip=1.0)))
    within = InC(model, tmp_path)
    t = np.arange(100_001)
    rng = np.random.default_rng(0)
    series = np.sin(t / 7) + 0.5 * np.sin(t / 31) + 0.1 * rng.normal(size=len(t))
    X, Y = np.stack([series[:-1], np.roll(series, 1)[:-1]], axis=1), series[1:, None]
    errors = [np.mean(np.abs(each.learn_many(X, Y) - Y)) for each in (model, within)]
    assert errors[1] == pytest.approx(errors[0], rel=1e-3)


@pytest.mark.parametrize("horizon", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_ranges(tmp_path, horizon):
    make = lambda: rc.Intervals(rc.Online(plain_step(horizon, learner=rc.RFLO(), dtype="float64")), coverage=0.8)
    model, stayed = make(), make()
    X, Y = stream(300)
    model.learn_many(X[:20], Y[:20])
    stayed.learn_many(X[:20], Y[:20])
    within = InC(model, tmp_path)
    for i in range(20, 200):
        y = None if i % 5 == 0 else Y[i]
        found, (low, prediction, high) = within.learn_one(X[i], y), stayed.learn_one(X[i], y)
        np.testing.assert_allclose(found, prediction, atol=1e-9)
    assert low < prediction < high
    (tmp_path / "back.bin").write_bytes(within.exported())
    back = rc.load(tmp_path / "back.bin", like=model)
    found, expected = (each.learn_many(X[200:], Y[200:]) for each in (back, stayed))
    np.testing.assert_allclose(np.array(found), np.array(expected), atol=1e-9)


@pytest.mark.parametrize("horizon", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_resets(tmp_path, horizon):
    step = rc.OnlineStep(learning_step(learner=rc.RFLO(), optimizer=0.05, dtype="float64"), horizon, resets=True)
    model, without = rc.Online(step), rc.Online(step)
    within = InC(model, tmp_path)
    X, Y = stream(60)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        if i % 10 == 5:
            within.reset()
        found, expected = within.learn_one(x, y), model.learn_one(x, y, reset=i % 10 == 5)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        other = without.learn_one(x, y)
    assert abs(other - found) > 1e-6  # resets make a difference


def test_labels_that_come_alone(tmp_path):
    for horizon in (0, 2):
        step = plain_step(horizon, learner=rc.RFLO(), optimizer=0.05, dtype="float64")
        model = rc.Online(step)
        within = InC(model, tmp_path, name=f"model{horizon}")
        X, Y = stream(20)
        for x, y in zip(X, Y, strict=True):
            np.testing.assert_allclose(within.observe_one(x), model.observe_one(x), atol=1e-12)
            assert within.code == 0
            within.label_one(y)
            model.label_one(y)
        before = within.exported()
        within.label_one(Y[0])
        assert within.code == 2
        for _ in range(max(horizon, 1)):
            within.observe_one(X[0])
        assert within.code == 0
        after = within.exported()
        within.observe_one(X[0])
        assert within.code == 2
        assert within.exported() == after != before


def test_a_model_goes_to_c_and_comes_back(tmp_path):
    stayed, model = (rc.Online(full_step(1, learner=rc.RFLO(), dtype="float64")) for _ in range(2))
    X, Y = stream(1200)
    stayed.learn_many(X[:50], Y[:50])
    model.learn_many(X[:50], Y[:50])
    within = InC(model, tmp_path)
    within.learn_many(X[50:1050], Y[50:1050])
    stayed.learn_many(X[50:1050], Y[50:1050])
    (tmp_path / "back.bin").write_bytes(within.exported())
    back = rc.load(tmp_path / "back.bin", like=model)
    assert back.rows == 1050
    np.testing.assert_allclose(back.learn_many(X[1050:], Y[1050:]), stayed.learn_many(X[1050:], Y[1050:]), atol=1e-9)
    assert model.rows == 50  # the template is as it was
    # ... and what Python wrote, C reads.
    other = InC(rc.Online(full_step(1, learner=rc.RFLO(), dtype="float64")), tmp_path / "other")
    other.imported((tmp_path / "back.bin").read_bytes())
    assert other.code == 0
    assert other.exported() == (tmp_path / "back.bin").read_bytes()


def test_numbers_that_are_not_finite_change_nothing(tmp_path):
    model = rc.Online(full_step(0, difference=False, learner=rc.RFLO()))
    within = InC(model, tmp_path)
    X, Y = stream(10)
    for wrong in (np.nan, np.inf, -np.inf, 1e30):
        before = within.exported()
        within.learn_one([wrong, 0.0], [1.0])
        assert within.code == 1
        within.learn_one([0.0, 0.0], [wrong])
        assert within.code == 1
        assert within.exported() == before
        within.learn_many(X, Y)
        assert within.code == 0


def test_a_model_that_diverges_says_so(tmp_path):
    within = InC(rc.Online(plain_step(learner=rc.RFLO(), optimizer=1e30)), tmp_path)
    good = within.exported()
    X, Y = stream(50)
    codes = []
    for x, y in zip(X, Y, strict=True):
        within.learn_one(x, y)
        codes.append(within.code)
    assert set(codes) == {0, 3}
    within.imported(good)
    assert within.code == 0
    within.learn_one(X[0], Y[0])
    assert within.code == 0


def test_damaged_bytes_are_refused(tmp_path):
    model = rc.Online(plain_step(learner=rc.RFLO()))
    within, other = InC(model, tmp_path), rc.Online(plain_step(learner=rc.RFLO(), n=4))
    good = within.exported()
    assert good == within.files[2].read_bytes()
    flipped = [bytes(b ^ (1 << i % 8) * (k == i) for k, b in enumerate(good)) for i in range(0, len(good), 5)]
    for wrong in (*flipped, good[:-1], good + b"\0", b"", InC(other, tmp_path / "other").exported()):
        within.imported(wrong)
        assert within.code == 4
        assert within.exported() == good
        path = tmp_path / "wrong.bin"
        path.write_bytes(wrong)
        with pytest.raises(rc.SavedFileError):
            rc.load(path, like=model)
    path.write_bytes(good)
    with pytest.raises(rc.SavedFileError, match=r"needs a template.*like=model"):
        rc.load(path)
    # A checksum that fits does not make other numbers finite.
    numbers = bytearray(good)
    numbers[60:64] = np.float32(np.nan).tobytes()
    numbers[-4:] = zlib.crc32(bytes(numbers[:-4])).to_bytes(4, "little")
    path.write_bytes(bytes(numbers))
    with pytest.raises(rc.SavedFileError, match="nan or an infinity"):
        rc.load(path, like=model)


PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "one.h"
#include "two.h"

static double noise(unsigned *state) { *state = *state * 1664525u + 1013904223u; return *state / 4294967296.0 - 0.5; }

int main(void) {
    static struct one a, b, moved;
    static struct two other;
    static unsigned char before[ONE_BYTES], after[ONE_BYTES];
    unsigned state = 1;
    int i;
    one_init(&a);
    one_init(&b);
    two_init(&other);
    for (i = 0; i < 300; i++) {
        double x[2], y[1], from_a[1], from_b[1];
        struct one *second = i < 150 ? &b : &moved;
        x[0] = noise(&state);
        x[1] = noise(&state);
        y[0] = x[0] + noise(&state);
        if (i == 150) {
            memcpy(&moved, &b, sizeof b);
            memset(&b, 255, sizeof b);
        }
        if (one_step(&a, x, i % 7 ? y : 0, from_a)) return 1;
        if (two_step(&other, x, y, from_b)) return 2;
        if (one_step(second, x, i % 7 ? y : 0, from_b)) return 3;
        if (from_a[0] != from_b[0]) return 4;
    }
    one_export(&a, before);
    if (one_import(&b, before, sizeof before)) return 5;
    one_export(&b, after);
    if (memcmp(before, after, sizeof before)) return 6;
    printf("as it should be\\n");
    return 0;
}
"""


@pytest.mark.parametrize(
    "compiler", [*COMPILERS[:1], *(pytest.param(c, marks=pytest.mark.slow) for c in COMPILERS[1:])]
)
def test_two_models_in_one_program_under_sanitizers(tmp_path, compiler):
    if not sanitizes(compiler):
        pytest.skip(f"{compiler} has no libraries for its sanitizers: install libclang-rt-dev")
    rc.export(rc.Online(full_step(1, learner=rc.UORO())), tmp_path, "one")
    rc.export(rc.Online(full_step(0, difference=False, learner=rc.RFLO(), dtype="float64")), tmp_path, "two")
    (tmp_path / "main.c").write_text(PROGRAM)
    flags = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = compiled(tmp_path, ["main.c", "one.c", "two.c"], "main", *flags, compiler=compiler)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.stdout == "as it should be\n", (done.returncode, done.stderr)


def test_the_same_model_gives_the_same_files(tmp_path):
    for folder in ("a", "b"):
        rc.export(rc.Online(full_step(1, learner=rc.UORO()), key=3), tmp_path / folder, "pump")
    rc.export(rc.Online(full_step(1, learner=rc.UORO()), key=4), tmp_path / "c", "pump")
    text = lambda folder, ending: (tmp_path / folder / f"pump.{ending}").read_text()
    assert (text("a", "h"), text("a", "c")) == (text("b", "h"), text("b", "c"))
    assert text("a", "c") != text("c", "c")
    included = set(re.findall(r"#include (\S+)", text("a", "c") + text("a", "h")))
    assert included == {'"pump.h"', "<math.h>", "<string.h>"}
    assert not re.search(r"\b(malloc|calloc|printf)\b", text("a", "c"))
    # Whatever keeps something between two calls is in the struct.
    assert not re.findall(r"^(?:static )?(?!const|static const)\w+ \w+(?:\[\d+\])? = ", text("a", "c"), re.M)


@pytest.mark.parametrize("name", ["int", "math", "../x", "", "1st", "Class", "a b", "a-b", "x" * 41, "self"])
def test_names_are_checked(tmp_path, name):
    with pytest.raises(ValueError, match="take another"):
        rc.export(rc.Online(plain_step()), tmp_path / "none", name)
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_exported_is_named(tmp_path):
    network = rc.Network(rc.RNN(2, 3, phi=jax.lax.bessel_i0e, dtype="float32"), 1, rc.SquaredError())
    own = rc.Online(rc.OnlineStep(rc.LearningStep(network, rc.UORO(), 0.01)))
    with pytest.raises(TypeError, match=r"cannot be written in C.*'bessel_i0e'.*UORO and RNN"):
        rc.export(own, tmp_path)
    race = rc.Race({"one": rc.Online(plain_step())})
    with pytest.raises(TypeError, match=r"`export` takes a recurra.Online, or .* got a Race: "):
        rc.export(race, tmp_path)
    assert not list(tmp_path.iterdir())
