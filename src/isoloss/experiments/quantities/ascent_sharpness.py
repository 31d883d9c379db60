"""SAM's sharpness of a checkpoint: how much its loss rises a little way along its gradient."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.curvature.ascent_sharpness import RADII, ascent_sharpness
from isoloss.experiments.quantities.exact_distribution_set import ExactDistributionSet
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import ascent_sharpness_records
from isoloss.measurements.record import Record
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class AscentSharpnessQuantity:
    """The rise at each of `radii` of the loss on `sentences` sentences; see `ascent_sharpness`."""

    revision: ClassVar[int] = 1

    sentences: int
    seed: int
    radii: tuple[float, ...] = RADII

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "AscentSharpnessSet":
        """See `Quantity`."""
        drawn = ExactDistributionSet.draw(language, objective, self.sentences, self.seed)
        return AscentSharpnessSet(drawn, self.radii)

    def restore(
        self,
        tensors: Tensors,
        language: Language,
        objective: PretrainingObjective,
    ) -> "AscentSharpnessSet":
        """See `Quantity`."""
        drawn = ExactDistributionSet.of(drawn_of(Batch, tensors), language, objective, self.seed)
        return AscentSharpnessSet(drawn, self.radii)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `sam_0.05` and its error for the radius 0.05, and so on."""
        columns: Columns = {}
        for radius, record in zip(self.radii, records, strict=True):
            name = sam_column(radius)
            columns |= {name: record.value, f"{name}_error": record.standard_error}
        return columns


@dataclass(frozen=True)
class AscentSharpnessSet:
    """See `MeasuringSet`."""

    drawn: ExactDistributionSet
    radii: tuple[float, ...]

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        found = ascent_sharpness(
            model,
            [self.drawn.batch],
            subject.objective,
            radii=self.radii,
            distribution=self.drawn.distribution,
            progress=progress,
        )
        return ascent_sharpness_records(found, self.drawn.seed, subject.checkpoint, subject.settings)


def sam_column(radius: float) -> str:
    """What the rise at a radius is called in a table.

    >>> sam_column(0.05)
    'sam_0.05'
    """
    return f"sam_{radius:g}"
