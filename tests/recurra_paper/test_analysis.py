"""Analyses against closed forms, brute force, simulation and SciPy's own."""

import numpy as np
import pytest
from scipy import stats

from recurra_paper import analysis


def ar1(rng, count, T, phi):
    """Independent stationary series with rho(k) = phi^k."""
    x = np.empty((count, T))
    x[:, 0] = rng.normal(size=count)
    for t in range(1, T):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * rng.normal(size=count)
    return x


def exactly_correlated(rng, r, T):
    """Two series whose sample correlation is r to rounding."""
    x, e = rng.normal(size=(2, T))
    zx = x - x.mean()
    ze = e - e.mean()
    ze -= zx * (zx @ ze) / (zx @ zx)
    return x, r * zx / np.linalg.norm(zx) + np.sqrt(1 - r**2) * ze / np.linalg.norm(ze)


def test_cosines_of_known_vectors():
    g = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0], [0.0, 0.0], [np.nan, 1.0]])
    c = analysis.cosines(g)
    np.testing.assert_allclose(c[0, :3], [1, np.sqrt(0.5), -1])
    np.testing.assert_allclose(c[:3, :3], c[:3, :3].T)
    assert np.isnan(c[3]).all()
    assert np.isnan(c[4]).all()
    stacked = analysis.cosines(np.stack([g, 3 * g[::-1]]))
    np.testing.assert_allclose(stacked[0], c)
    np.testing.assert_allclose(stacked[1], c[::-1, ::-1])


def test_cosines_keep_single_precision():
    assert analysis.cosines(np.ones((2, 3), np.float32)).dtype == np.float32


def test_memory_trace_of_known_noise():
    rng = np.random.default_rng(2)
    T, sd = 40_000, 0.5
    v = rng.normal(size=T)
    ahead = np.roll(v, -2) + sd * rng.normal(size=T)  # a(t - 2) = v(t) + noise
    states = np.stack([ahead, np.full(T, 3.0), 2 * ahead], axis=1)  # with a constant and a redundant unit
    labels = np.stack([v, 1 - v, np.full(T, 0.7)], axis=1)
    r2 = analysis.memory_trace(states, labels, np.array([-3, -2, -1]))
    np.testing.assert_allclose(r2, [0, 1 / (1 + sd**2), 0], atol=0.01)
    assert np.isnan(analysis.memory_trace(states, np.ones((T, 1)), np.array([0]))).all()


def test_memory_of_add_jumps_at_minus_its_lags():
    x = np.random.default_rng(3).integers(0, 2, 20_000).astype(float)
    register = np.stack([np.roll(x, k) for k in range(12)], axis=1)[20:]  # the last twelve coins
    v = (0.5 + 0.5 * np.roll(x, 6) - 0.25 * np.roll(x, 10))[20:]
    lags = np.arange(-12, 4)
    r2 = analysis.memory_trace(register, np.stack([v, 1 - v], axis=1), lags)
    first, second = 0.0625 / 0.078125, 0.015625 / 0.078125  # each coin's share of the variance
    expected = np.where(lags < -10, 0, np.where(lags < -6, second, np.where(lags < 2, 1, first)))
    np.testing.assert_allclose(r2, expected, atol=0.02)


def test_exponent_of_a_power_law():
    n = np.array([8, 16, 32, 64, 128])
    e = analysis.exponent(n[::-1], 7.0 * n[::-1] ** 3)
    assert e.value == pytest.approx(3)
    assert e.error == pytest.approx(0, abs=1e-9)
    e = analysis.exponent(n, 7.0 * n.astype(float) ** 3 + 900.0 * n)
    slope, _, _, _, stderr = stats.linregress(np.log(n[2:]), np.log(7.0 * n[2:] ** 3 + 900.0 * n[2:]))
    assert (e.value, e.error, e.dof) == pytest.approx((slope, stderr, 1))
    assert np.isnan(analysis.exponent(n[:2], n[:2]).error)
    assert np.isnan(analysis.exponent(n[:1], n[:1]).value)


