"""Sweeps kept in a folder: the bits of one without, after any end, extended, and with parts of one's own."""

import functools
import os
import signal
import subprocess
import sys
import textwrap

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from recurra.engine.settings import unusual
from recurra.saved import archive
from recurra.saved.folders import FolderError
from recurra.studies.folder import Folder
from recurra.studies.study import Study
from recurra.training import orders
from recurra.training.cases import Identity, Sent
from recurra.training.folder import KIND, Groups
from recurra.training.places.base import Computed, Member, Order, versions

TASK = rc.Add(t1=1, t2=2)
RATES = {"optimizer": [1e-3, 1e-2]}


def network(**settings):
    return rc.Network(rc.RNN(n_in=2, n=4, dtype="float32", **settings), n_out=2)


def swept(folder=None, vary=RATES, learner=None, net=None, **how):
    how = {"steps": 60, "seeds": 2, **how}
    return rc.sweep(
        net or network(), learner or rc.RFLO(), TASK, vary=vary, folder=folder, progress=False, **how
    )  # fmt: skip


def groups(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "groups").iterdir()}


def count(folder):
    """How many networks are kept."""
    return sum(int(name.partition("-")[0]) for name in groups(folder))


def test_a_folder_changes_no_bit_and_a_second_call_computes_nothing(tmp_path):
    record, held_out = {"norm": rc.record.gradient_norms}, {"evaluate": TASK, "evaluate_every": 20}
    first = swept(tmp_path, record=record, record_every=7, **held_out)
    assert first.identical(swept(record=record, record_every=7, **held_out))
    before = groups(tmp_path)
    assert first.identical(swept(tmp_path, record=record, record_every=7, **held_out))
    assert groups(tmp_path) == before
    assert {"record.norm.applied", "evaluated_loss", "best_step"} <= set(first)


def test_a_sweep_is_extended_and_only_what_is_new_is_computed(tmp_path):
    swept(tmp_path)
    before = groups(tmp_path)
    larger = {"optimizer": [1e-2, 3e-2, 1e-3], "network.cell.alpha": [1.0, 0.5]}
    found = swept(tmp_path, larger, seeds=3)
    assert before.items() < groups(tmp_path).items()
    assert count(tmp_path) == 3 * 2 * 3
    assert found.identical(swept(None, larger, seeds=3))


@pytest.mark.parametrize(
    "other",
    [
        {"steps": 61},
        pytest.param({"key": 1}, marks=pytest.mark.slow),
        pytest.param({"window": 30}, marks=pytest.mark.slow),
        pytest.param({"streams": 2}, marks=pytest.mark.slow),
        pytest.param({"learner": rc.UORO()}, marks=pytest.mark.slow),
        {"net": network(phi=jnp.sin)},
        pytest.param({"net": rc.Network(rc.RNN(n_in=2, n=4), 2, random_feedback=True)}, marks=pytest.mark.slow),
        pytest.param({"vary": {"optimizer": {"a": rc.SGD(1e-3, 0.5), "b": rc.Adam(1e-2)}}}, marks=pytest.mark.slow),
    ],
)
def test_networks_of_other_settings_are_others(tmp_path, other):
    swept(tmp_path)
    found = swept(tmp_path, **other)
    assert count(tmp_path) == 8
    assert found.identical(swept(**other))


@pytest.mark.parametrize(
    ("name", "value"), [("threefry_partitionable", False), ("default_prng_impl", "rbg"), ("softmax_custom_jvp", True)]
)
def test_networks_with_other_settings_of_jax_are_others(tmp_path, name, value):
    """Parts of the library's own, which their account describes completely."""
    usual = swept(tmp_path)
    with getattr(jax, name)(value):
        found = swept(tmp_path)
        assert found.identical(swept())
    assert count(tmp_path) == 8
    assert swept(tmp_path).identical(usual)
    assert count(tmp_path) == 8


def test_keys_of_one_number_and_two_kinds_are_two_keys(tmp_path):
    for kind in ("rbg", "unsafe_rbg"):
        key = jax.random.key(3, impl=kind)
        assert swept(tmp_path, key=key).identical(swept(key=key))
    assert count(tmp_path) == 8


def test_under_jaxs_defaults_nothing_is_noted_of_its_settings():
    """So that folders made before they were noted stay valid."""
    assert unusual(jax.random.key(0)) == {}
    with jax.default_matmul_precision("bfloat16"):
        assert unusual(jax.random.key(0)) == {"jax": {"default_matmul_precision": "bfloat16"}}


