"""Agents that must remember: how far back each learner's agent can look, on equal steps, with rates tuned apart.

    python benchmarks/memory_agents.py --out FOLDER                         all tasks, one process a core
    python benchmarks/memory_agents.py --out FOLDER --tasks chain           MemoryChain; maze, cards, pole likewise
    python benchmarks/memory_agents.py --out FOLDER --agents "RTU,*" --lengths 4 16 --seeds 4 --steps 20000

Each case, an agent on a task, is one process on one core, with all seeds vmapped. It is written to FOLDER/cases as soon
as it is done, and not computed again by the same command, so that the command may be stopped and repeated. At the end
there are FOLDER/results.json and FOLDER/figure.png, of all that is there.

All agents are AC(λ) with Adam, γ = 0.95 and λ = 0.9. Their readouts see 16 numbers: both parts of the 8 units of an
RTU, and 16 units of the other cells. Each agent's rate is the best of RATES by its mean return on MemoryChain with
length 16, over TUNING_STEPS steps and seeds that are used for nothing else. (A first small run tuned on length 8, which
all agents solve, so that noise chose among three rates.) On CartPole, whose velocities are hidden, observations and
rewards are normalised.

Written before any run. Success on MemoryChain is the share of right answers in the last tenth of the steps; chance is
0.5. A difference counts where it is more than two of its standard errors, with Welch's over seeds.

1. "RTU with RTRL is ahead of truncated BPTT of equal compute" (Elelimy et al. 2024). Compared is the longest window
   whose time per step, measured here, is at most that of RTRL, on the same cell; where even the shortest takes longer,
   the shortest. The claim holds if RTRL is ahead at some length beyond the window, and behind at none.
2. "Diagonal cells are enough": it holds if RTU with RTRL is behind GRU with RTRL at no length.
3. What memory in the rule buys: RTU with RTRL against RTU with Immediate, at each length.
"""

import argparse
import fnmatch
import json
import math
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

RATES = (3e-4, 1e-3, 3e-3, 1e-2)
LENGTHS = (2, 4, 8, 16, 32, 64, 128)
TUNING_STEPS, TUNING_SEEDS, TUNED_ON = 40_000, range(1000, 1005), "chain 16"
#: an agent by its name: its cell and its learner
AGENTS = {
    "RTU, RTRL": ("RTU", "RTRL"),
    "RTU, BPTT(2)": ("RTU", 2),
    "RTU, BPTT(4)": ("RTU", 4),
    "RTU, BPTT(8)": ("RTU", 8),
    "RTU, BPTT(16)": ("RTU", 16),
    "RTU, Immediate": ("RTU", "Immediate"),
    "GRU, RTRL": ("GRU", "RTRL"),
    "GRU, SnAp-1": ("GRU", "SnAp1"),
    "GRU, KF-RTRL": ("GRU", "KFRTRL"),
    "GRU, UORO": ("GRU", "UORO"),
    "GRU, Diagonal-UORO": ("GRU", "DiagonalUORO"),
    "GRU, RFLO": ("GRU", "RFLO"),
    "GRU, BPTT(8)": ("GRU", 8),
    "LSTM, SnAp-1": ("LSTM", "SnAp1"),
    "ALIF, e-prop": ("ALIF", "RFLO"),
}
UNITS = {"RTU": 8, "GRU": 16, "LSTM": 16, "ALIF": 16}


def environment_of(task):
    """The environment of a task, and whether what is seen is normalised."""
    from recurra import rl

    kind, _, size = task.partition(" ")
    made = {
        "chain": lambda: rl.MemoryChain(int(size)),
        "maze": lambda: rl.TMaze(int(size)),
        "first": lambda: rl.RepeatFirst(int(size)),
        "count": lambda: rl.CountRecall(int(size)),
        "pole": lambda: rl.Gymnax("CartPole-v1", seen=(0, 2)),
    }
    return made[kind](), kind == "pole"


def agent_of(name, environment, rate, normalised):
    import recurra as rc

    cell, learner = AGENTS[name]
    learner = rc.rl.TruncatedBPTT(learner) if isinstance(learner, int) else getattr(rc, learner)()
    kind = getattr(rc, cell)
    agent = rc.rl.AC(
        kind(environment.n_in, UNITS[cell]), learner, environment.actions, rc.Adam(rate), gamma=0.95, lamda=0.9
    )
    return rc.rl.Normalised(agent) if normalised else agent


