"""`live`: all seeds of an agent in an environment, with progress, checkpoints, and everything as a data set."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from recurra import checks
from recurra.engine.settings import unusual
from recurra.rl.adapters import Gymnasium, RowLives
from recurra.rl.agents import Agent
from recurra.rl.environments import Environment, check_environment
from recurra.rl.lives import Experience, Lives, Stage, identity, step
from recurra.training import arguments
from recurra.training.checkpoint import EVERY, Checkpoint
from recurra.training.console import warn
from recurra.training.identity import Account
from recurra.training.interrupts import Interrupted, asked_to_stop
from recurra.training.progress import progress as show_progress

if TYPE_CHECKING:
    import xarray

#: steps of a window, unless the life is too short to have a hundred of them
WINDOW = 1000


@dataclasses.dataclass(frozen=True, eq=False)
class Life:
    """What `recurra.rl.live` returns. Rows are seeds, in the order of `seeds`.

    `reward` and `squared_error` are means over windows of steps, the latter of δ², and `step` is the step after which
    each window ends. `returns` and `ends` have an array for each seed: the return of each episode, and the step after
    its last one. `diverged` maps a seed to the step at which a reward or δ was first not finite. `stages` are the
    states of agents and environments, with a leading axis over seeds.

    >>> environment = rc.rl.MemoryChain(length=2)
    >>> agent = rc.rl.AC(rc.RTU(environment.n_in, 8), rc.RTRL(), environment.actions)
    >>> life = rc.rl.live(agent, environment, steps=300, seeds=2)
    >>> life.reward.shape, len(life.returns[0])
    ((2, 100), 100)
    """

    seeds: tuple[int, ...]
    steps: int
    step: np.ndarray
    reward: np.ndarray
    squared_error: np.ndarray
    returns: list[np.ndarray]
    ends: list[np.ndarray]
    diverged: dict[int, int]
    stages: Stage | None
    interrupted: bool
    #: the time that the call took, and the step at which it went on from a checkpoint
    seconds: float
    resumed_at: int = 0

    def __repr__(self) -> str:
        last = self.last_return()
        told = f"mean return {np.mean(last):.3g}" if np.isfinite(last).any() else "no whole episode"
        return f"Life({len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}, {self.steps:,} steps, {told})"

    def last_return(self, last: float = 0.1) -> np.ndarray:
        """Each seed's mean return of the episodes that ended in the last part of the steps; nan where none did."""
        begins = self.steps * (1 - last)
        late = [returns[ends > begins] for returns, ends in zip(self.returns, self.ends, strict=True)]
        mean = np.array([each.mean() if len(each) else np.nan for each in late])
        return np.where([seed in self.diverged for seed in self.seeds], np.nan, mean)

    def stage_of(self, seed: int) -> Stage:
        """The states of one seed's agent and environment, such as for `recurra.rl.watch`."""
        if self.stages is None:
            raise ValueError("The environment is stepped from Python, so that its state cannot be taken out.")
        if seed not in self.seeds:
            raise ValueError(f"`seed` must be one of {self.seeds}, and is {seed!r}.")
        return jax.tree.map(lambda leaf: leaf[self.seeds.index(seed)], self.stages)

    def to_xarray(self) -> "xarray.Dataset":
        """All of it as a data set. Seeds with fewer episodes than others have nan, and an end of -1, in their place."""
        try:
            import xarray
        except ImportError as error:
            raise ImportError(
                "`to_xarray` needs xarray, which is not installed: pip install 'recurra[results]'"
            ) from error

        most = max(map(len, self.returns), default=0)
        padded = lambda rows, fill: np.array([np.append(row, np.full(most - len(row), fill)) for row in rows])
        ends = padded(self.ends, -1).astype(np.int64)
        first = [np.append(0, row[:-1]) if len(row) else row for row in self.ends]
        length = padded([end - begin for end, begin in zip(self.ends, first, strict=True)], 0).astype(np.int64)
        data = xarray.Dataset(
            {
                "reward": (("seed", "step"), self.reward),
                "squared_error": (("seed", "step"), self.squared_error),
                "episode_return": (("seed", "episode"), padded(self.returns, np.nan)),
                "episode_length": (("seed", "episode"), length),
                "episode_end": (("seed", "episode"), ends),
                "last_return": ("seed", self.last_return()),
                "diverged_at": ("seed", [self.diverged.get(seed, -1) for seed in self.seeds]),
            },
            coords={"seed": list(self.seeds), "step": self.step, "episode": np.arange(most)},
            attrs={"steps": self.steps, "interrupted": int(self.interrupted)},
        )
        names = {
            "reward": "mean reward of a step",
            "squared_error": "mean square of δ",
            "episode_return": "sum of an episode's rewards",
            "episode_length": "steps of an episode",
            "episode_end": "step after an episode's last one",
            "last_return": "mean return over the last tenth of the steps",
            "diverged_at": "first step that was not finite; -1: none",
        }
        for name, told in names.items():
            data[name].attrs["long_name"] = told
        return data


