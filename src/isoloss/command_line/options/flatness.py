"""What `isoloss flatness` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class FlatnessOptions:
    """Measure how flat Hugging Face language models are, by default the trace of the Fisher information.

    Example: isoloss flatness my-bert --text sentences.txt --relative-error 0.02

    Several models are measured on the same sentences, masks and draws, and compared with the first: is each
    flatter, and at the same loss?
    Sentences are taken in random order, each at most once, until every model's error is as asked or the
    text ends. Ctrl-C shows what is known so far.
    """

    models: tyro.conf.Positional[tuple[str, ...]]
    """Folders of models, as save_pretrained writes them, or names on a hub."""
    text: Path | None = None
    """A text in UTF-8, a sentence (or a document) a line; blank lines are left out."""
    token_ids: Path | None = None
    """A file with a JSON list of token numbers a line; needs no tokenizer."""
    dataset: str | None = None
    """A data set of the package datasets: a name or folder, :CONFIGURATION after it if needed."""
    quantity: tuple[
        Literal[
            "fisher_trace",
            "hessian_trace",
            "gradient_norm",
            "hessian_top_eigenvalue",
            "normalised_trace",
            "ascent_sharpness",
            "noise_sensitivity",
        ],
        ...,
    ] = ("fisher_trace",)
    """What to measure; several may be named."""
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R")] = None
    """Stop at this standard error, as a share of the value: 0.02 if nothing else stops."""
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Stop after N sentences; all quantities but the two traces take the first N, or 256."""
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S")] = None
    """Stop after S seconds."""
    one_mask: bool = False
    """Mask one token of a sentence, each as likely; otherwise a share of them at once."""
    mask_token_id: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """The mask token's number, where no tokenizer says it."""
    mask_rate: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None
    """Share of a sentence's tokens that are masked at once; 0.15 when not given."""
    objective: Literal["masked", "causal"] | None = None
    """What the models predict; read from their configurations when not given."""
    parameters: Annotated[str | None, tyro.conf.arg(metavar="PATTERN")] = None
    """Measure parameters whose name this regular expression finds; the others are frozen."""
    seed: int = 0
    """Seed of the order, the masks and the draws; the same seed gives the same figures."""
    device: str = "cpu"
    """Where the models are measured: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """The models' precision."""
    memory: Annotated[float, tyro.conf.arg(metavar="GIB")] = 1.0
    """Gibibytes that the traces may hold at once beside the models: more is faster, up to a point."""
    output: Path | None = None
    """An HTML file with the parts of the network as a picture; of several checkpoints of a run, whose
    names end in their steps (run/checkpoint-*), also the course over steps."""
    json: bool = False
    """Print JSON: {"records": [...], ...}."""
