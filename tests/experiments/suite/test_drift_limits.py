"""The distance of variants from the law's curve."""

import polars as pl
import pytest

from isoloss.experiments.schedules import Schedule, first_step
from isoloss.experiments.suite.drift_limits import distances, findings, how_far, limit_panels, limit_variants

TIMES = (0.0125, 0.03, 0.08, 0.2)
PACES = (Schedule(0.2, 32), Schedule(0.1, 32))


def table(lag: dict[str, float]) -> pl.DataFrame:
    """The trace halves once by the last time along the law; along variants by as much less as `lag` says."""
    rows = []
    for seed in (1, 2, 3):
        place = {"language": "grammar", "width": 32, "seed": seed, "complete": True}
        start = {"run": f"start-{seed}", "drift": "start", "pace": "start", "step": 5657, "trace": 12.0}
        rows.append({**place, **start, "loss": 1.4})
        law = [(str(schedule), schedule, None, 0.0) for schedule in PACES]
        arms = [(variant, PACES[0], "momentum", by) for variant, by in lag.items()]
        for name, schedule, varied, late in (*law, *arms):
            part = {"drift": "arm" if varied else "drift", "varied": varied, "pace": name, "loss": 1.4}
            part |= {"learning_rate": schedule.learning_rate, "batch_size": schedule.batch_size}
            for time in TIMES:
                fallen = time / 0.2 * (1 - late - (seed - 2) / 100)
                own = {"step": first_step(schedule, time), "trace": 12.0 * 2**-fallen}
                rows.append({**place, **part, **own, "run": f"{name}-{seed}"})
    return pl.DataFrame(rows, infer_schema_length=None)


def test_an_arm_is_as_far_off_as_where_it_is_furthest() -> None:
    found = {row["pace"]: row for row in distances(table({"m 0.5": 0.1, "m 0.9": 0.5})).to_dicts()}
    assert found["m 0.5"]["distance"] == pytest.approx(0.1, abs=1e-6)
    assert found["m 0.9"]["distance"] == pytest.approx(0.5, abs=1e-6)
    assert found["m 0.9"]["error"] == pytest.approx(0, abs=1e-6)  # the law's curve is each seed's own


def test_the_panel_says_how_far_the_law_holds() -> None:
    (panel,) = limit_panels(table({"m 0.5": 0.1, "m 0.9": 0.5}), Schedule)
    assert panel.name == "limit-momentum"
    said = "at m = 0.5 (runs stray by 10 ± 0 % of the trace's fall), but not at m = 0.9 (50 ± 0 %)."
    assert said in panel.caption
    assert panel.data.filter("behind")["pace"].n_unique() == len(PACES)


def test_findings_begin_with_how_many_values_the_clock_holds_at() -> None:
    first, of_momentum = findings(table({"m 0.5": 0.1, "m 0.9": 0.5}))
    assert first == "The clock holds at 1 of 2 values of momentum."
    assert of_momentum.startswith("Momentum: The clock holds at m = 0.5 (")


def test_nothing_is_said_of_nothing() -> None:
    assert limit_panels(pl.DataFrame(), Schedule) == ()
    unfinished = table({"m 0.5": 0.1}).with_columns(complete=pl.lit(value=False))
    assert "No run is complete." in limit_panels(unfinished, Schedule)[0].caption
    assert how_far(distances(unfinished)) == "No run is complete."
    assert findings(unfinished) == ()


def test_what_is_not_known_to_hold_is_not_said_to_hold() -> None:
    fails, undecided = {"pace": "m 0.9", "distance": 0.6, "error": 0.1}, {"pace": "m 0.5", "distance": 0.3}
    rows = [undecided | {"error": 0.1}, fails]
    assert how_far(pl.DataFrame(rows[1:])).startswith("The clock does not hold at m = 0.9 (runs stray by 60")
    assert how_far(pl.DataFrame(rows[:1])).startswith("Whether the clock holds is open at m = 0.5 (runs")
    assert how_far(pl.DataFrame(rows)) == (
        "The clock does not hold at m = 0.9 (60 ± 10 %); open at m = 0.5 (runs stray by 30 ± 10 % of the "
        "trace's fall)."
    )


def test_every_arm_has_a_name_of_its_own() -> None:
    variants = limit_variants(PACES[0], TIMES)
    keys = [variant.key for variant in variants]
    assert len(set(keys)) == len(keys)
    assert all(key.isascii() and " " not in key for key in keys)
    momentum = [variant.rule for variant in variants if variant.varied == "momentum"]
    assert [rule.learning_rate / (1 - rule.momentum) for rule in momentum] == pytest.approx([0.2] * 3)
