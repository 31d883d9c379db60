import itertools
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from scipy import stats

from isoloss.errors import BadInput
from isoloss.experiments.statistics import seed_bootstrap
from isoloss.experiments.statistics.seed_bootstrap import (
    DRAWS,
    Resamples,
    SeedBootstrap,
    cluster_estimate,
    once_per_frames,
)


def test_results_are_kept_by_frame_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_bootstrap, "MOST_HELD", 2)
    computed: list[int] = []

    @once_per_frames
    def number(frame: pl.DataFrame) -> int:
        computed.append(frame["n"][0])
        return computed[-1]

    first, second, third = (pl.DataFrame({"n": [n]}) for n in range(3))
    assert [number(each) for each in (first, second, second, third, second, first)] == [0, 1, 1, 2, 1, 0]
    assert computed == [0, 1, 2, 0]


@pytest.mark.parametrize("clusters", [1, 2, 3, 4])
def test_few_clusters_have_every_resample_with_its_probability(clusters: int) -> None:
    resamples = Resamples.of(clusters)
    ordered = list(itertools.product(range(clusters), repeat=clusters))
    expected: dict[tuple[int, ...], float] = {}
    for members in ordered:
        counts = tuple(members.count(cluster) for cluster in range(clusters))
        expected[counts] = expected.get(counts, 0) + 1 / len(ordered)
    found = dict(zip(map(tuple, resamples.counts.tolist()), resamples.probabilities, strict=True))
    assert found == pytest.approx(expected)


def test_many_clusters_have_resamples_drawn_by_the_seed() -> None:
    first, again, other = Resamples.of(8, seed=1), Resamples.of(8, seed=1), Resamples.of(8, seed=2)
    assert first.counts.shape == (DRAWS, 8)
    assert Resamples.of(60).counts.shape == (600, 60)
    assert (first.counts.sum(1) == 8).all()
    assert (first.counts == again.counts).all()
    assert (first.counts != other.counts).any()
    assert len(Resamples.of(6).counts) == 462


@pytest.mark.parametrize("clusters", [2, 3, 4, 5, 7, 30, 100])
def test_of_a_mean_all_is_students_t(clusters: int) -> None:
    values = np.random.default_rng(clusters).normal(1.0, 2.0, clusters)
    resamples = Resamples.of(clusters)
    found = cluster_estimate(values.mean(), resamples.counts @ values / clusters, resamples)
    peer = stats.ttest_1samp(values, 0.3)
    assert found.standard_error == pytest.approx(values.std(ddof=1) / clusters**0.5)
    assert found.p_value(0.3) == pytest.approx(peer.pvalue)
    interval = peer.confidence_interval(0.98)
    assert found.interval(0.98) == pytest.approx((interval.low, interval.high))


def of_medians(counts: np.ndarray) -> np.ndarray:
    return np.array([np.median(np.repeat(NORMAL[:, 0], each)) for each in counts])


def of_correlations(counts: np.ndarray) -> np.ndarray:
    x, y = NORMAL.T
    weights = counts / counts.sum(1, keepdims=True)
    covariance = weights @ (x * y) - (weights @ x) * (weights @ y)
    variances = (weights @ x**2 - (weights @ x) ** 2) * (weights @ y**2 - (weights @ y) ** 2)
    found: np.ndarray = covariance / np.sqrt(variances)
    return found


NORMAL = np.random.default_rng(100).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=15)


@pytest.mark.parametrize("statistic", [pytest.param(of_medians, marks=pytest.mark.thorough), of_correlations])
def test_drawn_resamples_know_the_error_that_all_give(statistic: Callable[[np.ndarray], np.ndarray]) -> None:
    """Neither statistic is nearly linear; for those that are, such as means, see above."""
    many = np.random.default_rng(0).multinomial(15, np.full(15, 1 / 15), size=40_000)
    expected = statistic(many).std() * (15 / 14) ** 0.5
    found = []
    for seed in range(30):
        resamples = Resamples.of(15, seed)
        found.append(cluster_estimate(0.0, statistic(resamples.counts), resamples).standard_error)
    assert np.square(np.array(found) / expected - 1).mean() < 0.05**2
    assert np.mean(found) == pytest.approx(expected, rel=0.02)


