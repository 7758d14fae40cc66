"""Two questions of the study: what noise and bias do by themselves, and whether KeRNL is too noisy."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, drive, one_step, problem
from recurra_paper.beyond import intervention, kernl
from recurra_paper.beyond.intervention import runs as interventions
from recurra_paper.beyond.intervention.averaged import Averaged
from recurra_paper.beyond.intervention.mixed import RTRLWithBias, RTRLWithNoise
from recurra_paper.beyond.kernl import runs as grid
from recurra_paper.beyond.profiles import PROFILES
from taking_steps import gradients, take_steps
from unrolled import CELLS

EXACT = 1e-10
QUICK = PROFILES["quick"]
#: each with a cell that it is tried on
NOISY = {
    "uoro": (rc.UORO(), "leaky rnn"),
    "r-kf-rtrl": (rc.RKFRTRL(), "lstm"),
    "kernl": (rc.KeRNL(perturbation=0.3), "rnn"),
}


# The learners: the mean of copies, and RTRL with the errors of another.


def small(cell="rnn", steps=6):
    return problem(CELLS[cell][0], n=3, n_in=2, steps=steps)


def copy(tree, number, axis=0):
    """One copy of a tree of all copies."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, number, axis), tree)


@pytest.mark.parametrize(
    ("learner", "cell"),
    [pytest.param(*each, marks=() if name == "uoro" else pytest.mark.slow) for name, each in NOISY.items()],
    ids=NOISY,
)
def test_the_mean_of_copies_is_the_mean_of_as_many_learners(learner, cell):
    """Step by step, each copy run by itself, from its own start and with its own noise."""
    network, weights, xs, ys = small(cell, steps=4)
    k = 2
    averaged = Averaged(learner, k)
    start = averaged.init(network.cell, weights.cell, jax.random.key(1), network.n_out)
    noise = averaged.noise(network.cell, jax.random.key(2), len(xs))
    together = drive(network, averaged, weights, xs, ys, noise, start)
    alone = [drive(network, learner, weights, xs, ys, copy(noise, c, 1), copy(start, c)) for c in range(k)]
    assert distance(alone[0][-1][0], alone[1][-1][0]) > 1e-3  # copies differ
    for t in range(len(xs)):
        mean = jax.tree.map(lambda *each: sum(each) / k, *(steps[t][0] for steps in alone))
        assert distance(together[t][0], mean) < EXACT
        assert distance(together[t][1], jax.tree.map(lambda *each: jnp.stack(each), *(a[t][1] for a in alone))) < EXACT


def test_one_copy_is_the_learner():
    network, weights, xs, ys = small(steps=4)
    start = rc.UORO().init(network.cell, weights.cell, jax.random.key(1), network.n_out)
    noise = rc.UORO().noise(network.cell, jax.random.key(2), len(xs))
    single = jax.tree.map(lambda leaf: leaf[None], start), jax.tree.map(lambda rows: rows[:, None], noise)
    alone = drive(network, rc.UORO(), weights, xs, ys, noise, start)
    found = drive(network, Averaged(rc.UORO(), 1), weights, xs, ys, single[1], single[0])
    assert distance([step[0] for step in found], [step[0] for step in alone]) < EXACT


def test_copies_start_and_draw_by_themselves():
    network, weights, *_ = small()
    averaged = Averaged(rc.UORO(), 4)
    noise = averaged.noise(network.cell, jax.random.key(2), 200)[0]
    start = averaged.init(network.cell, weights.cell, jax.random.key(1), network.n_out)
    for x, y in itertools.combinations(range(4), 2):
        assert abs(float(jnp.mean(noise[:, x] * noise[:, y]))) < 0.2  # of 600 signs: five standard errors
        assert distance(copy(start, x), copy(start, y)) > 0.1


class Alike(Averaged):
    """Copies that all draw what the first draws: a rule that is wrong on purpose."""

    def advance(self, tick, state, noise):
        return super().advance(tick, state, jax.tree.map(lambda row: jnp.stack([row[0]] * len(row)), noise))


