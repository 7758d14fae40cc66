"""The examples for devices compile, run and learn: on a Cortex-M4 in QEMU, and in a browser."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "device"


def needs(*tools):
    missing = [each for each in tools if not shutil.which(each)]
    return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)} must be installed")


def exported(folder, *arguments):
    subprocess.run([sys.executable, str(EXAMPLES / "export_sine.py"), str(folder), *arguments], check=True)


@pytest.mark.slow
@needs("arm-none-eabi-gcc", "qemu-system-arm")
def test_a_cortex_m4_learns(tmp_path):
    exported(tmp_path)
    script = [str(EXAMPLES / "board" / "build_and_run.sh"), str(tmp_path)]
    done = subprocess.run(["sh", *script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    first, last = map(float, re.findall(r"\d+\.\d+", done.stdout)[:2])
    assert last < first / 3


@pytest.mark.slow
@needs("clang", "wasm-ld", "chromium")
def test_a_page_learns_in_a_browser(tmp_path):
    exported(tmp_path, "10")
    subprocess.run([sys.executable, str(EXAMPLES / "browser" / "build_page.py"), str(tmp_path)], check=True)
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]
    page = f"file://{tmp_path}/live.html#4000"
    done = subprocess.run([*browser, page], capture_output=True, text=True, timeout=120)
    told = {name: re.search(rf'id="{name}">([\d.]+)<', done.stdout)[1] for name in ("rows", "error", "naive")}
    assert int(told["rows"]) >= 4000
    assert float(told["error"]) < float(told["naive"]) / 2
