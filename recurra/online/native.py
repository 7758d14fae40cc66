"""The compiled loop over rows once more, as C that the machine's own compiler compiled: the same arguments and results.

A row of a small network takes a microsecond or two in C, and ten times as long in a program that JAX starts. What is
packed is the same as in `program`, so that a model may go on with either after any row.

The state lies in a struct. Packed arrays are copied from it after every call, and into it only if they are others than
those of the call before. Arrays that nobody looks at any more are used again.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from recurra.native.building import NoCompilerError, library
from recurra.native.values import TYPES, NotWrittenError
from recurra.online.in_c import Functions, functions_of
from recurra.online.program import ROWS, Kind, Packing, Program
from recurra.online.step import OnlineState, OnlineStep


class NativeError(RuntimeError):
    """A model's rows cannot be computed by compiled C; the text says why."""


class Native:
    """The compiled functions of one model, and the struct that they change."""

    def __init__(self, step: OnlineStep, state: OnlineState, packing: Packing):
        if not packing.is_small:
            raise NativeError("its state is so large that JAX is as fast")
        try:
            found = library(_source_of(step, state, packing))
        except NotWrittenError as error:
            raise NativeError(f"it uses {error}, which cannot be written in C") from None
        except NoCompilerError as error:
            raise NativeError(str(error)) from None
        self.horizon = step.horizon
        found.recurra_size.restype = ctypes.c_size_t
        size = found.recurra_size()
        self._struct = np.zeros(size // 8 + 1)
        self._self = self._struct.ctypes.data
        self._run = _typed(found.recurra_rows)
        self._one = found.recurra_one
        self._one.argtypes, self._one.restype = [ctypes.c_void_p], ctypes.c_int
        # what a single row is given and returns, in the struct itself
        found.recurra_place.argtypes, found.recurra_place.restype = [ctypes.c_int], ctypes.c_size_t
        sizes = (step.n_in, step.n_out, step.n_in, step.n_out, step.n_out)
        starts = [found.recurra_place(i) // 8 for i in range(5)]
        views = [self._struct[start : start + n] for start, n in zip(starts, sizes, strict=True)]
        self.x, self.y, self._origin_x, self._origin_y, self.out = views
        self._origins: Any = None
        self._fill, self._give = found.recurra_fill, found.recurra_give
        for each in (self._fill, self._give):
            each.argtypes, each.restype = [ctypes.c_void_p] * 3, None
        #: arrays that were returned, with their addresses
        self._pool: list[tuple[tuple[np.ndarray, ...], tuple[int, int]]] = []
        self._held: Any = None
        self._rows: tuple[Any, int] = (None, 0)

    def program(self, kind: Kind) -> Program | None:
        """What stands for JAX's program of this kind; None if there is only that."""
        if kind.target is not jax.Array:
            return None
        number = KINDS[kind.actions]
        return lambda *arguments: self._called(number, arguments[:-1], arguments[-1])

    def _called(self, kind: int, packed: tuple[Any, ...], rows: np.ndarray) -> tuple[Any, ...]:
        if rows is not self._rows[0]:
            self._rows = rows, rows.ctypes.data
        before = (0, 0)
        if self._held is None or packed[0] is not self._held[0]:
            packed = tuple(map(np.ascontiguousarray, packed))
            before = _addresses(packed)
        after, addresses = self._free(packed)
        self._run(self._self, kind, *before, *addresses, self._rows[1])
        self._held = after
        return after

    def take_up(self, packed: tuple[Any, ...] | None, origins: Any) -> None:
        """Make sure that the struct has this state, for `one`; packed as it is, or None if it has the latest."""
        if packed is not None and (self._held is None or packed[0] is not self._held[0]):
            packed = tuple(map(np.ascontiguousarray, packed))
            self._fill(self._self, *_addresses(packed))
            self._held = None
        if origins is not self._origins:
            self._origins, self._origin_x[:], self._origin_y[:] = origins, origins.x[0], origins.y[0]

    def one(self) -> bool:
        """Take the row `x` with its label `y`: `out` is the prediction. If anything is wrong nothing has happened."""
        self._held = None
        return not self._one(self._self)

    def packed(self, like: tuple[Any, ...]) -> tuple[Any, ...]:
        """The state that the struct has, packed."""
        self._held = None
        after, addresses = self._free(tuple(map(np.asarray, like)))
        self._give(self._self, *addresses)
        self._held = after
        return after

    def _free(self, like: tuple[np.ndarray, ...]) -> tuple[tuple[np.ndarray, ...], tuple[int, int]]:
        """Arrays to return, which nobody else has."""
        for arrays, addresses in self._pool:
            if arrays is not self._held and sys.getrefcount(arrays) <= POOLED and _are_free(arrays):
                return arrays, addresses
        arrays = tuple(each.copy() for each in like)
        found = arrays, _addresses(arrays)
        if len(self._pool) > 3:
            self._pool.pop(0)
        self._pool.append(found)
        return found


#: How often a tuple of the pool is known there: in the pool, and as variable and argument.
POOLED = 3


def _are_free(arrays: tuple[np.ndarray, ...]) -> bool:
    """Whether nobody looks at these arrays: known are the tuple, the variable and the argument."""
    return all([sys.getrefcount(each) <= POOLED for each in arrays])


KINDS = {("observe",): 0, ("learn",): 1, ("observe", "learn"): 2, ("learn", "observe"): 2, ("told", "observe"): 3}


def _addresses(arrays: tuple[np.ndarray, ...]) -> tuple[int, int]:
    found = [each.ctypes.data for each in arrays]
    return found[0], found[1] if len(found) > 1 else 0


def _typed(function: Any) -> Callable[..., None]:
    function.restype = None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 5]
    return function


#: sources that were written in this process, by all that they follow from; the latest are kept
_SOURCES: dict[Any, str] = {}
MOST_SOURCES = 64


def _source_of(step: OnlineStep, state: OnlineState, packing: Packing) -> str:
    leaves, structure = jax.tree.flatten(step)
    is_array = lambda leaf: isinstance(leaf, jax.Array | np.ndarray)
    told = tuple((leaf.shape, str(leaf.dtype), leaf.tobytes()) if is_array(leaf) else leaf for leaf in leaves)
    key = told, structure, packing
    try:
        found = _SOURCES.get(key)
    except TypeError:  # a part of a user's own that has no hash
        return _source(functions_of(step, state), packing)
    if found is None:
        found = _source(functions_of(step, state), packing)
        while len(_SOURCES) >= MOST_SOURCES:
            del _SOURCES[next(iter(_SOURCES))]
        _SOURCES[key] = found
    return found


def _source(functions: Functions, packing: Packing) -> str:
    """The functions, the struct, and the loop over rows."""
    step, streams = functions.step, functions.step.learning.streams
    real = "float" if functions.dtype == "float32" else "double"
    fields = "\n".join(f"    {field.declared}" for field in functions.fields)
    words = {kind: max(functions.words.get(kind, 0), 1) for kind in ("REAL", "unsigned")}
    width = step.n_in + step.n_out + 1 + step.resets
    last = step.n_in + step.n_out
    into, out = _copies(functions, packing)
    state = sum(field.size * (8 if field.dtype in ("float64", "int64", "uint64") else 4) for field in functions.fields)
    limit = "9.0e18" if functions.dtype == "float32" else "6.0e153"
    finite = "\n".join(
        f"    wrong += not_finite({'' if field.shape else '&'}self->{field.name}, {field.size});"
        for field in functions.fields
        if field.dtype.startswith("float")
    )
    call = lambda name: f"{name}({', '.join(['self', *(_ARGUMENTS.get(a, a) for a in functions.arguments[name])])});"
    turn = "learn_in_turn" if "learn_in_turn" in functions.arguments else "learn"
    both = (
        call("observe_and_learn") if not step.horizon else f"{call(turn).replace('&fine', '&late')} {call('observe')}"
    )
    know = f"{call('know')} {call('observe')}" if step.horizon else ""
    reset = f"reset[s] = row[{width} * s + {last + 1}] > 0;" if step.resets else ""
    declared = f"int reset[{streams}];" if step.resets else ""
    return f"""#include <math.h>
#include <stddef.h>
#include <string.h>

typedef {real} REAL;

struct MODEL {{
{fields}
    double given_x[{step.n_in}], given_y[{step.n_out}];
    double origin_x[{step.n_in}], origin_y[{step.n_out}], found[{step.n_out}];
    char before[{state}];
    REAL work[{words["REAL"]}];
    unsigned words[{words["unsigned"]}];
}};

{functions.text}

size_t recurra_size(void);
size_t recurra_size(void) {{ return sizeof(struct MODEL); }}

static int not_finite(const REAL *x, int n) {{
    int i, found = 0;
    for (i = 0; i < n; i++) found += !(x[i] - x[i] == 0);
    return found;
}}

static int is_finite_state(const struct MODEL *self) {{
    int wrong = 0;
{finite}
    return !wrong;
}}

void recurra_fill(struct MODEL *self, const char *in0, const char *in1);
void recurra_fill(struct MODEL *self, const char *in0, const char *in1) {{
    (void)in1;
{into}
}}

void recurra_give(const struct MODEL *self, char *out0, char *out1);
void recurra_give(const struct MODEL *self, char *out0, char *out1) {{
    (void)out1;
{out}
}}

void recurra_rows({_ROWS});
void recurra_rows({_ROWS}) {{
    REAL *outs = (REAL *)out0;
    const int count = (int)rows[{ROWS * streams * width}];
    if (in0) recurra_fill(self, in0, in1);
    for (int i = 0; i < count; i++) {{
        const REAL *row = rows + {streams * width} * i;
        REAL x[{streams * step.n_in}], label[{streams * step.n_out}], y[{streams * step.n_out}] = {{0}};
        int present[{streams}], fine = 1, late = 1, all;
        {declared}
        for (int s = 0; s < {streams}; s++) {{
            for (int k = 0; k < {step.n_in}; k++) x[{step.n_in} * s + k] = row[{width} * s + k];
            for (int k = 0; k < {step.n_out}; k++) label[{step.n_out} * s + k] = row[{width} * s + {step.n_in} + k];
            present[s] = row[{width} * s + {last}] > 0;
            {reset}
        }}
        all = !not_finite(row, {streams * width});
        switch (kind) {{
        case 0: {call("observe")} break;
        case 1: {call("learn")} break;
        case 2: {both} break;
        default: {know} break;
        }}
        all &= fine & late;
        memcpy(outs + {streams * step.n_out + 1} * i, y, sizeof y);
        outs[{streams * step.n_out + 1} * i + {streams * step.n_out}] = (REAL)all;
    }}
    recurra_give(self, out0, out1);
    outs[{ROWS * (streams * step.n_out + 1)}] = (REAL)is_finite_state(self);
}}

/* A single row of a single stream with its label. Returns 1 if anything is not finite: nothing has changed then. */
int recurra_one(struct MODEL *self);
int recurra_one(struct MODEL *self) {{
    REAL x[{step.n_in}], label[{step.n_out}], y[{step.n_out}] = {{0}};
    int present[1] = {{1}}, fine = 1, late = 1;
    {"int reset[1] = {0};" if step.resets else ""}
    for (int i = 0; i < {step.n_in}; i++) {{
        const double away = self->given_x[i] - self->origin_x[i];
        if (!(fabs(away) <= {limit})) return 1;
        x[i] = (REAL)away;
    }}
    for (int i = 0; i < {step.n_out}; i++) {{
        const double away = self->given_y[i] - self->origin_y[i];
        if (!(fabs(away) <= {limit})) return 1;
        label[i] = (REAL)away;
    }}
    memcpy(self->before, self, {state});
    {both}
    if (!(fine & late) || !is_finite_state(self)) {{
        memcpy(self, self->before, {state});
        return 1;
    }}
    for (int i = 0; i < {step.n_out}; i++) self->found[i] = (double)y[i] + self->origin_y[i];
    return 0;
}}

size_t recurra_place(int which);
size_t recurra_place(int which) {{
    switch (which) {{
    case 0: return offsetof(struct MODEL, given_x);
    case 1: return offsetof(struct MODEL, given_y);
    case 2: return offsetof(struct MODEL, origin_x);
    case 3: return offsetof(struct MODEL, origin_y);
    default: return offsetof(struct MODEL, found);
    }}
}}
"""


_ARGUMENTS = {"fine": "&fine"}
_ROWS = (
    "struct MODEL *self, int kind, const char *in0, const char *in1, char *out0, char *out1,\n                  "
    "const REAL *rows"
)


def _copies(functions: Functions, packing: Packing) -> tuple[str, str]:
    """The lines that copy a packed state into the struct, and out of it. Numbers of the step never change."""
    first = len(packing.shapes) - len(functions.fields)
    by_leaf = {field.leaf + first: field for field in functions.fields}
    into, out = [], []
    for vector, members in enumerate(packing.members.values()):
        place = 0
        runs: list[list[Any]] = []  # fields that follow each other in both: their first, place and bytes
        size = 4 if vector or functions.dtype == "float32" else 8
        for i in members:
            count = int(np.prod(packing.shapes[i], dtype=int)) * size
            field = by_leaf.get(i)
            if field is not None:
                assert TYPES[field.dtype] in ("REAL", "int", "unsigned") or size == 8
                if runs and runs[-1][1] + runs[-1][2] == place:
                    runs[-1][2] += count
                else:
                    runs.append([field, place, count])
            place += count
        for field, start, count in runs:
            at = f"(char *)self + offsetof(struct MODEL, {field.name})"
            into.append(f"        memcpy({at}, in{vector} + {start}, {count});")
            out.append(f"    memcpy(out{vector} + {start}, {at}, {count});")
    return "\n".join(into), "\n".join(out)
