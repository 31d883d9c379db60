"""The lookup table as a row of a table: no model, no run, its loss the entropy of the law (Section 2.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from isoloss.experiments.quantities.exact_loss import ExactLossQuantity
from isoloss.experiments.quantities.probe import ProbeQuantity
from isoloss.experiments.quantity import Columns
from isoloss.languages.language import Language
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.record import Record
from isoloss.models.lookup_table import LookupTable
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import Progress

CHECKPOINT = "lookup table"


@dataclass(frozen=True)
class LookupTableReference:
    """The table's exact loss, and the probe's accuracy on its laws, as a model's on its vectors.

    Both are measured on the sentences that the models are measured on. It has no parameters, so no trace.
    """

    revision: ClassVar[int] = 1

    loss: ExactLossQuantity
    probes: tuple[ProbeQuantity, ...]

    def measure(self, language: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        table, objective = LookupTable(language), self.loss.objective
        evaluation = EvaluationSet.draw(language, self.loss.sentences, self.loss.seed, progress, objective)
        records = exact_loss(table, objective, evaluation, progress=progress).records(CHECKPOINT, {})
        for probe in self.probes:
            accuracy = probe.draw(language, MaskedObjective(), progress).accuracy(table, progress)
            records += accuracy.records(CHECKPOINT, {"task": probe.task})
        return records

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: the columns that the loss and the probes give a model."""
        columns = self.loss.columns(records)
        for probe in self.probes:
            columns |= probe.columns([r for r in records if r.settings.get("task") == probe.task])
        return columns
