"""Bad studies are refused before anything runs: one line for each problem, with the file, the line and what to do."""

import re

import pytest

import recurra.studies.reading.checks
from recurra.studies.settings import SettingsError
from recurra.studies.study import Study

TOP = 'learners = ["rflo"]\n'
#: text, and for each problem its line and words of its message
BAD = {
    "nothing in it": ("", [(None, "`learners`", "at the top of a file")]),
    "no TOML": (f"{TOP}alpha = = 2\n", [(2, "not valid TOML", "column 9")]),
    "no end": (f'{TOP}task = """add\n', [(None, "not valid TOML", "Unterminated")]),
    "twice": (f"{TOP}n = 1\nn = 2\n", [(3, "not valid TOML")]),
    "unknown settings": (
        f"{TOP}learning_rte = 0.1\n[varies]\nalpha = [1]\n",
        [(2, "`learning_rte`", "did you mean 'learning_rate'"), (4, "`varies`", "did you mean 'vary'")],
    ),
    "unknown in vary": (
        f'{TOP}[vary]\nalhpa = [0.1]\n"a\\nb\\u007f" = [1]\n',
        [(3, "`alhpa`", "did you mean 'alpha'"), (4, "is not a setting")],
    ),
    "unknown learners": (
        'learners = ["kernal"]\n[vary.learner.kernal]\nx = [1]\n',
        [(1, "'kernal'", "did you mean 'kernl'"), (3, "`learner.kernal`", "did you mean 'kernl'")],
    ),
    "what cannot vary": (
        f"{TOP}[vary]\nlearners = ['uoro']\nseeds = [1]\nwindow = [1]\nkey = [1]\nlearner = ['uoro']\nsamples = [3]\n",
        [(3, "`learners`", "top of the file"), (4, "`seeds`"), (5, "`window`"), (6, "`key`"),
         (7, "`learner`", "is `learners`"),
         (8, "`samples`", "top of the file")],
    ),
    "in the wrong table": (f"{TOP}[vary]\nsteps = 100\n", [(3, "`steps` is 100", "top of the file")]),
    "a list that does not vary": (f"{TOP}alpha = [0.1]\n", [(2, "`alpha`", "under [vary]")]),
    "empty grids": (
        f"{TOP}[vary]\nalpha = []\nlearning_rate = {{}}\nn = {{ choices = [] }}\nlearner = {{}}\n",
        [(3, "`alpha`", "empty"), (4, "[vary.learning_rate] is empty"), (5, "`n`", "empty"), (6, "empty")],
    ),
    "empty vary": (f"{TOP}[vary]\n", [(2, "[vary] is empty")]),
    "empty table": (f"{TOP}[vary.learner.rflo]\n", [(2, "[vary.learner.rflo] is empty")]),
    "empty points": (f"{TOP}points = []\n", [(2, "empty")]),
    "upside down": (f"{TOP}[vary]\nalpha = {{ from = 1.0, to = 0.1, count = 4 }}\n", [(3, "`alpha`", "0.1 first")]),
    "random upside down": (f"{TOP}[vary]\nalpha = {{ uniform = [1.0, 0.1] }}\n", [(3, "`alpha`", "upside down")]),
    "no length": (f"{TOP}[vary]\nn = {{ uniform = [4, 4] }}\n", [(3, "`n`", "no length", "[4]")]),
    "log of 0": (f"{TOP}[vary]\nlearning_rate = {{ log_uniform = [0, 0.1] }}\n", [(3, "`learning_rate`", "above 0")]),
    "log of whole 0": (
        f"{TOP}[vary]\ntask.t1 = {{ from = 0, to = 9, count = 3, log = true }}\n",
        [(3, "`task.t1`", "above 0")],
    ),
    "no numbers": (
        f"{TOP}[vary]\nalpha = {{ from = nan, to = inf, count = 3 }}\n",
        [(3, "finite", "nan"), (3, "finite", "inf")],
    ),
    "fractions": (f"{TOP}[vary]\nn = {{ from = 1.5, to = 4, count = 2 }}\n", [(3, "`n`", "whole number", "1.5")]),
    "counts": (
        f"{TOP}[vary]\ntask.t1 = {{ from = 1, to = 5, count = 0 }}\ntask.t2 = {{ from = 1, to = 5, count = 1 }}\n"
        "n = { from = 1, to = 5, count = 3.0 }\nsteps = { from = 1, to = 5, count = 2, log = 1 }\n",
        [(3, "`count` of `task.t1`", "is 0"), (4, "`count` of `task.t2` is 1"), (5, "`count` of `n`"),
         (6, "`log` of `steps`")],
    ),
    "half a range": (f"{TOP}[vary]\nn = {{ from = 1, count = 3 }}\n", [(3, "`n` has no `to`")]),
    "unknown ways": (f"{TOP}[vary]\nn = {{ from = 1, to = 2, cuont = 3 }}\n", [(3, "`cuont`", "did you mean 'count'")]),
    "two ways": (f"{TOP}[vary]\nn = {{ uniform = [1, 2], choices = [3] }}\n", [(3, "`n`", "one way only")]),
    "log of uniform": (f"{TOP}[vary]\nn = {{ uniform = [1, 2], log = true }}\n", [(3, "`n`", "`log_uniform`")]),
    "three ends": (f"{TOP}[vary]\nn = {{ uniform = [1, 2, 3] }}\n", [(3, "`n`", "two ends")]),
    "text in a range": (
        f'{TOP}[vary]\ntask = {{ from = "add", to = "mimic", count = 2 }}\nw_rec = {{ uniform = ["gaussian"] }}\n',
        [(3, "`task`", "list"), (4, "`w_rec`", "choices")],
    ),
    "no list of choices": (f"{TOP}[vary]\nn = {{ choices = 3 }}\n", [(3, "`choices` of `n`", "list")]),
    "values of a list": (
        f'{TOP}[vary]\nalpha = [\n 0.1,\n "0.2", # 0\n 0.3,\n 0.1,\n nan,\n true ]\nn = [8, 8.5]\ntask = ["mimick"]\n',
        [(5, "`alpha`", "a number", "'0.2'"), (7, "`alpha`", "0.1 twice"), (8, "finite"), (9, "a number", "True"),
         (10, "`n`", "8.5"), (11, "did you mean 'mimic'")],
    ),
    "the same number": (f"{TOP}[vary]\nalpha = [1, 1.0]\n", [(3, "`alpha`", "twice")]),
    "too large": (f"{TOP}[vary]\nn = [1{'0' * 40}]\n", [(3, "`n`", "too large")]),
    "too wide": (f"{TOP}[vary]\nn = [4, 100000000000]\n", [(3, "`n`", "at most 16777216", "100000000000")]),
    "too many layers": (
        f"{TOP}[vary]\nlayers = [1, 30000000]\n[vary.network.cell.cells.30000000]\nn = [4]\n",
        [(3, "`layers`", "at most 100"), (5, "layer 30000000", "at most 100 layers")],
    ),
    "a long path": (f"{TOP}set.network{'.cell' * 60} = 4\n", [(2, "61 names")]),
    "a longer path": (f"{TOP}set.network{'.cell' * 1500} = 4\n", [(None, "nested too deeply")]),
    "names of 0.1": (
        f"{TOP}t1 = 3\n[task_options]\nt2 = 4\n[cell_options]\nthreshold = 1.0\n[vary]\ninputs = [3]\n",
        [(2, "`task.t1` now", "docs/migration.md"), (4, "`task.t2` now"), (6, "`network.cell.threshold` now"),
         (8, "`task.target.n_in` now")],
    ),
    "fixed and varied": (
        f"{TOP}alpha = 0.5\nset.task.t1 = 2\n[vary]\nnetwork.cell.alpha = [0.1]\ntask.t2 = [4]\n"
        "[[points]]\n'task.t1' = 4\ntask.t2 = 3\n",
        [(5, "`alpha`", "line 2"), (8, "`task.t1`", "line 3"), (9, "`task.t2`", "line 6")],
    ),
    "a learner's own, fixed and varied": (
        'learners = ["kernl"]\n[learner.kernl]\nperturbation = 1\n[vary.learner.kernl]\nperturbation = [1, 2]\n',
        [(5, "`learner.kernl.perturbation`", "line 3")],
    ),
    "points": (
        f"{TOP}[[points]]\ntask.t1 = 3\ntask.t3 = 5\n[[points]]\n"
        "[[points]]\ntask.t1 = 'a'\n[points.learner.rflo]\nx = 3\n",
        [(4, "`task.t3`"), (5, "empty"), (7, "`task.t1`", "whole"), (9, "`learner.rflo.x`")],
    ),
    "equal points": (
        f"{TOP}[[points]]\ntask.t1 = 3\ntask.t2 = 5\n[[points]]\ntask.t2 = 5\ntask.t1 = 3\n",
        [(5, "same", "line 2")],
    ),
    "no points": (f"{TOP}points = 3\n", [(2, "`points`", "[[points]]")]),
    "no table": (f"{TOP}vary = [3]\ntune = 3\n", [(2, "[vary]"), (3, "[tune]")]),
    "other learners": (
        'learners = ["kernl"]\n[vary.learner.kernl]\nperturbatoin = [1]\n[vary.learner.uoro]\ninitial_scale = [1]\n',
        [(3, "`learner.kernl.perturbatoin`", "did you mean 'perturbation'")],
    ),
    "not among the learners": (
        f"{TOP}[vary.learner.kernl]\nperturbation = [1]\n[learner.uoro]\ninitial_scale = 1.0\n",
        [(3, "`learner.kernl.perturbation`", "not among the `learners`"), (5, "uoro is not among")],
    ),
    "no effect": (
        f"{TOP}task = 'mimic'\nset.'task.t1' = 2\n[vary]\nalpha = [0.1]\ncell = ['gru', 'lstm']\n",
        [(3, "`task.t1` has no effect", "'mimic'", "make `task` 'add'"), (5, "`alpha`", "'gru' and 'lstm'", "'rnn'")],
    ),
    "no effect in a point": (
        f"{TOP}[[points]]\ntask = 'add'\n'task.t1' = 3\n[[points]]\ntask = 'mimic'\n'task.t1' = 3\n",
        [(7, "`task.t1` has no effect", "is 'mimic'")],
    ),
    "given twice": (
        f"{TOP}alpha = 1\n[set]\nnetwork.cell.alpha = 1\n"
        "[vary]\nlearning_rate = [1]\n'optimizer.learning_rate' = [2]\n",
        [(4, "`alpha` is given twice, also in line 2"), (7, "`learning_rate` is given twice, also in line 6")],
    ),
    "unknown paths": (
        f"{TOP}[set]\ntask.lenght = 2\nnetwork.cel.n = 3\n'optimizer.rate' = 1\nnetwork.cell.cells.x.n = 3\n"
        "[vary]\nnetwork.cell.w_rec.desnity = [1]\nnetwork.n_out = [3]\n",
        [(3, "`task.lenght`", "did you mean 'length'"), (4, "`network.cel.n`", "did you mean 'cell'"),
         (5, "`optimizer.rate`", "did you mean 'learning_rate'"), (6, "`network.cell.cells.x.n`"),
         (8, "`network.cell.w_rec.desnity`", "did you mean 'density'"), (9, "follow from the task")],
    ),
    "no effect deeper": (
        f"{TOP}layers = 2\n[set]\nnetwork.cell.cells.2.n = 3\nnetwork.cell.w_rec.drawn = 'symmetric'\n"
        "network.cell.cells.0.w_rec = 'gaussian'\nnetwork.cell.cells.1.w_rec = 'gaussian'\n",
        [(4, "`network.cell.cells.2.n` has no effect where `layers` is 2"),
         (5, "`network.cell.w_rec.drawn` has no effect")],
    ),
    "an optimizer's own": (
        f"{TOP}[vary]\noptimizer = ['sgd', 'rmsprop']\n'optimizer.b1' = [0.5]\n",
        [(4, "`optimizer.b1` has no effect where `optimizer` is 'sgd' and 'rmsprop'", "make `optimizer` 'adam'")],
    ),
    "seeds": (f"{TOP}seeds = [1, 2,\n 2,\n -1, 'x']\n", [(3, "2 twice"), (4, "-1"), (4, "'x'")]),
    "no seeds": (f"{TOP}seeds = 0\n", [(2, "`seeds`", "at least 1")]),
    "words for seeds": (f"{TOP}seeds = 'all'\n", [(2, "`seeds`", "whole number or a list")]),
    "samples of nothing": (f"{TOP}samples = 3\n[vary]\nalpha = [0.1]\n", [(2, "`samples` has no effect")]),
    "no samples": (f"{TOP}samples = 0\n[vary]\nn = {{ uniform = [1, 2] }}\n", [(2, "`samples`", "is 0")]),
    "many networks": (
        f"{TOP}[vary]\nalpha = {{ from = 0.1, to = 1, count = 1000 }}\n"
        "learning_rate = { from = 0.1, to = 1, count = 50_000 }\n",
        [(4, "1,000,000,000 networks", "10,000,000 are the most", "`learning_rate`")],
    ),
    "many seeds": (f"{TOP}seeds = 1_000_000_000\n", [(2, "`seeds`", "at most 10000000", "1000000000")]),
    "a large count": (
        f"{TOP}[vary]\nn = {{ from = 1, to = 2, count = 1_000_000_000 }}\n",
        [(3, "`count` of `n`", "10000000")],
    ),
    "tune": (
        f"{TOP}[tune]\ntrials = 0\nsede = 3\neta = 1\nbatch = 'x'\n",
        [(3, "`tune.trials`", "at least 1"), (4, "`tune.sede`", "did you mean 'seeds'"), (5, "`tune.eta`"), (6, "'x'")],
    ),
    "finalists": (f"{TOP}[tune]\nfinalists = 5\ntrials = 2\n", [(3, "`tune.finalists` is 5")]),
    "a bad number": (f"{TOP}[vary]\nalpha = [\n 0.5,\n 0.0]\n", [(5, "`alpha` of RNN", "above 0.0")]),
    "a bad number that is fixed": (f"{TOP}set.task.t2 = 0\n[vary]\nn = [3, 4]\n", [(2, "`t2` of Add")]),
    "a bad end": (
        'learners = ["rflo", "kernl"]\n[vary]\nlearner.kernl.first_alpha = { uniform = [0, 2] }\n',
        [(3, "`first_alpha` of KeRNL", "is 2")],
    ),
    "a bad point": (f"{TOP}[[points]]\ntask.t1 = 3\n[[points]]\ntask.t1 = 0\n", [(5, "`t1` of Add")]),
    "a bad pair": (
        'learners = ["rflo", "r-ok"]\n[vary]\ntask = ["mimic", "add"]\nn = [32, 2]\nlearner.r-ok.r = [1, 20]\n',
        [(5, "`r` of ROK is 20", "`n` is 2 and `learner.r-ok.r` is 20")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_problems_are_named_with_their_lines(name, tmp_path):
    text, wanted = BAD[name]
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        Study.read(path)
    said = str(error.value).split("\n")
    assert len(said) == len(wanted), said
    for line, (number, *words) in zip(said, wanted, strict=True):
        place = f"{path}: " if number is None else f"{path}, line {number}: "
        assert line.startswith(place)
        assert all(word in line for word in words), (line, words)
        assert line.isprintable()
        assert len(line) < 700
        assert re.search(r"[.…]$", line)


def test_bad_pairs_are_found_by_building_only(monkeypatch):
    """Negative control: without the networks that are built, the pair that does not go together is not noticed."""
    monkeypatch.setattr(recurra.studies.reading.checks, "MOST_BUILT", 0)
    Study.of_text(BAD["a bad pair"][0])


def test_many_problems_are_cut_short():
    with pytest.raises(SettingsError) as error:
        Study.of_text(TOP + "[vary]\nn = [" + "0.5,\n" * 1000 + "true,\n" * 1000 + "]\n", "s.toml")
    said = str(error.value).split("\n")
    assert len(said) == 21
    assert said[-1] == "s.toml: 1,980 more problems like these."
    with pytest.raises(SettingsError) as error:
        Study.of_text(f"{TOP}n = [{'0.5,' * 1000}]", "s.toml")
    assert len(str(error.value)) < 700


def test_files_that_cannot_be_read(tmp_path):
    def said(path):
        with pytest.raises(SettingsError) as error:
            Study.read(path)
        return str(error.value)

    assert "cannot be read: No such file" in said(tmp_path / "none.toml")
    assert "is a folder" in said(tmp_path)
    (path := tmp_path / "s.toml").write_bytes(b"# " + b"x" * 1_000_000)
    assert "longer than 1 MB" in said(path)
    path.write_bytes(b"learners = ['\xff']")
    assert "not text in UTF-8" in said(path)
    path.write_text("a = " + "[" * 50_000)
    assert "nested too deeply" in said(path) or "not valid TOML" in said(path)
    assert "cannot be read" in said(tmp_path / "a\0b")


def test_random_choices_must_be_counted_in_a_sweep():
    study = Study.of_text(f"{TOP}[vary]\nalpha = [0.1]\nn = {{ uniform = [1, 9] }}\n", "s.toml")
    assert study.cases() == [{"learner": "rflo", "alpha": 0.1}]
    assert study.count() == 1
    with pytest.raises(SettingsError, match=r"^s\.toml, line 4: `n` is a random choice.*`samples = 20`"):
        study.points()
