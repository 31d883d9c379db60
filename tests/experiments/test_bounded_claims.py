"""Claims about statistics that have a largest or a least possible value, such as correlations and ranges."""

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.claims import CONFIDENCE, Claim, judge
from isoloss.results.verdict import Verdict, below


def mean_value(runs: list[pl.DataFrame]) -> float:
    return float(np.mean([run["value"][0] for run in runs]))


@pytest.mark.parametrize(
    ("values", "limit", "lowest"),
    [
        pytest.param([0.1, 0.9, 0.2, 0.4, 0.1], np.inf, 0.0, id="lowest", marks=pytest.mark.thorough),
        pytest.param([0.99, 0.6, 0.95, 0.9, 0.98], 1.0, -np.inf, id="limit", marks=pytest.mark.thorough),
        pytest.param([0.1, 0.9, 0.2, 0.4, 0.1], 1.0, 0.0, id="both"),
    ],
)
def test_verdict_and_p_value_agree_and_the_interval_keeps_the_bounds(values, limit, lowest):
    runs = [pl.DataFrame({"seed": seed, "value": [value]}) for seed, value in enumerate(values)]
    verdicts = set()
    for bound in np.linspace(0.02, 0.98, 25).tolist():
        claim = Claim("small", "", "", "", "", below(bound), mean_value, limit=limit, lowest=lowest)
        (judged,) = judge([claim], runs)
        assert lowest <= judged.low < judged.effect < judged.high <= limit
        assert (judged.verdict != Verdict.INCONCLUSIVE) == (judged.p_value <= 1 - CONFIDENCE)
        verdicts.add(judged.verdict)
    assert len(verdicts) > 1
