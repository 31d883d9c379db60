"""`isoloss inspect`: what a model's folder contains."""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from isoloss.command_line.options import Models, Objective, refuse_unknown_device
from isoloss.command_line.terminal import duration, starting
from isoloss.errors import BadInput

if TYPE_CHECKING:
    from isoloss.measurements.inspected_model import InspectedModel

FIRST_SENTENCES = 64
"""The fewest sentences after which a relative error may stop a measurement."""


@dataclass(frozen=True)
class InspectOptions:
    """Show what a language model's folder contains, and how its flatness would be measured.

    Prints type, objective, parameters, tied weights, tokenizer and maximum input length; and, from a trial on
    a few random sentences, the methods used and the memory and time per sentence.

    Example: isoloss inspect my-bert
    """

    models: Models
    """Model folders, or names on a hub."""
    objective: Objective = None
    """What the models predict; read from their configurations when not given."""
    device: str = "cpu"
    """Where the trial runs: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """The models' precision."""
    json: bool = False
    """Print JSON: {"models": [...]}."""


def inspect(options: InspectOptions) -> int:
    """Print a few lines per model, or JSON. Raises BadInput for one that cannot be read or measured."""
    if not options.models:
        raise BadInput("no model is named; name a model's folder, or its name on a hub")
    refuse_unknown_device(options.device)
    with starting("inspect"):
        import torch

        from isoloss.device import usable_device
        from isoloss.measurements.inspected_model import inspected_model

    usable_device(options.device)
    precision = getattr(torch, options.dtype)
    found = []
    for name in options.models:
        model = inspected_model(name, options.objective, precision, options.device)
        if options.json:
            found.append(_as_json(model))
        else:
            print("\n  ".join(_in_words(model, options.device)))
    if options.json:
        print(json.dumps({"models": found}, indent=2))
    return 0


def _as_json(model: "InspectedModel") -> dict[str, Any]:
    return {
        "model": model.name,
        "predicts": model.prediction,
        "class": model.architecture,
        "type": model.kind,
        "parameters": model.parameters,
        "tensors": len(model.names),
        "tied": model.tied,
        "tokens": model.tokens,
        "longest_input": model.longest,
        "bytes_of_weights": model.bytes_of_weights,
        "trial": asdict(model.trial),
    }


def _in_words(model: "InspectedModel", device: str) -> list[str]:
    tied = "; ".join(map(" is ".join, model.tied))
    longest = "as long as memory allows" if model.longest is None else f"{model.longest:,} tokens"
    trial, weights = model.trial, model.bytes_of_weights / 2**20
    ways = ", ".join(f"{way} {count}" for way, count in trial.ways.items())
    apart = "" if trial.padded else "; equally long sentences at a time, since padding changes its scores"
    return [
        f"{model.name}: {model.architecture}, type {model.kind}, {model.prediction}",
        f"parameters: {model.parameters:,} in {len(model.names):,} tensors; tied: {tied or 'none'}",
        f"tokenizer: {model.tokenizer}",
        f"longest input: {longest}",
        f"measured by (tensors): {ways}{apart}",
        f"memory: {weights:,.4g} MiB of weights, plus {trial.bytes_a_sentence / 2**20:,.3g} MiB per sentence "
        f"of {trial.length} tokens",
        f"time on {device}: {duration(trial.seconds_a_sentence)} per sentence of {trial.length} tokens, so "
        f"{duration(FIRST_SENTENCES * trial.seconds_a_sentence)} for the first {FIRST_SENTENCES}",
    ]
