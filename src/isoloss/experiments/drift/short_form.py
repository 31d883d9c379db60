"""The drift beside Figure 1: from its own models, at few paces, within the same minutes."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.drift.claims import IN_SHORT
from isoloss.experiments.drift.experiment import every_drift_run
from isoloss.experiments.drift.panels import drift_panels
from isoloss.experiments.drift.runs import PART
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figure_1 import figure_1
from isoloss.experiments.scale import Scale
from isoloss.panels import Panel


def figure_1_and_drift(scale: Scale, task: str) -> Experiment:
    """Figure 1, and from its models the drift in short: where flatness comes from, in the same minutes."""
    return with_drift(figure_1(scale, task), scale, task)


def with_drift(experiment: Experiment, scale: Scale, task: str) -> Experiment:
    """The experiment with the runs, claims and panels of the drift in short after its own.

    Either's claims and panels look at its own runs alone.
    """

    def every_panel(table: pl.DataFrame) -> tuple[Panel, ...]:
        return (*experiment.panels(apart(table)), *drift_panels(table))

    return replace(
        experiment,
        runs=(*experiment.runs, *every_drift_run(scale, scale.drift.in_short, task)),
        claims=(*map(of_others, experiment.claims), *IN_SHORT),
        panels=every_panel,
    )


def of_others(claim: Claim) -> Claim:
    """The claim, judged on the runs that have no part in the drift."""

    def statistic(runs: Sequence[pl.DataFrame]) -> float:
        return claim.statistic([run for run in map(apart, runs) if not run.is_empty()])

    return replace(claim, statistic=statistic)


def apart(table: pl.DataFrame) -> pl.DataFrame:
    """The rows that have no part in the drift."""
    return table.filter(pl.col(PART).is_null()) if PART in table.columns else table
