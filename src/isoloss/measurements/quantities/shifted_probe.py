"""Accuracy, on sentences of another distribution, of a linear probe trained on the language."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.languages.constituent_task import constituent_task
from isoloss.languages.grammar import with_skewed_start, with_uniform_rules
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.task import TaskSplits
from isoloss.measurements.quantities.probe import ProbeQuantity, accuracy_columns, accuracy_names, accuracy_of
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.record import Record

Shift = Literal["skewed roots", "uniform rules"]
"""How the distribution that is tested on differs: roots each a quarter as likely as the one before, or the
right sides of every other symbol equally likely. Right sides, and so possible sentences, are the same."""


@dataclass(frozen=True)
class ShiftedProbeQuantity:
    """The probe `of`, trained in the same way, and tested on as many sentences of the shifted language.

    Labels are still the argmax of the original language's exact posterior, which the probe was trained on, so
    that an accuracy of 1 is possible. Under the shifted distribution's posterior, most labels would differ if
    posteriors are flat (for the headline grammar 75 % with skewed roots, 58 % with uniform rules). No test
    sentence is among the training sentences.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

    of: ProbeQuantity
    shift: Shift
    column: str = field(compare=False)

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.of.feature_sentences

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> TaskSplits:
        """See `Quantity`. Raises BadInput if the language is not a grammar."""
        grammar, own = _grammar(source, self.shift), self.of.draw(source, objective, progress)
        # One seed and equal sizes: a sentence's words then determine its split, in both languages.
        other = self.of.splits(shifted(grammar, self.shift))
        test = constituent_task(grammar, self.of.task).label(other.test.sentences)
        return replace(own, test=test)

    def measure(
        self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """See `accuracy_of`."""
        accuracy = self.of.accuracy(model, drawn, progress)
        return accuracy_of(accuracy, subject, f"{self.of.task}, tested with {self.shift}")

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return accuracy_names(self.column)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`, and `accuracy_columns`."""
        return accuracy_columns(self.column, *records)


def shifted(language: PCFG, shift: Shift) -> PCFG:
    """The grammar with other probabilities."""
    match shift:
        case "skewed roots":
            changed = with_skewed_start(language.grammar)
        case "uniform rules":
            changed = with_uniform_rules(language.grammar)
    return pcfg(changed, language.longest)


def _grammar(language: Language, shift: Shift) -> PCFG:
    if not isinstance(language, PCFG):
        raise BadInput(f"{shift} are those of a grammar, and {type(language).__name__} is none")
    return language