@pytest.mark.slow
def test_the_mean_of_copies_is_unbiased_with_a_part_of_the_variance():
    """Over all signs of two steps for each of two copies: the mean of M is RTRL's, and the variance is halved."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], n=2, n_in=1, steps=2)
    cell, learner = network.cell, rc.UORO(initial_scale=0.0)

    def final(learner, rows):
        state = learner.init(cell, weights.cell, jax.random.key(0), network.n_out)
        a = cell.init_state()
        for t in range(2):
            _, tick = one_step(network, weights, a, xs[t], ys[t], jnp.array(t, "int32"))
            state = learner.advance(tick, state, (rows[t],))
            a = tick.state
        leaves = jax.tree.leaves(learner.influence(cell, weights.cell, state))
        return jnp.concatenate([leaf.ravel() for leaf in leaves])

    signs = lambda count: jnp.array(list(itertools.product([-1.0, 1.0], repeat=count)))
    of_kind = lambda kind: jax.jit(jax.vmap(lambda rows: final(kind(learner, 2), rows)))(signs(8).reshape(-1, 2, 2, 2))
    of_two = of_kind(Averaged)
    of_one = jax.jit(jax.vmap(lambda rows: final(learner, rows)))(signs(4).reshape(-1, 2, 2))
    exact = drive(network, rc.RTRL(), weights, xs, ys)[-1][1]
    M = rc.RTRL().influence(cell, weights.cell, exact)
    assert distance(of_two.mean(axis=0), jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(M)])) < EXACT
    ratio = lambda sample: float(sample.var(axis=0).sum() / of_one.var(axis=0).sum())
    assert ratio(of_two) == pytest.approx(0.5)
    assert ratio(of_kind(Alike)) == pytest.approx(1.0)


def test_noise_by_itself_has_the_size_of_the_learner_s_and_no_mean():
    network, weights, xs, ys = small("leaky rnn", steps=4)
    learner, scale = rc.RKFRTRL(), 0.5
    mixed = RTRLWithNoise(learner, scale)
    noise, signs = mixed.noise(network.cell, jax.random.key(2), len(xs))
    assert distance(noise, learner.noise(network.cell, jax.random.key(2), len(xs))) == 0
    assert sorted(set(np.abs(signs))) == [scale]
    run = lambda factor: drive(network, mixed, weights, xs, ys, (noise, factor * jnp.abs(signs)))
    plus, minus, drawn = run(1), run(-1), drive(network, mixed, weights, xs, ys)
    exact, other = drive(network, rc.RTRL(), weights, xs, ys), drive(network, learner, weights, xs, ys)
    add = lambda x, y, factor=1.0: jax.tree.map(lambda u, v: u + factor * v, x, y)
    for t in range(len(xs)):
        g = exact[t][0]
        mean = jax.tree.map(lambda u, v: (u + v) / 2, plus[t][0], minus[t][0])
        assert distance(mean, g) < EXACT
        error = add(other[t][0], g, -1.0)
        for found, sign in ((plus, 1.0), (minus, -1.0), (drawn, float(jnp.sign(signs[t])))):
            assert distance(found[t][0], add(g, error, sign * scale)) < EXACT
        assert distance(drawn[t][0], g) > 1e-3


def test_signs_are_fair_and_not_those_of_the_learner():
    cell = problem(CELLS["rnn"][0])[0].cell
    noise, signs = RTRLWithNoise(rc.UORO()).noise(cell, jax.random.key(0), 2000)
    assert abs(float(signs.mean())) < 0.12
    assert abs(float((signs[1:] * signs[:-1]).mean())) < 0.12
    assert abs((np.asarray(noise[0]) * np.asarray(signs)[:, None]).mean(axis=0)).max() < 0.12


def test_bias_by_degrees_goes_from_rtrl_to_the_other_learner():
    network, weights, xs, ys = small("leaky rnn", steps=4)
    exact, biased = (drive(network, learner, weights, xs, ys) for learner in (rc.RTRL(), rc.RFLO()))
    for share in (0.0, 0.25, 1.0):
        mixed = drive(network, RTRLWithBias(rc.RFLO(), share), weights, xs, ys)
        for t in range(len(xs)):
            between = jax.tree.map(lambda u, v, s=share: (1 - s) * u + s * v, exact[t][0], biased[t][0])
            assert distance(mixed[t][0], between) < EXACT
    assert distance(exact[-1][0], biased[-1][0]) > 1e-3


@pytest.mark.parametrize("learner", [Averaged(rc.KeRNL(), 2), RTRLWithNoise(rc.UORO())])
def test_after_a_reset_the_past_does_not_count(learner):
    """From the reset on, gradients are those of a run that starts there, with the same noise."""
    network, weights, xs, ys = small("leaky rnn")
    noise = learner.noise(network.cell, jax.random.key(2), len(xs))
    reset = np.arange(len(xs)) == 3
    whole = take_steps(network, learner, weights, xs, ys, noise=noise, reset=reset)
    state = whole[2][1].learners["applied"]
    later = jax.tree.map(lambda rows: rows[3:], noise)
    forgotten = learner.forget(network.cell, state)
    part = take_steps(network, learner, weights, xs[3:], ys[3:], noise=later, reset=reset[3:] & False, start=forgotten)
    for a, b in zip(gradients(whole)[3:], gradients(part), strict=True):
        assert distance(a, b) < EXACT


def test_learners_that_need_a_unit_wise_cell_say_so():
    cell = rc.cell_of(eqx.nn.GRUCell(2, 3, key=jax.random.key(0)), carry=jnp.zeros(3), x=2, unitwise=False)
    for learner in (Averaged(rc.RKFRTRL(), 2), RTRLWithNoise(rc.KFRTRL())):
        with pytest.raises(TypeError, match="unit-wise"):
            learner.check(cell)


# The runs.


@pytest.mark.parametrize("question", [intervention, kernl])
def test_experiments_have_names_of_their_own_and_the_claims_find_them(question):
    for profile in PROFILES.values():
        names = [experiment.name for experiment in question.experiments(profile)]
        assert len(set(names)) == len(names)
        assert all(name.startswith(tuple(question.needs(profile))) for name in names)
    assert {claim.figure for claim in question.CLAIMS} == {question.NAME}


def test_the_grid_has_the_paper_s_setting():
    paper, released = rc.KeRNL(), rc.KeRNL(late_perturbation=True)
    for wanted, version in ((paper, "derived"), (released, "released")):
        found = grid.kernl(version, grid.SIGMA, grid.PACE)
        assert found.learning_rate == pytest.approx(wanted.learning_rate)
        assert (found.perturbation, found.late_perturbation) == (wanted.perturbation, wanted.late_perturbation)


def test_kernl_depends_on_the_pace_and_not_on_sigma():
    """While perturbations are small; at ten times the pace it learns something else."""
    network, weights, xs, ys = small(steps=20)
    zeta = rc.KeRNL(perturbation=1.0).noise(network.cell, jax.random.key(2), len(xs))

    def last(sigma, pace):
        scaled = jax.tree.map(lambda rows: sigma * rows, zeta)
        return drive(network, grid.kernl("derived", sigma, pace), weights, xs, ys, scaled)[-1][0]

    assert distance(last(1e-6, 5e-2), last(1e-5, 5e-2)) < 1e-4
    assert distance(last(1e-6, 5e-2), last(1e-6, 5e-1)) > 1e-2


def test_a_run_is_described_by_the_learner_inside():
    by_name = {experiment.name: experiment for experiment in intervention.experiments(PROFILES["tiny"])}
    settings = str(by_name[interventions.copies_name("uoro", 2)].settings())
    assert "Averaged(learner=UORO(nu=signs, initial_scale=1.0), copies=2)" in settings


# The claims, in worlds in which they hold, fail and stay open.


def final_losses(world, seeds, spread=0.0003, steps=300_000):
    """Runs that end at the world's losses; a seed is easy or hard for all of them alike."""
    rng = np.random.default_rng(0)
    shared = 0.01 * rng.normal(size=64)
    data = {}
    for name, final in world.items():
        n = seeds(name)
        level = final + shared[:n] + spread * rng.normal(size=n)
        loss = level[:, None] + 0.1 * np.exp(-np.arange(100) / 10)
        data[name] = {"step": steps // 100 * np.arange(1, 101), "loss": loss, "diverged": np.full(n, -1)}
    return data


def noises(deficit=0.006, left=lambda k: 1 / k, noise=1.0, bias=lambda s: s**2):
    """Losses by intervention: what k copies leave of the deficit, what noise alone costs, what bias costs."""
    world = {"fixed": 0.63, "rtrl": 0.49, "rflo": 0.49 + 0.09 * bias(1.0)}
    world = {interventions.reference_name(name): value for name, value in world.items()}
    for learner in interventions.NOISY:
        world |= {interventions.copies_name(learner, k): 0.49 + deficit * left(k) for k in (1, 4, 16, 64, 256, 1024)}
        world |= {interventions.noise_name(learner, k): 0.49 + noise * deficit / k for k in (1, 4)}
    return world | {interventions.bias_name(s): 0.49 + 0.09 * bias(s) for s in (0.25, 0.5)}


def intervened(spread=0.0002, **world):
    few = lambda name: 5 if name.endswith(("/256", "/1024")) else 20
    return final_losses(noises(**world), few, spread)


def paces(derived=lambda p: -0.01 - 0.005 * p, released=lambda p: 0.005 * p, copies=0.0, batch=0.0):
    """Losses of KeRNL, p powers of ten above the slowest pace, less RFLO's; what copies and batches gain."""
    world = {grid.reference_name("fixed"): 0.63, grid.reference_name("rtrl"): 0.49}
    world |= {grid.reference_name("rflo", n): 0.58 - (n > 1) * 0.01 for n in (1, grid.BATCH)}
    world |= {grid.filter_name(n): 0.581 - (n > 1) * 0.01 for n in (1, grid.BATCH)}
    scale = grid.SCALES["full"]
    for version, loss in (("derived", derived), ("released", released)):
        at = lambda power, loss=loss: 0.58 + loss(power)
        for power, pace in enumerate(scale.paces):
            world |= {grid.setting_name(version, sigma, pace): at(power) for sigma in scale.sigmas}
            if pace in scale.batch_paces:
                world[grid.setting_name(version, pace=pace, streams=grid.BATCH)] = at(power) - 0.01 - batch
        world[grid.copies_name(version)] = at(1) - copies
    return world


def searched(spread=0.0003, **world):
    few = lambda name: 10 if f"/{grid.BATCH}" in name or "/copies/" in name else 20
    return final_losses(paces(**world), few, spread)


WORLDS = {
    "intervention-closes": (intervened, {}, {"left": lambda k: 0.5 + 0.5 / k}),
    "intervention-falls": (intervened, {}, {"left": lambda k: k**-0.25}),
    "intervention-noise": (intervened, {}, {"noise": 0.4}),
    "intervention-bias": (intervened, {}, {"bias": lambda s: 1.5 * s - s**3}),
    "kernl-averaging": (searched, {"copies": 0.02, "batch": 0.02}, {}),
    "kernl-slower": (
        searched,
        {"derived": lambda p: 0.02 * p, "released": lambda p: 0.02 * p},
        {"derived": lambda p: -0.02 * p},
    ),
    "kernl-derived": (searched, {}, {"derived": lambda p: 0.0}),
    "kernl-released": (searched, {}, {"released": lambda p: 0.01 - 0.02 * (p == 3)}),
}
CLAIMS = {claim.id: claim for claim in (*intervention.CLAIMS, *kernl.CLAIMS)}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_holds_where_it_is_true_and_does_not_where_it_is_false(name):
    make, true, false = WORLDS[name]
    for world, status in ((true, "holds"), (false, "does not hold")):
        verdict = CLAIMS[name].decide(make(**world), QUICK)
        assert verdict.status == status, verdict.measured


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_stays_open_where_seeds_differ_too_much(name):
    make, true, _ = WORLDS[name]
    verdict = CLAIMS[name].decide(make(spread=0.3, **true), QUICK)
    assert verdict.status == "not decided", verdict.measured


def one_of_each_kind(data):
    """The last run of each kind, by the first three words of the name."""
    kinds = {}
    for name in data:
        kinds.setdefault(tuple(name.split("/")[:3]), []).append(name)
    return [names[-1] for names in kinds.values()]


@pytest.mark.parametrize("name", CLAIMS)
def test_missing_runs_leave_a_claim_open(name):
    assert CLAIMS[name].decide({}, QUICK).status == "not decided"
    make, true, _ = WORLDS[name]
    data = make(**true)
    for missing in one_of_each_kind(data):
        rest = {run: arrays for run, arrays in data.items() if run != missing}
        verdict = CLAIMS[name].decide(rest, QUICK)
        assert verdict.status != "does not hold", missing


def test_a_step_that_makes_things_worse_is_found():
    worse = {1: 1.0, 4: 0.3, 16: 0.1, 64: 0.9, 256: 0.05, 1024: 0.0}
    assert CLAIMS["intervention-falls"].decide(intervened(left=worse.__getitem__), QUICK).status == "does not hold"


def test_the_best_setting_is_judged_by_seeds_that_did_not_choose_it():
    """Settings that differ by chance alone: the best of many looks better than it is to the seeds that chose it."""
    data = searched(spread=0.02, derived=lambda p: 0.0)
    part = CLAIMS["kernl-derived"].parts(data)[0]
    assert CLAIMS["kernl-derived"].decide(data, QUICK).status != "holds"
    chosen = data[grid.setting_name("derived", *_chosen(part.name))]["loss"][:, -1]
    rflo = data[grid.reference_name("rflo")]["loss"][:, -1]
    assert (rflo - chosen)[::2].mean() > 0.008  # two standard errors ahead


def _chosen(name):
    words = name.replace(",", "").split()
    return tuple(float(words[words.index(word) + offset]) for word, offset in (("σ", 2), ("pace", 1)))


def test_a_seed_that_diverged_has_learned_nothing():
    data = searched()
    name = grid.setting_name("derived", pace=5e-2)
    gone = data[name] | {"diverged": np.full(20, 1000), "loss": np.full((20, 100), np.nan)}
    verdict = CLAIMS["kernl-derived"].decide(data | {name: gone}, QUICK)
    assert verdict.status == "holds"
    assert kernl.draw(data | {name: gone}) is not None


def test_more_copies_are_judged_where_they_were_run_at_all_seeds():
    scale = interventions.SCALES["full"]
    many = {interventions.copies_name(x, k) for x, numbers in scale.many.items() for k in numbers}
    ran = {experiment.name for experiment in intervention.experiments(PROFILES["full"])}
    seeds = lambda name: scale.few_seeds if name in many else scale.seeds

    def world(left=lambda k: 1 / k):
        return {name: run for name, run in final_losses(noises(left=left), seeds, 0.0005).items() if name in ran}

    claim = CLAIMS["intervention-falls"]
    found = claim.decide(world(), QUICK)
    assert found.status == "holds", found.measured
    decides = {part.name: part.relation is not None for part in claim.parts(world())}
    assert sum(decides.values()) == 2 * (2 + 3)  # for each learner: 4 and 16 copies; from 1 to 4, to 16, to 64
    assert {name for name, yes in decides.items() if not yes} == {
        f"share of the deficit of {x} that {more} copies take away from what {k} leave"
        for x, more, k in (("UORO", "256", "64"), ("UORO", "1,024", "256"), ("R-KF-RTRL", "256", "64"))
    }
    worse = {1: 1.0, 4: 0.3, 16: 0.1, 64: 0.05, 256: 0.9, 1024: 0.0}
    assert claim.decide(world(worse.__getitem__), QUICK).status == "holds"  # at three seeds: reported
    assert claim.decide(world((worse | {64: 0.9}).__getitem__), QUICK).status == "does not hold"


@pytest.mark.parametrize("question", [intervention, kernl])
def test_a_figure_shows_and_counts_no_runs_of_other_questions(question):
    own = {intervention: intervened(), kernl: searched()}
    others = {f"gated/copies/{grid.BATCH}/x": run for run in own[kernl].values()}
    alone, among = (question.draw(data) for data in (own[question], others | own[intervention] | own[kernl]))
    assert alone.caption == among.caption
    assert alone.table == among.table
    assert question is intervention or "20 seeds, 10 for copies and several streams" in alone.caption


def test_the_caption_counts_all_runs_with_several_streams():
    data = searched()
    for name in (grid.reference_name("rflo", grid.BATCH), grid.filter_name(grid.BATCH)):
        fewer = {key: data[name][key][:7] for key in ("loss", "diverged")}
        assert "7 to 10 for copies" in kernl.draw(data | {name: data[name] | fewer}).caption


@pytest.mark.parametrize(("question", "data"), [(intervention, intervened()), (kernl, searched())])
def test_what_was_run_in_part_is_drawn_in_part(question, data):
    drawn = question.draw(data)
    assert drawn is not None
    assert len({len(column) for column in drawn.table.values()}) == 1
    assert question.draw({}) is None
    for missing in one_of_each_kind(data):
        question.draw({name: run for name, run in data.items() if name != missing})
    for kind in {"/".join(name.split("/")[:2]) for name in data}:
        question.draw({name: run for name, run in data.items() if not name.startswith(kind)})
