import math

import polars as pl
import pytest

from isoloss.experiments.statistics.same_loss import (
    MeanAtSameLoss,
    MeanAtSameStep,
    at_same_loss,
    curve,
    doublings,
    falling,
    mean_over_runs,
    percentage_points,
    rows_at_same_loss,
)


def run_of(
    rule: str, seed: int, losses: list[float], traces: list[float], accuracies: list[float] | None = None
) -> pl.DataFrame:
    """Checkpoints at steps that double; the loss's own error, also that of the entropy, is not to be used."""
    columns = {"loss": losses, "trace": traces, "accuracy": accuracies or [0.5] * len(losses)}
    errors = {"loss_error": 1.0, "kl_error": 0.001, "trace_error": 1.0, "accuracy_error": 0.01}
    told = {"run": f"{rule}-{seed}", "rule": rule, "seed": seed, "complete": True}
    steps = [100 * 2**i for i in range(len(losses))]
    return pl.DataFrame(
        {**told, "step": steps, **columns, **errors, **{f"{name}_sentences": 50 for name in columns}}
    )


ADAMW = run_of("AdamW", 1, [2.0, 1.8, 1.6], [40.0, 20.0, 10.0], [0.7, 0.8, 0.9])
SLOW = run_of("Lion", 1, [2.0, 1.9, 1.7], [80.0, 80.0, 60.0], [0.6, 0.6, 0.8])


def test_runs_meet_at_the_lowest_loss_that_both_reach() -> None:
    pair = at_same_loss(SLOW, ADAMW)
    assert pair is not None
    assert pair.run.point.step == 400
    # AdamW is at 1.7 half way, in the logarithm of the step, between 200 and 400.
    assert pair.reference.point.step == pytest.approx(200 * math.sqrt(2))
    assert pair.run.value("trace").value == 60
    assert pair.reference.value("trace").value == pytest.approx(15)
    assert pair.reference.value("accuracy").value == pytest.approx(0.85)
    assert pair.verdict == "yes"


def test_a_lucky_dip_is_no_crossing() -> None:
    """The loss dips to 1.6 and comes back: on average it is there only at the end."""
    dipping = run_of("Lion", 1, [2.0, 1.6, 1.9, 1.6], [80.0, 70.0, 60.0, 50.0], [0.6, 0.6, 0.7, 0.8])
    pair = at_same_loss(dipping, ADAMW)
    assert pair is not None
    assert pair.run.value("trace").value == 50
    levels = [estimate.value for estimate in falling(curve(dipping, "loss", "kl_error")).estimates]
    assert levels == pytest.approx([2.0, 1.75, 1.75, 1.6])
    assert falling(curve(ADAMW, "loss", "kl_error")) == curve(ADAMW, "loss", "kl_error")


def test_whether_losses_are_the_same_is_told_of_the_measured_ones() -> None:
    """1.4, 1.44 and 1.42 are reached together, at the first of their steps, where the loss is 1.4."""
    dipping = run_of("Lion", 1, [1.5, 1.4, 1.44, 1.42], [80.0, 70.0, 60.0, 50.0], [0.6, 0.6, 0.7, 0.8])
    steady = run_of("AdamW", 1, [1.5, 1.46, 1.43, 1.42], [80.0, 70.0, 60.0, 50.0], [0.6, 0.6, 0.7, 0.8])
    pair = at_same_loss(dipping, steady)
    assert pair is not None
    assert (pair.run.loss.value, pair.reference.loss.value) == pytest.approx((1.4, 1.42))
    assert pair.verdict == "no"


def test_noisy_losses_leave_open_whether_they_are_the_same() -> None:
    noisy = SLOW.with_columns(kl_error=pl.lit(0.01))
    pair = at_same_loss(noisy, ADAMW)
    assert pair is not None
    assert pair.verdict == "open"


def test_the_mean_is_over_seeds_that_have_both_runs() -> None:
    second = ADAMW.with_columns(seed=pl.lit(2), trace=pl.col("trace") * 4)
    slow = SLOW.with_columns(seed=pl.lit(2))
    alone = SLOW.with_columns(seed=pl.lit(3))
    ratio = MeanAtSameLoss("Lion", "AdamW", "trace", doublings)
    assert ratio([SLOW, ADAMW]) == pytest.approx(2.0)
    assert ratio([SLOW, slow, alone, ADAMW, second]) == pytest.approx((2.0 + 0.0) / 2)
    gain = MeanAtSameLoss("Lion", "AdamW", "accuracy", percentage_points)
    assert gain([SLOW, ADAMW]) == pytest.approx(-5.0)


