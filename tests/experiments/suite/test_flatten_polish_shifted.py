"""Other distributions at equal KL: what they cost is what is lost there, of polished models alone."""

import math

import polars as pl
import pytest

from isoloss.experiments.equal_knowledge import BRANCH, POLISHED, STAGE
from isoloss.experiments.suite.flatten_polish_shifted import AS_TRAINED, POINTS_LOST, UNIFORM


def model(stage: str, own: float, uniform: float, seed: int) -> pl.DataFrame:
    of = {STAGE: [stage], "language": ["l"], "width": [48], "seed": [seed]}
    return pl.DataFrame({**of, AS_TRAINED: [own], UNIFORM: [uniform]})


def test_points_are_lost_where_accuracy_is_lower_with_uniform_rules() -> None:
    runs = [model(POLISHED, 0.97, 0.90, 1), model(POLISHED, 0.98, 0.85, 2), model(BRANCH, 0.5, 0.9, 1)]
    assert POINTS_LOST(runs) == pytest.approx(10.0)
    assert math.isnan(POINTS_LOST(runs[2:]))