def test_of_a_median_all_resamples_have_the_variance_of_its_formula() -> None:
    """A median over five is their i-th if three or more draws are among the first i, and not i - 1."""
    values = np.sort(NORMAL[:5, 0])
    probabilities = np.diff(stats.binom.sf(2, 5, np.arange(6) / 5))
    variance = probabilities @ values**2 - (probabilities @ values) ** 2
    resamples = Resamples.of(5)
    draws = np.array([np.median(np.repeat(values, counts)) for counts in resamples.counts])
    found = cluster_estimate(float(np.median(values)), draws, resamples).standard_error
    assert found == pytest.approx((variance * 5 / 4) ** 0.5)


def covered(
    clusters: int, samples: int, draw: stats.rv_continuous, generator: np.random.Generator
) -> tuple[float, float]:
    """Shares of means whose expectation is in our 95 % interval, and in the percentile interval."""
    resamples = Resamples.of(clusters)
    ours = percentiles = 0
    for values in draw.rvs(size=(samples, clusters), random_state=generator):
        draws = resamples.counts @ values / clusters
        low, high = cluster_estimate(values.mean(), draws, resamples).interval(0.95)
        ours += low <= draw.mean() <= high
        order = np.argsort(draws)
        reached = np.cumsum(resamples.probabilities[order])
        inner = draws[order][(reached > 0.025) & (reached < 0.975)]
        percentiles += inner.min() <= draw.mean() <= inner.max()
    return ours / samples, percentiles / samples


@pytest.mark.thorough
@pytest.mark.parametrize("clusters", [3, *(pytest.param(n, marks=pytest.mark.thorough) for n in (5, 10))])
def test_intervals_cover_as_often_as_they_say(clusters: int) -> None:
    """95 % nominal, 600 samples: four standard errors of the share are 3.6 %."""
    generator = np.random.default_rng(clusters)
    ours, percentiles = covered(clusters, 600, stats.norm(1.0, 2.0), generator)
    assert 0.914 < ours < 0.986
    assert percentiles < ours - {3: 0.15, 5: 0.07, 10: 0.02}[clusters]
    # Means of few skewed numbers are not normal: 88 to 90 % in long simulations; percentiles have 60 to 85.
    ours, percentiles = covered(clusters, 300, stats.expon(), generator)
    assert ours > max(0.81, percentiles)


def test_where_all_defined_resamples_agree_an_undefined_one_leaves_no_error() -> None:
    resamples = Resamples(np.array([[2, 0], [1, 1], [0, 2]]), np.array([0.25, 0.5, 0.25]))
    assert cluster_estimate(2.0, np.array([2.0, 2.0, 2.0]), resamples).standard_error == 0
    assert np.isnan(cluster_estimate(2.0, np.array([2.0, 2.0, np.nan]), resamples).standard_error)


def test_an_undefined_resample_counts_as_the_farthest() -> None:
    resamples = Resamples.of(2)
    found = cluster_estimate(1.0, np.array([0.0, 1.0, np.nan]), resamples)
    # Mean of those defined (0 · 1/4 + 1 · 1/2) / (3/4) = 2/3; squares 4/9, 1/9 and for the undefined one 4/9.
    assert found.standard_error == pytest.approx(((4 / 9 / 4 + 1 / 9 / 2 + 4 / 9 / 4) * 2) ** 0.5)
    nothing = cluster_estimate(1.0, np.array([np.nan, np.inf, np.nan]), resamples)
    assert np.isnan(nothing.interval(0.5)).all()
    assert nothing.p_value(0.0) == 1


def test_no_spread_but_rounding_is_none() -> None:
    assert cluster_estimate(0.3, 0.3 + 1e-17 * np.arange(10), Resamples.of(3)).standard_error == 0


def test_a_run_drawn_twice_is_two_runs() -> None:
    """A statistic that groups rows by run finds as many groups in every resample."""
    runs = [pl.DataFrame({"run": [f"run {seed}"], "seed": [seed]}) for seed in (1, 2, 3)]
    found = SeedBootstrap.of(runs).estimate(lambda frames: pl.concat(frames)["run"].n_unique())
    assert (found.value, found.standard_error) == (3, 0)


def test_a_statistic_that_is_no_number_for_some_of_the_seeds_is_refused() -> None:
    runs = [pl.DataFrame({"seed": [seed], "trace": [1.0]}) for seed in (1, 2, 3)]
    with pytest.raises(BadInput, match="a statistic returns None for some of the seeds; let it return a"):
        SeedBootstrap.of(runs).estimate(lambda frames: 1.0 if len(frames) == 3 else None)  # type: ignore