class Doubled(rc.UnitwiseCell):
    """A cell of one's own, with a function that no description can tell."""

    n_in: int
    n: int
    factor: float = 2.0
    phi: object = eqx.field(static=True, default=jnp.tanh)
    w_rec: object = eqx.field(static=True, default=rc.cells.orthogonal)
    dtype: object = eqx.field(static=True, default=np.dtype("float32"))
    states = 1
    listens = ((True, True, True),)
    first_bias = (0.0,)

    def unit(self, a, z):
        return (self.phi(self.factor * z[0]),)


def test_a_part_of_ones_own_is_known_by_its_program_and_its_numbers(tmp_path):
    of = lambda **settings: rc.Network(Doubled(n_in=2, n=4, **settings), n_out=2)
    swept(tmp_path, net=of())
    assert count(tmp_path) == 4
    swept(tmp_path, net=of())
    assert count(tmp_path) == 4
    for number, other in enumerate(({"factor": 3.0}, {"phi": lambda z: jnp.tanh(z) / 2}), 2):
        found = swept(tmp_path, net=of(**other))
        assert count(tmp_path) == 4 * number
        assert found.identical(swept(net=of(**other)))


PROGRAM = """
    import sys, recurra as rc
    from recurra.training import orders
    orders.FIRST_STEPS, orders.SECONDS, orders.LEAST = 1, 0.0, 1
    rc.sweep(
        rc.Network(rc.RNN(n_in=2, n=4, dtype="float32"), n_out=2), rc.RFLO(), rc.Add(t1=1, t2=2), seeds=2, steps=60,
        progress=False, vary={"optimizer": [1e-3, 1e-2]}, folder=sys.argv[1],
    )
"""


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_sweep_in_python_outlives_its_process(tmp_path, number):
    """It ends itself after its second group."""
    kill = "from recurra.training.folder import Groups as G\nkeep, n = G.keep, []\n" + textwrap.dedent(
        f"""
        def killed(*arguments):
            keep(*arguments)
            n.append(1)
            if len(n) == 2:
                import os
                os.kill(os.getpid(), {int(number)})
        G.keep = killed
        """
    )
    command = [sys.executable, "-c", kill + textwrap.dedent(PROGRAM), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == (-number if number == signal.SIGKILL else 1), ended.stderr
    if number == signal.SIGTERM:
        assert "recurra.training.interrupts.Interrupted: Stopped after 120 of 240" in ended.stderr
    before = groups(tmp_path)
    assert len(before) == 2
    assert swept(tmp_path).identical(swept())
    assert before.items() < groups(tmp_path).items()
    assert count(tmp_path) == 4


def test_folders_that_cannot_be_used_are_refused_before_anything_runs(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="is a file"):
        swept(tmp_path / "file")
    swept(tmp_path / "new")
    path = next((tmp_path / "new" / "groups").iterdir())
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FolderError, match=rf"(?s){path.name}.*delete it"):
        swept(tmp_path / "new")
    os.unlink(path)
    (tmp_path / "new" / "groups" / "4-0123.nc").write_bytes(b"CDF")
    with pytest.raises(FolderError, match=r"recurra 0\.1"):
        swept(tmp_path / "new")


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".data.partial").write_text("half of it")
    with pytest.raises(FolderError, match="belong to no sweep, such as mine: choose an empty or new folder"):
        swept(tmp_path)
    assert (tmp_path / "mine" / ".data.partial").read_text() == "half of it"
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}


def test_a_folder_that_a_study_has_is_refused(tmp_path):
    study = Study.of_text('learners = ["rflo"]\n[vary]\nlearning_rate = [0.1]\n')
    held = Folder(tmp_path / "out").held(study, lambda groups: False)
    with held, pytest.raises(FolderError, match="in use by another sweep"):
        swept(tmp_path / "out")
    with pytest.raises(FolderError, match=r"such as study\.toml"):
        swept(tmp_path / "out")


def aged(folder):
    """Let all groups have been made with another version of JAX, in which programs are written otherwise."""
    for path in (folder / "groups").iterdir():
        arrays, about = archive.read(path, KIND)
        about["versions"]["jax"] = "0.0.1"
        about["cases"] = [
            [f"0{digest[1:]}" if about["unknown"][at] else digest, account, at]
            for digest, account, at in about["cases"]
        ]
        archive.write(path, KIND, arrays, about)


def test_networks_of_other_versions_are_taken_and_named(tmp_path):
    first = swept(tmp_path)
    aged(tmp_path)
    with pytest.warns(UserWarning, match=r"4 networks with jax 0\.0\.1.*last bits may differ\.$"):
        assert swept(tmp_path).identical(first)
    assert count(tmp_path) == 4


