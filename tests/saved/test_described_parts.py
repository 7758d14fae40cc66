"""Networks, learners and their like come back from JSON as they were, and nothing else is ever built from it."""

import dataclasses
import json
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recurra as rc
from recurra.checks import Part
from recurra.engine.forms import FORMS, LazyRTRL
from recurra.online import keeping  # noqa: F401 (it registers what online models are made of)
from recurra.saved import parts
from recurra.saved.parts import FUNCTIONS, PARTS, NotDescribedError, described, rebuilt


def step_of(learner=None, cell=None, **how):
    network = rc.Network(cell or rc.RNN(2, 3), 2, how.pop("loss", rc.SquaredError()), how.pop("random_feedback", False))
    return rc.LearningStep(network, learner or rc.RFLO(), how.pop("rate", 0.1), **how)


EXAMPLES = [
    *(kind() for kind in rc.LEARNERS.values()), LazyRTRL(span=3), *(kind() for kind in FORMS[1:]),
    rc.Layered((rc.UORO(), rc.RFLO()), rc.RandomTargets()), rc.Layered(rc.PPProp(), rc.LocalLosses()),
    rc.WithEncoder(rc.RFLO()), rc.WithEncoder(rc.RTRL(), rc.Traced(whole=True)), rc.WithEncoder(rc.UORO(), None),
    rc.WithEncoder(rc.SnAp1(), rc.PresentStep()), rc.WithEncoder(rc.SnAp1(), rc.Frozen()),
    rc.SquaredError(), rc.SoftmaxCrossEntropy(), rc.SigmoidCrossEntropy(), rc.FiringRate(),
    *(kind(2, 3) for kind in rc.cells.CELLS.values()), rc.Stack(rc.RTU(2, 3), rc.GRU(6, 2)),
    *(rc.LIF(2, 3, surrogate=surrogate) for surrogate in FUNCTIONS["surrogate"].values()),
    rc.RNN(2, 3, w_rec=rc.cells.Sparsely(0.5, seed=4)),
    *(rc.GRU(2, 3, rc.cells.WithoutSelf(drawn)) for drawn in FUNCTIONS["drawn"].values()),
    rc.GRU(2, 3, rc.cells.diagonal, jnp.dtype("bfloat16")), rc.LSTM(1, 2, w_rec=rc.cells.symmetric),
    *(rc.RNN(2, 3, alpha=0.1 + 0.2, phi=phi, w_rec=rc.cells.gaussian) for phi in FUNCTIONS["phi"].values()),
    *(rc.UORO(nu=nu, initial_scale=1e-300) for nu in FUNCTIONS["nu"].values()),
    rc.KFRTRL(initial_scale=jnp.float32(0.1)), rc.KeRNL(learning_rate=np.float64(0.3), late_perturbation=True),
    rc.SGD(0.1, 0.9), rc.Adam(1e-3, clip=1.0), rc.RMSProp(1e-3, decay=0.5), rc.RLS(),
    rc.ObGD(kappa=3.0), rc.AdaptiveObGD(decay=0.99),
    *(kind() for name, kind in rc.TASKS.items() if name != "digits"), rc.Mimic(rc.GRU(2, 3), outputs=4),
    rc.PerGate(rc.LRU(2, 3), rc.SGD(0.1, 0.9), {"nu": rc.Adam(1e-4)}), rc.DelayedStep(step_of(rate=rc.Adam()), rows=3),
    step_of(), step_of(rc.UORO(), rc.LSTM(2, 3), streams=3, random_feedback=True),
    step_of(probes={"a.b": rc.DNI(target_interval=7), "": rc.RTRL(), "ü": rc.Fixed()}, rate=0.0),
]  # fmt: skip


def fields_of(part):
    """Every field by its value, parts by their own fields, numbers as Python has them."""
    if isinstance(part, Part):
        return type(part), {f.name: fields_of(getattr(part, f.name)) for f in dataclasses.fields(part)}
    if isinstance(part, dict):
        return {name: fields_of(value) for name, value in part.items()}
    if isinstance(part, tuple):
        return tuple(map(fields_of, part))
    return part.item() if isinstance(part, jax.Array) else part


@pytest.mark.parametrize("part", EXAMPLES, ids=lambda part: type(part).__name__)
def test_parts_come_back_from_json(part):
    text = json.dumps(described(part), allow_nan=False)
    found = rebuilt(json.loads(text))
    assert fields_of(found) == fields_of(part)
    assert json.dumps(described(found)) == text


def test_every_part_of_the_table_has_an_example():
    seen = set()

    def walk(part):
        seen.add(type(part).__name__)
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            for each in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]:
                if isinstance(each, Part):
                    walk(each)

    for part in EXAMPLES:
        walk(part)
    own = {name for name, kind in PARTS.items() if not kind.__module__.startswith(("recurra.online", "recurra.river"))}
    # The images of Digits are in a package that may not be installed, and an encoder is a module of a user's.
    assert own == seen | {"Digits", "Encoded"}
    assert {"Network", *(kind.__name__ for kind in rc.LEARNERS.values())} <= set(PARTS)


@settings(max_examples=200, deadline=None)
@given(number=st.floats(min_value=1e-30, allow_nan=False, allow_infinity=False, max_value=1.0))
def test_numbers_come_back_exactly(number):
    assert rebuilt(json.loads(json.dumps(described(rc.RNN(1, 1, alpha=number))))).alpha == number


