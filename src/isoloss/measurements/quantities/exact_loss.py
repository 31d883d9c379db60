"""The exact pre-training loss of a checkpoint (A.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.languages.language import Language
from isoloss.languages.sentences import Sentences
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.quantity import Columns, Measurement, Subject, value_and_error
from isoloss.measurements.record import Record
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.pretraining_objective import ExactObjective, PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class KnownSentences:
    """What is kept of an `EvaluationSet`; `log_law`, as files call it, are its log-probabilities."""

    log_law: Float[Tensor, "m k"]
    entropy: Float[Tensor, " n"]
    sentences: Sentences


@dataclass(frozen=True)
class ExactLossQuantity:
    """Loss and KL on `sentences` sentences; `objective` says which of their predictions are looked at."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KnownSentences

    sentences: int
    seed: int
    objective: ExactObjective = MaskedObjective()  # noqa: RUF009  (frozen)

    def draw(
        self,
        source: Language,
        objective: PretrainingObjective,  # noqa: ARG002  (what is looked at may be fewer predictions)
        progress: Progress,
    ) -> KnownSentences:
        """See `Quantity`."""
        found = EvaluationSet.draw(source, self.sentences, self.seed, progress, self.objective)
        return KnownSentences(found.log_probabilities, found.entropy, found.sentences)

    def evaluation(self, drawn: KnownSentences) -> EvaluationSet:
        """What was drawn, to measure the loss on."""
        return EvaluationSet(drawn.sentences, drawn.log_law, drawn.entropy, self.seed, self.objective)

    def measure(
        self, model: PreTrainedModel, drawn: KnownSentences, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """See `ExactLoss.records`."""
        progress("exact loss", 0, 1)
        loss = exact_loss(model, self.objective, self.evaluation(drawn))
        return Measurement(loss.records(subject.checkpoint, dict(subject.settings)), loss.sentence_values())

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `loss`, `kl` and their errors, in nats."""
        found = {record.quantity: record for record in records}
        name = self.objective.quantity
        kl, loss = found[f"{name}_kl_sentence_averaged"], found[f"{name}_loss_sentence_averaged"]
        return {
            **value_and_error("loss", loss),
            "loss_deviation": found[f"{name}_loss_subset_deviation"].value,
            **value_and_error("kl", kl),
            "loss_sentences": loss.n,
        }