def test_add_benchmarks_are_the_best_cross_entropies():
    guesses = np.linspace(1e-4, 1 - 1e-4, 9999)
    y = {(a, b): (2 + 2 * a - b) / 4 for a in (0, 1) for b in (0, 1)}
    loss = lambda p: -p * np.log(guesses) - (1 - p) * np.log1p(-guesses)
    best = lambda group: min(np.mean([loss(p) for p in group], axis=0))
    neither = best(list(y.values()))
    first = np.mean([best([y[a, 0], y[a, 1]]) for a in (0, 1)])
    both = np.mean([best([p]) for p in y.values()])
    found = analysis.add_benchmarks()
    np.testing.assert_allclose(found, [neither, first, both], atol=1e-4)
    assert [round(v, 2) for v in found] == [0.66, 0.52, 0.45]


def test_smooth_is_the_mean_of_successive_windows():
    curve = np.random.default_rng(4).normal(size=(3, 20))
    smooth = analysis.smooth(curve, 10)
    assert smooth.shape == (3, 11)
    np.testing.assert_allclose(smooth[:, -1], curve[:, 10:].mean(1))
    np.testing.assert_allclose(smooth[:, 0], curve[:, :10].mean(1))
    np.testing.assert_allclose(analysis.smooth(curve[:, :4], 10), curve[:, :4].mean(1, keepdims=True))
    curve[0, 5] = np.nan
    assert np.isnan(analysis.smooth(curve, 3)[0]).tolist() == [i in (3, 4, 5) for i in range(18)]


def test_paired_difference_is_the_t_test():
    x, y = np.random.default_rng(5).normal(size=(2, 7))
    found, expected = analysis.paired_difference(x, y), stats.ttest_rel(x, y)
    for level in (0.95, 0.99):
        np.testing.assert_allclose(found.interval(level), expected.confidence_interval(level))
    assert found.value == pytest.approx((x - y).mean())
    assert found.value / found.error == pytest.approx(expected.statistic)
    assert analysis.mean(x[:1]).interval() == (-np.inf, np.inf)


def test_relative_has_the_error_of_a_jackknife():
    rng = np.random.default_rng(7)
    gap = 1 + 0.1 * rng.normal(size=40)
    d = 0.3 * gap + 0.05 * rng.normal(size=40)
    e = analysis.relative(d, gap)
    left_out = np.array([np.delete(d, i).mean() / np.delete(gap, i).mean() for i in range(40)])
    assert e.value == pytest.approx(d.mean() / gap.mean())
    assert e.error == pytest.approx(np.sqrt(39 / 40 * ((left_out - left_out.mean()) ** 2).sum()), rel=0.02)
    assert analysis.relative(0.3 * gap, gap).error == pytest.approx(0, abs=1e-12)


def test_relative_knows_its_error_where_one_has_more_seeds():
    rng, ratios, errors = np.random.default_rng(8), [], []
    for _ in range(2_000):
        difficulty = rng.normal(size=200)
        gap = (1 + 0.2 * difficulty + 0.1 * rng.normal(size=200))[:25]
        d = 0.5 + 0.2 * difficulty + 0.1 * rng.normal(size=200)
        e = analysis.relative(d, gap)
        ratios.append(e.value)
        errors.append(e.error)
        assert e.dof == 24
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.05)


@pytest.mark.parametrize("r", [-0.6, 0.0, 0.05, 0.9])
def test_correlations_of_known_r(r):
    rng = np.random.default_rng(10)
    x, y = map(np.stack, zip(*(exactly_correlated(rng, r, 300) for _ in range(3)), strict=True))
    np.testing.assert_allclose(analysis.correlations(x, y), r, atol=1e-12)
    x[1, 7] = np.nan  # a step at which nothing was emitted
    known = np.arange(300) != 7
    expected = stats.pearsonr(x[1, known], y[1, known]).statistic
    assert analysis.correlations(x, y)[1] == pytest.approx(expected)
    assert np.isnan(analysis.correlations(np.ones((1, 9)), np.arange(9.0)[None])).all()


