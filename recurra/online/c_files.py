"""The two files of a model in C: the header, which says how to call it, and the functions behind it."""

import re
from typing import Any

import numpy as np

from recurra import __version__
from recurra.native.printing import table
from recurra.online.c_bytes import FORMAT, ByteLayout
from recurra.online.in_c import RESERVED, Field, Functions
from recurra.online.intervals import MEMORY, STEP

#: The longest name of a model.
LONGEST = 40


def checked_name(name: Any) -> str:
    """The name of a model in C: a ValueError says what is wrong with it."""
    fine = isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and len(name) <= LONGEST
    if not fine or name.lower() in RESERVED:
        why = "is a word of C or C++, or one that the files use themselves" if fine else (
            f"must begin with a letter, have letters, digits and _ alone, and at most {LONGEST} of them"
        )  # fmt: skip
        raise ValueError(f"`name` names the files, the struct and the functions in C. {name!r} {why}: take another.")
    return name


def header(name: str, functions: Functions, layout: ByteLayout, about: str) -> str:
    """The text of the header file."""
    step, upper, streams = functions.step, name.upper(), functions.step.learning.streams
    real = "float" if functions.dtype == "float32" else "double"
    rows = f"double[{streams * step.n_in}]"
    labels = f"double[{streams * step.n_out}]"
    each = f", those of {streams} streams one after the other" if streams > 1 else ""
    when = (
        "label    belongs to the row x. y is made before the label is seen."
        if not step.horizon
        else f"label    is the value of the target at the row x: the label of the row {step.horizon} earlier.\n"
        f"            y predicts the value {step.horizon} rows later."
    )
    room = max(step.horizon, 1)
    words = {kind: max(functions.words.get(kind, 0), 1) for kind in ("REAL", "unsigned")}
    resets = (
        f"\n/* A sequence begins with the next row. */\nvoid {name}_reset(struct {name} *self);\n"
        if step.resets
        else ""
    )
    size = sum(field.size * _bytes_of(field) for field in functions.fields)
    work = _work_bytes(functions)
    fields = "\n".join(f"    {_declared(field, name):<44} /* {_told(field)} */" for field in functions.fields)
    ranges = "".join(f"    {_extra(field):<44} /* {field.path} */\n" for field in layout.extras)
    if ranges:
        half = f"double half_width[{streams * step.n_out}];"
        ranges += f"    {half:<44} /* of the range around the latest prediction, which holds the truth */\n"
        ranges += f"    {'':<44} /* in a share {layout.coverage!r} of the rows; nan before the first label */\n"
    return f"""\
/* {name}: a recurrent network that goes on learning where the data are.

   {about}

   Written by recurra {__version__}; layout of bytes {FORMAT}. C99, with <math.h> and <string.h> alone. Nothing is
   allocated, and nothing is kept outside the struct: it may be copied with memcpy, and several models run side by side.

   state          {size:>9,} bytes: weights, network state, traces, optimizer, statistics, random state
   working memory {work:>9,} bytes, which are part of the struct
   exported       {layout.length:>9,} bytes

       static struct {name} model;
       {name}_init(&model);
       for (;;) {{
           read(x);                                   a row of {step.n_in}, in its own units
           {name}_step(&model, x, label, y);
       }}

   x        {rows}: a row{each}.
   {when}
            {labels}, or 0 (no pointer) where there is none.
   y        {labels}: the prediction.

   A row whose label comes later: {name}_predict, and then {name}_learn. At most {room} such rows wait.
*/
#ifndef {upper}_H
#define {upper}_H

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_INPUTS {streams * step.n_in}
#define {upper}_OUTPUTS {streams * step.n_out}
#define {upper}_HORIZON {step.horizon}
#define {upper}_BYTES {layout.length}

/* What the functions return. */
enum {{
    {upper}_OK = 0,
    {upper}_BAD_INPUT = 1,   /* a number is not finite, or too large: nothing has changed */
    {upper}_OUT_OF_TURN = 2, /* a row has no room to wait, or no row waits: nothing has changed */
    {upper}_DIVERGED = 3,    /* the model's own numbers are no longer finite: import a state from before */
    {upper}_BAD_BYTES = 4    /* not the bytes of such a model, or damaged ones: nothing has changed */
}};

typedef {real} {name}_real;

struct {name} {{
{fields}
{ranges}    {f"double origin_x[{streams * step.n_in}];":<44} /* the first row, which is subtracted from all others */
    {f"double origin_y[{streams * step.n_out}];":<44} /* the same of labels */
    {"unsigned seen;":<44} /* rows so far */
    {"unsigned waiting;":<44} /* rows that wait for their labels */
    {"int needs_x;":<44} /* whether the first row is still to come */
    {f"int needs_y[{streams}];":<44} /* whether the first label is still to come */
    {"int starts;":<44} /* whether a sequence begins with the next row */
    {f"{name}_real work[{words['REAL']}];":<44} /* working memory: it means nothing between two calls */
    {f"unsigned words[{words['unsigned']}];":<44}
}};

/* The model as it was exported. */
void {name}_init(struct {name} *self);

/* A row and its label: predicts, and learns. */
int {name}_step(struct {name} *self, const double *x, const double *label, double *y);

/* A row whose label comes later: predicts. */
int {name}_predict(struct {name} *self, const double *x, double *y);

/* The label of the oldest row that waits for one, or 0 if it will never come: learns. */
int {name}_learn(struct {name} *self, const double *label);
{resets}
/* All that the model knows as {upper}_BYTES bytes, which `recurra.load(path, like=model)` reads. */
void {name}_export(const struct {name} *self, unsigned char *bytes);

/* The model that these bytes tell, from here or from Python. */
int {name}_import(struct {name} *self, const unsigned char *bytes, unsigned long length);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _bytes_of(field: Field) -> int:
    return {"float64": 8, "int64": 8, "uint64": 8}.get(field.dtype, 4)


def _work_bytes(functions: Functions) -> int:
    real = 4 if functions.dtype == "float32" else 8
    return real * max(functions.words.get("REAL", 0), 1) + 4 * max(functions.words.get("unsigned", 0), 1)


def _declared(field: Field, name: str) -> str:
    return field.declared.replace("REAL", f"{name}_real")


def _extra(field: Field) -> str:
    kind = "double" if field.dtype == "float64" else "unsigned"
    return f"{kind} {field.name}" + (f"[{field.size}];" if field.shape else ";")


def _told(field: Field) -> str:
    shape = f", {' x '.join(map(str, field.shape))}" if len(field.shape) > 1 else ""
    return f"{field.path.replace('/', '.')}{shape}"


def code(name: str, functions: Functions, layout: ByteLayout, state: dict[str, np.ndarray], about: str) -> str:
    """The text of the file of functions; `state` has the first values of the fields, by their names."""
    head = f"/* {name}: see {name}.h, which says how to call it. Written by recurra {__version__}. {about} */\n"
    size = 4 if functions.dtype == "float32" else 8
    body = f"""
