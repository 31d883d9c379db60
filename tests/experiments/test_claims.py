from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.claims import Claim, Judgement, judge, rank_correlation
from isoloss.verdict import Verdict


def mean_change(runs: Sequence[pl.DataFrame]) -> float:
    return float(np.mean([run["trace"][-1] - run["trace"][0] for run in runs]))


def falling(*, above: bool = False, threshold: float = 0.0) -> Claim:
    return Claim("later-flatter", "Later is flatter.", "", "mean change", "", threshold, above, mean_change)


def runs_changing_by(changes: Sequence[float]) -> list[pl.DataFrame]:
    return [pl.DataFrame({"step": [1, 2], "trace": [10.0, 10.0 + change]}) for change in changes]


@pytest.mark.parametrize(
    ("changes", "above", "verdict"),
    [
        ([-2.0, -1.9, -2.1, -2.0, -1.8], False, Verdict.SUPPORTED),
        ([2.0, 1.9, 2.1, 2.0, 1.8], False, Verdict.NOT_SUPPORTED),
        ([-2.0, 2.0, -1.0, 1.0, 0.1], False, Verdict.INCONCLUSIVE),
        ([2.0, 1.9, 2.1, 2.0, 1.8], True, Verdict.SUPPORTED),
        ([-2.0, -1.9, -2.1, -2.0, -1.8], True, Verdict.NOT_SUPPORTED),
    ],
)
def test_the_verdict_follows_from_the_interval(changes: list[float], above: bool, verdict: Verdict) -> None:
    (judgement,) = judge([falling(above=above)], runs_changing_by(changes))
    assert judgement.verdict == verdict
    assert judgement.effect == pytest.approx(np.mean(changes))
    assert judgement.low <= judgement.effect <= judgement.high


def test_one_run_or_an_undefined_statistic_is_inconclusive() -> None:
    (alone,) = judge([falling()], runs_changing_by([-5.0]))
    assert alone.verdict == Verdict.INCONCLUSIVE
    (undefined,) = judge([falling()], runs_changing_by([float("nan"), float("nan")]))
    assert undefined.verdict == Verdict.INCONCLUSIVE
    (empty,) = judge([falling()], [])
    assert empty.verdict == Verdict.INCONCLUSIVE


def test_more_claims_widen_every_interval() -> None:
    runs = runs_changing_by([-2.0, -1.0, -3.0, -0.5, -2.5, -1.5])

    def width(judgement: Judgement) -> float:
        return judgement.high - judgement.low

    (alone,) = judge([falling()], runs)
    among_four = judge([falling()] * 4, runs)[0]
    assert among_four.confidence == pytest.approx(1 - 0.05 / 4)
    assert width(among_four) > width(alone)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(40):
        (judgement,) = judge([falling()], runs_changing_by(list(generator.normal(-1.0, 1.0, 16))))
        covered += judgement.low <= -1.0 <= judgement.high
    # 95 % nominal, 38 of 40 with a spread of 1.4; the interval of 16 runs is slightly short.
    assert 33 <= covered <= 40


def test_rank_correlation_is_undefined_for_a_constant() -> None:
    assert np.isnan(rank_correlation(np.array([1.0, 1.0]), np.array([1.0, 2.0])))
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)
