import polars as pl

from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.other_distributions import other_distributions
from isoloss.experiments.suite.roots_or_trace import CLAIMS, roots_or_trace


def test_its_runs_are_those_of_the_other_distributions() -> None:
    runs = roots_or_trace(scale_named("laptop")).runs
    assert len(shared([*runs, *other_distributions(scale_named("laptop")).runs])) == len(runs)


def test_every_claim_can_be_met_and_can_fail() -> None:
    falling, noisy = [9.0, 6.0, 4.0, 3.0], [30.0, 20.0, 25.0, 31.0]
    columns = {"seed": [1] * 4, "step": [1, 2, 4, 8], "accuracy": [0.1, 0.2, 0.3, 0.4]}
    met = pl.DataFrame({**columns, "root_fisher": falling, "trace": noisy})
    against = pl.DataFrame({**columns, "root_fisher": falling[::-1], "trace": falling})
    for claim in CLAIMS:
        assert claim.claimed.low < claim.statistic([met]) < claim.claimed.high, claim.name
        assert not claim.claimed.low < claim.statistic([against]) < claim.claimed.high, claim.name
