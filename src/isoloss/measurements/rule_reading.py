"""What an update rule reported at a checkpoint, such as an adversary's strength, as a column of results."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.errors import BadInput
from isoloss.measurements.quantity import (
    LANGUAGES_AND_TEXT,
    Measurement,
    Subject,
    columns_named_by,
)
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.checkpoint import read_checkpoint
from isoloss.results.estimate import Estimate


@dataclass(frozen=True)
class NothingDrawn:
    """The data of a quantity that reads none."""


@dataclass(frozen=True)
class RuleReadingQuantity:
    """The number that the run's rule reported under the name `reading`; see `UpdateRule.readings`.

    The column has that name. It is stored with the checkpoint, and known without an error.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = LANGUAGES_AND_TEXT
    drawn_as: ClassVar[type] = NothingDrawn
    column_names, columns = columns_named_by(lambda quantity: (quantity.reading,))

    reading: str

    def draw(self, source: Any, objective: PretrainingObjective, progress: Progress) -> NothingDrawn:
        return NothingDrawn()

    def measure(
        self, model: nn.Module, drawn: NothingDrawn, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """Raises BadInput where the rule reports no such number, Damaged for a damaged checkpoint."""
        readings = read_checkpoint(subject.folder).readings
        if self.reading not in readings:
            raise BadInput(
                f"the rule that trained {subject.folder} reports no {self.reading!r}; measure it on runs "
                f"whose rule does, or ask for what this one reports: {', '.join(readings) or 'nothing'}"
            )
        found = Estimate(readings[self.reading], 0.0, 1)
        return subject.measurement("rule_reading", found, "", None, {"reading": self.reading})
