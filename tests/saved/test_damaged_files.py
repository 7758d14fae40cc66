"""Files that are cut, flipped or edited anywhere, and writers that are killed: nothing half is ever read."""

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recurra.saved import archive, whole_files
from recurra.saved.archive import SavedFileError, UselessFileError
from saved_files import ARRAYS, DOCUMENT, at_most, joined, parts_of, refused, written


@pytest.fixture
def good(tmp_path):
    return written(tmp_path / "good")


def same(found, document):
    assert document == DOCUMENT
    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in found.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in ARRAYS.items()
    }


def read_with_little_memory(path, number, again=True):
    """Read a file twice if need be: other threads, and what a first error imports, take memory too, but only once."""
    try:
        with at_most(number), suppress(SavedFileError):
            same(*archive.read(path, "model"))
    except AssertionError:
        if not again:
            raise
        read_with_little_memory(path, number, again=False)


def survives(path, content):
    """Read a changed file: it is refused, or holds what it held. Nothing is written, and little memory taken."""
    path.write_bytes(content)
    before = sorted(os.listdir(path.parent))
    read_with_little_memory(path, 30 * len(content) + 300_000)
    assert sorted(os.listdir(path.parent)) == before


@pytest.mark.parametrize("stride", [37, pytest.param(1, marks=pytest.mark.slow)])
def test_a_file_cut_or_flipped_anywhere(good, stride):
    """Every length, and every bit of a small file; or every so many."""
    content = good.read_bytes()
    for length in range(0, len(content), stride):
        good.write_bytes(content[:length])
        refused(good, "damaged", UselessFileError)
    accepted = 0
    for place in range(0, 8 * len(content), stride):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        good.write_bytes(changed)
        try:
            same(*archive.read(good, "model"))
            accepted += 1
        except SavedFileError:
            pass
    assert accepted <= 8 * 8  # space at the end of the header, where another kind of space is as good


def test_without_the_checksum_a_flipped_bit_would_pass(good, monkeypatch):
    """The control of the tests above: what safetensors itself does not see."""
    content = bytearray(good.read_bytes())
    content[-20] ^= 64
    good.write_bytes(content)
    refused(good, "does not match its checksum", UselessFileError)
    monkeypatch.setattr(archive, "_digest", lambda about, *_: about["sha256"])
    found, _ = archive.read(good, "model")
    assert not np.array_equal(found["weights.W"], ARRAYS["weights.W"])
    assert safetensors.numpy.load_file(good)["weights.W"].shape == (3, 4)


def edited_header(draw, content):
    """The header with one thing in it changed, parsed and put together again."""
    header, data = parts_of(content)
    table = draw(st.sampled_from([header, *(value for value in header.values() if isinstance(value, dict))]))
    key = draw(st.sampled_from(sorted(table)))
    value = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(0, 2**64), max_size=3)
    how = draw(st.sampled_from(["drop", "rename", "replace", "swap", "add"]))
    if how == "drop":
        del table[key]
    elif how == "rename":
        table[draw(st.text(max_size=5))] = table.pop(key)
    elif how == "replace":
        table[key] = draw(value)
    elif how == "swap":
        other = draw(st.sampled_from(sorted(table)))
        table[key], table[other] = table[other], table[key]
    else:
        table[draw(st.text(max_size=5))] = draw(value | st.sampled_from(list(table.values())))
    return joined(header, data)


@st.composite
def mutated(draw, content):
    place, stop = sorted((draw(st.integers(0, len(content))), draw(st.integers(0, len(content)))))
    how = draw(st.sampled_from(["cut", "flip", "insert", "delete", "repeat", "overwrite", "header", "grow", "length"]))
    if how == "header":
        return edited_header(draw, content)
    if how == "length":
        return draw(st.integers(0, 2**64 - 1)).to_bytes(8, "little") + content[8:]
    if how == "flip":
        changed = bytearray(content)
        for place in draw(st.lists(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=4)):
            changed[place // 8] ^= 1 << place % 8
        return bytes(changed)
    new = draw(st.binary(min_size=1, max_size=9))
    return {
        "cut": content[:place],
        "insert": content[:place] + new + content[place:],
        "delete": content[:place] + content[stop:],
        "repeat": content[:stop] + content[place:],
        "overwrite": content[:place] + new + content[place + len(new) :],
        "grow": content + new,
    }[how]


CALM = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(max_examples=300, **CALM)
@given(data=st.data())
def test_damaged_files_are_refused(good, data):
    _damaged(good, data)


@pytest.mark.slow
@settings(max_examples=10_000, **CALM)
@given(data=st.data())
def test_many_damaged_files_are_refused(good, data):
    _damaged(good, data)


def _damaged(good, data):
    survives(good.parent / "damaged", data.draw(mutated(good.read_bytes())))


# Writing


def test_a_file_is_on_the_disk_before_its_name_is_and_then_the_name_too(tmp_path, monkeypatch):
    happened, fsync, replace = [], os.fsync, Path.replace

    def watched_fsync(number):
        happened.append("folder" if os.path.samestat(os.fstat(number), tmp_path.stat()) else "file")
        fsync(number)

    def watched_replace(self, target):
        happened.append("name")
        return replace(self, target)

    monkeypatch.setattr(whole_files.os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    archive.write(tmp_path / "a", "model", ARRAYS, DOCUMENT)
    assert happened == ["file", "name", "folder"]


def test_a_folder_that_cannot_be_synchronised_is_no_reason_to_fail(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(whole_files.os, "open", refuse)
    whole_files.write_whole(tmp_path / "a", lambda file: file.write(b"whole"))
    assert (tmp_path / "a").read_bytes() == b"whole"


#: writes one file again and again in a process that is killed; each time it must be whole, and newer or the same
KILLED = """
import os, random, signal, sys, time
import numpy as np
from pathlib import Path
from recurra.saved import archive
from recurra.saved.whole_files import held

path, kills = Path(sys.argv[1]), int(sys.argv[2])
chance, number, inside = random.Random(0), 0, 0
write = lambda i: archive.write(path, "model", {"x": np.full(300_000, i, np.int32)}, {"i": i})
write(0)
ends = time.monotonic() + 300
while inside < kills and time.monotonic() < ends:  # so many kills have to come while a file is half written
    child = os.fork()
    if not child:
        while True:
            number += 1
            write(number)
    time.sleep(0.05 * chance.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    arrays, about = archive.read(path, "model")
    assert (arrays["x"] == about["i"]).all() and about["i"] >= number, (about, number)
    number = about["i"]
    inside += len(os.listdir(path.parent)) > 1
    with held(path):
        pass
    assert os.listdir(path.parent) == [path.name]
print(inside, number)
"""


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_a_kill_inside_a_write_leaves_a_file_that_can_be_read(tmp_path, kills):
    command = [sys.executable, "-W", "ignore", "-c", KILLED, tmp_path / "a", str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    inside, written = map(int, done.stdout.split())
    assert inside == kills
    assert written > 0