def test_functions_that_cannot_be_compared_with_other_versions_are_named(tmp_path):
    net = rc.Network(Doubled(n_in=2, n=4), n_out=2)
    first = swept(tmp_path, net=net)
    aged(tmp_path)
    with pytest.warns(UserWarning, match=r"cannot be told whether these are as they were: .*Doubled"):
        assert swept(tmp_path, net=net).identical(first)
    other = rc.Network(Doubled(n_in=2, n=4, factor=3.0), n_out=2)
    assert swept(tmp_path, net=other).identical(swept(net=other))
    assert count(tmp_path) == 8


@pytest.mark.parametrize("partial", [functools.partial, jax.tree_util.Partial])
def test_arguments_that_a_function_was_given_tell_it_from_others(tmp_path, partial):
    """Both have the name of one function of JAX."""
    with_slope = lambda slope: network(phi=partial(jax.nn.leaky_relu, negative_slope=slope))
    first, other = (swept(tmp_path, net=with_slope(slope)) for slope in (0.1, 0.9))
    assert count(tmp_path) == 8
    assert other.identical(swept(net=with_slope(0.9)))
    assert not np.array_equal(first["loss"], other["loss"])


def test_what_a_function_encloses_tells_networks_of_other_versions_apart(tmp_path):
    rules = {"optimizer": {"slow": optax.sgd(1e-3, 0.9), "fast": optax.sgd(1e-1, 0.9)}}
    first = swept(tmp_path, rules)
    assert not np.array_equal(first["loss"][0], first["loss"][1])
    aged(tmp_path)
    with pytest.warns(UserWarning, match="cannot be told whether these are as they were: .*optax"):
        assert swept(tmp_path, rules).identical(first)
    assert count(tmp_path) == 4


def test_networks_of_other_versions_that_cannot_be_told_apart_are_computed_again(tmp_path):
    """Two functions of one name, which enclose nothing."""
    vary = {"network.cell.phi": {"tanh": lambda z: jnp.tanh(z), "sine": lambda z: jnp.sin(z)}}
    first = swept(tmp_path, vary)
    aged(tmp_path)
    assert swept(tmp_path, vary).identical(first)
    assert count(tmp_path) == 8
    only = {"network.cell.phi": {"sine": vary["network.cell.phi"]["sine"]}}
    assert np.array_equal(swept(tmp_path, only)["loss"][0], first["loss"][1])


def test_a_function_under_the_name_of_another_is_told_from_it(tmp_path):
    doubled = functools.wraps(jnp.tanh)(lambda z: 2 * jnp.tanh(z))
    first, other = (swept(tmp_path, net=network(phi=phi)) for phi in (jnp.tanh, doubled))
    assert not np.array_equal(first["loss"], other["loss"])


def test_a_network_that_cannot_be_computed_here_is_an_error_and_the_others_are_kept(tmp_path, monkeypatch):
    from recurra.training import sweep as module

    compute = module.compute

    def failing(order, **how):
        if order.points == (1,):
            raise MemoryError("it is too large")
        return compute(order, **how)

    monkeypatch.setattr(module, "compute", failing)
    monkeypatch.setattr(orders, "FIRST_STEPS", 1)
    monkeypatch.setattr(orders, "LEAST", 2)
    with pytest.raises(MemoryError, match="too large"):
        swept(tmp_path)
    assert count(tmp_path) == 2
    monkeypatch.setattr(module, "compute", compute)
    assert swept(tmp_path).identical(swept())


def test_processes_compute_the_bits_of_this_one(tmp_path):
    """Also with parts that only this program knows, and with its settings of JAX."""
    for net in (network(), rc.Network(Doubled(n_in=2, n=4), n_out=2)):
        with jax.threefry_partitionable(False):
            with_processes = swept(place=rc.places.Processes(2), net=net)
            assert with_processes.identical(swept(net=net))


def test_a_group_has_room_for_thousands_of_networks_with_functions_of_their_own(tmp_path):
    identities = [Identity(f"{i:064d}", f"{i:064d}", ("somewhere.a_function_of_mine",) * 99) for i in range(4096)]
    points, key = tuple(range(4096)), (np.zeros(2, np.uint32), "threefry2x32")
    order = Order(Sent([], []), points, tuple(Member(i, 0) for i in points), 1, key, versions())
    (tmp_path / "groups").mkdir()
    Groups(tmp_path).keep(order, Computed({}, {}, {}, 0.0, 0.0, "", ""), identities)
    assert [known for group in Groups(tmp_path) for known, _ in group.known_as] == identities


def test_each_group_is_read_once(tmp_path, monkeypatch):
    read, opened = archive.read, []
    monkeypatch.setattr(archive, "read", lambda path, kind: opened.append(path) or read(path, kind))
    swept(tmp_path)
    groups = Groups(tmp_path)
    assert [len(list(groups)), len(list(groups)), len(opened)] == [1, 1, 1]