def alone(counter):
    """Give this process one core of its own."""
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})
    os.environ["JAX_PLATFORMS"] = "cpu"


def case(name, task, rate, steps, seeds):
    """One agent on one task. Times are those of a step of one seed, without compilation."""
    import jax

    from recurra import rl

    environment, normalised = environment_of(task)
    agent, began = agent_of(name, environment, rate, normalised), []
    note = lambda done: began.append((done, time.perf_counter()))
    life = rl.live(agent, environment, steps, seeds, progress=note)
    (first, start), (last, stop) = began[min(1, len(began) - 1)], began[-1]
    return {
        "agent": name,
        "task": task,
        "rate": rate,
        "steps": steps,
        "seeds": list(life.seeds),
        "return": life.last_return().tolist(),
        "episodes": [len(returns) for returns in life.returns],
        "diverged": len(life.diverged),
        "microseconds": 1e6 * (stop - start) / max(last - first, 1) / len(life.seeds),
        "jax": jax.__version__,
    }


def computed(folder, wanted, workers):
    """All cases that are wanted, those that are there already read, others computed and written one by one."""
    folder.mkdir(parents=True, exist_ok=True)
    file = lambda each: folder / ("_".join(map(str, (*each[:4], len(each[4]), each[4][0]))).replace(" ", "-") + ".json")
    missing = [each for each in wanted if not file(each).exists()]
    if missing:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, context, alone, (context.Value("i", 0),))
        began = time.perf_counter()
        with pool:
            going = {pool.submit(case, *each): each for each in missing}
            for number, done in enumerate(as_completed(going), 1):
                each = going[done]
                try:
                    partial = file(each).with_suffix(".partial")
                    partial.write_text(json.dumps(done.result()))
                    partial.rename(file(each))
                    told = f"{json.loads(file(each).read_text())['microseconds']:.1f} µs a step"
                except Exception as error:  # another case may do
                    told = f"failed: {error}"
                seconds = time.perf_counter() - began
                print(f"{number}/{len(missing)} {seconds:.0f} s: {each[0]}, {each[1]}, {each[2]:g}: {told}", flush=True)
    return [json.loads(file(each).read_text()) for each in wanted if file(each).exists()]


def mean(values):
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else -math.inf


def spread(values):
    """The standard error of a mean."""
    m = mean(values)
    if len(values) < 2:
        return math.nan
    return math.sqrt(sum((value - m) ** 2 for value in values) / (len(values) - 1) / len(values))


def success(row):
    """The shares of right answers, of a case on MemoryChain: a return is 1 or -1. A seed that diverged has chance."""
    return [0.5 if not math.isfinite(value) else (1 + value) / 2 for value in row["return"]]


