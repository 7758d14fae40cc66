"""Would the tests notice a mistake? Small mistakes are put into the library at random, and the tests are run on each.

    make mutants                         # 200 mutants, drawn with seed 0
    make mutants COUNT=300 SEED=1        # others

A *mutant* is the library with one small mistake: `+` in the place of `-`, a condition turned round, a keyword left out.
It is *killed* if a test of `make test` fails. One that *survives* shows something that no test looks at, or it is
equivalent: nobody could tell it from the library. `tests/survivors.toml` lists survivors that are known, with the
reason.

First all tests are run once, which tells how long each file takes and which lines it runs. This needs Python 3.12 or
newer. A mutant is then judged by the files that run its line, those of its room first, for at most two minutes of a
processor. What is known is kept in build/mutants, so that a second call goes on where the first one ended. It starts
anew once the library or the tests have changed.
"""

import argparse
import ast
import contextlib
import hashlib
import json
import math
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "mutants"
#: What is not mutated: words and pages for people, which other eyes judge.
LEFT_OUT = ("recurra/cli", "recurra/pages", "recurra/studies/pages", "recurra/studies/tuning/page.py")
#: What a worker's copy of the repository holds.
COPIED = (
    *("recurra", "recurra_paper", "tests", "examples", "docs", "benchmarks"),
    *("pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff"),
)
SECONDS = 120.0
#: Of the time of a mutant, what goes to tests; the rest is for starting them, and for mutants that make them slower.
FOR_TESTS = 0.6
#: The statuses of pytest that kill no mutant: all tests pass, or there is none.
PASSED = (0, 5)

SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """Bytes `start` to `end` of a file, and what stands there in the mutant."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def put_into(self, root: Path) -> None:
        text = (ROOT / self.path).read_bytes()
        (root / self.path).write_bytes(text[: self.start] + self.after.encode() + text[self.end :])

    def take_from(self, root: Path) -> None:
        shutil.copyfile(ROOT / self.path, root / self.path)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    text = path.read_bytes()
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    seen = set()
    for node, after in _mistakes(ast.parse(text)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = text[start:end].decode()
        if (start, end, after) not in seen and ast.unparse(node) != ast.unparse(ast.parse(after)):
            seen.add((start, end, after))
            yield Mutant(str(path.relative_to(ROOT)), node.lineno, start, end, before, after)


def _mistakes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Pieces of a program, each with something else that could stand in its place."""
    yield from _mistakes_at(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            told = isinstance(
                child, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
            )  # words, or not code that acts
            if isinstance(child, ast.AST) and not told and not _for_types(child):
                yield from _mistakes(child)


def _for_types(node: ast.AST) -> bool:
    """Whether this is about types alone, or how an object is printed."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Assign):
        return isinstance(node.value, (ast.Subscript, ast.BinOp)) and "Array" in ast.unparse(node.value)
    return isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__")


def _mistakes_at(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    written = lambda kind, **fields: f"({ast.unparse(kind(**{**dict(ast.iter_fields(node)), **fields}))})"
    match node:
        case ast.BinOp(op=op) if type(op) in SWAPPED:
            yield node, written(ast.BinOp, op=SWAPPED[type(op)]())
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield node, written(ast.Compare, ops=[SWAPPED[type(op)]()])
        case ast.BoolOp(op=op):
            yield node, written(ast.BoolOp, op=SWAPPED[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.Constant(value=float() as value):
            yield node, str(2 * value or 1.0)
        case ast.IfExp(test=test):
            yield node, written(ast.IfExp, test=ast.UnaryOp(ast.Not(), test))
        case ast.If(test=test) | ast.While(test=test):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.AugAssign(op=op) if type(op) in SWAPPED:
            yield node, ast.unparse(ast.AugAssign(node.target, SWAPPED[type(op)](), node.value))
        case ast.Expr(value=ast.Call()):
            yield node, "pass"
        case ast.Call(func=func, args=args, keywords=keywords):
            for i, keyword in enumerate(keywords):
                if keyword.arg not in (None, "strict"):
                    yield node, ast.unparse(ast.Call(func, args, keywords[:i] + keywords[i + 1 :]))
            plain = not any(isinstance(each, ast.Starred) for each in args)
            if plain and len(args) == 3 and ast.unparse(func).endswith("where"):
                yield node, ast.unparse(ast.Call(func, [args[0], args[2], args[1]], keywords))
            if plain and len(args) == 1 and not keywords and isinstance(func, ast.Attribute):
                yield node, f"({ast.unparse(args[0])})"


# What the tests run


def known_of_tests(cache: Path) -> dict[str, dict]:
    """For each test file, how long it takes and which lines of the library it runs: see `lines_of_tests`."""
    kept, folder = OUT / "tests.json", OUT / "lines"
    if not kept.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print("All tests run once, which tells how long they take and which lines they run.", flush=True)
        workers = ["-n", str(os.cpu_count() or 1), "--dist", "loadfile"]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "lines_of_tests", "--tb=line", *workers],
            cwd=ROOT,
            env=_environment(ROOT, cache) | {"RECURRA_LINES_OF_TESTS": str(folder)},
        )
        each = [json.loads(path.read_text()) for path in sorted(folder.iterdir())]
        kept.write_text(json.dumps({file: about for found in each for file, about in found.items()}))
    found = json.loads(kept.read_text())
    for file, about in found.items():
        if about["failed"]:
            print(f"{file} is left out, as it fails without any mutant:\n{about['failed']}", flush=True)
    passing = {file: about for file, about in found.items() if not about["failed"]}
    if not passing:
        kept.unlink()
        sys.exit("No test file passes without any mutant, so that no mutant can be judged: see what make check says.")
    return passing


def files_that_run(mutant: Mutant, tests: dict[str, dict]) -> list[str]:
    """The test files that run the line of a mutant, those of its room first, and of these the quick ones.

    A line that only runs at import, such as that of a constant or a default, counts as run by all that run anything of
    its file.
    """
    lines = {file: about["lines"].get(mutant.path, ()) for file, about in tests.items()}
    runs = [file for file, own in lines.items() if mutant.line in own] or [file for file, own in lines.items() if own]
    room = mutant.path.split("/")[1].removesuffix(".py")
    return sorted(runs, key=lambda file: (room not in file, tests[file]["seconds"]))


def _pytest(files: list[str]) -> list[str]:
    return ["pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", *files]


def _environment(root: Path, cache: Path) -> dict[str, str]:
    paths = [str(root), str(root / "tests" / "support"), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", "RECURRA_TESTS_CACHE": str(cache)}
    return {**os.environ, **own}


# Judging


def judged(mutant: Mutant, tests: dict[str, dict], root: Path, cache: Path) -> dict:
    """What the tests say of a mutant."""
    runs, chosen, left = files_that_run(mutant, tests), [], SECONDS * FOR_TESTS
    for file in runs:
        if tests[file]["seconds"] <= left:
            chosen.append(file)
            left -= tests[file]["seconds"]
    if not chosen:
        return {"killed": False, "by": "", "why": f"of {len(runs)} test files that run this line none is quick enough"}
    mutant.put_into(root)
    try:
        status, out = _run([sys.executable, "-m", *_pytest(chosen)], root, cache)
    finally:
        mutant.take_from(root)
    if status in PASSED:
        return {"killed": False, "by": "", "why": f"{len(chosen)} of {len(runs)} test files that run this line pass"}
    failed = [row for row in out.splitlines() if row.startswith(("FAILED", "ERROR", "E  "))]
    return {"killed": True, "by": failed[-1] if failed else f"status {status}: {out[-200:]}", "why": ""}


def _run(command: list[str], root: Path, cache: Path) -> tuple[int, str]:
    """The status and the output of a command that may use `SECONDS` of a processor, and wait thirty times as long."""
    limited = f"ulimit -t {math.ceil(SECONDS)}; exec {shlex.join(command)}"
    process = subprocess.Popen(
        ["bash", "-c", limited],
        cwd=root,
        env=_environment(root, cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=30 * SECONDS)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL, "the tests do not end"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--count", type=int, default=200)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after that many minutes")
    given = asked.parse_args()

    if sys.version_info < (3, 12):
        sys.exit(
            "make mutants needs Python 3.12 or newer, which tells cheaply which lines a test runs: make clean, and "
            "then make mutants PYTHON=python3.13"
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cache = OUT / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    _forget_if_changed()
    tests = known_of_tests(cache)
    drawn = drawn_at_random(given.count, given.seed)
    kept = OUT / "judged.jsonl"
    known = {row["key"]: row for row in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    waiting = [mutant for mutant in drawn if _key(mutant) not in known]
    roots: SimpleQueue[Path] = SimpleQueue()
    for number in range(os.cpu_count() or 1):
        roots.put(_copy(OUT / f"copy-{number}"))
    until = time.monotonic() + 60 * given.minutes

    def judge(mutant: Mutant) -> dict | None:
        if time.monotonic() > until:
            return None
        root = roots.get()
        try:
            return {"key": _key(mutant), **asdict(mutant), **judged(mutant, tests, root, cache)}
        finally:
            roots.put(root)

    with ThreadPoolExecutor(roots.qsize()) as pool, kept.open("a") as file:
        for row in pool.map(judge, waiting):
            if row is not None:
                known[row["key"]] = row
                print(json.dumps(row), file=file, flush=True)
                print(
                    "killed  " if row["killed"] else "SURVIVES",
                    f"{row['path']}:{row['line']}",
                    row["by"][:90],
                    flush=True,
                )
    report([known[_key(mutant)] for mutant in drawn if _key(mutant) in known])


def drawn_at_random(count: int, seed: int) -> list[Mutant]:
    """Mutants of all rooms, each as likely as any other."""
    files = [
        path
        for path in sorted((ROOT / "recurra").rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(LEFT_OUT)
    ]
    every = [mutant for path in files for mutant in mutants_of(path)]
    print(f"{len(every)} mutants of {len(files)} files", flush=True)
    return random.Random(seed).sample(every, min(count, len(every)))


def report(rows: list[dict]) -> None:
    """How many are killed, room by room, and which survive for no reason that is known."""
    reasons = {(each["path"], each["before"], each["after"]): each for each in _survivors()}
    rooms, surviving, equivalent = defaultdict(lambda: [0, 0]), [], 0
    for row in rows:
        reason = reasons.get((row["path"], row["before"], row["after"]))
        if not row["killed"] and reason and reason.get("equivalent"):
            equivalent += 1
            continue
        room = rooms[row["path"].split("/")[1]]
        room[0] += row["killed"]
        room[1] += 1
        if not row["killed"]:
            surviving.append((row, reason["reason"] if reason else "no reason is known: " + row["why"]))
    for row, reason in surviving:
        print(f"\n{row['path']}:{row['line']}\n    {row['before']}\n    {row['after']}\n    {reason}")
    print()
    for name, (killed, of) in sorted(rooms.items()):
        print(f"{name:15} {killed:4} of {of:4} killed")
    killed, of = (sum(column) for column in zip(*rooms.values(), strict=True)) if rooms else (0, 0)
    print(f"{'all':15} {killed:4} of {of:4} killed, {killed / max(of, 1):.1%}; {equivalent} more are equivalent")


def _survivors() -> list[dict]:
    listed = ROOT / "tests" / "survivors.toml"
    return tomllib.loads(listed.read_text())["survivor"] if listed.exists() else []


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(str((mutant.path, mutant.start, mutant.after)).encode()).hexdigest()[:16]


def _forget_if_changed() -> None:
    """What is known holds for the library and the tests as they are."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "recurra").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        if path != Path(__file__).resolve():
            digest.update(path.read_bytes())
    kept = OUT / "digest"
    if not kept.exists() or kept.read_text() != digest.hexdigest():
        for name in ("tests.json", "judged.jsonl"):
            (OUT / name).unlink(missing_ok=True)
    kept.write_text(digest.hexdigest())


def _copy(root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name in COPIED:
        path = ROOT / name
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, root / name)
    return root


if __name__ == "__main__":
    main()