#include "{name}.h"

#include <math.h>
#include <string.h>

typedef {name}_real REAL;

/* Numbers are 32 bits wide. */
typedef char {name}_has_32_bits[sizeof(int) == 4 && sizeof({name}_real) == {size} ? 1 : -1];
"""
    text = functions.text.replace("struct MODEL", f"struct {name}")
    parts = [
        head + body,
        text,
        _first(name, functions, layout, state),
        _calls(name, functions, layout),
        layout.code(name),
    ]
    return "\n".join(parts)


def _first(name: str, functions: Functions, layout: ByteLayout, state: dict[str, np.ndarray]) -> str:
    """The function that begins, and what it begins with."""
    tables, lines = [], []
    for field in functions.fields:
        array = np.asarray(state[field.name])
        if not array.any() and not np.signbit(np.asarray(array, "float64")).any():
            continue
        tables.append(table(f"first_{field.name}", array.reshape(-1)))
        target = f"self->{field.name}" if field.shape else f"&self->{field.name}"
        lines.append(f"    memcpy({target}, first_{field.name}, sizeof first_{field.name});")
    for field in layout.extras:
        if (array := np.asarray(state[field.name])).any():
            text = table(f"first_{field.name}", array.reshape(-1))
            tables.append(text.replace("REAL", "double", 1))
            target = f"self->{field.name}" if field.shape else f"&self->{field.name}"
            lines.append(f"    memcpy({target}, first_{field.name}, sizeof first_{field.name});")
    head = layout.start
    for key, values in (("origin_x", head.origin_x), ("origin_y", head.origin_y)):
        if values.any():
            tables.append(table(f"first_{key}", values.reshape(-1)).replace("REAL", "double", 1))
            lines.append(f"    memcpy(self->{key}, first_{key}, sizeof first_{key});")
    numbers = {"seen": head.seen, "waiting": head.waiting, "needs_x": int(head.needs_x)}
    lines += [f"    self->{key} = {value};" for key, value in numbers.items() if value]
    lines += [f"    self->needs_y[{i}] = 1;" for i, needs in enumerate(head.needs_y) if needs]
    text = "\n".join(tables)
    return (
        f"{text}\nvoid {name}_init(struct {name} *self) {{\n    memset(self, 0, sizeof *self);\n"
        + "\n".join(lines)
        + "\n}\n"
    )


def _calls(name: str, functions: Functions, layout: ByteLayout) -> str:
    """The functions that a program calls, around those of the step."""
    step, upper, streams = functions.step, name.upper(), functions.step.learning.streams
    n_in, n_out, room = streams * step.n_in, streams * step.n_out, max(step.horizon, 1)
    limit = "9.0e18" if functions.dtype == "float32" else "6.0e153"
    finite = "\n".join(
        f"    wrong += not_finite({'' if field.shape else '&'}self->{field.name}, {field.size});"
        for field in functions.fields
        if field.dtype.startswith("float")
    )
    call = lambda function, **values: _call(functions, function, **values)
    observe = call("observe", x="row", y="found", reset="reset")
    learn = call("learn", label="target", present="present")
    reset_line = f"    int reset[{streams}];\n" if step.resets else ""
    set_reset = "\n".join(f"    reset[{i}] = self->starts;" for i in range(streams)) + "\n" if step.resets else ""
    clear = "    self->starts = 0;\n" if step.resets else ""
    set_present = "\n".join(f"    present[{i}] = label != 0;" for i in range(streams))
    own_units = f"    for (i = 0; i < {n_out}; i++) y[i] = (double)found[i] + self->origin_y[i];\n"
    per = step.n_out
    ranged = bool(layout.extras)
    expect = "    expect(self, y);\n" if ranged else ""
    settle = "settle(self, label);" if ranged else ""
    if step.horizon:
        turn = "learn_in_turn" if "learn_in_turn" in functions.arguments else "learn"
        learn_in_turn = call(turn, label="target", present="present", reset="reset")
        know = call("know", label="target", present="present")
        body = f"""\
    double since[{n_out}];
    if (!near(x, self->needs_x ? 0 : self->origin_x, {n_in})) return {upper}_BAD_INPUT;
    if (label && !near_labels(self, label)) return {upper}_BAD_INPUT;
{set_present}
    take_row(self, x, row);
    take_label(self, label, since, target);
{set_reset}    if (self->waiting < {room}) {{
        {know}
        self->waiting++;
    }} else {{
        {learn_in_turn}
        if (!fine) return {upper}_DIVERGED;
        {settle}
    }}
    {observe}
{clear}{own_units}{expect}"""
    else:
        both = call("observe_and_learn", x="row", label="target", present="present", y="found", reset="reset")
        body = f"""\
    double before[{n_out}];
    if (self->waiting) return {upper}_OUT_OF_TURN;
    if (!near(x, self->needs_x ? 0 : self->origin_x, {n_in})) return {upper}_BAD_INPUT;
    if (label && !near_labels(self, label)) return {upper}_BAD_INPUT;
{set_present}
    take_row(self, x, row);
    take_label(self, label, before, target);
{set_reset}    {both}
{clear}    for (i = 0; i < {n_out}; i++) y[i] = (double)found[i] + before[i];
{expect}    {settle}
"""
    resets = f"\nvoid {name}_reset(struct {name} *self) {{ self->starts = 1; }}\n" if step.resets else ""
    return f"""
