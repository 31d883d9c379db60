"""The pre-training loss of a model, one value per sentence."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.measurements.fixed_sentences import DRAWN, FixedSentences
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.objectives.batch import Batch, NonFiniteScores, Objective, sentence_means
from isoloss.objectives.evaluation import REAL_TEXT_MEMORY_BYTES, device_of, evaluation_mode, pieces_within
from isoloss.objectives.pretrained import SentencesApart
from isoloss.progress import Progress, Share, unheard
from isoloss.results.estimate import Estimate, cluster_values, sample_mean
from isoloss.results.record import Record, Setting


@dataclass(frozen=True)
class SentenceLosses:
    """`values[i]` is the mean over sentence i's predictions of -log f(target), in nats.

    `predictions` is the number of predictions per sentence. Models measured on the same batches are compared
    by `paired_difference` of their values.
    """

    values: Float[Tensor, " n"]
    predictions: Int[Tensor, " n"]

    @property
    def estimate(self) -> Estimate:
        """The loss, with equal weight for every sentence (docs/what-is-measured.md)."""
        return sample_mean(self.values)

    def sentence_values(self) -> dict[str, Float[Tensor, " n"]]:
        """Per-sentence values of each of the `records`."""
        found = {"pretraining_loss": self.values}
        if self.predictions.min() < self.predictions.max():
            found["pretraining_loss_token_averaged"] = cluster_values(self.values, self.predictions)
        return found

    def records(self, seed: int, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """`pretraining_loss` and, if sentences differ in their number of predictions, `.._token_averaged`."""
        return [
            sample_mean(values).record(name, "nats", seed, checkpoint, settings)
            for name, values in self.sentence_values().items()
        ]


class RunningSentenceLosses:
    """Accumulates `SentenceLosses` batch by batch; see `measure_until`."""

    def __init__(
        self, model: nn.Module, objective: Objective, memory_bytes: int = REAL_TEXT_MEMORY_BYTES
    ) -> None:
        self.sentences = 0
        self._model, self._memory_bytes = model, memory_bytes
        self.apart = SentencesApart(model, objective)
        self._values: list[Tensor] = []
        self._predictions: list[Tensor] = []

    @property
    def estimate(self) -> Estimate | None:
        return sample_mean(torch.cat(self._values)) if self.sentences > 1 else None

    def result(self, stopped: str = "", sentences: int | None = None) -> SentenceLosses:
        """The losses so far, restricted to the first `sentences` if given."""
        return SentenceLosses(torch.cat(self._values)[:sentences], torch.cat(self._predictions)[:sentences])

    def add(self, batch: Batch, share: Share = unheard) -> None:
        """Add the batch's sentences. Raises NonFiniteScores for a loss that is not finite."""
        objective = self.apart.objective(batch.to(device_of(self._model)))
        with evaluation_mode(self._model), torch.inference_mode():
            parts = list[Tensor]()
            for piece in pieces_within(self._model, batch, self._memory_bytes):
                logits = objective.logits(self._model, piece)
                logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
                losses = nn.functional.cross_entropy(logits, piece.targets, reduction="none")
                # there, sums of one sentence have one order, and so the same last digit each time
                parts.append(sentence_means(losses.double().cpu(), piece.to(torch.device("cpu"))))
                share(sum(map(len, parts)) / len(batch))
        values = torch.cat(parts)
        if len(bad := (~values.isfinite()).nonzero()):
            sentence = self.sentences + int(bad[0]) + 1
            raise NonFiniteScores(sentence, f"sentence {sentence}")
        self._values.append(values)
        self._predictions.append(torch.bincount(batch.rows, minlength=len(batch)))
        self.sentences += len(batch)


@dataclass(frozen=True)
class PretrainingLossQuantity:
    """The loss on `sentences` sentences; `seed` determines them and their masks."""

    revision: ClassVar[int] = 1
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("pretraining_loss")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        running = RunningSentenceLosses(model, subject.objective)
        for done, batch in enumerate(drawn.batches):
            progress("pretraining loss", done, len(drawn.batches))
            running.add(batch)
        return self.measurement(running.result(), subject)

    def running(self, model: nn.Module, objective: Objective, memory_bytes: int) -> RunningSentenceLosses:
        return RunningSentenceLosses(model, objective, memory_bytes)

    def measurement(self, result: SentenceLosses, subject: Subject[Any]) -> Measurement:
        records = result.records(self.seed, subject.checkpoint, dict(subject.settings))
        return Measurement(records, result.sentence_values())


on_sentences = PretrainingLossQuantity
