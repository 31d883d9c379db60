"""A trial of the trace on a few random sentences: how it would be measured, and what it would take."""

from collections import Counter
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import nn

from isoloss.curvature.first_gradient import refuse_without_gradient
from isoloss.curvature.forward_memory import bytes_kept_for_backward
from isoloss.curvature.sentence_traces import sentence_fisher_traces
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation_mode import device_of
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, masked_batch, next_token_batch
from isoloss.objectives.sentences_apart import EqualLengths, kept_apart

SENTENCES = 4
LENGTH = 128
"""Tokens of a trial's sentence, where the model reads as many."""


@dataclass(frozen=True)
class Trial:
    """`ways` counts tensors by how their part was had; bytes and seconds are of one sentence of `length`.

    `padded` says that sentences of different lengths may be measured together.
    """

    ways: dict[str, int]
    padded: bool
    length: int
    bytes_a_sentence: int
    seconds_a_sentence: float


def trial_measurement(
    model: nn.Module, objective: PretrainedMasked | PretrainedCausal, tokens: int, longest: int | None
) -> Trial:
    """Measure `SENTENCES` sentences of random ones of the model's `tokens`, twice: the second is timed.

    Raises BadInput for a model that cannot be measured.
    """
    length = min(LENGTH, longest or LENGTH)
    batch = _random_batch(objective, tokens, (length,) * SENTENCES).to(device_of(model))
    refuse_without_gradient(model, objective, batch)
    mixed = _random_batch(objective, tokens, (length, max(2, length // 2))).to(device_of(model))
    own: Objective = kept_apart(model, objective, mixed)
    sentence_fisher_traces(model, own, batch, seed=0, first_sentence=1)
    begun = perf_counter()
    traces = sentence_fisher_traces(model, own, batch, seed=0, first_sentence=1)
    seconds = (perf_counter() - begun) / len(batch)
    kept = bytes_kept_for_backward(model, objective, batch.part(0, 1))
    return Trial(
        dict(Counter(traces.ways.values())), not isinstance(own, EqualLengths), length, kept, seconds
    )


def _random_batch(objective: Objective, tokens: int, lengths: tuple[int, ...]) -> Batch:
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(tokens, (length,), generator=generator).tolist() for length in lengths]
    if isinstance(objective, PretrainedCausal):
        return next_token_batch(sentences, pad=0)
    places = [list(range(0, length, 7)) for length in lengths]
    return masked_batch(sentences, places, mask=0, pad=0)
