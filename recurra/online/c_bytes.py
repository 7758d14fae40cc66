"""All that a model knows as bytes in a fixed layout: what C exports and imports, and Python writes and reads.

    4    "RCRA"
    4    the number of the layout, 1
    4    how many bytes there are in all
    4    a number that models of the same program share: CRC-32 of its description
    4    rows so far
    4    rows that wait for their labels
    4    1 where the first row is still to come
    4    streams whose first label is still to come, a bit for each
    8 n  the first row, which is subtracted from all others, as double precision
    8 n  the same of labels
    ...  the fields of the state in the order of the struct: 4 bytes a number, or 8 in double precision
    ...  for Intervals: half-widths, mean errors and their weights, predictions that wait, which is oldest, how many
    4    CRC-32 of all bytes before

All numbers have their low byte first.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recurra.online.in_c import Field

MAGIC, FORMAT = b"RCRA", 1
#: bytes before the origins
HEAD = 32
#: a model has at most so many streams
MOST_STREAMS = 32


class Start(NamedTuple):
    """What the bytes tell beside the state."""

    seen: int
    waiting: int
    needs_x: bool
    needs_y: tuple[bool, ...]
    origin_x: np.ndarray
    origin_y: np.ndarray


@dataclass(frozen=True)
class ByteLayout:
    """Where everything lies in the bytes of models of one program, and what one of them begins with."""

    fields: Sequence[Field]
    start: Start
    program: int
    #: what `Intervals` add to the fields, and their share of rows; nothing for other models
    extras: Sequence[Field] = ()
    coverage: float = 0.0

    @staticmethod
    def of(
        fields: Sequence[Field], start: Start, description: Any, extras: Sequence[Field] = (), coverage: float = 0.0
    ) -> "ByteLayout":
        """For models of this description."""
        told = [description, coverage, [(field.path, field.shape, field.dtype) for field in (*fields, *extras)]]
        program = zlib.crc32(json.dumps(told, sort_keys=True).encode())
        return ByteLayout(fields, start, program, extras, coverage)

    @property
    def all_fields(self) -> list[Field]:
        """The fields of the state, and what `Intervals` add to them."""
        return [*self.fields, *self.extras]

    @property
    def length(self) -> int:
        """How many bytes there are."""
        origins = 8 * (self.start.origin_x.size + self.start.origin_y.size)
        return HEAD + origins + sum(field.size * _kind(field).itemsize for field in self.all_fields) + 4

    def written(self, state: Mapping[str, np.ndarray]) -> bytes:
        """The bytes of a model whose fields have these values."""
        start = self.start
        labels = sum(1 << i for i, needs in enumerate(start.needs_y) if needs)
        seen = min(start.seen, 2**32 - 1)
        head = np.array([FORMAT, self.length, self.program, seen, start.waiting, start.needs_x, labels], "<u4")
        parts = [MAGIC, head.tobytes(), start.origin_x.astype("<f8").tobytes(), start.origin_y.astype("<f8").tobytes()]
        parts += [np.asarray(state[field.name]).astype(_kind(field)).tobytes() for field in self.all_fields]
        found = b"".join(parts)
        return found + zlib.crc32(found).to_bytes(4, "little")

    def read(self, given: bytes) -> tuple[dict[str, np.ndarray], Start]:
        """The values of the fields, and what there is beside them; a ValueError for bytes of something else."""
        check_bytes(given)
        head = np.frombuffer(given, "<u4", 7, 4)
        if int(head[2]) != self.program or len(given) != self.length:
            raise ValueError("it holds a model of another program than `like`")
        streams = len(self.start.needs_y)
        needs_y = tuple(bool(int(head[6]) >> i & 1) for i in range(streams))
        x, y = self.start.origin_x, self.start.origin_y
        place = HEAD
        origin_x = np.frombuffer(given, "<f8", x.size, place).reshape(x.shape).copy()
        place += 8 * x.size
        origin_y = np.frombuffer(given, "<f8", y.size, place).reshape(y.shape).copy()
        place += 8 * y.size
        state = {}
        for field in self.all_fields:
            kind = _kind(field)
            array = np.frombuffer(given, kind, field.size, place).reshape(field.shape)
            state[field.name] = array.astype(field.dtype)
            place += field.size * kind.itemsize
            if field.dtype.startswith("float") and not np.isfinite(array).all():
                raise ValueError(f"{field.path} holds nan or an infinity")
        if not (np.isfinite(origin_x).all() and np.isfinite(origin_y).all()):
            raise ValueError("an origin is not finite")
        return state, Start(int(head[3]), int(head[4]), bool(head[5]), needs_y, origin_x, origin_y)

    def code(self, name: str) -> str:
        """The functions in C that write and read these bytes."""
        upper, start = name.upper(), self.start
        moved = lambda field: f"({'' if field.shape else '&'}self->{field.name}, {field.size}"
        out, into = [], []
        for field in self.all_fields:
            size = _kind(field).itemsize
            out.append(f"    bytes = put{8 * size}(bytes, {moved(field)[1:]});")
            into.append(f"    bytes = get{8 * size}(bytes, {moved(field)[1:]});")
        bits = " | ".join(f"(unsigned)(self->needs_y[{i}] != 0) << {i}" for i in range(len(start.needs_y)))
        needs = "\n".join(f"    self->needs_y[{i}] = (int)(head[6] >> {i} & 1u);" for i in range(len(start.needs_y)))
        return f"""
