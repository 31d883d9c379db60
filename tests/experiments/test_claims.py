from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from isoloss.errors import BadInput
from isoloss.experiments.claims import CONFIDENCE, Claim, Judgement, Kind, decided_in_one_family, judge
from isoloss.experiments.statistics.rank_correlation import rank_correlation
from isoloss.experiments.statistics.seed_bootstrap import SeedBootstrap
from isoloss.results.verdict import Region, Verdict, above, below, holm_adjusted, holm_levels, within


def mean_change(runs: Sequence[pl.DataFrame]) -> float:
    return float(np.mean([run["trace"][-1] - run["trace"][0] for run in runs]))


def falling(claimed: Region = below(0.0), *, kind: Kind = "effect") -> Claim:  # noqa: B008  (frozen)
    return Claim("later-flatter", "Later is flatter.", "", "mean change", "", claimed, mean_change, kind)


def run_of(seed: int | None, change: float, name: str = "run") -> pl.DataFrame:
    traces = [10.0, 10.0 + change]
    return pl.DataFrame({"run": f"{name} {seed}", "seed": seed, "step": [1, 2], "trace": traces})


def runs_changing_by(changes: Sequence[float]) -> list[pl.DataFrame]:
    return [run_of(seed, change) for seed, change in enumerate(changes)]


@pytest.mark.parametrize(
    ("changes", "claimed", "verdict"),
    [
        ([-2.0, -1.9, -2.1, -2.0, -1.8], below(0.0), Verdict.SUPPORTED),
        ([2.0, 1.9, 2.1, 2.0, 1.8], below(0.0), Verdict.NOT_SUPPORTED),
        ([-2.0, 2.0, -1.0, 1.0, 0.1], below(0.0), Verdict.INCONCLUSIVE),
        ([2.0, 1.9, 2.1, 2.0, 1.8], above(0.0), Verdict.SUPPORTED),
        ([-2.0, -1.9, -2.1, -2.0, -1.8], above(0.0), Verdict.NOT_SUPPORTED),
        ([2.0, 1.9, 2.1, 2.0, 1.8], above(1.0), Verdict.SUPPORTED),
        ([2.0, 1.9, 2.1, 2.0, 1.8], above(3.0), Verdict.NOT_SUPPORTED),
        ([2.0, 1.9, 2.1, 2.0, 1.8], above(2.0), Verdict.INCONCLUSIVE),
        ([0.1, -0.1, 0.2, 0.0, -0.1], within(1.0), Verdict.SUPPORTED),
        ([2.0, 1.9, 2.1, 2.0, 1.8], within(1.0), Verdict.NOT_SUPPORTED),
        ([1.0, 1.4, 0.6, 1.2, 0.9], within(1.0), Verdict.INCONCLUSIVE),
    ],
)
def test_the_verdict_follows_from_the_interval(
    changes: list[float], claimed: Region, verdict: Verdict
) -> None:
    (judgement,) = judge([falling(claimed)], runs_changing_by(changes))
    assert judgement.verdict == verdict
    assert judgement.effect == pytest.approx(np.mean(changes))
    assert judgement.low <= judgement.effect <= judgement.high
    assert (judgement.runs, judgement.seeds, judgement.confidence) == (5, 5, CONFIDENCE)


@pytest.mark.parametrize(
    "runs",
    [
        [],
        runs_changing_by([-5.0]),
        [run_of(1, -5.0, "small"), run_of(1, -5.1, "large"), run_of(1, -5.2, "larger")],
        [run_of(None, -5.0)],
        runs_changing_by([float("nan"), float("nan")]),
        runs_changing_by([float("inf"), 1.0, 2.0]),
        runs_changing_by([-5.0] * 5),
    ],
    ids=["none", "one run", "one seed", "a reference", "undefined", "infinite", "five that are the same"],
)
def test_too_little_to_go_by_is_inconclusive(runs: list[pl.DataFrame]) -> None:
    (judgement,) = judge([falling()], runs)
    assert judgement.verdict == Verdict.INCONCLUSIVE
    assert np.isnan([judgement.low, judgement.high]).all()


