"""Flatness of a checkpoint: the trace of the Fisher information on fixed sentences and masks (B.1)."""

from dataclasses import dataclass

import torch
from torch import nn

from isoloss.curvature.fisher_trace import FisherTrace, fisher_trace
from isoloss.curvature.per_sentence_norms import MEMORY_BYTES
from isoloss.estimate import Estimate
from isoloss.languages.sentence_source import SentenceSource
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress, silent

UNIT = "nats per squared parameter"


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
    device = next(model.parameters()).device
    return fisher_trace(
        model,
        objective,
        flatness_set.batch.to(device),
        seed=flatness_set.seed,
        memory_bytes=memory_bytes,
        progress=progress,
    )


def flatness_records(
    trace: FisherTrace, seed: int, checkpoint: str, settings: dict[str, Setting]
) -> list[Record]:
    """`fisher_trace` with its standard error over sentences, and a `fisher_trace_of_group` for each group.

    The whole's settings also say how many parameters were differentiated and how many were frozen; the
    groups' settings name the group, and their values add up to the whole's.
    """

    def record(quantity: str, estimate: Estimate, more: dict[str, Setting]) -> Record:
        return Record(
            quantity,
            estimate.value,
            UNIT,
            estimate.standard_error,
            estimate.n,
            seed,
            checkpoint,
            {**settings, **more},
        )

    counts: dict[str, Setting] = {"parameters": trace.parameters, "frozen_tensors": len(trace.frozen)}
    return [
        record("fisher_trace", trace.estimate, counts),
        *(
            record("fisher_trace_of_group", estimate, {"group": name})
            for name, estimate in trace.group_estimates.items()
        ),
    ]
