"""`isoloss inspect`: what a model's folder contains, and how its flatness would be measured."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import nn
from transformers import PreTrainedModel

from isoloss.command_line.inspect_models import InspectOptions
from isoloss.curvature.per_sentence.traces import (
    bytes_kept_for_backward,
    refuse_without_gradient,
    sentence_fisher_traces,
)
from isoloss.device import usable_device
from isoloss.errors import BadInput
from isoloss.models.hub import quiet
from isoloss.models.loading import Prediction, load_any_language_model, longest_sentence, number_of_tokens
from isoloss.models.tokenizer import load_tokenizer, lost_capitals
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import device_of
from isoloss.objectives.pretrained import (
    EqualLengths,
    PretrainedCausal,
    PretrainedMasked,
    kept_apart,
    masked_batch,
    next_token_batch,
)

SENTENCES = 4
LENGTH = 128
"""Tokens per sentence of a trial, if the model reads that many."""


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


def trial_measurement(
    model: nn.Module, objective: PretrainedMasked | PretrainedCausal, tokens: int, longest: int | None
) -> Trial:
    """Measure `SENTENCES` random sentences of the model's `tokens`, twice: the second time is timed.

    Raises BadInput for a model that cannot be measured.
    """
    length = min(LENGTH, longest or LENGTH)
    batch = _random_batch(objective, tokens, (length,) * SENTENCES).to(device_of(model))
    refuse_without_gradient(model, objective, batch)
    mixed = _random_batch(objective, tokens, (length, max(2, length // 2))).to(device_of(model))
    separate: Objective = kept_apart(model, objective, mixed)
    sentence_fisher_traces(model, separate, batch, seed=0, compare=False)
    begun = perf_counter()
    traces = sentence_fisher_traces(model, separate, batch, seed=0, compare=False)
    seconds = (perf_counter() - begun) / len(batch)
    activations = bytes_kept_for_backward(model, objective, batch.part(0, 1))
    return Trial(
        dict(Counter(traces.ways.values())),
        not isinstance(separate, EqualLengths),
        length,
        activations,
        seconds,
    )


def _random_batch(objective: Objective, tokens: int, lengths: tuple[int, ...]) -> Batch:
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(tokens, (length,), generator=generator).tolist() for length in lengths]
    if isinstance(objective, PretrainedCausal):
        return next_token_batch(sentences, pad=0)
    places = [list(range(0, length, 7)) for length in lengths]
    return masked_batch(sentences, places, mask=0, pad=0)


FIRST_SENTENCES = 64
"""The fewest sentences after which a relative error may stop a measurement."""


def inspect_models(options: InspectOptions) -> int:
    """Print a few lines per model, or JSON. Raises BadInput for one that cannot be read or measured."""
    if not options.models:
        raise BadInput("no model is named; name a model's folder, or its name on a hub")
    usable_device(options.device)
    found = []
    for name in options.models:
        model, prediction = load_any_language_model(name, options.objective, getattr(torch, options.dtype))
        placed = model.to(options.device)
        tokens, longest = number_of_tokens(placed), longest_sentence(placed)
        objective = PretrainedCausal() if prediction == "causal" else PretrainedMasked()
        with quiet():
            trial = trial_measurement(placed, objective, tokens, longest)
        if options.json:
            found.append({"model": name, "predicts": prediction, **_as_json(placed, trial)})
            continue
        lines = [
            f"{name}: {type(model).__name__}, type {model.config.model_type}, {prediction}",
            _parameters(model),
            _tokenizer(name, prediction, tokens),
            f"longest input: {'as long as memory allows' if longest is None else f'{longest:,} tokens'}",
            *_trial(trial, _bytes_of(placed), options.device),
        ]
        print("\n  ".join(lines))
    if options.json:
        print(json.dumps({"models": found}, indent=2))
    return 0


def _as_json(model: PreTrainedModel, trial: Trial) -> dict[str, Any]:
    names = _names(model)
    return {
        "class": type(model).__name__,
        "type": model.config.model_type,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tensors": len(names),
        "tied": [each for each in names if len(each) > 1],
        "tokens": number_of_tokens(model),
        "longest_input": longest_sentence(model),
        "bytes_of_weights": _bytes_of(model),
        "trial": asdict(trial),
    }


def _bytes_of(model: nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _names(model: nn.Module) -> list[list[str]]:
    """The names of each parameter, of which a tied one has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return list(names.values())


def _parameters(model: nn.Module) -> str:
    names = _names(model)
    count = sum(parameter.numel() for parameter in model.parameters())
    tied = "; ".join(" is ".join(each) for each in names if len(each) > 1)
    return f"parameters: {count:,} in {len(names):,} tensors; tied: {tied or 'none'}"


def _tokenizer(name: str, prediction: Prediction, tokens: int) -> str:
    try:
        tokenizer = load_tokenizer(name)
    except BadInput:
        more = " and --mask-token-id" if prediction == "masked" else ""
        return f"tokenizer: none for its {tokens:,} tokens; give token numbers with --token-ids{more}"
    backend = getattr(tokenizer, "backend_tokenizer", None)
    said = [
        f"{type(tokenizer).__name__}, {len(tokenizer):,} of {tokens:,} tokens",
        f"mask token {tokenizer.mask_token}" if tokenizer.mask_token else None,
        f"unknown {tokenizer.unk_token}" if tokenizer.unk_token else None,
        "splits words at white space"
        if isinstance(getattr(backend, "pre_tokenizer", 0), WhitespaceSplit)
        else None,
        "lower case" if getattr(getattr(backend, "normalizer", None), "lowercase", False) else None,
    ]
    lost = lost_capitals(tokenizer)
    warning = "" if lost is None else f"\n  warning: {lost}"
    return f"tokenizer: {', '.join(each for each in said if each is not None)}{warning}"


def _trial(trial: Trial, held: int, device: str) -> list[str]:
    ways = ", ".join(f"{way} {count}" for way, count in trial.ways.items())
    apart = "" if trial.padded else "; equally long sentences at a time, since padding changes its scores"
    weights, activations = held / 2**20, trial.bytes_a_sentence / 2**20
    return [
        f"measured by (tensors): {ways}{apart}",
        f"memory: {weights:,.4g} MiB of weights, plus {activations:,.3g} MiB per sentence of {trial.length} "
        "tokens",
        f"time on {device}: {trial.seconds_a_sentence:.2g} s per sentence of {trial.length} tokens, so "
        f"{FIRST_SENTENCES * trial.seconds_a_sentence:.2g} s for the first {FIRST_SENTENCES}",
    ]
