"""What models in C need on a Cortex-M4: bytes of state, of working memory and of code, and instructions a step.

    python benchmarks/device.py --out bench

Code is that of the model with what it is initialised with left out, compiled with -Os. Instructions are counted by QEMU
over 2,000 steps of forecasting a noisy sine, as in examples/device/board. It needs gcc-arm-none-eabi,
libnewlib-arm-none-eabi and qemu-system-arm.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

import recurra as rc

BOARD = Path(__file__).parents[1] / "examples" / "device" / "board"
SIZES = (8, 16, 32, 64)
CHIP = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
MODELS = {
    "RFLO, RNN": lambda n: (rc.RNN(1, n), rc.RFLO()),
    "UORO, RNN": lambda n: (rc.RNN(1, n), rc.UORO()),
    "SnAp-1, GRU": lambda n: (rc.GRU(1, n), rc.SnAp1()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for device.json")
    options = parser.parse_args()
    found = {name: {n: measured(*make(n)) for n in SIZES} for name, make in MODELS.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "device.json").write_text(json.dumps(found, indent=2) + "\n")
    print(
        "| | n | state, bytes | working memory, bytes | code, bytes | instructions a step |\n|---|---|---|---|---|---|"
    )
    for name, sizes in found.items():
        for n, each in sizes.items():
            print(f"| {name} | {n} | " + " | ".join(f"{number:,}" for number in each.values()) + " |")


def measured(cell, learner) -> dict[str, int]:
    network = rc.Network(cell, 1, rc.SquaredError())
    model = rc.Online(rc.OnlineStep(rc.LearningStep(network, learner, 1e-2), horizon=1))
    with tempfile.TemporaryDirectory() as folder:
        rc.export(model, folder, "live")
        header = Path(folder, "live.h").read_text()
        told = lambda what: int(re.search(rf"{what} +([\d,]+) bytes", header)[1].replace(",", ""))
        printed = subprocess.run(
            ["sh", str(BOARD / "build_and_run.sh"), folder], capture_output=True, text=True, check=True, timeout=300
        ).stdout
        return {
            "state": told("state"),
            "work": told("working memory"),
            "code": code_bytes(Path(folder)),
            "instructions": int(re.search(r"(\d+) instructions", printed)[1]),
        }


def code_bytes(folder: Path) -> int:
    """The bytes of functions alone, and of what they read that is not the first weights."""
    flags = ["-std=c99", "-Os", "-fno-math-errno", "-ffunction-sections", "-fdata-sections", *CHIP]
    subprocess.run(["arm-none-eabi-gcc", *flags, "-c", "live.c", "-o", "live.o"], cwd=folder, check=True)
    table = subprocess.run(
        ["arm-none-eabi-objdump", "-h", "live.o"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    sections = re.findall(r"^ *\d+ (\.(?:text|rodata)\S*) +([0-9a-f]+)", table, re.M)
    return sum(int(size, 16) for name, size in sections if "first_" not in name)


if __name__ == "__main__":
    main()
