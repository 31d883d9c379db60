"""Two runs side by side: the differences of their settings and of their numbers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from isoloss.errors import BadInput
from isoloss.measurements.matched_losses import (
    MatchedCheckpoint,
    MatchedLosses,
    StepCurve,
    interpolated_to_loss,
)
from isoloss.results.estimate import Estimate, sample_mean
from isoloss.results.measurement_store import measurement_name
from isoloss.results.record import Record, Setting, settings_by_path, value_name
from isoloss.stored_runs.run_filter import QUANTITIES
from isoloss.stored_runs.stored_run import StoredRun, measurement_key

_SAME = (*QUANTITIES["loss"], *QUANTITIES["kl"])
"""The same for two runs at one loss: these differ from each other by the language's entropy, a constant."""


@dataclass(frozen=True)
class Difference:
    """A quantity of both runs, each at its step, and the second minus the first.

    `paired`: the error is that of the difference, sentence by sentence. Otherwise the two runs' errors are
    treated as independent, which gives too large an error if both were measured on the same sentences.
    """

    record: Record
    steps: tuple[float, float]
    first: Estimate
    second: Estimate
    difference: Estimate
    paired: bool


@dataclass(frozen=True)
class Curve:
    """One quantity of one run on one set of sentences, by step; `values` has a row per step, or is None."""

    records: tuple[Record, ...]
    estimates: StepCurve
    values: tuple[np.ndarray, ...] | None

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps at which it was measured."""
        return self.estimates.steps


def different_settings(first: StoredRun, second: StoredRun) -> list[tuple[str, Setting, Setting]]:
    """Every setting in which two runs differ, by dotted path, with both values; None if a run lacks it."""
    here, there = settings_by_path(first.specification), settings_by_path(second.specification)
    paths = dict.fromkeys((*here, *there))
    return [(path, here.get(path), there.get(path)) for path in paths if here.get(path) != there.get(path)]


def differences_at_steps(first: StoredRun, second: StoredRun) -> list[Difference]:
    """Every quantity that both have on the same set of sentences, at every step that both have.

    The plainest comes first, at its first step.
    """
    found = []
    for here, there in _common_curves(first, second):
        for step in sorted(set(here.steps) & set(there.steps)):
            places = here.steps.index(step), there.steps.index(step)
            estimates = here.estimates.estimates[places[0]], there.estimates.estimates[places[1]]
            record = here.records[places[0]]
            if here.values is None or there.values is None:
                difference, paired = _unpaired(*estimates), False
            else:
                difference, paired = _paired(there.values[places[1]] - here.values[places[0]]), True
            found.append(Difference(record, (step, step), *estimates, difference, paired))
    return found


def differences_at_loss(
    first: StoredRun, second: StoredRun, loss: float | None
) -> tuple[MatchedLosses, list[Difference]]:
    """Where both runs first fall to a loss, every quantity that both have there on the same sentences.

    Quantities are interpolated linearly in the logarithm of the step, and their error includes that of the
    step, which comes from that of the loss: with kept values, both are taken sentence by sentence. Without
    `loss`, it is the lowest that both reach, which one run has at a checkpoint, whose step has no error; the
    other's is that of KL, if both have it, since the entropy is common to them. Raises BadInput if the runs
    have no exact loss on one set of sentences, or none in common.
    """
    curves = _common_curves(first, second)
    losses = [pair for pair in curves if _is_loss(pair[0].records[0])]
    if not losses:
        raise BadInput(
            f"the runs {first.name} and {second.name} have no exact loss measured on one set, so that no "
            "step of theirs can be said to have the same; compare them at their steps"
        )
    of_loss, known = losses[0], loss is not None
    compared = [curve.estimates for curve in of_loss]
    matched = interpolated_to_loss(compared if known else _without_entropy(of_loss, curves), math.inf, loss)
    found = []
    for pair in curves:
        within = [c.steps[0] <= p.step <= c.steps[-1] for c, p in zip(pair, matched.points, strict=True)]
        if pair[0].records[0].quantity not in _SAME and all(within):
            found.append(_at_points(pair, of_loss, matched.points, known))
    return matched, found


def not_compared(
    first: StoredRun, second: StoredRun, found: Sequence[Difference], loss: float | None
) -> list[Record]:
    """The first run's last record of each quantity that both have on one set, and that was not compared.

    They have it at no common step or, with a `loss`, one lacks it on one side of its step there.
    """
    compared = {measurement_key(each.record) for each in found}
    theirs = {measurement_key(each) for each in second.last_records if each.standard_error is not None}
    return [
        record
        for record in first.last_records
        if record.standard_error is not None
        and measurement_key(record) in theirs - compared
        and (loss is None or record.quantity not in _SAME)
    ]


def _is_loss(record: Record) -> bool:
    return record.quantity in QUANTITIES["loss"] and "weights" not in record.settings


def _without_entropy(of_loss: tuple[Curve, Curve], curves: Sequence[tuple[Curve, Curve]]) -> list[StepCurve]:
    """The two losses, with the errors of KL on the same sentences where both runs have it at all steps."""
    for pair in curves:
        record, steps = pair[0].records[0], [curve.steps for curve in pair]
        of_kl = record.quantity in QUANTITIES["kl"] and _measured_on(pair) == _measured_on(of_loss)
        if of_kl and steps == [curve.steps for curve in of_loss]:
            return [
                _with_errors(loss.estimates, kl.estimates) for loss, kl in zip(of_loss, pair, strict=True)
            ]
    return [curve.estimates for curve in of_loss]


def _with_errors(curve: StepCurve, other: StepCurve) -> StepCurve:
    estimates = zip(curve.estimates, other.estimates, strict=True)
    return replace(
        curve, estimates=tuple(replace(own, standard_error=each.standard_error) for own, each in estimates)
    )


def _measured_on(pair: tuple[Curve, Curve]) -> tuple[Setting, Setting]:
    """The set of sentences, and which weights."""
    settings = pair[0].records[0].settings
    return settings.get("measured_on"), settings.get("weights")


def _common_curves(first: StoredRun, second: StoredRun) -> list[tuple[Curve, Curve]]:
    """The quantities with error bars that both runs have on the same sentences, the plainest first."""
    here, there = dict(_curves(first)), dict(_curves(second))
    plainest_first = map(measurement_key, first.last_records)
    return [(here[key], there[key]) for key in plainest_first if key in here and key in there]


def _curves(run: StoredRun) -> Iterator[tuple[tuple[Any, ...], Curve]]:
    by_key: dict[tuple[Any, ...], list[tuple[int, Record]]] = {}
    for checkpoint in run.checkpoints:
        for record in checkpoint.records:
            if record.standard_error is not None:
                by_key.setdefault(measurement_key(record), []).append((checkpoint.step, record))
    for key, measured in by_key.items():
        steps, records = zip(*measured, strict=True)
        estimates = tuple(Estimate(r.value, r.standard_error, r.n) for r in records)
        stored = [_stored_values(run, step, record) for step, record in measured]
        known = tuple(each for each in stored if each is not None)
        values = known if len(known) == len(stored) else None
        yield key, Curve(records, StepCurve(run.name, steps, estimates), values)


def _stored_values(run: StoredRun, step: int, record: Record) -> np.ndarray | None:
    """The value of each sentence behind a record, if they were kept."""
    name = measurement_name(str(record.settings.get("measured_on")), record.settings.get("weights"))
    return run.measurements(step).values(name).get(value_name(record))


def _at_points(
    pair: tuple[Curve, Curve],
    of_loss: tuple[Curve, Curve],
    points: tuple[MatchedCheckpoint, ...],
    known: bool,
) -> Difference:
    """The difference of a quantity between two matched points."""
    first, second = (c.estimates.at(p.step, p.log_step_error) for c, p in zip(pair, points, strict=True))
    steps = points[0].step, points[1].step
    if any(curve.values is None for curve in (*pair, *of_loss)):
        return Difference(pair[0].records[0], steps, first, second, _unpaired(first, second), False)
    between_steps = _values_at(pair[1], steps[1]) - _values_at(pair[0], steps[0])
    # The run whose own loss it is has no error in its step.
    shifts = [
        curve.estimates.slope(p.step) / loss.estimates.slope(p.step) if p.log_step_error else 0.0
        for curve, loss, p in zip(pair, of_loss, points, strict=True)
    ]
    # Per sentence: a loss above the target makes the step later, by its excess over the slope.
    losses = [_values_at(loss, step) for loss, step in zip(of_loss, steps, strict=True)]
    if not known:
        # The target is the lowest loss of the run that falls less far, at its own step: the other's step
        # depends on both.
        lowest = [min(estimate.value for estimate in curve.estimates.estimates) for curve in of_loss]
        reference = losses[lowest.index(max(lowest))]
        losses = [each - reference for each in losses]
    moved = shifts[0] * losses[0] - shifts[1] * losses[1]
    moved = moved - moved.mean()
    if _measured_on(pair)[0] == _measured_on(of_loss)[0]:
        difference = _paired(between_steps + moved)
    else:
        alone, step_part = _paired(between_steps), _paired(moved)
        error = math.hypot(alone.standard_error, step_part.standard_error)
        difference = Estimate(alone.value, error, min(alone.n, step_part.n))
    return Difference(pair[0].records[0], steps, first, second, difference, True)


def _values_at(curve: Curve, step: float) -> np.ndarray:
    assert curve.values is not None
    place, share = curve.estimates.place(step)
    after = curve.values[min(place + 1, len(curve.values) - 1)]
    return np.asarray((1 - share) * curve.values[place] + share * after)


def _paired(values: np.ndarray) -> Estimate:
    return sample_mean(torch.from_numpy(values))


def _unpaired(first: Estimate, second: Estimate) -> Estimate:
    error = math.hypot(first.standard_error, second.standard_error)
    return Estimate(second.value - first.value, error, min(first.n, second.n))
