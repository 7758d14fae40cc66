"""What the rules for an encoder are worth: labels that come two steps late, and features that only an encoder can make.

    python benchmarks/encoders.py --out docs/how-to/encoders.json

At each step an input has two signs and four distracting numbers. The label, two steps later, is whether the signs were
equal. No linear map of an input tells that, so the encoder must learn it, from credit that comes two steps late. Every
way starts from the same weights, and sees the same rows. Written before any run: a way that has the whole past is
expected below the frozen encoder, and `PresentStep` is judged against the frozen encoder by a paired difference over
seeds.
"""

import argparse
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import recurra as rc

SIGNS, OTHERS, LATE = 2, 4, 2
WIDTH, N = 8, 16


class LateEquality(rc.Task):
    """Whether two signs were equal, two steps ago."""

    n_in, n_out = SIGNS + OTHERS, 2

    def init(self, key, dtype):
        return jnp.zeros(LATE, "int32")

    def block(self, state, key, number, dtype):
        key_signs, key_others = jax.random.split(key)
        signs = jax.random.rademacher(key_signs, (rc.BLOCK, SIGNS), dtype)
        others = jax.random.normal(key_others, (rc.BLOCK, OTHERS), dtype)
        equal = jnp.concatenate([state, (signs[:, 0] == signs[:, 1]).astype("int32")])
        label = jax.nn.one_hot(equal[: rc.BLOCK], 2, dtype=dtype)
        return rc.Rows(jnp.concatenate([signs, others], axis=1), label), equal[rc.BLOCK :]


def encoder(key):
    return eqx.nn.MLP(SIGNS + OTHERS, WIDTH, width_size=16, depth=1, activation=jnp.tanh, key=key)


def network():
    """Every seed draws an encoder and a cell of its own."""
    module = rc.module_of(encoder(jax.random.key(0)), x=SIGNS + OTHERS, init=encoder)
    return rc.Network(rc.Encoded(module, rc.GRU(WIDTH, N)), n_out=2)


def ways():
    """The rules for the encoder, beside two learners of the cell."""
    found = {"RTRL, encoder inside": rc.RTRL()}
    for learner in (rc.RTRL(), rc.SnAp1()):
        found |= {
            f"{learner.name}, all of J": rc.WithEncoder(learner, rc.Traced(whole=True)),
            f"{learner.name}, within units": rc.WithEncoder(learner, rc.Traced()),
            f"{learner.name}, present step": rc.WithEncoder(learner, rc.PresentStep()),
            f"{learner.name}, frozen": rc.WithEncoder(learner, rc.Frozen()),
        }
    return found


def main():
    given = argparse.ArgumentParser()
    given.add_argument("--out", type=Path, default=Path("docs/how-to/encoders.json"))
    given.add_argument("--steps", type=int, default=30_000)
    given.add_argument("--seeds", type=int, default=10)
    asked = given.parse_args()
    rows = []
    for name, learner in ways().items():
        result = rc.train(
            network(), learner, LateEquality(), steps=asked.steps, seeds=asked.seeds, optimizer=rc.Adam(3e-3),
            window=asked.steps // 50, progress=False,
        )  # fmt: skip
        loss = result.final_loss()
        rows.append({"way": name, "final_loss": loss.tolist(), "curve": result.loss.mean(axis=0).tolist()})
        spread = rc.standard_error(loss)
        print(f"{name:24} {loss.mean():.3f} ± {spread:.3f}   {result.seconds:.0f} s", flush=True)
    by_way = {row["way"]: np.array(row["final_loss"]) for row in rows}
    for learner in ("RTRL", "SnAp-1"):
        apart = by_way[f"{learner}, present step"] - by_way[f"{learner}, frozen"]
        print(f"{learner}: present step - frozen {apart.mean():.3f} ± {rc.standard_error(apart):.3f}")
    asked.out.write_text(json.dumps({"steps": asked.steps, "seeds": asked.seeds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
