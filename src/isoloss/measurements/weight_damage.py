"""What flatness should buy: how far a model is from the exact distribution once its weights are damaged.

The damage is Gaussian noise of one deviation on every weight, of which the loss rises by ½ σ² Tr ∇²L to
second order, or rounding to few bits, as in quantised inference.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.curvature.weight_changes import rounded_to
from isoloss.languages.language import Language
from isoloss.measurements.exact_loss import EvaluationSet, ExactLossQuantity, KnownSentences, exact_loss
from isoloss.measurements.quantity import Measurement, Subject, columns_named_by
from isoloss.objectives.batch import ExactObjective, PretrainingObjective
from isoloss.objectives.evaluation import displaced
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.flatness_regularised import weight_noise
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate, mean_over_sentences


@contextmanager
def rounded(model: nn.Module, bits: int) -> Iterator[None]:
    """The model with every matrix and embedding `rounded_to` so many bits while the context is open.

    Vectors (biases and gains) keep their precision, as in usual quantisation. Keeps a copy of the matrices.
    """
    matrices: list[Tensor] = [weight for weight in model.parameters() if weight.ndim == 2]
    with torch.no_grad():
        moved = [rounded_to(weight, bits) - weight for weight in matrices]
    with displaced(matrices, moved):
        yield


@dataclass(frozen=True)
class WeightDamageQuantity:
    """KL(distribution || damaged model) on `sentences` sentences, in nats, for each noise and number of bits.

    Noise ε ~ N(0, σ²) is on every trained weight, for each σ in `noises` the mean over `draws` pairs ε and
    -ε, which are the same for all models of one shape. Memory: the weights three times.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KnownSentences
    column_names, columns = columns_named_by(
        lambda it: (*map(noise_column, it.noises), *map(bits_column, it.bits))
    )

    sentences: int
    seed: int
    noises: tuple[float, ...] = (0.003, 0.01, 0.03)
    bits: tuple[int, ...] = (8, 6, 4)
    draws: int = 4
    objective: ExactObjective = MaskedObjective()  # noqa: RUF009  (frozen)

    @property
    def _loss(self) -> ExactLossQuantity:
        return ExactLossQuantity(self.sentences, self.seed, self.objective)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> KnownSentences:
        return self._loss.draw(source, objective, progress)

    def measure(
        self, model: PreTrainedModel, drawn: KnownSentences, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """A record `kl_under_noise` for each noise and `kl_after_rounding` for each number of bits."""
        evaluation = self._loss.evaluation(drawn)
        records = []
        for done, noise in enumerate(self.noises):
            progress("weight noise", done, len(self.noises))
            found = self._under_noise(model, evaluation, noise)
            records.append(subject.record("kl_under_noise", found, "nats", self.seed, noise=noise))
        for bits in self.bits:
            with rounded(model, bits):
                found = mean_over_sentences(exact_loss(model, self.objective, evaluation).kl)
            records.append(subject.record("kl_after_rounding", found, "nats", self.seed, bits=bits))
        return Measurement(records)

    def _under_noise(self, model: nn.Module, evaluation: EvaluationSet, noise: float) -> Estimate:
        """The mean over draws, with its error over them: they differ by more than sentences do."""
        weights: list[Tensor] = [weight for weight in model.parameters() if weight.requires_grad]
        found = []
        for draw in range(self.draws):
            shift = weight_noise(weights, self.seed, draw)
            for side in (noise, -noise):
                with displaced(weights, shift, side):
                    found.append(float(exact_loss(model, self.objective, evaluation).kl.mean()))
        pairs = torch.tensor(found, dtype=torch.float64).view(self.draws, 2).mean(1)
        return mean_over_sentences(pairs)


def noise_column(noise: float) -> str:
    """The column of KL under noise of this deviation.

    >>> noise_column(0.01)
    'kl_noise_0.01'
    """
    return f"kl_noise_{noise:g}"


def bits_column(bits: int) -> str:
    """The column of KL after rounding to so many bits.

    >>> bits_column(4)
    'kl_bits_4'
    """
    return f"kl_bits_{bits}"
