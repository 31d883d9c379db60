import polars as pl
import pytest

from isoloss.experiments.dyck_continuations import ADVERSARY, AT, PLAIN
from isoloss.experiments.scale import scale_named
from isoloss.experiments.statistics.along_runs import MeanOverSeeds
from isoloss.experiments.suite.dyck_transfer import (
    CLAIMS,
    ERROR,
    ERROR_PER_DOUBLING,
    dyck_transfer,
    error_without_adversary,
    flattest_against_rest,
)

WAYS = (PLAIN, "flattened", ADVERSARY)


def frames(
    traces: tuple[float, ...], errors: tuple[float, ...], losses: tuple[float, ...]
) -> list[pl.DataFrame]:
    """One run per seed and way."""
    found = []
    for seed in (1, 2, 3):
        for way, trace, error, loss in zip(WAYS, traces, errors, losses, strict=True):
            place = {"run": f"{way}-{seed}", "seed": seed, "way": way, "step": 3000}
            numbers = {"trace": trace * (1 + seed / 10), ERROR: error * (1 + seed / 10)}
            found.append(pl.DataFrame([{**place, **numbers, "loss": loss, "kl": loss - 0.508}]))
    return found


def test_every_claim_can_be_met_and_can_fail() -> None:
    met = frames((20.0, 8.0, 16.0), (0.4, 0.1, 0.3), (0.5090, 0.5091, 0.5092))
    against = frames((20.0, 18.0, 19.0), (0.1, 0.4, 0.3), (0.52, 0.53, 0.54))
    for claim in CLAIMS:
        assert claim.claimed.low < claim.statistic(met) < claim.claimed.high, claim.name
        assert not claim.claimed.low < claim.statistic(against) < claim.claimed.high, claim.name
    assert MeanOverSeeds(flattest_against_rest)(met) == pytest.approx(1.79, abs=0.01)


def test_without_the_adversary_the_slope_is_that_of_the_other_ways() -> None:
    """Error as the trace cubed among the others, whatever the adversary's is."""
    for of_adversary in (1e-4, 1.0):
        runs = frames((16.0, 8.0, 64.0), (0.8, 0.1, of_adversary), (0.509,) * 3)
        assert error_without_adversary(runs) == pytest.approx(3)
        assert abs(ERROR_PER_DOUBLING(runs) - 3) > 0.5


def test_the_ways_leave_one_beginning_and_end_together() -> None:
    settings = AT["laptop"]
    runs = dyck_transfer(scale_named("laptop"), settings).runs
    assert len(runs) == len(settings.seeds) * (1 + len(settings.others))
    for run in runs:
        assert run.language.ready == settings.language
        before = run.continues.step if run.continues else 0
        assert before + run.steps == settings.steps
        assert run.first_seed in settings.seeds


def test_the_panels_are_of_last_checkpoints() -> None:
    experiment = dyck_transfer(scale_named("smoke"), AT["smoke"])
    settings = AT["smoke"]
    met = pl.concat(frames((20.0, 8.0, 16.0), (0.4, 0.1, 0.3), (0.509,) * 3))
    met = met.with_columns(pl.lit(0.2).alias(f"count_error_{n}") for n in settings.samples if n != 8)
    early = met.filter(pl.col("way") == PLAIN).with_columns(step=pl.lit(1, pl.Int64))
    transfer, loss = experiment.panels(pl.concat([met, early]))
    assert len(transfer.data) == len(loss.data) == 9
    assert "after one step" in transfer.caption
