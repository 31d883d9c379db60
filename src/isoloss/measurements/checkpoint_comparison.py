"""Checkpoints side by side: all measurements of each, and the differences between any two."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from time import monotonic
from typing import Any

import torch

from isoloss.corpora.labelled_texts import TextTask
from isoloss.errors import Damaged, IsolossError
from isoloss.measurements.compared_checkpoints import (
    Checkpoint,
    CheckpointMeasurement,
    Models,
    Stage,
    not_comparable,
)
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.quantity import LOWER, Measurement, warnings_of
from isoloss.measurements.task_texts import majority_correct, majority_record
from isoloss.measurements.verdicts import (
    ACCURACIES,
    FINE_TUNING,
    LOSS,
    MAJORITY,
    PROBE,
    SAME_LOSS,
    TRACE,
    PairVerdict,
    answered,
    asked_about,
)
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.results.measurement_store import Measurements
from isoloss.results.record import Record
from isoloss.results.store import json_digest

CUT = (
    (LOSS, "cut", "sentences of the text were truncated to what the model can read"),
    (LOSS, "too_short", "sentences of the text have nothing to predict and are left out"),
    (PROBE, "cut", "examples of the test were truncated"),
)
"""The quantity and setting of the records that are counted, and what is counted."""

BETWEEN_REPORTS_SECONDS = 10.0
"""Stages that are over sooner are reported with the next: a report takes a second or two."""

Measured = Mapping[tuple[str, str], Measurement]
"""By the checkpoint's name and the measurement's."""


@dataclass(frozen=True)
class Comparison:
    """Checkpoints and their measurements so far, which may be incomplete.

    `task` is the task of the probe and of fine-tuning, None if there is none. `smaller_is` says of quantities
    of the text, by name, what a smaller value means.
    """

    checkpoints: tuple[Checkpoint, ...]
    measured: Measured
    task: TextTask | None = None
    smaller_is: Mapping[str, str] = field(default_factory=lambda: {TRACE: TraceQuantity.smaller_is})

    @property
    def names(self) -> tuple[str, ...]:
        """What may be compared: the loss, the trace, all other quantities of the text, then accuracies."""
        measured = dict.fromkeys(name for _, name in self.measured)
        known = (LOSS, TRACE, *ACCURACIES)
        others = (name for name in measured if name not in known and not name.startswith(f"{FINE_TUNING} "))
        return (LOSS, TRACE, *others, *ACCURACIES)

    def measurement(self, checkpoint: Checkpoint, name: str) -> Measurement | None:
        """The checkpoint's measurement of that name; of fine-tuning over all models' seeds."""
        if name != FINE_TUNING:
            return self.measured.get((checkpoint.name, name))
        every = dict.fromkeys(each for _, each in self.measured if each.startswith(FINE_TUNING))
        seeds = [each for each in every if all((one.name, each) in self.measured for one in self.checkpoints)]
        if len(seeds) < 2:
            return None
        right = [self.measured[checkpoint.name, seed].values["right"] for seed in seeds]
        accuracy = Accuracy.of("fine_tuning_best", torch.stack(right))
        records = accuracy.records(checkpoint.name, {} if self.task is None else {"task": self.task.name})
        return Measurement(records, {"correct": accuracy.correct, "by_seed": accuracy.by_seed})

    def accuracy(self, checkpoint: Checkpoint, name: str) -> Accuracy | None:
        """The accuracy of the probe, or of fine-tuning; None for a name that is no accuracy's."""
        found = self.measurement(checkpoint, name) if name in ACCURACIES else None
        if found is None:
            return None
        quantity = found.records[0].quantity.removesuffix("_accuracy")
        return Accuracy(quantity, found.values["correct"], found.values["by_seed"])

    def difference(self, checkpoint: Checkpoint, reference: Checkpoint, name: str) -> Estimate | str | None:
        """`checkpoint` minus `reference`, or why they are not compared; None unless both are measured."""
        if name in ACCURACIES:
            accuracy, other = self.accuracy(checkpoint, name), self.accuracy(reference, name)
            return None if accuracy is None or other is None else accuracy.minus(other)
        found, of_reference = self.measurement(checkpoint, name), self.measurement(reference, name)
        if found is None or of_reference is None:
            return None
        why = not_comparable(name, reference, checkpoint)
        return why or found.minus(of_reference) or "it has no values per sentence to compare"

    def number(self, checkpoint: Checkpoint, name: str) -> Estimate | Record | None:
        """What was measured, if it was; an accuracy with its error over test examples and seeds."""
        if (accuracy := self.accuracy(checkpoint, name)) is not None:
            return accuracy.minus_constant(torch.zeros_like(accuracy.correct))
        found = self.measurement(checkpoint, name)
        return None if found is None else found.records[0]

    @property
    def majority(self) -> Record | None:
        """The accuracy of always predicting the most common training class; None without a task."""
        return None if self.task is None else majority_record(self.task, {"task": self.task.name})

    def over_majority(self, checkpoint: Checkpoint, name: str) -> Estimate | None:
        """The accuracy minus that of always predicting the most common class of the training texts."""
        accuracy = self.accuracy(checkpoint, name)
        if accuracy is None or self.task is None:
            return None
        return accuracy.minus_constant(majority_correct(self.task))

    @property
    def pairs(self) -> list[tuple[Checkpoint, Checkpoint]]:
        """All pairs of checkpoints, in the order in which they were given."""
        return list(combinations(self.checkpoints, 2))

    def verdicts(self, same_loss: float = SAME_LOSS) -> list[PairVerdict]:
        """Every question about every pair with both measured, and each accuracy against the majority's."""
        of_pairs = [
            asked_about(name, first.name, second.name, self.smaller_is.get(name, LOWER), found)
            for first, second in self.pairs
            for name in self.names
            if (found := self.difference(second, first, name)) is not None
        ]
        of_accuracies = [
            PairVerdict("better", name, MAJORITY, checkpoint.name, difference=difference)
            for checkpoint in self.checkpoints
            for name in ACCURACIES
            if (difference := self.over_majority(checkpoint, name)) is not None
        ]
        losses = {
            checkpoint.name: loss.value
            for checkpoint in self.checkpoints
            if (loss := self.number(checkpoint, LOSS)) is not None
        }
        return answered([*of_pairs, *of_accuracies], losses, same_loss)

    @property
    def records(self) -> list[Record]:
        """All measurements, each accuracy's majority baseline, and differences from the first checkpoint.

        Errors of accuracies are over test examples and seeds, as in `number`.
        """
        records = [record for each in self.measured.values() for record in each.records]
        for checkpoint in self.checkpoints:
            tuned = self.measurement(checkpoint, FINE_TUNING)
            records += [] if tuned is None else tuned.records
        errors = {
            (checkpoint.name, f"{accuracy.quantity}_accuracy"): found.standard_error
            for checkpoint, name in product(self.checkpoints, ACCURACIES)
            if (accuracy := self.accuracy(checkpoint, name)) is not None
            and (found := self.number(checkpoint, name)) is not None
        }
        records = [
            replace(each, standard_error=errors.get((each.checkpoint, each.quantity), each.standard_error))
            for each in records
        ]
        records += [] if self.majority is None else [self.majority]
        return records + [
            record
            for checkpoint in self.checkpoints[1:]
            for name in self.names
            if (record := self._difference_record(checkpoint, name)) is not None
        ]

    def _difference_record(self, checkpoint: Checkpoint, name: str) -> Record | None:
        first = self.checkpoints[0]
        found, of_first = self.difference(checkpoint, first, name), self.measurement(first, name)
        if of_first is None or not isinstance(found, Estimate):
            return None
        whole, settings = of_first.records[0], {"reference": first.name}
        return found.record(f"{whole.quantity}_difference", whole.unit, None, checkpoint.name, settings)

    @property
    def notes(self) -> list[str]:
        """On unequal numbers of sentences, texts truncated or left out, and why not to trust some numbers."""
        return [*self._unequal_numbers(), *self._cut(), *warnings_of(self.records)]

    def _unequal_numbers(self) -> list[str]:
        """On each quantity that was measured on more sentences for one model than for another.

        Where a precision is asked for, each is measured until it has that.
        """
        noted = []
        for name in self.names:
            found = {each.name: self.measurement(each, name) for each in self.checkpoints}
            numbers = {each: one.records[0].n for each, one in found.items() if one is not None}
            if name not in ACCURACIES and len(set(numbers.values())) > 1:
                of_models = ", ".join(f"{n:,} for {each}" for each, n in numbers.items())
                noted.append(
                    f"The {name.replace('_', ' ')} is over {of_models} sentences; two models' difference is "
                    "over those that both were measured on, so it need not be that of the two numbers."
                )
        return noted

    def _cut(self) -> list[str]:
        noted = []
        for checkpoint in self.checkpoints:
            for name, setting, what in CUT:
                if (found := self.measurement(checkpoint, name)) is None:
                    continue
                whole = found.records[0]
                if count := int(whole.settings.get(setting) or 0):
                    of = whole.n + count * (setting == "too_short")
                    noted.append(f"{checkpoint.name}: {count:,} of {of:,} {what}.")
        return noted


