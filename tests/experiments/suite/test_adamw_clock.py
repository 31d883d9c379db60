"""The claims about AdamW's clock, on traces that are a function of one clock or another."""

import math
from collections.abc import Callable

import polars as pl
import pytest

from isoloss.experiments.schedules import AdamWSchedule
from isoloss.experiments.suite.adamw_clock import AT, CLAIMS, adamw_panels

START_TRACE, START_ROOT, START_LOSS = 12.0, 80.0, 1.4


def without_batch(schedule: AdamWSchedule, step: int) -> float:
    """Halvings of the trace."""
    return math.log2(1 + 100 * schedule.time(step))


def with_batch(schedule: AdamWSchedule, step: int) -> float:
    return math.log2(1 + 10_000 * schedule.time(step) / schedule.batch_size)


def runs(halvings: Callable[[AdamWSchedule, int], float], root_share: float = 0.5) -> list[pl.DataFrame]:
    """Σ √H_ii falls by `root_share` of the trace's halvings along AdamW, by a quarter of them along SGD."""
    frames = []
    for seed in (1, 2, 3):
        place = {"language": "grammar", "width": 32, "seed": seed, "saturated": True, "complete": True}
        start = {"trace": START_TRACE, "root_fisher": START_ROOT, "loss": START_LOSS, "step": 5657}
        frames.append(
            pl.DataFrame([{"run": f"start-{seed}", **place, **start, "drift": "start", "pace": "start"}])
        )
        for branch in AT["laptop"].branches:
            part, schedule = branch.part, branch.schedule
            share = root_share if part == "drift" else 0.25
            rows = []
            for step in branch.steps:
                fallen = halvings(schedule, step) if part == "drift" else 1.0
                root = START_ROOT * 2 ** (-share * fallen)
                excess = schedule.learning_rate * root / (4 * schedule.batch_size**0.5)
                numbers = {"trace": START_TRACE * 2**-fallen, "root_fisher": root, "loss": START_LOSS}
                setting = {"learning_rate": schedule.learning_rate, "batch_size": schedule.batch_size}
                own = {"run": f"{branch.key}-{part}-{seed}", "drift": part, "pace": branch.variant}
                numbers |= {"step": step, "raw_loss": START_LOSS + excess}
                rows.append({**place, **own, **setting, **numbers})
            frames.append(pl.DataFrame(rows))
    return frames


def test_by_a_clock_without_batch_all_claims_hold() -> None:
    found = runs(without_batch)
    effects = {claim.name: claim.statistic(found) for claim in CLAIMS}
    assert effects["loss-stands"] == pytest.approx(0)
    assert effects["one-clock"] == pytest.approx(0, abs=0.02)  # steps are integers
    assert effects["batch-does-not-matter"] == pytest.approx(0, abs=0.02)
    assert effects["excess-loss"] == pytest.approx(0)
    assert effects["root-before-trace"] == pytest.approx(0.5)
    assert all(claim.claimed.low < effects[claim.name] < claim.claimed.high for claim in CLAIMS)


def test_by_the_clock_of_sgd_they_fail() -> None:
    found = runs(with_batch, root_share=-0.5)
    effects = {claim.name: claim.statistic(found) for claim in CLAIMS}
    assert effects["one-clock"] > 0.8
    assert effects["batch-does-not-matter"] == pytest.approx(1, abs=0.05)
    assert effects["root-before-trace"] < -0.2


def test_the_panels_show_the_clock_and_what_descends() -> None:
    shown = adamw_panels(pl.concat(runs(without_batch), how="diagonal_relaxed"))
    assert [panel.name for panel in shown] == ["clock", "by-the-clock-of-sgd", "what-descends"]


def test_an_arm_differs_in_one_thing() -> None:
    plain = {branch.schedule: branch.rule for branch in AT["laptop"].branches}
    for variant in AT["laptop"].variants:
        rule = vars(plain[variant.schedule])
        changed = [name for name, value in rule.items() if getattr(variant.rule, name) != value]
        assert len(changed) == 1, variant
