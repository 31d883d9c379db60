"""What a model's folder contains, and how its flatness would be measured."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedModel

from isoloss.curvature.fisher_trace import RunningFisherTrace
from isoloss.curvature.per_sentence.traces import (
    SentenceTraces,
    bytes_kept_for_backward,
    sentence_fisher_traces,
)
from isoloss.curvature.stopping import FEWEST, refuse_too_few
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import load_predicting, prediction_of, read_texts, sampled_batches
from isoloss.measurements.prediction import MaskedTokens, Prediction
from isoloss.measurements.sampled_batches import SENTENCES_A_BATCH, random_batch
from isoloss.models.hub import quiet
from isoloss.models.loading import LanguageObjective
from isoloss.models.tokenizer import (
    highest_token,
    load_tokenizer,
    longest_sentence,
    lost_capitals,
    number_of_tokens,
)
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import device_of, refuse_without_gradient
from isoloss.objectives.pretrained import EqualLengths, kept_apart

LENGTH = 128
"""Tokens per sentence of a trial, if the model reads that many."""
SENTENCES, TOKENS = 4, 2048
"""How many sentences a trial begins with, and how many tokens it goes on with, of which each is no slower
than of more; unless the first have taken `PATIENCE`."""
PATIENCE = 5.0
"""In seconds."""


@dataclass(frozen=True)
class Trial:
    """`ways` counts parameter tensors by the method that gave their part; bytes and seconds are per sentence.

    `padded` is true if sentences of different lengths may be measured together.
    """

    ways: dict[str, int]
    padded: bool
    length: int
    bytes_a_sentence: int
    seconds_a_sentence: float


def trial_measurement(model: PreTrainedModel, prediction: Prediction, longest: int | None) -> Trial:
    """Measure `SENTENCES` random sentences of the model's tokens, then as many as are timed.

    Raises BadInput for a model that cannot be measured.
    """
    length = min(LENGTH, longest or LENGTH)
    objective = prediction.objective
    batch = random_batch(model, prediction, (length,) * SENTENCES).to(device_of(model))
    refuse_without_gradient(model, objective, batch)
    mixed = random_batch(model, prediction, (length, max(2, length // 2))).to(device_of(model))
    separate: Objective = kept_apart(model, objective, mixed)
    traces, seconds = _timed(model, separate, batch)
    if seconds < PATIENCE:
        sentences = max(SENTENCES, min(SENTENCES_A_BATCH, TOKENS // length))
        batch = random_batch(model, prediction, (length,) * sentences).to(device_of(model))
        _timed(model, separate, batch)  # the first pass of a size takes longer
    traces, seconds = _timed(model, separate, batch)
    activations = bytes_kept_for_backward(model, objective, batch.part(0, 1))
    return Trial(
        dict(Counter(traces.ways.values())),
        not isinstance(separate, EqualLengths),
        length,
        activations,
        seconds / len(batch),
    )


def _timed(model: PreTrainedModel, objective: Objective, batch: Batch) -> tuple[SentenceTraces, float]:
    begun = perf_counter()
    traces = sentence_fisher_traces(model, objective, batch, seed=0, compare=False)
    for values in traces.groups.values():
        values.cpu()  # waits for the device
    return traces, perf_counter() - begun


@dataclass(frozen=True)
class InspectedModel:
    """A model as it lies in its folder, and a trial measurement.

    `names` are those of every parameter tensor, of which a tied one has several; `longest` is the maximum
    number of input tokens, None without one; `tokenizer` is in words. Of the `parameters`, the `trainable` in
    `trainable_tensors` are measured, such as an adapter's; the others are frozen.
    """

    name: str
    architecture: str
    kind: str
    prediction: str
    parameters: int
    trainable: int
    trainable_tensors: int
    names: tuple[tuple[str, ...], ...]
    bytes_of_weights: int
    tokens: int
    longest: int | None
    tokenizer: str
    precision: str
    trial: Trial
    pilot: "Pilot | None"

    @property
    def tied(self) -> list[tuple[str, ...]]:
        """The names of each tensor that has several."""
        return [names for names in self.names if len(names) > 1]


@dataclass(frozen=True)
class Pilot:
    """The trace of the first `sentences` of a text: their number, its relative error, and their seconds."""

    sentences: int
    relative_error: float
    seconds_a_sentence: float

    @property
    def sentences_for_one_percent(self) -> int:
        """As many as their spread calls for: the error falls with the root of the number."""
        return max(FEWEST, math.ceil(self.sentences * (self.relative_error / 0.01) ** 2))

    @property
    def seconds_for_one_percent(self) -> float:
        """How long these take."""
        return self.sentences_for_one_percent * self.seconds_a_sentence

    @property
    def relative_error_of_number(self) -> float:
        """That of `sentences_for_one_percent`, if values were normal; heavier tails make it larger."""
        return math.sqrt(2 / (self.sentences - 1))


def pilot_on(model: PreTrainedModel, name: str, prediction: Prediction, text: Path) -> Pilot:
    """Measure the trace on the first `FEWEST` sentences, in random order, as `isoloss flatness` does."""
    source = read_texts([name], prediction, text)
    batches = sampled_batches({name: model}, prediction, source, seed=0)
    running = RunningFisherTrace(model, batches.objective, seed=0)
    begun = perf_counter()
    for batch in batches.first(FEWEST):
        running.add(batch)
    seconds = (perf_counter() - begun) / max(1, running.sentences)
    refuse_too_few(running.sentences)
    estimate = running.result("").estimate
    return Pilot(running.sentences, estimate.standard_error / abs(estimate.value), seconds)


def inspected_model(
    name: str,
    objective: LanguageObjective | None,
    precision: torch.dtype,
    device: str,
    text: Path | None = None,
) -> InspectedModel:
    """Load and try the model, and with a text also on that. Raises BadInput for one that cannot be."""
    prediction = prediction_of(name, objective)
    placed = load_predicting(name, prediction, precision).to(device)
    tokens, longest = number_of_tokens(placed), longest_sentence(placed)
    with quiet():
        trial = trial_measurement(placed, prediction, longest)
        pilot = None if text is None else pilot_on(placed, name, prediction, text)
    parameters = list(placed.parameters())
    trainable = [each for each in parameters if each.requires_grad]
    return InspectedModel(
        name=name,
        architecture=type(placed).__name__,
        kind=placed.config.model_type,
        prediction=prediction.name,
        parameters=sum(each.numel() for each in parameters),
        trainable=sum(each.numel() for each in trainable),
        trainable_tensors=len(trainable),
        names=_names(placed),
        bytes_of_weights=sum(each.numel() * each.element_size() for each in parameters),
        tokens=tokens,
        longest=longest,
        tokenizer=_tokenizer_in_words(name, prediction, tokens),
        precision=str(precision).removeprefix("torch."),
        trial=trial,
        pilot=pilot,
    )


def _names(model: PreTrainedModel) -> tuple[tuple[str, ...], ...]:
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return tuple(map(tuple, names.values()))


def _tokenizer_in_words(name: str, prediction: Prediction, tokens: int) -> str:
    try:
        tokenizer = load_tokenizer(name)
    except BadInput:
        more = " and --mask-token-id" if isinstance(prediction, MaskedTokens) else ""
        return f"none for its {tokens:,} tokens; give token numbers with --token-ids{more}"
    backend = getattr(tokenizer, "backend_tokenizer", None)
    facts = [
        f"{type(tokenizer).__name__}, {len(tokenizer):,} of {tokens:,} tokens",
        f"mask token {tokenizer.mask_token}" if tokenizer.mask_token else None,
        f"unknown {tokenizer.unk_token}" if tokenizer.unk_token else None,
        "splits words at white space"
        if isinstance(getattr(backend, "pre_tokenizer", 0), WhitespaceSplit)
        else None,
        "lower case" if getattr(getattr(backend, "normalizer", None), "lowercase", False) else None,
    ]
    warnings = [lost_capitals(tokenizer)]
    if (highest := highest_token(tokenizer)) >= tokens:
        warnings.append(f"the tokenizer numbers its tokens up to {highest}; the model has only {tokens}")
    warned = "".join(f"\n  warning: {each}" for each in warnings if each is not None)
    return f"{', '.join(each for each in facts if each is not None)}{warned}"
