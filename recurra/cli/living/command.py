"""`recurra live`: its options, agents that live one after the other, and what is kept and said of them."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recurra.cli import stopping
from recurra.cli.environment import CommandError, check_device, need
from recurra.cli.output import folder_errors
from recurra.cli.tables import print_table
from recurra.cli.train import pair_of
from recurra.training.console import say

if TYPE_CHECKING:
    from recurra.rl import Life

AGENT, ENVIRONMENT, OUTPUT = "Agent", "Environment", "Output"
AGENTS = ("ac", "q", "sarsa", "td")


def _option(help: str, panel: str, *flags: str, **how: Any) -> Any:
    return typer.Option(*flags, help=help, rich_help_panel=panel, **how)


def live_command(
    env: Annotated[
        str, _option("memory-chain, t-maze, ..., gymnax:NAME or gymnasium:NAME; `--env list` names ours.", ENVIRONMENT)
    ],
    settings: Annotated[
        list[str] | None,
        _option("A setting of the environment, such as length=16; repeat for several.", ENVIRONMENT, "--set"),
    ] = None,
    seen: Annotated[
        str | None, _option("The entries of an observation that are seen, as 0,2; the others are hidden.", ENVIRONMENT)
    ] = None,
    agent: Annotated[str, _option("ac, q, sarsa or td.", AGENT)] = "ac",
    learners: Annotated[
        list[str] | None,
        _option("Past-facing learner, or bptt:8 for a window of 8 steps; repeat for several.", AGENT, "--learner"),
    ] = None,
    cell: Annotated[str, _option("Its cell, as `recurra train` has them.", AGENT)] = "rtu",
    n: Annotated[int, _option("Its units.", AGENT, min=1)] = 24,
    optimizer: Annotated[str, _option("adam, sgd, rmsprop, obgd or adaptive-obgd.", AGENT)] = "adam",
    learning_rate: Annotated[float | None, _option("Its step size; that of the optimizer.", AGENT)] = None,
    gamma: Annotated[float, _option("Discount of later rewards.", AGENT)] = 0.95,
    lamda: Annotated[float, _option("How far traces reach back.", AGENT)] = 0.9,
    normalise: Annotated[bool, _option("Normalise observations and rewards.", AGENT, "--normalise")] = False,
    steps: Annotated[int, _option("Steps that each seed lives.", OUTPUT, min=1)] = 50_000,
    seeds: Annotated[int, _option("Independent lives, all at once.", OUTPUT, min=1)] = 8,
    key: Annotated[int, _option("Start of all random numbers.", OUTPUT, min=0, max=2**32 - 1)] = 0,
    out: Annotated[Path | None, _option("Write lives.nc and a page into this folder.", OUTPUT)] = None,
    as_json: Annotated[
        bool, _option("Print JSON for programs, and nothing else, on standard output.", OUTPUT, "--json")
    ] = False,
) -> None:
    """Let agents learn while they live, and compare what they earn.

    For example: recurra live --env t-maze --set length=10 --learner rtrl --learner immediate --out maze

    With --out each learner's lives are kept in the folder, and the same command goes on from there.
    """
    if out is not None:
        need("stream", "`recurra live --out`")
        need("results", "`recurra live --out`")
    check_device()
    from recurra import rl

    if env == "list":
        for name, kind in rl.ENVIRONMENTS.items():
            print(f"{name:<20} {(kind.__doc__ or '').splitlines()[0]}")
        return
    try:
        environment = _environment(env, settings or [], seen)
        names = learners or ["rtrl"]
        how = (agent, cell, n, optimizer, learning_rate, gamma, lamda, normalise)
        agents = {name: _agent(environment, name, *how) for name in names}
    except (TypeError, ValueError, ImportError) as error:
        raise CommandError(str(error)) from None
    asked = {"environment": f"{env} {' '.join(settings or [])}".strip(), "agent": agent, "cell": cell, "n": n}
    asked |= {"optimizer": optimizer, "learning rate": learning_rate, "gamma": gamma, "lamda": lamda}
    asked |= {"normalised": normalise, "seen": seen, "steps": steps, "seeds": seeds, "key": key}
    raise typer.Exit(_lived(agents, environment, steps, seeds, key, out, as_json, asked))


def _lived(
    agents: dict[str, Any],
    environment: Any,
    steps: int,
    seeds: int,
    key: int,
    out: Path | None,
    as_json: bool,
    asked: dict[str, Any],
) -> int:
    """Let each agent live and keep what is there; the exit status."""
    import recurra
    from recurra import rl

    status, lives = 0, dict[str, "Life"]()
    if out is not None:
        with folder_errors(out):
            out.mkdir(parents=True, exist_ok=True)
    stopping.hand_over()
    for name, agent in agents.items():
        file: dict[str, Any] = {}
        if out is not None and isinstance(environment, rl.Environment):
            file["checkpoint"] = out / f"{name.replace(':', '-')}.life"
        try:
            lives[name] = rl.live(agent, environment, steps, seeds, key=key, **file)
        except recurra.Interrupted as stopped:
            status = stopping.status(stopped)
            if stopped.result.steps:
                lives[name] = stopped.result
            break
        except (ValueError, TypeError) as error:  # the environment, or a checkpoint, is not as it should be
            raise CommandError(str(error)) from None
    rows = {name: _summary(life) for name, life in lives.items()}
    if as_json:
        print(json.dumps({"settings": asked, "lives": rows, "interrupted": bool(status)}, indent=2))
    else:
        told = lambda value: "–" if value is None else f"{value:,.3g}" if isinstance(value, float) else f"{value:,}"
        header = ("Learner", "Last return", "±", "Episodes", "Diverged", "Steps/s")
        print_table(header, [(name, *map(told, row.values())) for name, row in rows.items()])
    if out is not None and lives:
        from recurra.cli.living.page import write_lives

        with folder_errors(out):
            say(f"See {write_lives(out, agents, environment, lives, rows, asked)}")
    if status:
        say("Interrupted." + " The same command goes on from there." * (out is not None))
    return status


def _summary(life: "Life") -> dict[str, Any]:
    """What a life came to: numbers that are not known are None."""
    import numpy as np

    import recurra

    last = life.last_return()
    known = last[np.isfinite(last)]
    taken = life.steps - life.resumed_at
    number = lambda value: float(value) if np.isfinite(value) else None
    return {
        "last_return": number(known.mean()) if len(known) else None,
        "standard_error": number(recurra.standard_error(known)) if len(known) > 1 else None,
        "episodes": sum(map(len, life.returns)),
        "diverged": len(life.diverged),
        # compilation included; nothing is known of what was only read
        "steps_per_second": round(taken * len(life.seeds) / life.seconds) if taken else None,
    }


def _environment(env: str, settings: list[str], seen: str | None) -> Any:
    """The environment of a name; ValueError, TypeError or ImportError says what is wrong with it."""
    from recurra import rl

    given = dict(map(pair_of, settings))
    try:
        entries = None if seen is None else tuple(int(part) for part in seen.split(","))
    except ValueError:
        raise ValueError(f"`seen` must list entries of an observation, as --seen 0,2, and is {seen!r}.") from None
    source, colon, name = env.partition(":")
    if colon and source in ("gymnax", "gymnasium"):
        return (rl.Gymnax if source == "gymnax" else rl.Gymnasium)(name, entries, **given)
    if env not in rl.ENVIRONMENTS:
        known = ", ".join(rl.ENVIRONMENTS)
        raise ValueError(f"`env` is {env!r}, which is unknown: choose from {known}, gymnax:NAME or gymnasium:NAME.")
    kind = rl.ENVIRONMENTS[env]
    dial, *others = (field.name for field in dataclasses.fields(kind))  # its length, which has no default
    unknown = given.keys() - {dial, *others}
    if unknown:
        raise ValueError(f"{env} has no setting {sorted(unknown)[0]!r}, but: {', '.join([dial, *others])}.")
    environment: Any = kind(**{dial: 8, **given})
    return environment if entries is None else rl.Masked(environment, entries)


def _agent(
    environment: Any,
    learner: str,
    agent: str,
    cell: str,
    n: int,
    optimizer: str,
    learning_rate: float | None,
    gamma: float,
    lamda: float,
    normalise: bool,
) -> Any:
    """The agent that is asked for; ValueError or TypeError says what is wrong with it."""
    import recurra
    from recurra import checks, rl

    checks.one_of("`agent`", agent, AGENTS)
    checks.one_of("`cell`", cell, recurra.CELLS)
    checks.one_of("`optimizer`", optimizer, recurra.OPTIMIZERS)
    kind: Any = recurra.OPTIMIZERS[optimizer]
    rule = kind() if learning_rate is None else kind(learning_rate)
    cells: Any = recurra.CELLS[cell]
    parts = cells(environment.n_in, n), _learner(learner)
    if agent == "td":
        made: Any = rl.TD(*parts, gamma=(gamma,), optimizer=rule, lamda=lamda)
    else:
        kinds: Any = {"ac": rl.AC, "q": rl.Q, "sarsa": rl.SARSA}
        if environment.actions is None:
            raise ValueError(f"{environment.name} takes no actions: it is there to be predicted, with --agent td.")
        made = kinds[agent](*parts, environment.actions, rule, gamma=gamma, lamda=lamda)
    return rl.Normalised(made, gamma=gamma) if normalise else made  # pyright: ignore[reportCallIssue]


def _learner(name: str) -> Any:
    import recurra
    from recurra import checks, rl

    kind, colon, window = name.partition(":")
    if kind == "bptt" and colon:
        if not window.isdigit():
            raise ValueError(f"`learner` is {name!r}: write the steps of the window as a number, such as bptt:8.")
        return rl.TruncatedBPTT(int(window))
    checks.one_of("`learner`", name, recurra.LEARNERS)
    return recurra.LEARNERS[name]()