def test_slow_series_of_unrelated_seeds_are_not_significant():
    """As if steps were independent, most would be; seeds are what is independent."""
    rng = np.random.default_rng(11)
    x, y = (ar1(rng, 300 * 8, 400, 0.9).reshape(300, 8, 400) for _ in range(2))
    found = [analysis.mean(analysis.correlations(*pair)) for pair in zip(x, y, strict=True)]
    assert np.mean([analysis.p_value(e) < 0.05 for e in found]) < 0.09
    sample = rng.normal(0.3, 1, 12)
    assert analysis.p_value(analysis.mean(sample)) == pytest.approx(stats.ttest_1samp(sample, 0).pvalue)


def test_the_interval_of_one_more_value_covers_one_more_value():
    rng = np.random.default_rng(13)
    x, more = rng.normal(size=(4000, 8)), rng.normal(size=4000)
    intervals = np.array([analysis.one_more(row).interval() for row in x])
    inside = (intervals[:, 0] < more) & (more < intervals[:, 1])
    assert 0.935 < inside.mean() < 0.965
    narrow = np.array([analysis.mean(row).interval() for row in x])  # the control: the mean's own is too narrow
    assert ((narrow[:, 0] < more) & (more < narrow[:, 1])).mean() < 0.7


def test_rank_correlations_are_spearman_s():
    x, y = np.random.default_rng(14).normal(size=(2, 30, 8))
    expected = [stats.spearmanr(*pair).statistic for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(analysis.rank_correlations(x, y), expected)


def test_permuted_ranks_have_the_p_value_of_every_order():
    rng = np.random.default_rng(15)
    rho = lambda x, y: stats.spearmanr(x, y).statistic
    for shift in (0.0, 1.5):
        y = rng.normal(size=6)
        x = shift * y + rng.normal(size=6)
        found = analysis.permuted_ranks(x[None], y[None])
        # SciPy's two-sided p is twice the smaller tail, and the distribution of ranks is symmetric.
        expected = stats.permutation_test((x, y), rho, permutation_type="pairings", n_resamples=np.inf)
        assert found.value == pytest.approx(expected.statistic)
        assert found.p == pytest.approx(expected.pvalue)
        assert len(found.chance) == 720


def test_things_are_permuted_alike_in_every_condition():
    """What one condition says is not said four times by four copies of it."""
    x, y = np.random.default_rng(16).normal(size=(2, 1, 6))
    once, often = analysis.permuted_ranks(x, y), analysis.permuted_ranks(np.repeat(x, 4, 0), np.repeat(y, 4, 0))
    assert (often.value, often.p) == (pytest.approx(once.value), pytest.approx(once.p))


def test_a_permutation_rejects_where_its_interval_leaves_zero_outside_and_rarely_by_chance():
    rng = np.random.default_rng(17)
    tests = [analysis.permuted_ranks(*rng.normal(size=(2, 4, 5))) for _ in range(400)]
    rejected = np.array([low > 0 or high < 0 for low, high in (test.interval() for test in tests)])
    assert (rejected == [test.p <= 0.05 for test in tests]).all()
    assert 0 < rejected.mean() < 0.08
    related = [analysis.permuted_ranks(x, x + 0.3 * rng.normal(size=x.shape)) for x in rng.normal(size=(20, 4, 6))]
    assert all(test.interval()[0] > 0 for test in related)


def test_distances_that_go_together_are_found_and_unrelated_ones_are_not():
    rng = np.random.default_rng(15)
    place, other = rng.normal(size=(2, 12))
    apart = lambda z: np.abs(z[:, None] - z[None])
    together, p = analysis.mantel(apart(place), np.stack([apart(place + 0.1 * rng.normal(size=12)) for _ in range(3)]))
    assert together.value > 0.9
    assert p < 0.01
    unrelated, p = analysis.mantel(apart(place), apart(other)[None])
    pairs = np.triu_indices(12, 1)
    assert unrelated.value == pytest.approx(np.corrcoef(apart(place)[pairs], apart(other)[pairs])[0, 1])
    assert p > 0.05
    assert unrelated.error > 0.05