/* How many of n numbers are not finite; an integer, so that no compiler takes it for granted. */
static int not_finite(const REAL *x, int n) {{
    int i, found = 0;
    for (i = 0; i < n; i++) found += !(x[i] - x[i] == 0);
    return found;
}}

/* Whether all numbers of the state are finite. */
static int is_finite_state(const struct {name} *self) {{
    int wrong = 0;
{finite}
    return !wrong;
}}

/* Whether n numbers are finite, and so near their origin that their squares are. */
static int near(const double *given, const double *origin, int n) {{
    int i;
    for (i = 0; i < n; i++)
        if (!(fabs(given[i] - (origin ? origin[i] : 0)) <= {limit})) return 0;
    return 1;
}}

static int near_labels(const struct {name} *self, const double *label) {{
    int stream;
    for (stream = 0; stream < {streams}; stream++)
        if (!near(label + {per} * stream, self->needs_y[stream] ? 0 : self->origin_y + {per} * stream, {per})) return 0;
    return 1;
}}

/* A row relative to the first one, so that a large level costs no digits. */
static void take_row(struct {name} *self, const double *x, REAL *row) {{
    int i;
    if (self->needs_x) memcpy(self->origin_x, x, sizeof self->origin_x);
    self->needs_x = 0;
    for (i = 0; i < {n_in}; i++) row[i] = (REAL)(x[i] - self->origin_x[i]);
    if (self->seen + 1) self->seen++;
}}

