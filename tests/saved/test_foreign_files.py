"""Files from anywhere: forged, of another format, or none at all. Each is one clear error, and nothing is executed."""

import errno
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from recurra.saved import archive
from recurra.saved.archive import SavedFileError, UselessFileError
from saved_files import at_most, entry, forged, joined, parts_of, refused, written


@pytest.fixture
def good(tmp_path):
    return written(tmp_path / "good")


# Not a file, or none that can be read


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, match in {
        "absent": "cannot be read: No such file or directory",
        ".": "cannot be read: it is a folder",
        "pipe": "cannot be read: it is not an ordinary file",
        "/dev/zero": "cannot be read: it is not an ordinary file",
        "/dev/null": "cannot be read: it is not an ordinary file",
        "loop": "cannot be read: Too many levels of symbolic links",
        "x" * 300: "cannot be read: File name too long",
        "zero\0byte": "cannot be read: .*embedded null",
    }.items():
        refused(tmp_path / name, match)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_an_error_of_the_system_is_told_and_may_pass(good, monkeypatch, number):
    def broken(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(archive.os, "open", broken)
    refused(good, f"cannot be read: {os.strerror(number)}")


def test_what_does_not_fit_into_memory_is_not_tried(tmp_path):
    huge = {"x": entry("F64", (2**38,), (0, 2**41))}
    about = json.loads(forged({})[8:])["__metadata__"]
    (tmp_path / "a").write_bytes(joined({"__metadata__": about, **huge}, b""))
    try:
        os.truncate(tmp_path / "a", (tmp_path / "a").stat().st_size + 2**41)  # takes no room
    except OSError:
        pytest.skip("no file of this size here")
    refused(tmp_path / "a", r"cannot be read: Its arrays would take 2\.2 TB, and .* of memory are free")


# Files of others


class Payload:
    """What a pickle does when it is loaded."""

    def __reduce__(self):
        return os.system, ("touch canary",)


def test_nothing_of_another_kind_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        Path("a").write_bytes(pickle.dumps(Payload(), protocol))
        refused("a", "is no file of recurra, or a damaged one", UselessFileError)
    np.savez("a.npz", x=np.array([Payload()], object))
    refused("a.npz", "zip archive, as the .npz files are in which earlier versions kept runs", UselessFileError)
    safetensors.numpy.save_file({"x": np.ones(3)}, "b", {"format": "np"})
    refused("b", "its metadata do not say so", UselessFileError)
    safetensors.numpy.save_file({"x": np.ones(3)}, "b")
    refused("b", "its metadata do not say so", UselessFileError)
    for content in (b"", b"{}", b"a,b\n1,2\n" * 99, b"\0" * 100, b"\xff" * 100, b"\x89HDF\r\n\x1a\n" + bytes(99)):
        Path("c").write_bytes(content)
        refused("c", "is no file of recurra, or a damaged one", UselessFileError)
    assert sorted(os.listdir()) == ["a", "a.npz", "b", "c"]
    assert pickle.loads(pickle.dumps(Payload())) == 0  # the control: loaded, it would have acted
    assert Path("canary").exists()


def test_another_format_kind_and_version(tmp_path, good):
    (tmp_path / "a").write_bytes(forged({"recurra_format": "2", "recurra": "9.9"}))
    refused(tmp_path / "a", r"is of format 2, of recurra '9\.9', and this is recurra .*, which reads format 1: update")
    (tmp_path / "a").write_bytes(forged({"recurra": "0.0.1"}))
    assert archive.read(tmp_path / "a", "model") == ({}, {})
    for number in ("0", "-1", "1.0", "x", "", "²", "1" * 5000):
        (tmp_path / "a").write_bytes(forged({"recurra_format": number}))
        refused(tmp_path / "a", "is damaged: its format is", UselessFileError)
    with pytest.raises(SavedFileError, match="holds something else: 'model', and 'run' is asked for"):
        archive.read(good, "run")


# Forged files


NESTED = 100_000


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (b"[" * NESTED, "nested too deeply"),
        (b'{"a":' * NESTED, "nested too deeply"),
        (b"[" * NESTED + b"]" * NESTED, "nested too deeply"),
        (b'{"a": 1, "a": 2}', "a name is there twice"),
        (b'{"__metadata__": {}, "__metadata__": {}}', "a name is there twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "Infinity is no number"),
        (b'{"a": 1e999}', "too long or too large"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "100000 digits"),
        (b'{"a": 0.' + b"9" * 100_000 + b"}", "too long or too large"),
        (b'{"a": "\xff"}', "invalid start byte"),
        (b'\xef\xbb\xbf{}', "BOM"),
        ("{}".encode("utf-16"), "codec can't decode"),
        (b"[]", "metadata do not say so"),
        (b"3", "metadata do not say so"),
        (b"", "Expecting value"),
        (b'{"__metadata__": 3}', "its metadata are not text"),
        (b'{"__metadata__": {"kind": 3}}', "its metadata are not text"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_header_that_makes_no_sense(tmp_path, header, match):
    (tmp_path / "a").write_bytes(joined(header, b""))
    refused(tmp_path / "a", match, UselessFileError)


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({"x": entry(shape=(2**60,), offsets=(0, 2**62))}, "does not fit|arrays take"),
        ({"x": entry(shape=(2**62, 4), offsets=(0, 0))}, "does not fit"),
        ({"x": entry(shape=(0, 2**62), offsets=(0, 0))}, "does not fit"),
        ({"x": entry(shape=(2**30, 2**30, 0), offsets=(0, 0))}, "does not fit"),
        ({"x": entry(shape=(4,))}, "does not fit the 12 bytes"),
        ({"x": entry(shape=(-3,))}, "makes no sense"),
        ({"x": entry(shape=(True, 3))}, "makes no sense"),
        ({"x": entry(shape=(3.0,))}, "makes no sense"),
        ({"x": entry(shape=(1,) * 65 + (3,))}, "makes no sense"),
        ({"x": entry(offsets=(0, 12, 24))}, "makes no sense"),
        ({"x": entry(offsets=(12, 0))}, "does not fit|should at"),
        ({"x": entry(offsets=(4, 16))}, "begins at byte 4 of the data, and should at 0"),
        ({"x": entry(), "y": entry()}, "begins at byte 0 of the data, and should at 12"),
        ({"x": entry(shape=(2,), offsets=(0, 8))}, "take 8 bytes, and it has 12"),
        ({"x": entry(shape=(4,), offsets=(0, 16))}, "take 16 bytes, and it has 12"),
        ({"x": entry("O")}, "of the type 'O', which is unknown here"),
        ({"x": entry("F8_E4M3", (12,))}, "which is unknown here"),
        ({"x": {**entry(), "dtype": ["F32"]}}, "which is unknown here"),
        ({"x": {**entry(), "more": 1}}, "something else than its dtype"),
        ({"x": 3}, "something else than its dtype"),
    ],
    ids=str,
)
def test_arrays_that_are_not_where_they_are_said_to_be(tmp_path, entries, match):
    about = parts_of(forged({}))[0]["__metadata__"]
    (tmp_path / "a").write_bytes(joined({"__metadata__": about, **entries}, bytes(12)))
    with at_most(1_000_000):
        refused(tmp_path / "a", f"is damaged: .*({match})", UselessFileError)


@pytest.mark.parametrize(
    ("document", "match"),
    [
        ("[" * NESTED, "nested too deeply"),
        ("{" * 3, "Expecting property name"),
        ('{"a": NaN}', "no number"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[1, 2]", "its document is none"),
        ("", "Expecting value"),
        ("\ud800", "Expecting value"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_document_that_is_none(tmp_path, document, match):
    (tmp_path / "a").write_bytes(forged({"document": document}))
    refused(tmp_path / "a", f"is damaged: .*{match}", UselessFileError)


def test_truth_values_that_are_neither(tmp_path):
    for data, match in ((b"\0\1\1", None), (b"\0\1\2", "neither true nor false")):
        (tmp_path / "a").write_bytes(forged({}, {"x": entry("BOOL", (3,), (0, 3))}, data))
        if match is None:
            assert archive.read(tmp_path / "a", "model")[0]["x"].tolist() == [False, True, True]
        else:
            refused(tmp_path / "a", match, UselessFileError)


@pytest.mark.slow
def test_a_header_takes_no_more_memory_than_is_stated(tmp_path):
    """The worst that a header of the most bytes can do, and one that is longer."""
    longest = archive.LONGEST
    (tmp_path / "a").write_bytes(joined(b"[" + b"[]," * (longest // 3 - 1) + b"3]", b""))
    with at_most(26 * longest):
        refused(tmp_path / "a", "metadata do not say so", UselessFileError)
    (tmp_path / "a").write_bytes(joined(b" " * (longest + 1), b""))
    with at_most(1_000_000):
        refused(tmp_path / "a", "its header would have", UselessFileError)


def test_names_are_keys_and_never_paths(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    names = ["../../x", "/etc/passwd", "a\0b", "..\\x", "C:x", "__class__", "x" * 10_000, "\n", "%s", "{0}"]
    archive.write("a", "model", {name: np.array([i]) for i, name in enumerate(names)}, {"../../y": "../../y"})
    found, document = archive.read("a", "model")
    assert [int(found[name][0]) for name in names] == list(range(len(names)))
    assert document == {"../../y": "../../y"}
    assert (os.listdir(), os.listdir("..")) == (["a"], ["in"])