def live(
    agent: Any,
    environment: Any,  # an `Environment`, or `Gymnasium`
    steps: int,
    seeds: int | Sequence[int] = 1,
    *,
    key: int | PRNGKeyArray = 0,
    window: int | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int | float = EVERY,
    progress: bool | Callable[[int], None] = True,
) -> Life:
    """Let an agent live for so many steps, every seed at once on all cores or the GPU.

    `seeds` is how many, or which. Rewards are averaged over a `window` of steps. With a file for `checkpoint` the lives
    are kept there every `checkpoint_every` seconds and when they stop, and the same call goes on from it, to the same
    bits. `progress` shows a bar, or is called with the number of steps done. Ctrl-C, SIGTERM and SIGHUP end the lives
    after the steps that are being computed, and raise `recurra.Interrupted` with the `result` so far.

    An environment that does not fit the agent is a ValueError, and one that is not written in JAX a TypeError, before
    anything runs. Where rewards or errors are no longer finite the seed is warned of, and noted in `Life.diverged`.

    >>> environment = rc.rl.TMaze(length=3)
    >>> agent = rc.rl.Q(rc.GRU(environment.n_in, 8), rc.SnAp1(), environment.actions)
    >>> data = rc.rl.live(agent, environment, steps=500, seeds=2).to_xarray()
    >>> data.reward.dims
    ('seed', 'step')
    """
    which, root = arguments.which(seeds), checks.key_of(key)
    if checks.whole_number("`steps`", steps) >= 2**31:
        raise ValueError(f"`steps` must be below 2³¹, and is {steps}.")
    arguments.check_seconds("`checkpoint_every`", checkpoint_every)
    window = checks.whole_number("`window`", max(1, min(WINDOW, steps // 100)) if window is None else window)
    _check(agent, environment)
    kind = Lives if isinstance(environment, Environment) else RowLives
    if kind is RowLives and checkpoint is not None:
        raise ValueError(
            f"Lives in {environment.name} cannot be kept in a `checkpoint`, since the state of an environment of "
            "Gymnasium is out of reach: leave `checkpoint` out, or take one written in JAX, such as "
            "recurra.rl.Gymnax(name)."
        )
    about: dict[str, Any] = {**unusual(root), "window": window, "seeds": list(which)}
    kept = Checkpoint(
        arguments.checkpoint_path(checkpoint),
        checkpoint_every,
        steps,
        lambda: identity(agent, environment, root, about),
        lambda: Account.of({**about, "key": jax.random.key_data(root), "parts": [agent, environment]}),
    )
    label = f"{type(agent).__name__} in {environment.name}, {len(which)} seed{'s' * (len(which) > 1)}"
    began = time.perf_counter()
    with kept.held(), asked_to_stop() as asked, show_progress(label, steps, progress) as report:
        lives = cast(Any, kind)(agent, environment, root, which)
        gathered = Experience(which, window)
        kept.load(lives, gathered)
        report(first := lives.done)
        try:
            for happened in () if asked.signal else lives.advance(steps):
                gathered.append(happened)
                kept.keep(lives, gathered)
                report(lives.done)
                if asked.signal:
                    break
        finally:  # `report` may end the run by raising
            lives.close()
            if lives.done > first and gathered.seen == lives.done:
                kept.keep(lives, gathered, now=True)
        life = _life(which, lives, gathered, bool(asked.signal), time.perf_counter() - began, first)
    if life.diverged:
        seed, at = min(life.diverged.items(), key=lambda pair: pair[1])
        warn(
            f"{len(life.diverged):,} of {len(which):,} seeds diverged, as `Life.diverged` has it, the first of them "
            f"seed {seed} at step {at:,}: a reward or an error was not finite. Look whether the environment returns "
            "such numbers; else try a lower learning rate.",
            stacklevel=2,
        )
    if asked.signal:
        goes_on = f", and in {checkpoint}, from which the same call goes on" if kept.kept_at == life.steps > 0 else ""
        raise Interrupted(
            f"Stopped after {life.steps:,} of {steps:,} steps: what there is is in the exception's `result`{goes_on}.",
            life,  # pyright: ignore[reportArgumentType]
            asked.signal,
        )
    return life


def _check(agent: Any, environment: Any) -> None:
    if not isinstance(agent, Agent):
        raise TypeError(f"`agent` must be one such as recurra.rl.AC(...), and is {agent!r:.100}.")
    if not isinstance(environment, Environment | Gymnasium):
        raise TypeError(
            f"`environment` must be one of recurra.rl, such as MemoryChain(length=8), and is {environment!r:.100}. "
            "recurra.rl.Gymnax(name) takes in those of Gymnax, and recurra.rl.Gymnasium(name) those of Gymnasium."
        )
    wanted, made = environment.actions, agent.actions
    size = lambda actions: (type(actions), getattr(actions, "n", None))
    if made is not None and size(made) != size(wanted):
        raise ValueError(
            f"The actions of {environment.name} are {wanted}, and the agent's are {made}: make the agent with "
            "actions=environment.actions."
            if wanted is not None
            else f"{environment.name} takes no actions: it is there to be predicted, by recurra.rl.TD."
        )
    if environment.n_in != agent.n_in:
        raise ValueError(
            f"Observations of {environment.name} have {environment.n_in} numbers, and the agent takes {agent.n_in}: "
            f"make its cell or encoder with n_in={environment.n_in}."
        )
    if isinstance(environment, Environment):
        choose = lambda key: agent.act(agent.init(key), jnp.zeros(agent.n_in), key)[1]
        check_environment(environment, jax.eval_shape(choose, jax.random.key(0)))


def _life(
    which: Sequence[int],
    lives: Lives | RowLives,
    gathered: Experience,
    interrupted: bool,
    seconds: float,
    resumed_at: int,
) -> Life:
    return Life(
        seeds=tuple(which),
        steps=lives.done,
        step=gathered.reward.ends(),
        reward=gathered.reward.means(),
        squared_error=gathered.squared.means(),
        returns=[np.array(returns) for returns, _ in gathered.episodes],
        ends=[np.array(ends, np.int64) for _, ends in gathered.episodes],
        diverged={**gathered.squared.diverged, **gathered.reward.diverged},
        stages=lives.stages(),
        interrupted=interrupted,
        seconds=seconds,
        resumed_at=resumed_at,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Scene:
    """Some steps of a life, each array with a leading axis over them. `states` are those before each step.

    `outputs` are what the agent's network said of each observation: for AC the value, then what the policy is made of.

    >>> environment = rc.rl.MemoryChain(length=2)
    >>> agent = rc.rl.AC(rc.RTU(environment.n_in, 8), rc.RTRL(), environment.actions)
    >>> life = rc.rl.live(agent, environment, steps=300)
    >>> scene = rc.rl.watch(agent, environment, life.stage_of(0), steps=9)
    >>> scene.observations.shape, scene.ends.sum()
    ((9, 3), np.int64(3))
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    ends: np.ndarray
    outputs: np.ndarray
    states: PyTree


def watch(agent: Agent, environment: Environment, stage: Stage, steps: int, key: int | PRNGKeyArray = 0) -> Scene:
    """Let one agent live on from a stage, such as `Life.stage_of(seed)`, and keep all that it sees and does.

    It goes on learning meanwhile. An example is in `recurra.rl.Scene`.

    >>> environment = rc.rl.TMaze(length=2)
    >>> agent = rc.rl.AC(rc.RTU(environment.n_in, 8), rc.RTRL(), environment.actions)
    >>> life = rc.rl.live(agent, environment, steps=100)
    >>> rc.rl.watch(agent, environment, life.stage_of(0), steps=5).states.place.shape
    (5,)
    """
    steps = checks.whole_number("`steps`", steps)

    def take(stage: Stage, key: PRNGKeyArray) -> tuple[Stage, tuple]:
        after, action, outcome = step(agent, environment, stage, key)
        ends = outcome.terminated | outcome.truncated
        seen = stage.observation, action, outcome.reward, ends, agent.outputs(after.agent), stage.environment
        return after, seen

    scan = jax.jit(lambda stage, keys: jax.lax.scan(take, stage, keys)[1])
    return Scene(*jax.tree.map(np.asarray, scan(stage, jax.random.split(checks.key_of(key), steps))))
