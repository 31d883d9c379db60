"""Labelled sentences of a language's task, what a linear probe reads of them (A.4), and its mean.

They are of the language itself, or tested on another distribution.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.languages.constituent_task import constituent_task
from isoloss.languages.grammar import with_skewed_start, with_uniform_rules
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG, named_task, pcfg
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import TaskSplits, task_splits
from isoloss.measurements.labelled_inputs import InputSplits, SentenceInputs, check_fits
from isoloss.measurements.linear_probe import LabelledFeatures
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.models.lookup_table import LookupTable, OneHotWords
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.evaluation import FORWARD_MEMORY_BYTES, device_of, evaluation_mode, rows_at_once
from isoloss.objectives.tokens import word_vectors
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate, sample_mean

Shift = Literal["skewed roots", "uniform rules"]
"""How the distribution that is tested on differs: roots each a quarter as likely as the one before, or the
right sides of every other symbol equally likely. Right sides, and so possible sentences, are the same."""


@dataclass(frozen=True)
class TaskSentences:
    """A task of the language by name, and the sizes of its splits; see `Examples`.

    With a `shift`, the test's sentences are of the shifted language, and none is among the training ones.
    Their labels are still the argmax of the original language's exact posterior, so that an accuracy of 1 is
    possible: by the shifted one's, most would differ (for the headline grammar 75 % with skewed roots, 58 %
    with uniform rules).
    """

    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

    task: str
    train: int
    validation: int
    test: int
    seed: int
    shift: Shift | None = None

    def splits(self, language: Language) -> TaskSplits:
        """The task's examples; a pure function of the settings and the language."""
        task = named_task(language, self.task)
        return task_splits(task, self.train, self.validation, self.test, self.seed)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> TaskSplits:
        """See `Examples`. Raises BadInput for a shift of a language that is not a grammar."""
        progress(f"examples of {self.task}", 0, 1)
        if self.shift is None:
            return self.splits(source)
        if not isinstance(source, PCFG):
            raise BadInput(f"{self.shift} are those of a grammar, and {type(source).__name__} is none")
        splits = self.splits(source)
        # One seed and equal sizes: a sentence's words then determine its split, in both languages.
        other = self.splits(shifted(source, self.shift))
        return replace(splits, test=constituent_task(source, self.task).label(other.test.sentences))

    def task_of(self, drawn: TaskSplits) -> str:
        return self.task if self.shift is None else f"{self.task}, tested with {self.shift}"

    def features(
        self, model: nn.Module, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> LabelledFeatures:
        return features_of_splits(model, drawn)

    def inputs(self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language]) -> InputSplits:
        """See `Examples`. Raises BadInput as `check_fits` does."""
        check_fits(drawn, model)
        return SentenceInputs.of(drawn, named_task(subject.source, self.task).classes)


def features_of_splits(model: nn.Module, splits: TaskSplits) -> LabelledFeatures:
    """The `sentence_features` of the training and test sentences."""
    train, test = splits.train, splits.test
    return LabelledFeatures(
        sentence_features(model, train.sentences),
        train.labels,
        sentence_features(model, test.sentences),
        test.labels,
        train.posterior.shape[1],
        device_of(model),
    )


def shifted(language: PCFG, shift: Shift) -> PCFG:
    """The grammar with other probabilities."""
    change = {"skewed roots": with_skewed_start, "uniform rules": with_uniform_rules}[shift]
    return pcfg(change(language.grammar), language.longest)


def sentence_features(
    model: nn.Module, sentences: Sentences, memory_bytes: int = FORWARD_MEMORY_BYTES
) -> Float[Tensor, "n D"]:
    """The concatenated contextual vectors of all words of each unmasked sentence; D = T d.

    See `word_vectors`; a `LookupTable` gives the exact distributions, `OneHotWords` the words alone. Dropout
    is off and the model is left as found. The result is on the CPU, in the model's precision, but at least in
    float32, in which heads are trained: n T d numbers, beside a forward pass within `memory_bytes`.

    Raises BadInput when a feature is not finite, naming the sentence.
    """
    if isinstance(model, LookupTable | OneHotWords):
        return model.features(sentences)
    at_once = rows_at_once(model, sentences.ids.shape[1] + 1, memory_bytes)
    with evaluation_mode(model), torch.inference_mode():
        features = [word_vectors(model, ids).cpu() for ids in torch.split(sentences.ids, at_once)]
    whole = torch.cat(features)
    whole = whole.to(torch.promote_types(whole.dtype, torch.float32))
    if len(bad := (~whole.isfinite().all(dim=1)).nonzero()):
        raise BadInput(
            f"the model's features of sentence {int(bad[0]) + 1} are not finite; its weights have diverged: "
            "measure an earlier checkpoint"
        )
    return whole


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