def test_many_seeds_that_agree_exactly_are_evidence() -> None:
    (six,) = judge([falling()], runs_changing_by([-5.0] * 6))
    assert (six.verdict, six.low, six.high) == (Verdict.SUPPORTED, -5, -5)
    assert six.p_value == 2**-5
    among_four = judge([falling()] * 4, runs_changing_by([-5.0] * 6))
    assert {judgement.verdict for judgement in among_four} == {Verdict.INCONCLUSIVE}


def test_runs_of_one_seed_are_one_cluster() -> None:
    """Each seed run at four sizes counts as much as each seed run once, not four times as much."""
    changes = [-2.0, -1.0, 0.5]
    once = runs_changing_by(changes)
    often = [run_of(seed, change, size) for seed, change in enumerate(changes) for size in "abcd"]
    (alone,), (repeated,) = judge([falling()], once), judge([falling()], often)
    assert (repeated.low, repeated.high) == pytest.approx((alone.low, alone.high))
    assert (repeated.runs, repeated.seeds) == (12, 3)


def test_a_reference_is_in_every_resample() -> None:
    """A statistic that is the distance from the reference is undefined in any resample without it."""

    def distance(runs: Sequence[pl.DataFrame]) -> float:
        reference = [run["trace"][-1] for run in runs if run["seed"][0] is None]
        ours = [run["trace"][-1] for run in runs if run["seed"][0] is not None]
        return float(np.mean(ours)) - reference[0]

    claim = Claim("apart", "", "", "", "", above(0.0), distance)
    runs = [*runs_changing_by([3.0, 3.5, 2.5]), run_of(None, 0.0)]
    (judgement,) = judge([claim], runs)
    (without,) = judge([falling(above(0.0))], runs[:3])
    assert (judgement.low, judgement.high) == pytest.approx((without.low, without.high))
    assert (judgement.runs, judgement.seeds) == (3, 3)


def test_a_seed_drawn_twice_is_two_seeds() -> None:
    """Runs of two rules are paired by seed; a join of copies under one seed would pair each with all."""

    def paired(runs: Sequence[pl.DataFrame]) -> float:
        rows = pl.concat(runs)
        first, second = (rows.filter(pl.col("run").str.starts_with(rule)) for rule in ("a", "b"))
        pairs = first.join(second, on=["seed", "step"])
        assert len(pairs) == len(first)
        return float((pairs["trace"] - pairs["trace_right"]).mean())

    runs = [run_of(seed, change, "a") for seed, change in enumerate([3.0, 3.5, 2.5])]
    runs += [run_of(seed, change, "b") for seed, change in enumerate([1.0, 0.0, 0.5])]
    found = SeedBootstrap.of(runs).estimate(paired)
    differences = np.array([2.0, 3.5, 2.0]) / 2
    assert found.value == pytest.approx(differences.mean())
    assert found.standard_error == pytest.approx(differences.std(ddof=1) / 3**0.5)


def test_a_table_without_one_seed_is_refused() -> None:
    with pytest.raises(BadInput, match="one seed in its column `seed`, not none"):
        judge([falling()], [pl.DataFrame({"trace": [1.0, 2.0]})])
    with pytest.raises(BadInput, match=r"one seed in its column `seed`, not \[1, 2\]"):
        judge([falling()], [pl.DataFrame({"seed": [1, 2], "trace": [1.0, 2.0]})])


def test_intervals_agree_with_the_verdicts_of_holms_procedure() -> None:
    runs = runs_changing_by([-2.0, -1.9, -2.1, -2.0, -1.8])
    claims = [falling(below(threshold)) for threshold in (0.0, -1.5, -1.7, -1.84, -1.9, -1.96)]
    judged = judge(claims, runs)
    verdicts = [judgement.verdict for judgement in judged]
    assert verdicts[:2] == [Verdict.SUPPORTED] * 2
    assert verdicts[-2:] == [Verdict.INCONCLUSIVE] * 2
    for judgement in judged:
        assert (judgement.verdict == Verdict.SUPPORTED) == (judgement.p_value <= 1 - CONFIDENCE)
    confidences = [judgement.confidence for judgement in judged]
    assert confidences == sorted(confidences, reverse=True)
    assert confidences[0] == pytest.approx(1 - 0.05 / 6)

    def width(judgement: Judgement) -> float:
        return judgement.high - judgement.low

    (alone,) = judge([falling()], runs)
    assert width(judged[0]) > width(alone)


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_the_closed_test_of_bonferroni(seed: int) -> None:
    """A hypothesis is rejected if Bonferroni rejects every intersection that contains it."""
    p_values = np.random.default_rng(seed).choice([0.004, 0.012, 0.012, 0.02, 0.03, 0.2, 1.0], 5).tolist()
    subsets = list(chain.from_iterable(combinations(range(5), size) for size in range(1, 6)))
    adjusted, levels = holm_adjusted(p_values), holm_levels(p_values, 0.05)
    for place in range(5):
        closed = max(
            min(1.0, len(subset) * min(p_values[i] for i in subset)) for subset in subsets if place in subset
        )
        assert adjusted[place] == pytest.approx(closed)
        assert (p_values[place] <= levels[place]) == (closed <= 0.05)


