"""`isoloss inspect`: what a model's folder contains."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from isoloss.command_line.terminal import starting


@dataclass(frozen=True)
class InspectOptions:
    """Show what a language model's folder contains, and how its flatness would be measured.

    Prints type, objective, parameters, tied weights, tokenizer and maximum input length; and, from a trial on
    a few random sentences, the methods used and the memory and time per sentence.

    Example: isoloss inspect my-bert
    """

    models: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="MODEL [MODEL ...]", help_behavior_hint=""),
    ]
    """Model folders, or names on a hub."""
    objective: Annotated[
        Literal["masked", "causal"] | None, tyro.conf.arg(metavar="{masked,causal}", help_behavior_hint="")
    ] = None
    """What the models predict; read from their configurations when not given."""
    device: str = "cpu"
    """Where the trial runs: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """The models' precision."""
    json: bool = False
    """Print JSON: {"models": [...]}."""


def inspect_models(options: InspectOptions) -> int:
    """Carry out the request; returns the exit code."""
    with starting("inspect"):
        from isoloss.command_line.inspection import inspect_models
    return inspect_models(options)
