"""The exact pre-training loss of a checkpoint (A.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.experiments.quantity import Columns, Subject, below, drawn_of, within
from isoloss.languages.language import Language
from isoloss.languages.sentences import Sentences
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.record import Record
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.pretraining_objective import ExactObjective, PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class ExactLossQuantity:
    """Loss and KL on `sentences` sentences; `objective` says which of their predictions are looked at."""

    revision: ClassVar[int] = 1

    sentences: int
    seed: int
    objective: ExactObjective = MaskedObjective()  # noqa: RUF009  (frozen)

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,  # noqa: ARG002  (what is looked at may be fewer predictions)
        progress: Progress,
    ) -> "ExactLossSet":
        """See `Quantity`."""
        return ExactLossSet(EvaluationSet.draw(language, self.sentences, self.seed, progress, self.objective))

    def restore(
        self,
        tensors: Tensors,
        language: Language,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "ExactLossSet":
        """See `Quantity`."""
        sentences = drawn_of(Sentences, within("sentences", tensors))
        distributions, entropy = tensors["log_law"], tensors["entropy"]
        return ExactLossSet(EvaluationSet(sentences, distributions, entropy, self.seed, self.objective))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `loss`, `kl` and their errors, in nats."""
        found = {record.quantity: record for record in records}
        name = self.objective.quantity
        kl, loss = found[f"{name}_kl_sentence_averaged"], found[f"{name}_loss_sentence_averaged"]
        return {
            "loss": loss.value,
            "loss_error": loss.standard_error,
            "loss_deviation": found[f"{name}_loss_subset_deviation"].value,
            "kl": kl.value,
            "kl_error": kl.standard_error,
            "loss_sentences": loss.n,
        }


@dataclass(frozen=True)
class ExactLossSet:
    """See `MeasuringSet`."""

    evaluation: EvaluationSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        drawn = self.evaluation
        return {
            "log_law": drawn.log_probabilities,
            "entropy": drawn.entropy,
            **below("sentences", drawn.sentences),
        }

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        progress("exact loss", 0, 1)
        loss = exact_loss(model, self.evaluation.objective, self.evaluation)
        subject.sentence_values.update(loss.sentence_values())
        return loss.records(subject.checkpoint, dict(subject.settings))
