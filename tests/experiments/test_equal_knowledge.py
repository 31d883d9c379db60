import math

import polars as pl
import pytest

from isoloss.experiments.equal_knowledge import (
    BRANCH,
    CONTROL,
    FLATTENED,
    POLISHED,
    SHARPENED,
    STAGE,
    START,
    most_divergent,
    per_doubling,
    polished,
    share_of_fall,
)
from isoloss.experiments.statistics.across_models import DoublingsApart
from isoloss.experiments.statistics.along_runs import in_doublings, in_points
from isoloss.experiments.suite.flatten_polish import rounding_per_doubling

BITS = {"kl_bits_8": 1.0, "kl_bits_6": 2.0, "kl_bits_4": 1.5}
"""Powers of the trace in which damage grows."""


def model(seed: int, stage: str, branch: str, width: int = 48, **columns: float) -> pl.DataFrame:
    place = {"language": "one", "width": width, "seed": seed, STAGE: stage, "branch": branch}
    return pl.DataFrame({**place, **columns})


def models(levels: dict[tuple[int, int], float], slope: float) -> list[pl.DataFrame]:
    """Accuracy and damage that are lines over log2 trace, at a level of each start's own."""
    return [
        model(
            seed,
            POLISHED,
            branch,
            width,
            trace=2.0**x,
            accuracy=level + slope * x / 100,
            **{column: 2.0 ** (power * x) for column, power in BITS.items()},
        )
        for (seed, width), level in levels.items()
        for x, branch in ((3.0, FLATTENED), (5.0, CONTROL), (6.5, SHARPENED))
    ]


def test_slopes_are_those_within_starts() -> None:
    runs = models({(1, 48): 0.7, (1, 64): 0.9, (2, 48): 0.8}, slope=-1.5)
    assert per_doubling(in_points("accuracy"))(runs) == pytest.approx(-1.5)
    assert per_doubling(in_doublings("kl_bits_6"))(runs) == pytest.approx(2.0)
    assert rounding_per_doubling(runs) == pytest.approx((1.0 + 2.0 + 1.5) / 3)
    other = model(3, START, START, trace=9.0, accuracy=0.1)
    assert per_doubling(in_points("accuracy"))([*runs, other]) == pytest.approx(-1.5)


def test_without_polished_models_nothing_is_known() -> None:
    runs = [model(1, START, START, trace=9.0, accuracy=0.1, kl=1e-6)]
    assert all(
        math.isnan(statistic(runs))
        for statistic in (
            per_doubling(in_points("accuracy")),
            most_divergent,
            DoublingsApart("kl", polished, within="start"),
        )
    )
    assert math.isnan(share_of_fall(runs))


def test_knowledge_is_compared_within_starts() -> None:
    runs = [
        model(seed, POLISHED, branch, kl=kl)
        for seed, branch, kl in (
            (1, FLATTENED, 4e-6),
            (1, SHARPENED, 8e-6),
            (2, FLATTENED, 6e-6),
            (2, SHARPENED, 6e-6),
        )
    ]
    assert DoublingsApart("kl", polished, within="start")(runs) == pytest.approx(0.5)
    assert most_divergent(runs) == pytest.approx(0.7)


def test_the_fall_without_noise_is_a_share_of_that_with_it() -> None:
    runs = [model(1, START, START, trace=64.0), model(1, BRANCH, FLATTENED, trace=8.0)]
    runs += [model(1, BRANCH, CONTROL, trace=32.0), model(2, START, START, trace=64.0)]
    runs += [model(3, BRANCH, branch, trace=1.0) for branch in (FLATTENED, CONTROL)]  # without their start
    assert share_of_fall(runs) == pytest.approx(1 / 3)
    risen = [model(1, START, START, trace=8.0), model(1, BRANCH, FLATTENED, trace=16.0)]
    assert math.isnan(share_of_fall([*risen, model(1, BRANCH, CONTROL, trace=4.0)]))
