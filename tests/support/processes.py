"""The real program in processes of its own, and what it shows on a terminal."""

import contextlib
import os
import subprocess
import sys
import threading

PROGRAM = [sys.executable, "-c", "from recurra.cli import main; main()"]
TRAIN = ["train", "--learner", "rflo", "--learner", "fixed", "--n", "3", "--seeds", "2", "--steps", "60"]
ENDLESS = ["--n", "2", "--seeds", "1", "--steps", str(10**9), "--window", "1000"]


def in_a_process(folder, *arguments, **how):
    """The real program: (status, standard output, standard error), where these are not given away."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    done = subprocess.run([*PROGRAM, *arguments], cwd=folder, text=True, timeout=600, **how)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def started(*arguments, **how):
    """A process of the real program, which ends in any case."""
    with subprocess.Popen([*PROGRAM, *arguments], env={**os.environ, "TERM": "xterm-256color"}, **how) as process:
        deadline = threading.Timer(600, process.kill)
        deadline.start()
        try:
            yield process
        finally:
            process.kill()
            deadline.cancel()
            deadline.join()


def read_until(terminal, text):
    """What a terminal shows up to a text, or until the program is gone."""
    shown = b""
    while text not in shown:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # how Linux says that nobody writes any more
            break
        if not piece:
            break
        shown += piece
    return shown
