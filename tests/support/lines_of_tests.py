"""A plugin of pytest for `make mutants`: how long each test file takes, and which lines of the library it runs.

Lines are noted with `sys.monitoring`, which tells of each line once and then costs nothing. It is told to begin anew
with every file. A function that was traced or kept by an earlier file of the same process may not run again, and then
counts for the earlier file alone. Lines that run at import count for no file.
"""

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: what lies here is noted
OURS = str(ROOT / "recurra") + os.sep


class Noted:
    """What is known of the present file."""

    def __init__(self, out: Path):
        self.out, self.file = out, None
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.COVERAGE_ID, "lines of tests")
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, self._ran)
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)

    def _ran(self, code, number):
        if self.file is not None and code.co_filename.startswith(OURS):
            self.lines[code.co_filename].add(number)
        return sys.monitoring.DISABLE

    def begin(self, file):
        if file == self.file:
            return
        self.end()
        self.file, self.lines, self.failed, self.began = file, defaultdict(set), "", time.process_time()
        sys.monitoring.restart_events()

    def end(self):
        if self.file is None:
            return
        lines = {str(Path(path).relative_to(ROOT)): sorted(numbers) for path, numbers in self.lines.items()}
        found = {"seconds": time.process_time() - self.began, "lines": lines, "failed": self.failed}
        (self.out / f"{self.file.replace('/', '.')}.json").write_text(json.dumps({self.file: found}))
        self.file = None


_noted = None


def pytest_configure(config):
    global _noted
    if out := os.environ.get("RECURRA_LINES_OF_TESTS"):
        _noted = Noted(Path(out))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if _noted is not None:
        _noted.begin(str(item.path.relative_to(ROOT)))
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if _noted is not None and report.failed:
        _noted.failed = report.longreprtext[-2000:]


def pytest_sessionfinish():
    if _noted is not None:
        _noted.end()