def told(rows):
    """The table of MemoryChain, and what the three claims come to."""
    chain = {(row["agent"], int(row["task"].split()[1])): row for row in rows if row["task"].startswith("chain")}
    lengths = sorted({length for _, length in chain})
    agents = [name for name in AGENTS if any((name, length) in chain for length in lengths)]
    lines = [f"{'success on MemoryChain':22}" + "".join(f"{length:>13}" for length in lengths) + "   µs a step"]
    for name in agents:
        own = [chain.get((name, length)) for length in lengths]
        cells = "".join(
            f"{mean(success(row)):7.3f} ±{spread(success(row)):.3f}" if row else f"{'–':>13}" for row in own
        )
        times = sorted(row["microseconds"] for row in own if row)
        lines.append(f"{name:22}{cells} {times[len(times) // 2]:11.2f}")
    others = [row for row in rows if not row["task"].startswith("chain")]
    for row in others:
        known = [value for value in row["return"] if math.isfinite(value)]
        lines.append(f"{row['task']:10} {row['agent']:22} {mean(known):8.3f} ±{spread(known):.3f}")

    def against(one, other):
        """At each length whether one is ahead, +1, behind, -1, or neither, 0."""
        found = {}
        for length in lengths:
            if (one, length) in chain and (other, length) in chain:
                x, y = success(chain[one, length]), success(chain[other, length])
                apart, error = mean(x) - mean(y), math.hypot(spread(x), spread(y))
                found[length] = 0 if abs(apart) <= 2 * error else int(math.copysign(1, apart))
        return found

    time_of = lambda name: sorted(chain[name, length]["microseconds"] for length in lengths if (name, length) in chain)
    middle = lambda name: time_of(name)[len(time_of(name)) // 2]
    windows = [name for name in agents if name.startswith("RTU, BPTT")]
    if "RTU, RTRL" in agents and windows:
        fits = [name for name in windows if middle(name) <= middle("RTU, RTRL")] or windows[:1]
        equal = fits[-1]
        found, T = against("RTU, RTRL", equal), AGENTS[equal][1]
        holds = any(sign > 0 for length, sign in found.items() if length > T) and -1 not in found.values()
        lines.append(f"1. equal compute is {equal}; RTRL against it {found}: the claim {'holds' if holds else 'fails'}")
    if {"RTU, RTRL", "GRU, RTRL"} <= {*agents}:
        found = against("RTU, RTRL", "GRU, RTRL")
        lines.append(f"2. RTU against GRU, both RTRL {found}: the claim {'fails' if -1 in found.values() else 'holds'}")
    if {"RTU, RTRL", "RTU, Immediate"} <= {*agents}:
        lines.append(f"3. RTRL against Immediate on RTU {against('RTU, RTRL', 'RTU, Immediate')}")
    return "\n".join(lines)


def drawn(rows, file):
    """Success against length, a line for each agent."""
    from matplotlib.figure import Figure

    looks = {"RTU": ("#d1491b", "o"), "GRU": ("#1a56c4", "s"), "LSTM": ("#2a9d63", "^"), "ALIF": ("#6d3fb5", "v")}
    dashes = {"RTRL": "-", "Immediate": ":", "SnAp-1": "--", "RFLO": "-.", "e-prop": "--"}
    figure = Figure(figsize=(8.6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for name in AGENTS:
        own = sorted(
            (int(row["task"].split()[1]), mean(success(row)), spread(success(row)))
            for row in rows
            if row["agent"] == name and row["task"].startswith("chain")
        )
        if own:
            cell, learner = name.split(", ")
            length, share, error = zip(*own, strict=True)
            colour, marker = looks[cell]
            alpha = 1.0 if learner == "RTRL" else 0.65
            window = AGENTS[name][1]
            style = (0, (1 + math.log2(window), 1.5)) if isinstance(window, int) else dashes.get(learner, (0, (5, 2)))
            axes.errorbar(length, share, error, color=colour, marker=marker, linestyle=style, alpha=alpha, label=name)
    axes.axhline(0.5, color="gray", linestyle=":", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="steps between light and bell", ylabel="share of right answers", ylim=(0.4, 1.02))
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(file, dpi=140)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=["chain", "maze", "cards", "pole"])
    parser.add_argument("--agents", nargs="+", default=["*"], help="patterns of names")
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    names = [name for name in AGENTS if any(fnmatch.fnmatch(name, pattern) for pattern in asked.agents)]
    tasks = {
        "chain": [f"chain {length}" for length in asked.lengths],
        "maze": ["maze 10", "maze 40"],
        "cards": ["first 8", "count 8"],
        "pole": ["pole"],
    }
    wanted = [task for kind in asked.tasks for task in tasks[kind]]
    cases = asked.out / "cases"

    tuning = [(name, TUNED_ON, rate, TUNING_STEPS, list(TUNING_SEEDS)) for name in names for rate in RATES]
    best = {}
    for row in computed(cases, tuning, asked.workers):
        score = mean(row["return"]) if not row["diverged"] else -math.inf
        best[row["agent"]] = max(best.get(row["agent"], (-math.inf, RATES[0])), (score, row["rate"]))
    print("rates:", {name: rate for name, (_, rate) in best.items()}, flush=True)
    # the longest first, so that no core is left with a long one at the end
    runs = [(name, task, best[name][1], asked.steps, list(range(asked.seeds))) for task in wanted for name in best]
    runs.sort(key=lambda each: AGENTS[each[0]] != ("GRU", "RTRL"))
    rows = computed(cases, runs, asked.workers)
    (asked.out / "results.json").write_text(json.dumps({"rates": best, "rows": rows}))
    print(told(rows))
    drawn(rows, asked.out / "figure.png")


if __name__ == "__main__":
    main()
