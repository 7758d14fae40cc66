"""What is timed beside the library must do the library's work, and keep doing it when the library changes."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("agreement.check(list(ALGORITHMS), 'gru')", marks=pytest.mark.slow),
        pytest.param("agreement.check(['rtrl', 'uoro', 'e-bptt'], 'lstm', 3)", marks=pytest.mark.slow),
        "agreement.check(['rflo', 'e-bptt'], 'rnn', 3)",
        pytest.param("agreement.check_after(['SnAp-1, RNN', 'RTRL, RTU'])", marks=pytest.mark.slow),
        pytest.param("agreement.check_after(list(AFTER))", marks=pytest.mark.slow),
        pytest.param("agreement.check_after(list(AFTER), 3)", marks=pytest.mark.slow),
        pytest.param("agreement.check(['uoro'], 'rnn', 3)", marks=pytest.mark.slow),
        pytest.param("textbook_agreement.check(['rflo'])", marks=pytest.mark.slow),
        pytest.param("textbook_agreement.check(['rtrl', 'uoro', 'f-bptt'])", marks=pytest.mark.slow),
    ],
)
def test_loops_written_by_hand_take_the_steps_of_the_library(call):
    script = f"import agreement, textbook_agreement; from bare import ALGORITHMS; from bare.after import AFTER; {call}"
    done = subprocess.run([sys.executable, "-c", script], cwd=FOLDER, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "within" in done.stdout