def carry_out(
    stages: Sequence[Stage],
    models: Models,
    store: Measurements,
    at_stage: Callable[[Measured], None],
    tell: Callable[[str], None],
    progress: Progress = silent,
) -> Measured:
    """Run the measurements that are not cached yet, and pass all results so far to `at_stage`.

    `at_stage` is called after a stage (at most every `BETWEEN_REPORTS_SECONDS`), after the last stage, and,
    if there are results, before a KeyboardInterrupt or an IsolossError is re-raised. `tell` is given a
    sentence for each cached one that was damaged.
    """
    # All slots in stage order, with what is cached: no report shows less than the one before.
    measured = {
        (checkpoint.name, measurement.name): _cached(checkpoint, measurement, store)
        for stage in stages
        for checkpoint, measurement in stage
    }
    total, reported = len(measured), monotonic()
    for stage in stages:
        try:
            for checkpoint, measurement in stage:
                name = checkpoint.name
                if measured[name, measurement.name] is not None:
                    continue
                progress("comparison", len(_known(measured)), total, f"{measurement.name} of {name}")
                key = _name(checkpoint, measurement)
                damage = store.damage(key)
                found = measurement.measure(models[name], checkpoint, progress)
                store.write(key, found.records, found.arrays)
                measured[name, measurement.name] = found
                if damage:
                    tell(f"{damage}; it was measured again")
        except (KeyboardInterrupt, IsolossError):
            if known := _known(measured):
                at_stage(known)
            raise
        if stage is stages[-1] or monotonic() - reported > BETWEEN_REPORTS_SECONDS:
            at_stage(_known(measured))
            reported = monotonic()
    progress("comparison", total, total)
    return _known(measured)


