"""The drift and what branches from the same starts, carried out in seconds."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment_result import ExperimentResult, carry_out_experiments
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import Scale, scale_named
from isoloss.experiments.schedules import STABLE_RATE, RelativeSGD
from isoloss.experiments.suite.drift import AT
from jobs_in_turn import in_turn
from tiny_scale import tiny_scale

SMOKE = AT["smoke"]
FEW = replace(STABLE_RATE, sentences=4)
"""Of hundreds of sentences, the stable rate takes most of the time of such short runs."""


def at_rates_of_few_sentences(run: PlannedRun) -> PlannedRun:
    """The same run, and that which it continues, with every stable rate measured on FEW."""
    rule, before = run.update_rule, run.continues
    return replace(
        run,
        update_rule=replace(rule, stable=FEW) if isinstance(rule, RelativeSGD) else rule,
        continues=before and replace(before, run=at_rates_of_few_sentences(before.run)),
        measured=tuple(replace(m, quantity=FEW) if m.quantity == STABLE_RATE else m for m in run.measured),
    )


def carried_out(name: str, scale: Scale, output: Path, varied: str | None = None) -> ExperimentResult:
    """The experiment; with `varied`, only the first seed's runs that are plain or vary this setting."""
    experiment = builtin_designs()[name].at(scale)
    if varied is not None:
        seed = experiment.runs[0].first_seed
        of_seed = [run for run in experiment.runs if run.first_seed == seed]
        few = tuple(run for run in of_seed if dict(run.labels).get("varied", varied) == varied)
        experiment = replace(experiment, runs=few)
    experiment = replace(experiment, runs=tuple(map(at_rates_of_few_sentences, experiment.runs)))
    (result,) = carry_out_experiments([experiment], output, in_turn).experiments
    assert result.outcome.failures == ()
    assert result.table["complete"].all()
    return result


@pytest.mark.slow
def test_the_drift_is_carried_out_and_drawn(tmp_path: Path) -> None:
    scale = tiny_scale(scale_named("smoke").seeds)
    result = carried_out("drift", scale, tmp_path)
    table, schedules = result.table, len(SMOKE.schedules)
    assert table.height == len(scale.seeds) * (1 + 3 * schedules + 2)
    assert table["predicted_descent"].drop_nulls().len() == len(scale.seeds)
    assert table.filter(drift="drift")["raw_loss"].null_count() == 0
    undefined = {judged.claim.name for judged in result.judgements if math.isnan(judged.effect)}
    assert undefined <= {
        "rate-exponent",
        "batch-exponent",
        "resistance",
        "finite-steps",
        "speed",
        "excess-loss",
    }
    assert table.filter(drift="start")["stable_rate"].null_count() == 0
    names = [panel.name for panel in result.experiment.drawn(table)]
    assert names == ["clock-grammar-16", "distance-grammar-16", "leaving"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "varied", "shown"),
    [
        ("drift-limits", "momentum", ["limit-momentum"]),
        ("adamw-clock", "epsilon", ["clock", "by-the-clock-of-sgd", "what-descends", "limit-epsilon"]),
        ("flatness-interventions", "", ["accuracy-over-trace"]),
    ],
)
def test_branches_of_one_start_are_carried_out_and_drawn(
    name: str, varied: str, shown: list[str], tmp_path: Path
) -> None:
    result = carried_out(name, scale_named("smoke"), tmp_path, varied)
    panels = result.experiment.drawn(result.table)
    assert [panel.name for panel in panels] == shown
    defined = {judged.claim.name for judged in result.judgements if not math.isnan(judged.effect)}
    if name == "drift-limits":
        momenta = result.table.filter(varied=varied)["pace"].unique()
        assert momenta.len() == 3
        assert all(f"{momentum.replace(' ', ' = ')} (" in panels[0].caption for momentum in momenta)
    elif name == "adamw-clock":
        assert result.table["root_fisher"].null_count() == 0
        assert defined >= {"loss-stands", "root-falls", "root-before-trace"}
    else:
        assert result.table.height == len(panels[0].charts) == 5
        assert len(defined) == len(result.judgements)
