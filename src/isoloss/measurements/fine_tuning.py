"""How well a fine-tuned pre-trained model predicts the label of a sentence or a text (A.5)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.measurements.fine_tuning_run import (
    TASK,
    Classifier,
    FineTuned,
    FineTuningSettings,
    WordsClassifier,
    classifier_of,
    fine_tune_seed,
)
from isoloss.measurements.labelled_inputs import InputSplits, TextInputs, check_splits
from isoloss.measurements.linear_probe import Accuracy
from isoloss.progress import Progress, part_of, silent
from isoloss.seeds import caller_randomness_kept, derived_seed


@dataclass(frozen=True)
class FineTuningResult:
    """Test accuracies of the models of the best validation epoch and of the last epoch."""

    best: Accuracy
    last: Accuracy

    @staticmethod
    def of(best: Tensor, last: Tensor) -> "FineTuningResult":
        """From matrices with 1 where a seed's model (row) is right about a test example (column), else 0."""
        return FineTuningResult(
            Accuracy.of("fine_tuning_best", best.double()), Accuracy.of("fine_tuning_last", last.double())
        )


def fine_tune(
    model: PreTrainedModel,
    inputs: InputSplits,
    classes: tuple[str, ...],
    settings: FineTuningSettings | None = None,
    progress: Progress = silent,
) -> FineTuningResult:
    """Fine-tune a copy of the language model once per seed, and evaluate each on the test examples.

    After each epoch, the copy is evaluated on the validation examples; the test examples are used once per
    seed, with the best epoch's model (the first in case of ties) and the last one's. What the head reads is
    said in `FineTuningSettings` and `classifier_of`. `model` is not changed.

    Raises BadInput before work starts if `check_splits`, `classifier_of` or the settings refuse, and
    IsolossError if a loss is not finite.
    """
    settings = settings or FineTuningSettings()
    found = []
    for done, seed in enumerate(settings.seeds):
        report = part_of(progress, done, len(settings.seeds))
        found.append(fine_tune_once(model, inputs, classes, settings, seed, report))
        progress(TASK, done + 1, len(settings.seeds))
    best, last = torch.stack([each.best for each in found]), torch.stack([each.last for each in found])
    return FineTuningResult.of(best, last)


def fine_tune_once(
    model: PreTrainedModel,
    inputs: InputSplits,
    classes: tuple[str, ...],
    settings: FineTuningSettings,
    seed: int,
    progress: Progress = silent,
) -> FineTuned:
    """One seed of `fine_tune`; memory is `fine_tune_seed`'s, beside the model itself."""
    check_splits(inputs, classes)
    with caller_randomness_kept(model.device):
        classifier = _classifier(model, inputs, classes, settings, derived_seed(seed, "fine-tuning head"))
        return fine_tune_seed(classifier, inputs, settings, seed, progress)


def _classifier(
    model: PreTrainedModel,
    inputs: InputSplits,
    classes: tuple[str, ...],
    settings: FineTuningSettings,
    head_seed: int,
) -> Classifier:
    if not settings.every_word:
        return classifier_of(model, classes, head_seed, inputs.padding)
    parts = (inputs.train, inputs.validation, inputs.test)
    if any(isinstance(part, TextInputs) for part in parts):
        raise BadInput("texts have no fixed number of words for a head to read; fine-tune on [CLS]'s vector")
    words = max(part.tokens for part in parts) - 1
    return WordsClassifier(model, words, len(classes), head_seed)
