"""The pages of the reference, and the names on them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMES = re.compile(r"^```\{names\} (\S+)\n(.*?)^```", re.M | re.S)


def reference():
    """Every name of the reference, and how often it is there."""
    found = []
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        found += [f"{home}.{name}" for home, names in NAMES.findall(text) for name in names.split()]
        found += re.findall(r"^```\{py:data\} (\S+)", text, re.M)
    return found