def test_the_same_runs_have_the_same_judgements() -> None:
    runs = runs_changing_by(np.random.default_rng(0).normal(-1, 1, 9).tolist())
    assert judge([falling()], runs) == judge([falling()], runs)


def test_premises_use_up_nothing_of_the_effects_confidence() -> None:
    runs = runs_changing_by([-2.0, -1.9, -2.1, -2.0, -1.8])
    alone = judge([falling(), falling(below(-1.9))], runs)
    among = judge(
        [falling(kind="premise"), falling(), falling(below(-1.5), kind="premise"), falling(below(-1.9))], runs
    )
    assert [among[1], among[3]] == alone
    assert [among[0].confidence, among[2].confidence] == [CONFIDENCE, CONFIDENCE]


def test_what_is_withdrawn_uses_up_nothing_of_the_effects_confidence() -> None:
    runs = runs_changing_by([-2.0, -1.9, -2.1, -2.0, -1.8])
    alone = judge([falling()], runs)
    effect, withdrawn = judge([falling(), replace(falling(), withdrawn="Nothing would decide it.")], runs)
    assert [effect] == alone
    assert withdrawn.confidence == CONFIDENCE
    assert decided_in_one_family([withdrawn, effect]) == 1


def test_an_equivalence_is_decided_by_the_bound_that_is_nearest() -> None:
    (judgement,) = judge([falling(within(1.0))], runs_changing_by([0.6, 0.4, 0.7, 0.2, 0.5]))
    (of_nearest,) = judge([falling(below(1.0))], runs_changing_by([0.6, 0.4, 0.7, 0.2, 0.5]))
    assert judgement.p_value == of_nearest.p_value
    assert judgement.verdict == of_nearest.verdict == Verdict.SUPPORTED


def test_an_open_claim_says_how_many_seeds_would_decide_it() -> None:
    changes = [-2.0, 1.0, -1.5, 0.4, -0.6]
    (judgement,) = judge([falling()], runs_changing_by(changes))
    needed = judgement.seeds_needed
    assert needed is not None
    spread = np.std(changes, ddof=1)
    reached = [stats.t.isf(0.025, n - 1) * spread / n**0.5 for n in (needed - 1, needed)]
    assert reached[1] <= -np.mean(changes) < reached[0]
    (decided,) = judge([falling()], runs_changing_by([-2.0, -1.9, -2.1, -2.0, -1.8]))
    (hopeless,) = judge([falling()], runs_changing_by([1.0, -1.0]))
    (undefined,) = judge([falling()], runs_changing_by([-1.0, float("nan")]))
    assert [each.seeds_needed for each in (decided, hopeless, undefined)] == [None] * 3


def test_among_others_an_open_claim_needs_the_seeds_that_decide_it_at_its_own_level() -> None:
    runs = runs_changing_by([-2.0, 1.0, -1.5, 0.4, -0.6])
    (alone,), (among_three, *_) = judge([falling()], runs), judge([falling()] * 3, runs)
    assert alone.seeds_needed is not None
    assert among_three.seeds_needed is not None
    assert among_three.seeds_needed > alone.seeds_needed


