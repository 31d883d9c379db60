import math

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.claims import judge
from isoloss.experiments.statistics.along_runs import MeanOverSeeds
from isoloss.experiments.statistics.same_loss import rows_at_same_loss
from isoloss.experiments.suite.update_rules import (
    CLAIMS,
    PEERS,
    REGULARISED,
    against_reference,
    flatter_is_better,
)
from isoloss.results.verdict import Verdict

FLATTER_IS_BETTER = MeanOverSeeds(flatter_is_better)


def frame(rule: str, seed: int, trace: float, accuracy: float) -> pl.DataFrame:
    columns = {"kl_error": 0.001, "trace_error": 0.3, "accuracy_error": 0.04, "accuracy": accuracy}
    sentences = dict.fromkeys(("loss_sentences", "trace_sentences", "accuracy_sentences"), 50)
    constant = {"run": f"{rule}-{seed}", "rule": rule, "seed": seed, "complete": True, "trace": trace}
    falling = {"step": [10, 20], "loss": [2.0, 1.5], "kl": [0.6, 0.1]}
    return pl.DataFrame({**falling, **constant, **columns, **sentences})


def runs_of(
    slope: float, regularised: tuple[float, float], generator: np.random.Generator
) -> list[pl.DataFrame]:
    """Peers 1 to 4 doublings sharper (`slope` -1) or flatter (1) than AdamW; sharper is better."""
    runs = []
    for seed in range(1, 9):
        noise = generator.random() / 100
        runs += [frame("AdamW", seed, 16.0 + noise, 0.8)]
        runs += [frame(REGULARISED, seed, regularised[0] + noise, regularised[1] + noise)]
        for by, rule in enumerate(PEERS, start=1):
            accuracy = 0.8 + slope * 0.02 * by + generator.normal() / 60
            runs.append(frame(rule, seed, 16.0 * 2 ** (-slope * by) + noise, accuracy))
    return runs


def test_flatter_and_better_are_correlated_over_pairs() -> None:
    generator = np.random.default_rng(0)
    assert FLATTER_IS_BETTER(runs_of(1.0, (15.0, 0.81), generator)) > 0.8
    # Sharper peers do worse still: the same correlation.
    assert FLATTER_IS_BETTER(runs_of(-1.0, (15.0, 0.81), generator)) > 0.8
    sharper_better = [frame("AdamW", 1, 16.0, 0.8), frame("Lion", 1, 32.0, 0.9), frame("SOAP", 1, 8.0, 0.7)]
    assert FLATTER_IS_BETTER(sharper_better) == -1.0
    assert math.isnan(FLATTER_IS_BETTER(sharper_better[:1]))
    # Seeds are not ranked together: the second's rules are all flatter, and all worse, than the first's.
    second = [
        frame(rule, 2, trace / 64, accuracy / 2)
        for rule, trace, accuracy in (("AdamW", 9999.0, 0.0), ("Lion", 32.0, 0.7), ("SOAP", 8.0, 0.9))
    ]
    assert FLATTER_IS_BETTER([*sharper_better, *second]) == 0.0
    # A seed with a single pair counts as if it had not been run.
    third = [frame("AdamW", 3, 16.0, 0.8), frame("Lion", 3, 32.0, 0.9)]
    assert FLATTER_IS_BETTER([*sharper_better, *third]) == -1.0


@pytest.mark.thorough
@pytest.mark.parametrize("expected", [Verdict.SUPPORTED, Verdict.NOT_SUPPORTED])
def test_every_claim_can_hold_and_fail(expected) -> None:
    generator = np.random.default_rng(1)
    if expected is Verdict.SUPPORTED:
        runs = runs_of(1.0, (8.0, 0.83), generator)
    else:
        # All rules are sharper than AdamW, and sharper is better except for the regulariser, the sharpest.
        runs = [
            frame(rule, seed, 16.0 * 2**by + generator.random() / 100, 0.8 + gain + generator.normal() / 60)
            for seed in range(1, 6)
            for by, gain, rule in [(0, 0, "AdamW"), (1, -0.1, REGULARISED)]
            + [(by, 0.02 * by, rule) for by, rule in enumerate(PEERS, start=2)]
        ]
    verdicts = {judged.claim.name: judged.verdict for judged in judge(CLAIMS, runs)}
    # All rules have one KL here, so that nothing is to be told apart from it.
    assert verdicts.pop("flatter-is-better-at-one-kl") == Verdict.INCONCLUSIVE
    assert set(verdicts.values()) == {expected}


def test_differences_from_adamw_have_both_errors() -> None:
    table = pl.concat([frame("AdamW", 1, 16.0, 0.8), frame("Lion", 1, 4.0, 0.9)])
    row = against_reference(rows_at_same_loss(table, ["Lion"], "AdamW", ["trace", "accuracy"])).row(
        0, named=True
    )
    assert row["doublings"] == pytest.approx(-2.0)
    assert row["doublings_error"] == pytest.approx(math.hypot(0.3 / 16, 0.3 / 4) / math.log(2))
    assert row["gain"] == pytest.approx(10.0)
    assert row["gain_error"] == pytest.approx(4.0 * math.sqrt(2))
