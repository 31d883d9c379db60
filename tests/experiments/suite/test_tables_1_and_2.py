import math

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.claims import Claim, judge
from isoloss.experiments.compared_algorithms import ADVERSARIAL, SMALL, adversary_is_worse, algorithm_panels
from isoloss.experiments.suite.table_1 import (
    ADVERSARY_AT_WORK,
    CLAIMS_1,
    COLUMNS_1,
    TASK_A,
    TASK_B,
    advantage,
    share_at_work,
    surplus_loss,
)
from isoloss.experiments.suite.table_2 import CLAIMS_2, TASK_C
from isoloss.measurements.references import LOOKUP_TABLE
from isoloss.results.verdict import Verdict


def frame(rule: str, seed: int | None, loss: float, accuracy: float, trace: float) -> pl.DataFrame:
    """Two checkpoints that differ only in loss; a reference, which has no seed, is one row without trace."""
    last = {"loss": loss, TASK_A: accuracy, TASK_B: accuracy - 0.2, TASK_C: accuracy - 0.1, "trace": trace}
    last["kl"] = loss - 1.9
    rows = [{**last, "loss": loss + 0.5, "kl": loss - 1.4, "step": 10}, {**last, "step": 20}]
    columns = {f"{name}_error": 0.001 for name in last} | {f"{name}_sentences": 50 for name in last}
    run = rule if seed is None else f"{rule}-{seed}"
    whole = pl.DataFrame(rows).with_columns(
        pl.lit(run).alias("run"),
        pl.lit(rule).alias("rule"),
        pl.lit(seed, pl.Int64).alias("seed"),
        pl.lit(True).alias("complete"),
        *(pl.lit(value).alias(name) for name, value in columns.items()),
    )
    if seed is not None:
        return whole
    reference = whole.tail(1).with_columns(step=pl.lit(None, pl.Int64))
    return reference.drop("trace", "trace_error", "trace_sentences")


ON_C = adversary_is_worse("C", TASK_C, "")
AS_THE_PAPER = [
    frame("AdamW", 1, 2.0, 0.9, 8.0),
    frame(ADVERSARIAL, 1, 2.004, 0.8, 16.0),
    frame(SMALL, 1, 2.3, 0.83, 30.0).tail(1),
    frame(LOOKUP_TABLE, None, 1.99, 0.7, 0.0),
]


def test_the_statistics_are_what_their_claims_say() -> None:
    assert surplus_loss(AS_THE_PAPER) == pytest.approx(0.002)
    shorter = AS_THE_PAPER[1].head(1)  # at step 10 AdamW's loss is 2.5
    assert surplus_loss([AS_THE_PAPER[0], shorter]) == pytest.approx(2.504 / 2.5 - 1)
    assert math.isnan(surplus_loss(AS_THE_PAPER[1:]))
    assert advantage("AdamW", LOOKUP_TABLE, TASK_A)(AS_THE_PAPER) == pytest.approx(20.0)
    assert advantage(ADVERSARIAL, LOOKUP_TABLE, TASK_A)(AS_THE_PAPER) == pytest.approx(10.0)
    assert math.isnan(advantage("AdamW", LOOKUP_TABLE, TASK_A)(AS_THE_PAPER[:2]))
    assert advantage(ADVERSARIAL, SMALL, TASK_B)(AS_THE_PAPER) == pytest.approx(-3.0)
    assert math.isnan(advantage(ADVERSARIAL, SMALL, TASK_B)(AS_THE_PAPER[:2]))
    by_name = {claim.name: claim.statistic(AS_THE_PAPER) for claim in (*CLAIMS_1, *CLAIMS_2, *ON_C)}
    assert by_name["adversary-worse-on-a"] == pytest.approx(-10.0)
    assert by_name["adversary-worse-on-c"] == pytest.approx(-10.0)
    assert by_name["adversary-sharper"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("adversary", "lookup", "expected"),
    [((2.004, 0.8, 16.0), 0.7, Verdict.SUPPORTED), ((2.004, 0.95, 4.0), 0.99, Verdict.NOT_SUPPORTED)],
)
def test_every_claim_can_hold_and_fail(adversary, lookup, expected) -> None:
    generator = np.random.default_rng(0)
    runs = [frame(LOOKUP_TABLE, None, 1.99, lookup, 0.0)]
    for seed in range(1, 5):
        noise = generator.random() / 1000
        loss, accuracy, trace = adversary
        runs += [
            frame("AdamW", seed, 2.0 + noise, 0.9 + noise, 8.0 + noise),
            frame(ADVERSARIAL, seed, loss - noise, accuracy - noise, trace - noise),
            frame(SMALL, seed, 2.3, 0.86 + noise, 20.0).tail(1),
        ]
    for claims in (CLAIMS_1, CLAIMS_2, ON_C):
        found = {judged.claim: judged.verdict for judged in judge(claims, runs)}
        assert {found[claim] for claim in effects(claims)} == {expected}
    far = [run.with_columns(pl.col("loss", "kl") + (run["rule"][0] == ADVERSARIAL) / 10) for run in runs]
    premises = [claim for claim in CLAIMS_1 if claim.kind == "premise"]
    assert {judged.verdict for judged in judge(premises, runs)} == {Verdict.SUPPORTED}
    assert {judged.verdict for judged in judge(premises, far)} == {Verdict.NOT_SUPPORTED}


