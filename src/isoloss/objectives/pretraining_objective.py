"""What pre-training needs of an objective."""

from typing import Protocol, runtime_checkable

import torch

from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch, Objective


@runtime_checkable
class PretrainingObjective(Objective, Protocol):
    """An objective that also chooses what is predicted of fresh sentences.

    A frozen dataclass of numbers, strings and such dataclasses: part of a run's digest.
    """

    def draw(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """The predictions that these sentences are trained on; row i of the batch is sentence i."""
        ...