def mean_of_those_known(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over runs of their last trace, without nan, as for seeds without a pair."""
    known = [run["trace"][-1] for run in runs if np.isfinite(run["trace"][-1])]
    return float(np.mean(known)) if known else float("nan")


def runs_with(values: Sequence[float], seeds: int) -> list[pl.DataFrame]:
    """One run per seed; those beyond the `values` contribute nothing."""
    padded = [*values, *[float("nan")] * (seeds - len(values))]
    return [pl.DataFrame({"seed": seed, "trace": [value]}) for seed, value in enumerate(padded)]


@pytest.mark.parametrize("seeds", [5, 10])
def test_one_seed_that_contributes_decides_nothing(seeds: int) -> None:
    claim = Claim("low", "", "", "", "", below(0.0), mean_of_those_known)
    (judgement,) = judge([claim], runs_with([-9.0], seeds))
    assert (judgement.effect, judgement.verdict, judgement.seeds) == (-9, Verdict.INCONCLUSIVE, 1)
    assert np.isnan([judgement.low, judgement.high]).all()
    assert judgement.p_value == 1


@pytest.mark.parametrize("known", [2, 3, 5])
def test_seeds_that_contribute_nothing_count_as_if_they_had_not_been_run(known: int) -> None:
    values = np.random.default_rng(known).normal(-1, 1, known)
    found = SeedBootstrap.of(runs_with(values.tolist(), 10)).estimate(mean_of_those_known)
    peer = stats.ttest_1samp(values, 0.0)
    assert found.n == known
    assert found.standard_error == pytest.approx(values.std(ddof=1) / known**0.5)
    assert found.p_value(0.0) == pytest.approx(peer.pvalue)
    alone = SeedBootstrap.of(runs_with(values.tolist(), known)).estimate(mean_of_those_known)
    assert found == alone


def test_seeds_that_agree_contribute_though_none_is_missed() -> None:
    found = SeedBootstrap.of(runs_with([-5.0] * 6, 9)).estimate(mean_of_those_known)
    assert (found.n, found.standard_error) == (6, 0)
    # One row has no correlation, and five increasing rows have that of six.
    rising = [pl.DataFrame({"seed": seed, "x": [1.0 * seed], "y": [2.0 * seed]}) for seed in range(1, 7)]

    def correlation(runs: Sequence[pl.DataFrame]) -> float:
        rows = pl.concat(runs)
        return rank_correlation(rows["x"].to_numpy(), rows["y"].to_numpy())

    assert SeedBootstrap.of(rising).estimate(correlation).n == 6


def test_a_part_that_rests_on_one_seed_has_no_spread() -> None:
    """A difference of two means, one of a single seed: the others' agreement says nothing about its error."""
    runs = [run_of(seed, change, "b") for seed, change in enumerate([1.0, 1.1, 0.9, 1.0, 1.05])]
    runs.append(run_of(0, 5.0, "a"))

    def difference(runs: Sequence[pl.DataFrame]) -> float:
        first, second = (
            [run["trace"][-1] for run in runs if run["run"][0].startswith(rule)] for rule in ("a", "b")
        )
        return float(np.mean(first) - np.mean(second)) if first and second else float("nan")

    found = SeedBootstrap.of(runs).estimate(difference)
    assert (found.value, found.n) == (pytest.approx(3.99), 5)
    assert np.isnan(found.standard_error)


@pytest.mark.slow
def test_wrong_verdicts_are_as_rare_as_they_say_where_seeds_are_missing() -> None:
    """The expectation is 0, 5 % nominal; 200 samples of eight seeds, a third there: 4 errors are 6.2 %."""
    generator, samples, wrong = np.random.default_rng(0), 200, 0
    for _ in range(samples):
        values = generator.normal(size=max(1, generator.binomial(8, 1 / 3)))
        found = SeedBootstrap.of(runs_with(values.tolist(), 8)).estimate(mean_of_those_known)
        wrong += found.p_value(0.0) <= 0.05
    assert wrong / samples < 0.112


def test_effects_of_several_experiments_in_one_family_are_decided_by_holm_over_all() -> None:
    """Of k alike, all are decided together if k times their p-value is small, else none."""
    (effect,) = judge([falling()], runs_changing_by([-2.0, -1.0, -3.0, -0.2, -2.5]))
    (premise,) = judge([falling(kind="premise")], runs_changing_by([-2.0, -2.1, -1.9, -2.0, -2.0]))
    most = int((1 - CONFIDENCE) / effect.p_value)
    assert effect.verdict == Verdict.SUPPORTED
    assert 1 <= most < 20
    assert decided_in_one_family([effect] * most) == most
    assert decided_in_one_family([effect] * (most + 1)) == 0
    assert decided_in_one_family([premise, effect]) == 1
