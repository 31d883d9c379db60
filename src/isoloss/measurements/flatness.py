"""Flatness of a checkpoint: the trace of the Fisher information on fixed sentences and masks (B.1)."""

from dataclasses import dataclass

import torch
from torch import nn

from isoloss.curvature.fisher_trace import FisherTrace, fisher_trace
from isoloss.curvature.per_sentence_norms import MEMORY_BYTES
from isoloss.estimate import Estimate
from isoloss.languages.language import Language
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import Progress, silent

UNIT = "nats per squared parameter"


@dataclass(frozen=True)
class FlatnessSet:
    """Fixed sentences with one masked position each, uniform over the sentence's own (spec 1).

    `seed` settles the sentences and the masks, and the signs of the trace as well: checkpoints measured
    on one set differ by their weights alone.
    """

    batch: Batch
    seed: int

    @staticmethod
    def draw(language: Language, objective: MaskedObjective, n: int, seed: int) -> "FlatnessSet":
        """Draw n sentences and a mask for each."""
        generator = torch.Generator().manual_seed(seed)
        sentences = language.sample(n, generator)
        return FlatnessSet(objective.mask_one(sentences, generator), seed)


def flatness(
    model: nn.Module,
    objective: MaskedObjective,
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