def test_runs_without_a_common_loss_have_no_comparison() -> None:
    far = run_of("Lion", 1, [3.0, 2.9], [1.0, 1.0], [0.5, 0.5])
    assert at_same_loss(far, ADAMW) is None
    assert math.isnan(MeanAtSameLoss("Lion", "AdamW", "trace", doublings)([far, ADAMW]))
    assert math.isnan(MeanAtSameLoss("Lion", "AdamW", "trace", doublings)([ADAMW]))


def test_rows_show_both_sides_of_a_pair_and_their_mean() -> None:
    rows = rows_at_same_loss(pl.concat([SLOW, ADAMW]), ["Lion", "SOAP"], "AdamW", ["trace"])
    assert rows["rule"].to_list() == ["AdamW", "Lion"]
    assert rows["against"].to_list() == ["Lion", "Lion"]
    assert rows["loss"].to_list() == pytest.approx([1.7, 1.7])
    assert rows["trace"].to_list() == pytest.approx([15.0, 60.0])
    # Between two checkpoints the errors of both weigh in, and the slope of 10 over a doubling by the place's,
    # which has the errors of both losses: it is that at which they are the same.
    place = math.hypot(0.001, 0.001) * math.log(2) / 0.2
    assert rows["trace_error"][0] == pytest.approx(math.hypot(1.0, place * 10 / math.log(2)))
    # The other run has that loss by definition, at a checkpoint.
    assert rows["trace_error"][1] == 1.0
    means = mean_over_runs(pl.concat([rows, rows.with_columns(pl.col("trace") + 2)]), ["trace"])
    assert means["trace"].to_list() == pytest.approx([16.0, 61.0])
    assert means["trace_error"].to_list() == pytest.approx([1.0, 1.0])
    assert means["runs"].to_list() == [2, 2]


def test_unfinished_runs_and_empty_tables_have_no_rows() -> None:
    unfinished = pl.concat([SLOW, ADAMW.with_columns(complete=pl.lit(False))])
    for table in (unfinished, unfinished.clear()):
        rows = rows_at_same_loss(table, ["Lion"], "AdamW", ["trace"])
        assert rows.is_empty()
        assert "trace_error" in rows.columns


AT_STEP = MeanAtSameStep("Muon", "AdamW", "trace", doublings)


def test_it_is_the_mean_over_the_steps_of_the_last_doubling_and_over_seeds() -> None:
    flat = [1.0] * 4
    runs = [
        run_of("AdamW", 1, flat, [99.0, 8.0, 8.0, 8.0]),
        run_of("Muon", 1, flat, [1.0, 64.0, 16.0, 4.0]),
        run_of("AdamW", 2, flat, [1.0, 1.0, 1.0, 1.0]),
        run_of("Muon", 2, flat, [1.0, 1.0, 8.0, 8.0]),
        run_of("Muon", 3, flat, [1.0, 1.0, 1.0, 1.0]),
    ]
    assert AT_STEP(runs) == pytest.approx((0.0 + 3.0) / 2)


def test_steps_at_other_losses_do_not_count() -> None:
    apart = [
        run_of("AdamW", 1, [1.0] * 4, [1.0] * 4),
        run_of("Muon", 1, [1.0, 1.0, 1.01, 1.004], [2.0, 2.0, 2.0, 4.0]),
    ]
    assert AT_STEP(apart) == 2.0
    assert MeanAtSameStep("Muon", "AdamW", "trace", doublings, window=None)(apart) == 1.5
    assert math.isnan(AT_STEP([apart[0], run_of("Muon", 1, [1.1] * 4, [2.0] * 4)]))


def test_what_steps_alone_do_shows_at_one_loss_and_not_at_one_step() -> None:
    """Traces that depend on steps alone, of a rule that is twice as fast: equal at a step, not at a loss."""
    trace = [64.0, 32.0, 16.0, 8.0]
    faster = run_of("Muon", 1, [1.5, 1.2, 1.0, 0.999], trace)
    runs = [run_of("AdamW", 1, [2.0, 1.5, 1.2, 1.0], trace), faster]
    assert AT_STEP(runs) == 0
    assert MeanAtSameLoss("Muon", "AdamW", "trace", doublings)(runs) == pytest.approx(1.0, abs=0.05)
