import numpy as np
import polars as pl
import pytest

from isoloss.experiments.claims import judge
from isoloss.experiments.suite.flatness_measures import CLAIMS, ranking_panel
from isoloss.results.verdict import Verdict

MEASURES = ("normalised_trace", "top_eigenvalue", "gradient_norm", "sam_0.05")


def run_of(seed: int, traces: np.ndarray, others: np.ndarray, accuracies: np.ndarray) -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    drawn = {"loss": 2 + generator.random(len(traces)), "parameters": generator.integers(1, 4, len(traces))}
    measured = {"trace": traces, "accuracy": accuracies, **dict.fromkeys(MEASURES, others)}
    return pl.DataFrame({"run": f"seed-{seed}", "seed": seed, **drawn, **measured})


def runs_where(trace_ranks: float) -> list[pl.DataFrame]:
    """The trace ranks accuracy well (1) or the wrong way round (-1), the other measures the other way."""
    generator = np.random.default_rng(0)
    runs = []
    for seed in range(1, 5):
        accuracies = generator.random(12)
        noise = generator.random((2, 12)) / 5
        ranked = trace_ranks * accuracies
        runs.append(run_of(seed, 3 - ranked + noise[0], 3 + ranked + noise[1], accuracies))
    return runs


@pytest.mark.thorough
@pytest.mark.parametrize(("ranks", "expected"), [(1.0, Verdict.SUPPORTED), (-1.0, Verdict.NOT_SUPPORTED)])
def test_every_claim_can_hold_and_fail(ranks, expected) -> None:
    verdicts = {judged.claim.name: judged.verdict for judged in judge(CLAIMS, runs_where(ranks))}
    assert set(verdicts.values()) == {expected}


def test_the_table_ranks_every_measure() -> None:
    panel = ranking_panel("ranks", "Ranks", runs_where(1.0)[:3], MEASURES)
    values = {(row["measure"], row["coefficient"]): row for row in panel.data.iter_rows(named=True)}
    assert {measure for measure, _ in values} == {"trace", *MEASURES, "loss"}
    trace = values["trace", "Spearman"]
    assert 0.5 < trace["low"] < trace["value"] < trace["high"] <= 1
    assert (trace["checkpoints"], trace["seeds"]) == (36, 3)
    assert values["top_eigenvalue", "Kendall"]["high"] < 0
