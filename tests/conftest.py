"""The session runs in float64, promotes no dtype silently, checks shapes at run time and fails on warnings."""

import atexit
import gc
import os
import shutil
import signal
import tempfile

import jax
import pytest
from jaxtyping import install_import_hook

import compiled_programs

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
install_import_hook(["recurra", "recurra_paper"], "beartype.beartype")

# Most of the time goes into compiling programs that run for milliseconds, and need not run fast. JAX reads this when it
# first computes. Some tests of the documentation's examples leave it out, and so compile as a user's program does.
QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if jax.__version_info__ < (0, 11):  # where there still are two code generators, the quicker of them, and in one piece
    QUICKLY += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
#: Products become loops instead of calls of a library, which compiles faster. `make test-all` tests the calls.
WITHOUT_CALLS = "--xla_cpu_multi_thread_eigen=false"


def pytest_configure(config):
    """Sets how the programs of this session are compiled. Workers and commands that tests start inherit it."""
    if QUICKLY not in os.environ.get("XLA_FLAGS", ""):
        flags = [os.environ.get("XLA_FLAGS", ""), QUICKLY, WITHOUT_CALLS if config.option.markexpr else ""]
        os.environ["XLA_FLAGS"] = " ".join(filter(None, flags))


# Commands that tests start keep their compiled programs for each other, and nothing in the user's own folder. Workers
# get the folder from the process that starts them, which removes it at its end.
if "RECURRA_TESTS_CACHE" not in os.environ:
    os.environ["RECURRA_TESTS_CACHE"] = tempfile.mkdtemp(prefix="recurra-tests-")
    atexit.register(shutil.rmtree, os.environ["RECURRA_TESTS_CACHE"], ignore_errors=True)
os.environ["XDG_CACHE_HOME"] = os.environ["RECURRA_TESTS_CACHE"]

# The tests themselves keep their programs there too. Otherwise each worker would compile the same small programs, and
# would compile them again after it has dropped them.
jax.config.update("jax_compilation_cache_dir", os.path.join(os.environ["RECURRA_TESTS_CACHE"], "tests"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# A shell starts what it puts into the background with Ctrl-C ignored, and tests press it.
for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="module", autouse=True)
def objects_that_stay():
    """What a file leaves is not looked through again: JAX keeps millions of objects, and a collection takes seconds."""
    yield
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish():
    """JAX keeps every compiled program. When they take too much memory, they are dropped between two tests."""
    compiled_programs.drop_if_large()


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