def _known(measured: Mapping[tuple[str, str], Measurement | None]) -> dict[tuple[str, str], Measurement]:
    return {place: found for place, found in measured.items() if found is not None}


def _cached(
    checkpoint: Checkpoint, measurement: CheckpointMeasurement, store: Measurements
) -> Measurement | None:
    """The stored measurement, with the checkpoint's present name; None if there is none, or it is damaged."""
    name = _name(checkpoint, measurement)
    try:
        records, arrays = store.records(name), store.values(name)
    except Damaged:
        return None
    named = [replace(record, checkpoint=checkpoint.name) for record in records]
    values = {name: torch.from_numpy(each) for name, each in arrays.items()}
    return Measurement(named, values) if named else None


def _name(checkpoint: Checkpoint, measurement: CheckpointMeasurement) -> str:
    """The digest of all that the numbers depend on; a checkpoint that is moved keeps its measurements."""
    return json_digest(_key(checkpoint, measurement))[:24]


def _key(checkpoint: Checkpoint, measurement: CheckpointMeasurement) -> dict[str, Any]:
    key = {"weights": checkpoint.weights, "tokenizer": checkpoint.tokenizer, **measurement.key}
    # The first revision is left out, as in records from before there were revisions.
    return key if measurement.revision == 1 else key | {"revision": measurement.revision}
