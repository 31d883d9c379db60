"""Flatness of a checkpoint: the trace of the Fisher information on fixed sentences and masks (B.1)."""

from dataclasses import dataclass

import torch
from torch import nn

from isoloss.curvature.fisher_trace import FisherTrace, fisher_trace
from isoloss.curvature.per_sentence_norms import MEMORY_BYTES
from isoloss.languages.language import SentenceSource
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress, silent


@dataclass(frozen=True)
class FlatnessSet:
    """Fixed sentences and what is predicted of each: with `MaskedObjective` one word (spec 1).

    `seed` settles the sentences and the masks, and the signs of the trace as well: checkpoints measured
    on one set differ by their weights alone.
    """

    batch: Batch
    seed: int

    @staticmethod
    def draw(language: SentenceSource, objective: PretrainingObjective, n: int, seed: int) -> "FlatnessSet":
        """Draw n sentences and what the objective predicts of them."""
        generator = torch.Generator().manual_seed(seed)
        sentences = language.sample(n, generator)
        return FlatnessSet(objective.draw(sentences, generator), seed)


def flatness(
    model: nn.Module,
    objective: Objective,
    flatness_set: FlatnessSet,
    *,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> FisherTrace:
    """The trace of the model's Fisher information on the set; see `fisher_trace`."""
    return fisher_trace(
        model,
        [flatness_set.batch],
        objective,
        seed=flatness_set.seed,
        memory_bytes=memory_bytes,
        progress=progress,
    )
