"""The slope of accuracy over the trace at one KL, on made-up runs whose slopes are known."""

import math

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.statistics.partial_slope import PartialSlope


def made_up(of_trace: float, of_kl: float, noise: float = 0.0, seeds: int = 6) -> list[pl.DataFrame]:
    """Two runs a seed, each with a level of its own; their traces and KL fall together, not quite in step."""
    generator = np.random.default_rng(3)
    runs = []
    for seed in range(seeds):
        for width in (16, 32):
            doublings = np.arange(8) / 2
            trace = 5 - doublings + generator.normal(0, 0.3, 8)
            kl = -8 - 0.6 * doublings + generator.normal(0, 0.3, 8)
            level = 80 + generator.normal(0, 5)
            accuracy = level + of_trace * trace + of_kl * kl + generator.normal(0, noise, 8)
            columns = {"trace": 2**trace, "kl": 2**kl, "loss": 1.4 + 2**kl, "accuracy": accuracy / 100}
            runs.append(pl.DataFrame({"run": f"{width}-{seed}", "seed": seed, "width": width, **columns}))
    return runs


@pytest.mark.parametrize(("of_trace", "of_kl"), [(-2.0, 0.0), (0.0, -3.7), (-1.0, -3.0), (1.5, -6.0)])
def test_it_is_the_slope_that_the_runs_were_made_with(of_trace: float, of_kl: float) -> None:
    assert PartialSlope("run")(made_up(of_trace, of_kl)) == pytest.approx(of_trace, abs=1e-9)
    assert PartialSlope("run")(made_up(of_trace, of_kl, noise=0.2)) == pytest.approx(of_trace, abs=0.3)


def test_it_agrees_with_the_regression_of_another_library() -> None:
    import statsmodels.formula.api as smf

    runs = made_up(-1.0, -3.0, noise=1.0)
    rows = pl.concat(runs).with_columns(
        a=100 * pl.col("accuracy"), t=pl.col("trace").log(2), k=pl.col("kl").log(2)
    )
    for within in ("run", "seed"):
        fitted = smf.ols(f"a ~ t + k + C({within})", data=rows.to_dict(as_series=False)).fit()
        assert PartialSlope(within)(runs) == pytest.approx(fitted.params["t"], rel=1e-9)


def test_only_checkpoints_near_the_groups_lowest_loss_count() -> None:
    """Far from it everything is different: there accuracy rises with the trace."""
    runs = made_up(-2.0, -1.0)
    far = [run.with_columns(loss=pl.lit(3.0), accuracy=pl.col("trace") / 100) for run in runs]
    mixed = [pl.concat(pair) for pair in zip(runs, far, strict=True)]
    assert PartialSlope("seed", window=0.02)(mixed) == PartialSlope("seed", window=0.02)(runs)
    assert PartialSlope("seed")(mixed) != pytest.approx(PartialSlope("seed")(runs), abs=0.1)


def test_it_is_undefined_where_trace_and_kl_are_one() -> None:
    same = [run.with_columns(trace=3 * pl.col("kl") ** 2) for run in made_up(-1.0, 0.0)]
    assert math.isnan(PartialSlope("run")(same))
    assert math.isnan(PartialSlope("run")([]))
    assert math.isnan(PartialSlope("run")([made_up(-1.0, 0.0)[0].head(1)]))
