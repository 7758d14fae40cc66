"""The session runs in float64, promotes no dtype silently, checks shapes at run time and fails on warnings."""

import gc
import os
import signal
import tempfile

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
install_import_hook(["recurra", "recurra_paper"], "beartype.beartype")

# Most of the time goes into compiling programs that run for milliseconds, and need not run fast. JAX reads this when it
# first computes. Tests of the documentation's examples leave it out, and so compile as a user's program does.
QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if jax.__version_info__ < (0, 11):  # where there still are two code generators, the quicker of them
    QUICKLY += " --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}".strip()

# Commands that tests start keep their compiled programs for each other, and nothing in the user's own folder.
os.environ.setdefault("XDG_CACHE_HOME", tempfile.mkdtemp(prefix="recurra-tests-"))

# A shell starts what it puts into the background with Ctrl-C ignored, and tests press it.
for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="module", autouse=True)
def objects_that_stay():
    """What a file leaves is not looked through again: JAX keeps millions of objects, and a collection takes seconds."""
    yield
    gc.freeze()


@pytest.fixture
def learn(capsys, tmp_path, monkeypatch):
    """Runs `recurra learn` with a small model in an empty folder: (status, standard output, standard error)."""
    import learning_standin
    from recurra.cli import app

    monkeypatch.chdir(tmp_path)
    learning_standin.put_in(monkeypatch.setattr)

    def run(*arguments):
        capsys.readouterr()
        status = app.execute(["learn", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run