def at_work(seed: int, strengths: list[float], steps: tuple[int, ...] = (10, 20, 40)) -> pl.DataFrame:
    run = {"step": steps, "lambda": strengths, "seed": seed, "rule": ADVERSARIAL}
    return pl.DataFrame(run)


def test_an_adversary_that_never_came_within_its_window_fails_a_premise() -> None:
    assert share_at_work([at_work(1, [0.0, 0.1, 0.0]), *AS_THE_PAPER[:1]]) == 0.5
    assert share_at_work([at_work(1, [0.0, 0.1, 0.0]), at_work(2, [0.0, 0.2, 1.0])]) == 0.75
    assert math.isnan(share_at_work(AS_THE_PAPER[:1]))
    for strengths, expected in (
        ([[0.0, 0.3, 1.0]] * 6, Verdict.SUPPORTED),
        ([[0.0, 0.3, 1.0]] * 4 + [[0.0, 0.0, 0.1]], Verdict.SUPPORTED),
        ([[0.9, 0.0, 0.0]] * 6, Verdict.NOT_SUPPORTED),
        ([[0.0, 0.0, 0.0]] * 4 + [[0.0, 0.0, 0.1]], Verdict.NOT_SUPPORTED),
        ([[0.0, 0.1, 0.0]] * 3 + [[0.0, 0.1, 0.1], [0.0, 0.0, 0.0]], Verdict.INCONCLUSIVE),
    ):
        (judged,) = judge([ADVERSARY_AT_WORK], [at_work(n, run) for n, run in enumerate(strengths, 1)])
        assert judged.verdict == expected
        assert 0 <= judged.low <= judged.high <= 1


def effects(claims: tuple[Claim, ...]) -> list[Claim]:
    """But for the regression, which two runs a seed do not settle, and which has tests of its own."""
    return [claim for claim in claims if claim.kind == "effect" and "flatter" not in claim.name]


def test_the_table_has_a_row_an_algorithm_and_its_errors() -> None:
    runs = [*AS_THE_PAPER, frame("AdamW", 2, 2.0, 0.8, 8.0), frame(ADVERSARIAL, 2, 2.004, 0.8, 16.0)]
    summary, pairs = algorithm_panels(pl.concat(runs, how="diagonal"), COLUMNS_1, ())
    rows = {row["rule"]: row for row in summary.data.iter_rows(named=True)}
    assert list(rows) == ["AdamW", ADVERSARIAL, SMALL, LOOKUP_TABLE]
    assert rows[SMALL]["loss"] == pytest.approx(2.3)
    assert rows["AdamW"][TASK_A] == pytest.approx(0.85)
    assert rows["AdamW"][f"{TASK_A}_error"] == pytest.approx(0.05)
    assert rows[LOOKUP_TABLE][TASK_B] == pytest.approx(0.5)
    assert rows[LOOKUP_TABLE]["runs"] is None
    assert pairs.data.height == 4
    assert pairs.data["same_loss"].unique().to_list() == ["yes"]


def test_tables_of_no_runs_are_empty() -> None:
    none = pl.concat(AS_THE_PAPER, how="diagonal").clear()
    assert all(panel.data.is_empty() for panel in algorithm_panels(none, COLUMNS_1, ()))
