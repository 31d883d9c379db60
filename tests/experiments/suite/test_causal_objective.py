import numpy as np
import polars as pl
import pytest

from isoloss.experiments.claims import judge
from isoloss.experiments.suite.causal_objective import CLAIMS, MASKED, NEXT_WORD, masked_advantage
from isoloss.results.verdict import Verdict


def frame(
    objective: str, seed: int, steps: list[int], traces: list[float], accuracies: list[float]
) -> pl.DataFrame:
    return pl.DataFrame({"step": steps, "trace": traces, "accuracy": accuracies}).with_columns(
        run=pl.lit(f"{objective}-{seed}"), objective=pl.lit(objective), seed=pl.lit(seed)
    )


def test_objectives_are_compared_at_the_last_step_that_both_have() -> None:
    masked = frame(MASKED, 1, [10, 20, 40], [1.0, 1.0, 1.0], [0.5, 0.8, 0.9])
    causal = frame(NEXT_WORD, 1, [10, 20], [1.0, 1.0], [0.4, 0.6])
    other_seed = frame(NEXT_WORD, 2, [10, 20], [1.0, 1.0], [0.0, 0.0])
    assert masked_advantage([masked, causal, other_seed]) == pytest.approx(20.0)
    assert np.isnan(masked_advantage([masked]))


@pytest.mark.parametrize(
    ("causal", "expected"),
    [(([8.0, 4.0], [0.5, 0.7]), Verdict.SUPPORTED), (([4.0, 8.0], [0.95, 0.93]), Verdict.NOT_SUPPORTED)],
)
def test_every_claim_can_hold_and_fail(causal, expected) -> None:
    generator = np.random.default_rng(0)
    runs = []
    for seed in range(1, 5):
        noise = generator.random() / 1000
        traces, accuracies = ([value * (1 + noise * i) for i, value in enumerate(v)] for v in causal)
        runs += [
            frame(MASKED, seed, [10, 20], [8.0, 4.0], [0.8, 0.9 + noise]),
            frame(NEXT_WORD, seed, [10, 20], traces, accuracies),
        ]
    assert {judged.verdict for judged in judge(CLAIMS, runs)} == {expected}
