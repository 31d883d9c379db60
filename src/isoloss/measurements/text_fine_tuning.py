"""Fine-tuning on real text: how well a fine-tuned model predicts a text's label (A.5)."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TextTask
from isoloss.measurements.fine_tuning_run import (
    TASK,
    FineTuned,
    FineTuningSettings,
    fine_tune_seed,
)
from isoloss.measurements.labelled_inputs import InputSplits, check_splits
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.text_inputs import LONGEST, padding_token, text_inputs
from isoloss.models.classifier import classifier_of
from isoloss.progress import Progress, part_of, silent
from isoloss.results.record import Record, Setting
from isoloss.seeds import caller_randomness_kept, derived_seed


@dataclass(frozen=True)
class TextFineTuning:
    """Test accuracies of the models of the best validation epoch and of the last epoch.

    `best_epochs` counts from 1, one per seed.
    """

    best: Accuracy
    last: Accuracy
    best_epochs: tuple[int, ...]

    @staticmethod
    def of(seeds: list[FineTuned]) -> "TextFineTuning":
        """From the results of the seeds."""
        return TextFineTuning(
            Accuracy.of("fine_tuning_best", torch.stack([found.best for found in seeds]).double()),
            Accuracy.of("fine_tuning_last", torch.stack([found.last for found in seeds]).double()),
            tuple(found.best_epoch for found in seeds),
        )

    def records(self, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """`fine_tuning_best_accuracy`, `.._last_accuracy`, and each one's `.._deviation_over_seeds`."""
        return self.best.records(checkpoint, settings) + self.last.records(checkpoint, settings)


def fine_tune_text(
    model: PreTrainedModel,
    tokenizer: Any,
    task: TextTask,
    settings: FineTuningSettings | None = None,
    *,
    longest: int = LONGEST,
    progress: Progress = silent,
) -> TextFineTuning:
    """Fine-tune a copy of the language model once per seed, and evaluate each on the test texts.

    A masked model classifies by the vector of [CLS], a causal one by that of the last token (see
    `classifier_of`). Validation texts select the epoch and nothing else; the test texts are used once per
    seed, with the best epoch's model (the first in case of ties) and the last one's. `model` is not changed.

    Raises BadInput before work starts if `check_splits`, `text_inputs`, `classifier_of` or the settings
    refuse, and IsolossError if a loss is not finite.
    """
    settings = settings or FineTuningSettings()
    inputs = fine_tuning_inputs(model, tokenizer, task, settings, longest)
    found = []
    for done, seed in enumerate(settings.seeds):
        report = part_of(progress, done, len(settings.seeds))
        found.append(fine_tune_text_seed(model, tokenizer, task.classes, inputs, settings, seed, report))
        progress(TASK, done + 1, len(settings.seeds))
    return TextFineTuning.of(found)


def fine_tuning_inputs(
    model: PreTrainedModel,
    tokenizer: Any,
    task: TextTask,
    settings: FineTuningSettings,
    longest: int = LONGEST,
) -> InputSplits:
    """The task as the model reads it. Raises BadInput if nothing can be learnt from it or measured on it."""
    splits = InputSplits(
        *(text_inputs(model, tokenizer, part, longest) for part in (task.train, task.validation, task.test))
    )
    check_splits(splits, task.classes)
    settings.steps(len(splits.train))
    return splits


def fine_tune_text_seed(
    model: PreTrainedModel,
    tokenizer: Any,
    classes: tuple[str, ...],
    inputs: InputSplits,
    settings: FineTuningSettings,
    seed: int,
    progress: Progress = silent,
) -> FineTuned:
    """One seed of `fine_tune_text`, with the same result as when run among others.

    Memory: `fine_tune_seed`'s, beside the model itself.
    """
    head_seed = derived_seed(seed, "fine-tuning head")
    classifier = classifier_of(model, classes, head_seed, padding_token(tokenizer))
    with caller_randomness_kept(model.device):
        return fine_tune_seed(classifier, inputs, settings, seed, progress)
