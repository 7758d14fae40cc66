"""The step of an online model as functions of C, which change a struct of the model's state.

The same programs as in `program` are traced: a row that arrives, its label, and both at once. The fields of the struct
are the arrays of the state, in the order in which `Packing` packs them, so that the two are the same bytes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from recurra.native.functions import CArray, CSource
from recurra.native.values import TYPES, NotWrittenError
from recurra.online.step import OnlineState, OnlineStep
from recurra.saved.trees import arrays_of


class Field(NamedTuple):
    """An array of a state: what C calls it, where it is in the state, and which of the state's leaves it is."""

    name: str
    path: str
    leaf: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def place(self) -> CArray:
        """Where the functions find it."""
        return CArray(f"self->{self.name}", self.shape, self.dtype)

    @property
    def declared(self) -> str:
        """Its line of the struct."""
        return f"{TYPES[self.dtype]} {self.name}" + (f"[{self.size}]" if self.shape else "") + ";"


def fields_of(state: OnlineState) -> list[Field]:
    """The arrays of a state: floating-point numbers first, and then by how many bytes their numbers have."""
    leaves = jax.tree.leaves(state)
    own = next(str(leaf.dtype) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))
    paths = list(arrays_of(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), state)))
    found: list[Field] = []
    taken: set[str] = set()
    for i, (leaf, path) in enumerate(zip(leaves, paths, strict=True)):
        dtype = str(leaf.dtype)
        if dtype not in TYPES:
            raise NotWrittenError(f"numbers of type {dtype}")
        if dtype.startswith("float") and dtype != own:
            raise NotWrittenError(f"numbers of {dtype} beside those of {own}")
        name = _identifier(path, taken)
        found.append(Field(name, path, i, tuple(leaf.shape), dtype))
    is_float = lambda each: each.dtype.startswith("float")
    is_other = lambda each: (each.dtype in ("int64", "uint64")) != (own == "float64")
    return sorted(found, key=lambda each: (not is_float(each), is_other(each)))


#: what a path begins with, and a field need not
_SHORTER = (("delayed.learning.", ""), ("delayed.", ""), ("learners.applied", "learner"), ("weights.cell", "w"))


def _identifier(path: str, taken: set[str]) -> str:
    name = path
    for long, short in _SHORTER:
        name = name.replace(long, short, 1)
    name = re.sub(r"\W+", "_", name).strip("_").lower()
    name = f"{name}_" if name in RESERVED or name[:1].isdigit() else name
    while name in taken:
        name += "_"
    taken.add(name)
    return name


#: names that a field or a model must not have: C's, C++'s, and what the file itself declares
RESERVED = {
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "compl", "const",
    "constexpr", "continue", "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern",
    "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not",
    "nullptr", "operator", "or", "private", "protected", "public", "register", "restrict", "return", "self", "short",
    "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typeid",
    "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "xor", "work", "words", "main",
    "math", "string", "stdio", "stdlib", "stdint", "stddef", "limits", "errno", "time", "assert", "seen", "waiting",
    "starts", "origin_x", "origin_y", "needs_x", "needs_y", "half_width", "range_width", "range_error", "range_weight",
    "expected", "expected_first", "expected_count",
}  # fmt: skip


@dataclass(frozen=True)
class Functions:
    """The functions of a model's step, without its name: `text` has them all."""

    step: OnlineStep
    fields: list[Field]
    text: str
    #: numbers of the working arrays, by their kinds
    words: dict[str, int]
    #: how to call each function that there is: its arguments
    arguments: dict[str, tuple[str, ...]]
    #: the type of its numbers
    dtype: str


#: What is done with a row, by the names of the functions. The first of each pair of actions is done first.
ACTIONS = {
    "observe": ("observe",),
    "learn": ("learn",),
    "observe_and_learn": ("observe", "learn"),
    "know": ("told",),
    "learn_in_turn": ("learn",),
}