/* The same of a label; 0 where there is none. `before` is the origin of the prediction that came before it. */
static void take_label(struct {name} *self, const double *label, double *before, REAL *target) {{
    int i;
    memcpy(before, self->origin_y, sizeof self->origin_y);
    for (i = 0; i < {n_out}; i++) target[i] = 0;
    if (!label) return;
    for (i = 0; i < {n_out}; i++) {{
        if (self->needs_y[i / {per}]) self->origin_y[i] = label[i];
        target[i] = (REAL)(label[i] - self->origin_y[i]);
    }}
    memset(self->needs_y, 0, sizeof self->needs_y);
}}

{_ranges(name, n_out, room, layout.coverage) if ranged else ""}
int {name}_step(struct {name} *self, const double *x, const double *label, double *y) {{
    REAL row[{n_in}], target[{n_out}], found[{n_out}];
    int present[{streams}], fine = 1, i;
{reset_line}{body}    return fine && is_finite_state(self) ? {upper}_OK : {upper}_DIVERGED;
}}

int {name}_predict(struct {name} *self, const double *x, double *y) {{
    REAL row[{n_in}], found[{n_out}];
    int fine = 1, i;
{reset_line}    if (self->waiting >= {room}) return {upper}_OUT_OF_TURN;
    if (!near(x, self->needs_x ? 0 : self->origin_x, {n_in})) return {upper}_BAD_INPUT;
    take_row(self, x, row);
{set_reset}    {observe}
    self->waiting++;
{clear}{own_units}{expect}    return fine && is_finite_state(self) ? {upper}_OK : {upper}_DIVERGED;
}}

int {name}_learn(struct {name} *self, const double *label) {{
    REAL target[{n_out}];
    double before[{n_out}];
    int present[{streams}], fine = 1;
    if (!self->waiting) return {upper}_OUT_OF_TURN;
    if (label && !near_labels(self, label)) return {upper}_BAD_INPUT;
{set_present}
    take_label(self, label, before, target);
    {learn}
    {settle}
    self->waiting--;
    return fine && is_finite_state(self) ? {upper}_OK : {upper}_DIVERGED;
}}
{resets}"""


def _ranges(name: str, n: int, room: int, coverage: float) -> str:
    """The functions that follow how far truths lie from predictions."""
    return f"""
/* The half-width of a range grows by {coverage!r} of a step if the truth was outside, and shrinks by the rest of one
   if it was inside; a step is a part of the mean absolute error (Gibbs and Candes, 2021). */
static void see(struct {name} *self, int k, double error) {{
    const double keep = 1 - 1 / {float(MEMORY)!r};
    error = fabs(error);
    if (!(error - error == 0)) return;
    self->range_error[k] = keep * self->range_error[k] + error;
    self->range_weight[k] = keep * self->range_weight[k] + 1;
    self->range_width[k] += {STEP!r} * self->range_error[k] / self->range_weight[k]
        * ({coverage!r} - (error <= self->range_width[k]));
}}

/* The label of the oldest prediction that waits for one. */
static void settle(struct {name} *self, const double *label) {{
    const unsigned oldest = self->expected_first;
    int k;
    self->expected_first = (oldest + 1) % {room}u;
    self->expected_count--;
    if (!label) return;
    for (k = 0; k < {n}; k++) see(self, k, self->expected[{n} * (int)oldest + k] - label[k]);
}}

/* A prediction, which waits for its label; and the range around it. */
static void expect(struct {name} *self, const double *y) {{
    const unsigned last = (self->expected_first + self->expected_count) % {room}u;
    int k;
    self->expected_count++;
    for (k = 0; k < {n}; k++) {{
        self->expected[{n} * (int)last + k] = y[k];
        self->half_width[k] = self->range_width[k] > 0 ? self->range_width[k] : 0;
        if (!self->range_weight[k]) self->half_width[k] = (double)NAN;
    }}
}}
"""


def _call(functions: Functions, name: str, **values: str) -> str:
    arguments = [values.get(each, "&fine" if each == "fine" else each) for each in functions.arguments[name]]
    return f"{name}({', '.join(['self', *arguments])});"