def test_numbers_that_json_has_no_name_for(monkeypatch):
    class Unusual(Part):
        x: float
        y: tuple = ()
        phi: object = None

    monkeypatch.setattr(parts, "PARTS", {**PARTS})
    parts.register(Unusual)
    found = rebuilt(
        json.loads(json.dumps(described(Unusual(math.inf, (1, (math.nan, -0.0), "x"), jnp.tanh)), allow_nan=False))
    )
    assert (found.x, found.y[0], found.y[1][1], found.phi) == (math.inf, 1, 0.0, jnp.tanh)
    assert math.isnan(found.y[1][0])
    assert math.copysign(1, found.y[1][1]) == -1
    with pytest.raises(ValueError, match="another part called 'Unusual'"):
        parts.register(type("Unusual", (Part,), {}))


class Mine(rc.RNN):
    """A user's own cell."""


def test_a_field_that_had_another_name_in_an_earlier_version_is_found():
    for part in (rc.SGD(0.3, 0.9), rc.Adam(0.3)):
        document = described(part)
        document["fields"]["rate"] = document["fields"].pop("learning_rate")
        assert rebuilt(document) == part
    step = step_of(probes={"exact": rc.RTRL()}, streams=2)
    document = described(step)
    fields = document["fields"]
    learners = {"applied": fields.pop("learner"), **fields.pop("probes")["dict"]}
    fields |= {"learners": {"dict": learners}, "gaps": True, "resets": False}
    assert rebuilt(document) == step


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (Mine(2, 3), "Mine is none of"),
        (rc.Network(Mine(2, 3), 2), "`cell` of Network is a Mine"),
        (rc.RNN(2, 3, phi=lambda z: jnp.tanh(z)), "`phi` of RNN is the function '<lambda>'"),
        (rc.RNN(2, 3, w_rec=lambda key, n, dtype: jnp.eye(n, dtype=dtype)), "`w_rec` of RNN"),
        (step_of(rate=optax.sgd(1e-3, 0.9)), "`optimizer` of LearningStep is a GradientTransformation"),
        (
            rc.cell_of(eqx.nn.GRUCell(2, 3, key=jax.random.key(0)), carry=jnp.zeros(3), x=2, unitwise=False),
            "GeneralCell is none of",
        ),
        (rc.Arrays(np.ones((3, 1)), np.ones((3, 1))), "Arrays is none of"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_not_the_library_s_own_is_named(part, named):
    with pytest.raises(NotDescribedError, match=r"rc\.load\(path, like=model\)") as error:
        described(part)
    assert named in str(error.value)


def rnn(**changes):
    found = described(rc.RNN(2, 3))
    found["fields"] = {name: value for name, value in (found["fields"] | changes).items() if value != "absent"}
    return found


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"part": "os.system", "fields": {}}, "the part 'os.system' is unknown here"),
        ({"part": "Part", "fields": {}}, "the part 'Part' is unknown here"),
        ({"part": "RFLO", "fields": {"__class__": 1}}, "RFLO has no field '__class__'"),
        ({"part": "RFLO", "fields": {}, "more": 1}, "which is unknown here"),
        ({"part": ["RFLO"], "fields": {}}, "which is unknown here"),
        (rnn(n="absent"), "RNN has a field 'n', and the file gives no value for it"),
        (rnn(n=0), "RNN cannot be built as it is described: `n` of RNN must be at least 1"),
        (rnn(n=2**40), "`n` of RNN is 1,099,511,627,776, and no network is wider"),
        (rnn(n="3"), "RNN cannot be built as it is described"),
        (rnn(n=True), "RNN cannot be built as it is described"),
        (rnn(alpha="x"), "`alpha` of RNN must be of type float, and is 'x'"),
        (rnn(alpha=True), "`alpha` of RNN must be of type float, and is True"),
        (rnn(alpha={"float": "nan"}), "above 0.0"),
        (rnn(alpha={"float": "1e999"}), "which is unknown here"),
        (rnn(dtype={"dtype": "object"}), "which is unknown here"),
        (rnn(dtype={"dtype": "int32"}), "RNN cannot be built as it is described"),
        (rnn(phi={"function": "os.system"}), "`phi` of RNN is described as .* which is unknown here"),
        (rnn(phi={"function": "recurra.noise.signs"}), "which is unknown here"),
        (rnn(phi="jax.numpy.tanh"), "RNN cannot be built as it is described"),
        ({"part": "LazyRTRL", "fields": {"span": [3]}}, "`span` of LazyRTRL must be of type int"),
        ({"part": "Network", "fields": {}}, "Network has a field 'cell'"),
        (None, "a part such as a Network must be described, and None is"),
        ([], "must be described"),
        ("RFLO", "must be described"),
        ({}, "which is unknown here"),
        ({"dict": {"x": {"dict": 3}}}, "which is unknown here"),
    ],
)
def test_a_description_that_makes_no_sense_is_one_clear_error(document, message):
    with pytest.raises(ValueError, match=message):
        rebuilt(document)


def test_a_description_without_an_end_is_one_clear_error():
    document = {}
    document["dict"] = {"x": document}
    with pytest.raises(ValueError, match="nested too deeply"):
        rebuilt(document)


WORDS = [*PARTS, *FUNCTIONS["phi"], "float32", "inf"]
NAMES = ["part", "fields", "dict", "dtype", "function", "float", "n", "n_in", "cell", "phi"]
json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 100) | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(found=json_like | st.builds(lambda fields: {"part": "RNN", "fields": fields}, st.fixed_dictionaries({
    name: json_like for name in ("n_in", "n", "alpha", "phi", "w_rec", "dtype")
})))  # fmt: skip
@pytest.mark.slow
def test_any_other_description_is_a_part_or_a_value_error(found):
    try:
        part = rebuilt(found)
    except ValueError:
        return
    assert type(part) in PARTS.values()