/* Numbers of 32 and 64 bits as bytes, the low one first, whatever the processor does. */
static unsigned char *put32(unsigned char *bytes, const void *numbers, int n) {{
    int i, k;
    for (i = 0; i < n; i++) {{
        unsigned word;
        memcpy(&word, (const char *)numbers + 4 * i, 4);
        for (k = 0; k < 4; k++) *bytes++ = (unsigned char)(word >> (8 * k) & 255u);
    }}
    return bytes;
}}

static unsigned char *put64(unsigned char *bytes, const void *numbers, int n) {{
    int i, k;
    for (i = 0; i < n; i++) {{
        unsigned long long word;
        memcpy(&word, (const char *)numbers + 8 * i, 8);
        for (k = 0; k < 8; k++) *bytes++ = (unsigned char)(word >> (8 * k) & 255u);
    }}
    return bytes;
}}

static const unsigned char *get32(const unsigned char *bytes, void *numbers, int n) {{
    int i, k;
    for (i = 0; i < n; i++) {{
        unsigned word = 0;
        for (k = 0; k < 4; k++) word |= (unsigned)*bytes++ << (8 * k);
        memcpy((char *)numbers + 4 * i, &word, 4);
    }}
    return bytes;
}}

static const unsigned char *get64(const unsigned char *bytes, void *numbers, int n) {{
    int i, k;
    for (i = 0; i < n; i++) {{
        unsigned long long word = 0;
        for (k = 0; k < 8; k++) word |= (unsigned long long)*bytes++ << (8 * k);
        memcpy((char *)numbers + 8 * i, &word, 8);
    }}
    return bytes;
}}

/* CRC-32, as zlib's. */
static unsigned checksum(const unsigned char *bytes, unsigned long n) {{
    unsigned sum = 0xFFFFFFFFu;
    unsigned long i;
    int k;
    for (i = 0; i < n; i++) {{
        sum ^= bytes[i];
        for (k = 0; k < 8; k++) sum = sum >> 1 ^ (sum & 1u ? 0xEDB88320u : 0u);
    }}
    return ~sum;
}}

void {name}_export(const struct {name} *self, unsigned char *bytes) {{
    unsigned char *const first = bytes;
    unsigned head[7], sum;
    memcpy(bytes, "RCRA", 4);
    head[0] = {FORMAT}u;
    head[1] = {self.length}u;
    head[2] = {self.program}u;
    head[3] = self->seen;
    head[4] = self->waiting;
    head[5] = (unsigned)(self->needs_x != 0);
    head[6] = {bits};
    bytes = put32(bytes + 4, head, 7);
    bytes = put64(bytes, self->origin_x, {start.origin_x.size});
    bytes = put64(bytes, self->origin_y, {start.origin_y.size});
{chr(10).join(out)}
    sum = checksum(first, {self.length - 4}u);
    put32(bytes, &sum, 1);
}}

int {name}_import(struct {name} *self, const unsigned char *bytes, unsigned long length) {{
    unsigned head[7], sum;
    if (length != {self.length}u || memcmp(bytes, "RCRA", 4)) return {upper}_BAD_BYTES;
    get32(bytes + 4, head, 7);
    get32(bytes + {self.length - 4}, &sum, 1);
    if (head[0] != {FORMAT}u || head[1] != {self.length}u || head[2] != {self.program}u) return {upper}_BAD_BYTES;
    if (sum != checksum(bytes, {self.length - 4}u)) return {upper}_BAD_BYTES;
    memset(self, 0, sizeof *self);
    self->seen = head[3];
    self->waiting = head[4];
    self->needs_x = head[5] != 0;
{needs}
    bytes = get64(bytes + {HEAD}, self->origin_x, {start.origin_x.size});
    bytes = get64(bytes, self->origin_y, {start.origin_y.size});
{chr(10).join(into)}
    (void)bytes;
    return {upper}_OK;
}}
"""


def exported_bytes(path: Path) -> bytes | None:
    """The content of a file if it begins as the bytes of an exported model do; None for any other."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            first = file.read(len(MAGIC))
            return first + file.read() if first == MAGIC else None
    except (OSError, ValueError):  # what reads other files says why
        return None


def check_bytes(given: bytes) -> None:
    """Raise a ValueError unless these are the bytes of a model, whichever it is."""
    if len(given) < HEAD + 4 or given[:4] != MAGIC:
        raise ValueError("it has no bytes of an exported model")
    number, length = (int(each) for each in np.frombuffer(given, "<u4", 2, 4))
    if number != FORMAT:
        raise ValueError(f"its layout is number {number}, and this version reads number {FORMAT}")
    if length != len(given):
        raise ValueError(f"it has {len(given):,} bytes, and says that it has {length:,}")
    if zlib.crc32(given[:-4]) != int.from_bytes(given[-4:], "little"):
        raise ValueError("its content does not match its checksum")


def _kind(field: Field) -> np.dtype:
    return np.dtype({"float64": "<f8", "int64": "<i8", "uint64": "<u8", "float32": "<f4", "uint32": "<u4"}.get(
        field.dtype, "<i4"))  # fmt: skip
