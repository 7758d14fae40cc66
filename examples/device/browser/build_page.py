"""A page on which the model learns: compiles it to WebAssembly, and writes one HTML file that needs nothing else.

python examples/device/browser/build_page.py DIR        DIR has live.c and live.h, and gets live.html

It needs clang and lld.
"""

import base64
import subprocess
import sys
from pathlib import Path

HERE, FOLDER = Path(__file__).parent, Path(sys.argv[1])
FLAGS = "--target=wasm32 -std=c99 -O2 -nostdlib -ffreestanding -fno-builtin-memset -fno-builtin-memcpy -Wl,--no-entry"
command = [
    "clang",
    *FLAGS.split(),
    "-Wl,--allow-undefined",
    "-I",
    HERE / "libc",
    "-I",
    FOLDER,
    "-o",
    FOLDER / "live.wasm",
]
subprocess.run([*command, HERE / "live_in_browser.c", FOLDER / "live.c"], check=True)
text = base64.b64encode((FOLDER / "live.wasm").read_bytes()).decode()
page = (HERE / "page.html").read_text(encoding="utf-8").replace("WASM", text)
(FOLDER / "live.html").write_text(page, encoding="utf-8")
print(FOLDER / "live.html")
