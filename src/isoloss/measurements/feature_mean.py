"""What all sentences' features have in common: the length of their mean vector, beside their variance."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.sentences import Sentences
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.measurements.task_sentences import sentence_features
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate, sample_mean


def mean_square(features: Float[Tensor, "n D"]) -> Estimate:
    """Squared length of the mean of independent vectors' distribution, |E h|², without bias.

    The mean of h_i · h_j over all pairs i ≠ j, a U-statistic of order 2; its error is 2 s / √n, where s is
    the deviation of h_i · (mean of the others) (Hoeffding 1948). Raises BadInput for fewer than three
    vectors.

    >>> mean_square(torch.tensor([[3.0, 4.0], [3.0, 4.0], [3.0, 4.0]])).value
    25.0
    """
    n = len(features)
    if n < 3:
        raise BadInput(f"the mean of {n} vectors has no error bar; give at least 3")
    vectors = features.double()
    others = (vectors @ vectors.sum(0) - vectors.square().sum(1)) / (n - 1)
    mean = sample_mean(others)
    return Estimate(mean.value, 2 * mean.standard_error, n)


@dataclass(frozen=True)
class FeatureMeanQuantity:
    """Squared length of the mean of what a linear probe reads of a sentence, and the variance around it.

    The features are those of `sentence_features`; their variance is summed over them. A probe that neither
    centres nor scales them, and is trained for a fixed number of steps, is slowed by a mean that is long
    beside the deviation. Memory: the features of `sentences` sentences, in float64.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = Sentences
    column_names, columns = columns_in_order("feature_mean_square", "feature_variance")

    sentences: int
    seed: int

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> Sentences:
        return source.sample(self.sentences, torch.Generator().manual_seed(self.seed))

    def measure(
        self, model: PreTrainedModel, drawn: Sentences, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """A record of each, in squares of the features' unit."""
        features = sentence_features(model, drawn).double()
        around = (features - features.mean(0)).square().sum(1) * len(features) / (len(features) - 1)
        found = {"feature_mean_square": mean_square(features), "feature_variance": sample_mean(around)}
        records = [subject.record(name, each, "", self.seed) for name, each in found.items()]
        return Measurement(records)
