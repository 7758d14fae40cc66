"""Lines of a TOML file: whatever the file looks like, a line is right or it is not given."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recurra.studies.reading.lines import lines_of

TRICKY = '''# learners = ["rflo"]
"learners" = [ # ["uoro"],
    "rflo", "a = 1 # no",
    """
alpha = 3
[vary]""", 'x',
]
text = """
[points]
t1 = 3"""  # the end
empty = ''
quoted = """"two"" and \\""" here"""""
[ vary . "learner" . 'k.l' ]
from.to = { a = 1, "b c" = [1,
  2] } # } ]
[[points]]
t1 = 1
[points.inner]
t1 = 2
[[points]]
[[points.deep]]
x = 1979-05-27 07:32:00
[[points.deep]]
[vary]
alpha = []
'''


def test_lines_of_a_tricky_file():
    """The lines were counted by hand."""
    lines = lines_of(TRICKY, tomllib.loads(TRICKY))
    assert lines == {
        ("learners",): 2,
        ("learners", 0): 3,
        ("learners", 1): 3,
        ("learners", 2): 4,
        ("learners", 3): 6,
        ("text",): 8,
        ("empty",): 11,
        ("quoted",): 12,
        ("vary",): 24,
        ("vary", "learner"): 13,
        ("vary", "learner", "k.l"): 13,
        ("vary", "learner", "k.l", "from"): 14,
        ("vary", "learner", "k.l", "from", "to"): 14,
        ("vary", "learner", "k.l", "from", "to", "a"): 14,
        ("vary", "learner", "k.l", "from", "to", "b c"): 14,
        ("vary", "learner", "k.l", "from", "to", "b c", 0): 14,
        ("vary", "learner", "k.l", "from", "to", "b c", 1): 15,
        ("points",): 16,
        ("points", 0): 16,
        ("points", 0, "t1"): 17,
        ("points", 0, "inner"): 18,
        ("points", 0, "inner", "t1"): 19,
        ("points", 1): 20,
        ("points", 1, "deep"): 21,
        ("points", 1, "deep", 0): 21,
        ("points", 1, "deep", 0, "x"): 22,
        ("points", 1, "deep", 1): 23,
        ("vary", "alpha"): 25,
    }


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_make_no_difference(ending):
    text = TRICKY.replace("\n", ending)
    assert lines_of(text, tomllib.loads(text)) == lines_of(TRICKY, tomllib.loads(TRICKY))


def test_no_lines_rather_than_wrong_ones():
    """The text of another file, and one whose lists are as deep as the parser takes them."""
    assert lines_of("a = 1\n", {"b": 1}) == {}
    assert lines_of("a = [1, 2]\n", {"a": [1]}) == {}
    deep = f"a = {'[' * 400}{']' * 400}\n"
    assert lines_of(deep, tomllib.loads(deep)).get(("a",), 1) == 1


class Writer:
    """Writes TOML, and notes by counting newlines where it put what."""

    def __init__(self, draw):
        self.draw, self.text, self.lines = draw, "", {}

    def here(self):
        return self.text.count("\n") + 1

    def note(self, path):
        self.lines[path] = self.here()

    def key(self, name):
        escaped = "".join(f"\\u{ord(each):04x}" for each in name)
        return self.draw(st.sampled_from([name, f'"{name}"', f"'{name}'", f'"{escaped}"']))

    def gap(self):
        """Between elements of a list."""
        self.text += self.draw(st.sampled_from(["", " ", "\n", '\n\n# k = ] }, "\n  ', " # [x]\n"]))

    def value(self, path, depth=2):
        kind = self.draw(st.sampled_from(["scalar", "scalar", "list", "table"] if depth else ["scalar"]))
        if kind == "scalar":
            self.text += self.draw(st.sampled_from(SCALARS))
        elif kind == "list":
            self.text += "["
            count = self.draw(st.integers(0, 3))
            for place in range(count):
                self.gap()
                self.note((*path, place))
                self.value((*path, place), depth - 1)
                self.gap()
                self.text += "," if place < count - 1 or self.draw(st.booleans()) else ""
            self.gap()
            self.text += "]"
        else:
            self.text += "{"
            for place, name in enumerate(self.draw(st.lists(st.sampled_from("abc"), unique=True))):
                self.text += ", " if place else " "
                self.note((*path, name))
                self.text += f"{self.key(name)} = "
                self.value((*path, name), depth - 1)
            self.text += " }"

    def assignments(self, path):
        for name in self.draw(st.lists(st.sampled_from(["p", "q-1", "r_r"]), unique=True)):
            self.text += self.draw(st.sampled_from(["", "\n", "  ", "# p = 3\n"]))
            inner = (*path, name)
            self.note(inner)
            self.text += self.key(name)
            if self.draw(st.booleans()):
                inner = (*inner, "d")
                self.note(inner)
                self.text += f" . {self.key('d')}"
            self.text += " ="
            self.value(inner)
            self.text += self.draw(st.sampled_from(["\n", "  # [t]\n", "\r\n"]))

    def document(self):
        self.assignments(())
        for number in range(self.draw(st.integers(0, 4))):
            name = f"t{number}"
            if self.draw(st.booleans()):
                self.note((name,))
                self.text += f"[{self.key(name)}]\n"
                self.assignments((name,))
                continue
            for place in range(self.draw(st.integers(1, 3))):
                self.lines.setdefault((name,), self.here())
                self.note((name, place))
                self.text += f"[[ {self.key(name)} ]] # [x]\n"
                self.assignments((name, place))
                if self.draw(st.booleans()):
                    self.note((name, place, "sub"))
                    self.text += f"[{self.key(name)}.sub]\n"
                    self.assignments((name, place, "sub"))
        return self.text, self.lines


SCALARS = [
    "1", " -1.5e3", "true ", "nan", "1979-05-27 07:32:00", '""', "''", '"[a]"', "'# p = 1'", '"\\" ] }"',
    '"""\np = 1\n[t0]\n"""', "'''\n[[t1]] # '' \"\"\"\n'''", '"""\\\n   x"""', '""""a"""""', "'''''b'''''",
]  # fmt: skip


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_lines_are_where_they_were_written(data):
    text, lines = Writer(data.draw).document()
    assert lines_of(text, tomllib.loads(text)) == lines


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_damaged_files_have_their_lines_or_none(data):
    """A character is lost or doubled. What the parser still takes has all of its lines, and none is past the end."""
    text, _ = Writer(data.draw).document()
    at = data.draw(st.integers(0, max(len(text) - 1, 0)))
    text = data.draw(st.sampled_from([text[:at] + text[at + 1 :], text[: at + 1] + text[at:]]))
    try:
        table = tomllib.loads(text)
    except ValueError:
        return
    lines = lines_of(text, table)
    assert bool(lines) == bool(table)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
