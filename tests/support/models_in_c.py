"""Models that were exported to C, compiled and called from Python; and programs that are compiled for a test."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import recurra as rc

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = tuple(filter(shutil.which, ("gcc", "clang")))
needs_c = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler: install gcc or clang")


def compiled(folder, sources, out, *flags, compiler=None, before=STRICT):
    """A program or library of these sources; what the compiler says is the error."""
    command = [compiler or COMPILERS[0], *before, *flags, "-o", str(Path(folder) / out)]
    done = subprocess.run([*command, *(str(Path(folder) / each) for each in sources), "-lm"], capture_output=True)
    assert not done.returncode, done.stderr.decode()[:3000]
    return Path(folder) / out


class InC:
    """An exported model. Its methods do what those of `Online` do; `code` is what the latest call returned."""

    def __init__(self, model, folder, name="model", flags=("-O1",), compiler=None):
        self.files = rc.export(model, folder, name)
        size = f'#include "{name}.h"\nunsigned long size_of(void);\nunsigned long size_of(void) '
        Path(folder, "size.c").write_text(size + f"{{ return sizeof(struct {name}); }}\n")
        path = compiled(folder, [f"{name}.c", "size.c"], f"{name}.so", *flags, "-shared", "-fPIC", compiler=compiler)
        self.library, self.name, self.code = ctypes.CDLL(str(path)), name, None
        self.library.size_of.restype = ctypes.c_ulong
        self.struct = np.zeros(self.library.size_of(), np.uint8)
        step = (model.model if isinstance(model, rc.Intervals) else model).step
        self.width = model.n_out * step.learning.streams
        self.length = self.files[2].stat().st_size
        self._function("init")(_at(self.struct))

    def _function(self, name):
        return getattr(self.library, f"{self.name}_{name}")

    def learn_one(self, x, y=None):
        """A row and its label; returns the prediction."""
        out, x = np.zeros(self.width), np.array(x, np.float64)
        y = None if y is None or np.ma.is_masked(y) else np.array(y, np.float64)
        self.code = self._function("step")(_at(self.struct), _at(x), None if y is None else _at(y), _at(out))
        return out

    def learn_many(self, X, Y):
        """Many rows."""
        return np.stack([self.learn_one(x, y) for x, y in zip(X, Y, strict=True)])

    def observe_one(self, x):
        """A row without its label."""
        out, x = np.zeros(self.width), np.array(x, np.float64)
        self.code = self._function("predict")(_at(self.struct), _at(x), _at(out))
        return out

    def label_one(self, y=None):
        """The label of the oldest row that waits."""
        y = None if y is None else np.array(y, np.float64)
        self.code = self._function("learn")(_at(self.struct), None if y is None else _at(y))

    def reset(self):
        """A sequence begins with the next row."""
        self._function("reset")(_at(self.struct))

    def exported(self):
        """All that it knows, as bytes."""
        bytes_of = ctypes.create_string_buffer(self.length)
        self._function("export")(_at(self.struct), bytes_of)
        return bytes_of.raw

    def imported(self, given, length=None):
        """Take up these bytes."""
        length = ctypes.c_ulong(len(given) if length is None else length)
        self.code = self._function("import")(_at(self.struct), given, length)


def _at(array):
    return ctypes.c_void_p(array.ctypes.data)


def sanitizes(compiler):
    """Whether a compiler has the libraries of its sanitizers."""
    command = [compiler, "-fsanitize=address,undefined", "-x", "c", "-o", "/dev/null", "-"]
    return not subprocess.run(command, input=b"int main(void) { return 0; }", capture_output=True).returncode
