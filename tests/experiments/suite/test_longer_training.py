from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.claims import judge
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.longer_training import AT, longer_training, longer_training_claims
from isoloss.results.verdict import Verdict

CLAIMS = longer_training_claims(20, "noise_1")


def frame(seed: int, factor: float, noise: float) -> pl.DataFrame:
    """Step 10 is before the usual end, 20 is the usual end, 80 the last; `factor` is how much is gained."""
    return pl.DataFrame(
        {
            "run": f"seed-{seed}",
            "seed": seed,
            "step": [10, 20, 80],
            "trace": [99.0, 8.0, 8.0 * 2 ** (-factor) + noise],
            "accuracy": [0.1, 0.8, 0.8 + factor / 10 + noise],
            "noise_1": [0.0, 0.02, 0.02 * 2**factor + noise],
            "fine_tuned": [0.1, 0.9, 0.9 - factor / 10 + noise],
        }
    )


def test_slopes_are_counted_from_the_usual_end() -> None:
    effects = {claim.name: claim.statistic([frame(1, 1.0, 0.0), frame(2, 3.0, 0.0)]) for claim in CLAIMS}
    assert effects["longer-is-flatter"] == pytest.approx(-2.0 / 2)
    assert effects["longer-harms-fine-tuning"] == pytest.approx(-20.0 / 2)


@pytest.mark.parametrize(("factor", "expected"), [(1.0, Verdict.SUPPORTED), (-1.0, Verdict.NOT_SUPPORTED)])
def test_every_claim_can_hold_and_fail(factor, expected) -> None:
    generator = np.random.default_rng(0)
    runs = [frame(seed, factor, generator.random() / 1000) for seed in range(1, 5)]
    assert {judged.verdict for judged in judge(CLAIMS, runs)} == {expected}


def test_a_checkpoint_stands_where_the_other_runs_end() -> None:
    scale = scale_named("smoke")
    steps = longer_training(scale, AT["smoke"]).runs[0].checkpoint_steps
    assert scale.grammar.steps in steps[:-1]
    shorter = replace(AT["smoke"], steps=40, checkpoint_steps=(20, 40))
    with pytest.raises(BadInput, match="must be a checkpoint before the last"):
        longer_training(scale, shorter)
