"""`isoloss flatness`: how flat models are."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from isoloss.command_line.options import File, Name, Number, Quantities
from isoloss.command_line.terminal import starting


@dataclass(frozen=True)
class FlatnessOptions:
    """Measure how flat Hugging Face language models are, by default by the trace of the Fisher information.

    Example: isoloss flatness my-bert --text sentences.txt --relative-error 0.02

    Several models are measured on the same sentences, masks and random draws, and each is compared with the
    first: is it flatter, and at the same loss? Sentences are taken in random order, each at most once, until
    every model reaches the requested error or the text ends. Ctrl-C prints the estimates so far.
    """

    models: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="MODEL [MODEL ...]", help_behavior_hint=""),
    ]
    """Model folders, as written by save_pretrained, or names on a hub."""
    text: File = None
    """A text in UTF-8 with one sentence (or document) per line; blank lines are skipped."""
    token_ids: File = None
    """A file with a JSON list of token ids per line; no tokenizer needed."""
    dataset: Name = None
    """A data set of the datasets package: a name or folder, then :CONFIGURATION if needed."""
    quantity: Quantities = ("fisher_trace",)
    """What to measure; one or more."""
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R", help_behavior_hint="")] = None
    """Stop at this relative standard error; 0.02 if there is no other stopping criterion."""
    sentences: Number = None
    """Stop after N sentences. Quantities other than traces and losses use the first N, or 256 by default."""
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S", help_behavior_hint="")] = None
    """Stop after S seconds."""
    one_mask: bool = False
    """Mask a single token of each sentence, chosen uniformly, instead of a share of them at once."""
    mask_token_id: Number = None
    """The mask token's id, if no tokenizer gives it."""
    mask_rate: Annotated[float | None, tyro.conf.arg(metavar="SHARE", help_behavior_hint="")] = None
    """Share of a sentence's tokens that are masked at once; 0.15 by default."""
    objective: Annotated[
        Literal["masked", "causal"] | None, tyro.conf.arg(metavar="{masked,causal}", help_behavior_hint="")
    ] = None
    """What the models predict; read from their configurations when not given."""
    parameters: Annotated[str | None, tyro.conf.arg(metavar="PATTERN", help_behavior_hint="")] = None
    """Measure only parameters whose names match this regular expression; the others are frozen."""
    seed: int = 0
    """Seed of the sentence order, the masks and the random draws; the same seed gives the same numbers."""
    device: str = "cpu"
    """Where the models are measured: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """The models' precision."""
    memory: Annotated[float, tyro.conf.arg(metavar="GIB")] = 1.0
    """Memory for the traces beside the models, in GiB; more is faster, up to a point."""
    output: File = None
    """An HTML file that charts the parts of the network.
    For checkpoints of one run, named by step (run/checkpoint-*), it also charts the values over steps."""
    json: bool = False
    """Print JSON: {"records": [...], ...}."""


def flatness(options: FlatnessOptions) -> int:
    """Carry out the request; returns the exit code."""
    with starting("flatness"):
        from isoloss.command_line.flatness_request import measure_flatness
    return measure_flatness(options)