def functions_of(step: OnlineStep, state: OnlineState) -> Functions:
    """The functions of this step; `NotWrittenError` for what cannot be written in C.

    `observe(self, x, y)` takes a row and predicts, `learn(self, label)` takes the label of the oldest row that waits.
    Without a horizon `observe_and_learn` does both. With one, `know` takes a value that is no row's label.
    """
    dtype = str(step.learning.network.cell.dtype)
    if dtype not in ("float32", "float64"):
        raise NotWrittenError(f"a network of type {dtype}")
    fields, source = fields_of(state), CSource(dtype)
    wanted = ["observe", "learn", "know" if step.horizon else "observe_and_learn"]
    if step.horizon and step.resets:  # a label that comes with a row does not count if that begins a sequence
        wanted.append("learn_in_turn")
    texts, arguments = [], {}
    for name in wanted:
        takes, text = _function(step, fields, state, source, name)
        arguments[name] = takes
        texts.append(text)
    return Functions(step, fields, source.before() + "\n" + "\n".join(texts), source.words, arguments, dtype)


_ABOUT = {
    "observe": "A row arrives: y is the prediction.",
    "learn": "The label of the oldest row that waits for one.",
    "observe_and_learn": "A row, its prediction y, and then its label.",
    "know": "A value of the target that is no row's label.",
    "learn_in_turn": "The same where a row comes with it, which may begin a sequence.",
}


def _function(
    step: OnlineStep, fields: Sequence[Field], state: OnlineState, source: CSource, name: str
) -> tuple[tuple[str, ...], str]:
    """The arguments of one function, and its text."""
    actions, dtype, streams = ACTIONS[name], source.dtype, step.learning.streams
    wide = () if streams == 1 else (streams,)
    leaves, structure = jax.tree.flatten(state)
    takes_label = actions != ("observe",)
    given: dict[str, tuple[CArray, Any]] = {}

    def argument(name: str, shape: tuple[int, ...], kind: str) -> None:
        text = name if shape else f"*{name}"
        given[name] = CArray(text, shape, kind, is_read_only=True), jax.ShapeDtypeStruct(shape, kind)

    if "observe" in actions:
        argument("x", (*wide, step.n_in), dtype)
    if takes_label:
        argument("label", (*wide, step.n_out), dtype)
        argument("present", wide, "bool")
    if step.resets and name not in ("know", "learn"):
        argument("reset", wide, "bool")
    traced = step.traced

    names = list(given)

    def run(leaves: Any, *values: Any) -> Any:
        return _taken(traced, actions, jax.tree.unflatten(structure, leaves), dict(zip(names, values, strict=True)))

    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    program = jax.make_jaxpr(run)(shapes, *(given[each][1] for each in names))
    of_leaf = {field.leaf: field.place for field in fields}
    places = [of_leaf[i] for i in range(len(leaves))]
    gives: list[CArray | None] = [*places]
    if "observe" in actions:
        gives.append(CArray("y", (*wide, step.n_out), dtype))
    if actions != ("told",):
        gives.append(CArray("fine[0]", (), "bool"))
    body = source.body(program, [*places, *(given[each][0] for each in names)], gives)
    used = [each for each in (*names, *(["y"] if "observe" in actions else []))]
    parameters = ["struct MODEL *self"]
    for each in used:
        kind = "int" if each in ("present", "reset") else "REAL"
        parameters.append(f"{'' if each == 'y' else 'const '}{kind} *{each}")
    if actions != ("told",):
        parameters.append("int *fine")
        used.append("fine")
    unused = "".join(f"    (void){each};\n" for each in ("self", *used) if not re.search(rf"\b{each}\b", body))
    head = f"/* {_ABOUT[name]} */\nstatic void {name}({', '.join(parameters)}) {{\n"
    return tuple(used), head + unused + body + "}\n"


def _taken(step: OnlineStep, actions: tuple[str, ...], state: OnlineState, given: dict[str, Array]) -> tuple[Any, ...]:
    """What is done with one row: the next state, the prediction if there is one, and whether all of it is finite.

    A label that comes alone belongs to its row, whatever began since: `given` then tells of no reset.
    """
    is_fine, output = jnp.ones((), bool), None
    reset = given.get("reset")
    if actions == ("told",):
        return (jax.tree.leaves(step.told(state, given["label"], given["present"])),)
    if actions == ("observe", "learn"):
        state = state._replace(delayed=step.queue.caught_up(state.delayed))
    for action in actions:
        if action == "observe":
            state, output = step.observe(state, given["x"], reset)
            is_fine &= jnp.all(jnp.isfinite(output))
        else:
            state, outcome = step.learn(state, given["label"], given["present"], reset)
            is_fine &= jnp.all(jnp.isfinite(outcome.output))
    results = (jax.tree.leaves(state), *([] if output is None else [output]), is_fine)
    return results
