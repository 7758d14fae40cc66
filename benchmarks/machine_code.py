"""Machine code of a kernel, read without a GPU: its registers, its instructions, and how long a warp takes through it.

JAX hands a kernel to Triton as text. That text is caught here, and compiled by the `triton` package for an H100 or H200
(`sm_90`). Every instruction of the machine code carries numbers for the scheduler: how many cycles to wait before the
next one, which barriers it sets, and which barriers it waits for. `Loop.latency` plays them for one warp.
"""

import os
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import jax

#: cycles until a barrier is lifted that an instruction of this kind has set. They are set by hand, in the range that is
#: published for such chips. A row is read from memory one step ahead, so its 600 cycles are hidden in a long step.
LATENCY = {
    "LDG": 600, "LDL": 40, "ATOMS": 40, "LDC": 30, "LDCU": 30, "LDSM": 30, "S2R": 30, "LDS": 26, "SHFL": 24, "BAR": 24,
    "MUFU": 22, "I2F": 20, "F2I": 20, "STG": 10, "STL": 10, "STSM": 10, "ULDC": 10, "STS": 8, "I2FP": 6,
}  # fmt: skip
OTHER_LATENCY, READ_LATENCY, BARRIER_STALL = 12, 8, 20
#: a loop of fewer instructions is none over steps
LEAST_LOOP = 20
#: floating-point operations of one thread in an instruction
OPERATIONS = {"FADD": 1, "FMUL": 1, "FFMA": 2, "FMNMX": 1, "MUFU": 1}
THREADS = 32


class Instruction(NamedTuple):
    """An instruction with its numbers for the scheduler."""

    address: int
    text: str
    stall: int  # cycles until the next instruction
    sets: tuple[int, int]  # the barriers it sets until it has written, and until it has read; 7: none
    waits: int  # the barriers it waits for, a bit for each

    @property
    def kind(self) -> str:
        return re.sub(r"^@!?U?P\w+ ", "", self.text).split()[0].split(".")[0]


class Loop(NamedTuple):
    """The machine code of one step."""

    registers: int  # a thread
    spilled: int  # bytes a thread
    shared: int  # bytes of shared memory
    body: list[Instruction]
    inner: list[int]  # the instructions of loops inside it

    @property
    def operations(self) -> int:
        """Floating-point operations of a warp."""
        return THREADS * sum(OPERATIONS.get(each.kind, 0) for each in self.body)

    @property
    def issue(self) -> int:
        """Cycles if no instruction waited for a barrier."""
        return sum(max(each.stall, 1) for each in self.body)

    def latency(self, passes: int = 6) -> int:
        """Cycles of the last of some passes of one warp that has the multiprocessor to itself."""
        now, lifted, began = 0, [0] * 8, 0
        for _ in range(passes):
            began = now
            for each in self.body:
                now = max([now, *(lifted[i] for i in range(6) if each.waits >> i & 1)])
                written, taken = each.sets
                lifted[written] = max(lifted[written], now + LATENCY.get(each.kind, OTHER_LATENCY))
                lifted[taken] = max(lifted[taken], now + READ_LATENCY)
                now += max(each.stall, BARRIER_STALL if each.kind == "BAR" else 1)
        return now - began

    def kinds(self) -> Counter:
        """How often each kind of instruction stands in it."""
        return Counter(each.kind for each in self.body)


def triton_text(function, *shapes) -> str:
    """What JAX hands to Triton for the first kernel of a compiled function."""
    from jax._src.pallas.triton import lowering

    found, original = [], lowering.lower_jaxpr_to_triton_module

    def caught(*given, **named):
        result = original(*given, **named)
        found.append(result.module.operation.get_asm(enable_debug_info=False))
        return result

    lowering.lower_jaxpr_to_triton_module = caught
    try:
        jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",))
    finally:
        lowering.lower_jaxpr_to_triton_module = original
    return found[0]


def loop_of(text: str, warps: int) -> Loop:
    """Compile what JAX hands to Triton, and read the machine code of its longest loop."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import compile as compiled
    except ImportError:
        raise SystemExit("Reading machine code needs Triton: pip install triton") from None
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ttir"), Path(folder, "kernel.cubin")
        source.write_text(text)
        target, options = GPUTarget("cuda", 90, 32), {"num_warps": warps, "num_stages": 1}
        kernel = compiled(str(source), target=target, options=options)
        binary.write_bytes(kernel.asm["cubin"])
        said = lambda option: subprocess.run([tool, option, binary], capture_output=True, text=True, check=True).stdout
        usage, code = said("-res-usage"), said("-sass")
    registers, stack = map(int, re.search(r"REG:(\d+).*?STACK:(\d+)", usage).groups())
    instructions = decoded(code)
    (low, high), *others = loops(instructions)
    inner = [(last - first) // 16 for first, last in others if low < first and last < high]
    body = [each for each in instructions if low <= each.address <= high]
    return Loop(registers, stack, kernel.metadata.shared, body, inner)


def decoded(code: str) -> list[Instruction]:
    """All instructions of what `cuobjdump -sass` prints: a line of text, and a word on it and on the next line."""
    pattern = r"/\*([0-9a-f]{4,})\*/\s+(.*?);\s*/\* 0x[0-9a-f]{16} \*/\s*/\* (0x[0-9a-f]{16}) \*/"
    found = []
    for address, text, upper in re.findall(pattern, code):
        control = int(upper, 16) >> 41
        sets = control >> 5 & 7, control >> 8 & 7
        found.append(Instruction(int(address, 16), text.strip(), control & 15, sets, control >> 11 & 63))
    return found


def loops(instructions: list[Instruction]) -> list[tuple[int, int]]:
    """The first and last address of every loop, the longest first: where a branch leads back."""
    found = []
    for each in instructions:
        target = re.search(r"BRA(?:\.\S+)? .*?(0x[0-9a-f]+)", each.text)
        if target and each.address - int(target[1], 16) > 16 * LEAST_LOOP:
            found.append((int(target[1], 16), each.address))
    return sorted(found, key=lambda ends: ends[0] - ends[1])
