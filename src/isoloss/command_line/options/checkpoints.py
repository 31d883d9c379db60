"""Options of the commands on checkpoints: `compare`, `flatness`, `inspect` and `enlarge`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from isoloss.command_line.options.left_out import File, Name, Number


@dataclass(frozen=True)
class CompareOptions:
    """Compare Hugging Face language models: do they have the same loss, which is flatter, which is better?

    Example: isoloss compare step-1000 step-2000 --text held-out.txt --task reviews.jsonl

    On a text, it measures the pre-training loss and the trace of the Fisher information, with the same
    sentences and masks for every model. On a task (a file of labelled texts), it trains a linear probe and,
    with --fine-tune, fine-tunes each model, with 5 seeds each. Every number and every difference has its own
    error bar, and a verdict is given only if the whole confidence interval supports it. Measurements are
    cached beside the report, so the same command resumes after an interruption.
    """

    models: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL MODEL ...", help_behavior_hint="")
    ]
    """Two or more model folders, as written by save_pretrained, or names on a hub; masked or causal."""
    text: File = None
    """A held-out text in UTF-8 with one sentence or document per line, for loss and flatness."""
    dataset: Name = None
    """A data set of the datasets package instead: a name or folder, then :CONFIGURATION if needed."""
    task: File = None
    """Labelled texts or pairs of texts: .jsonl, .csv, .tsv or .parquet.
    Split by a hash of the text into training, validation and test, unless --task-test gives the test set."""
    task_test: File = None
    """A file of test examples in the same format."""
    task_columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN", help_behavior_hint="")] = ()
    """The columns of the text or of both texts, followed by the label's.
    By default, GLUE's names: text or sentence, sentence1 and sentence2, ...; label."""
    task_examples: Number = None
    """Train and test on at most N examples, chosen by hash; all by default."""
    task_length: Annotated[int, tyro.conf.arg(metavar="TOKENS")] = 128
    """Truncate the task's examples to this many tokens."""
    fine_tune: bool = False
    """Also fine-tune each model on the task, once per seed; this is the slowest part."""
    same_loss: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.01
    """Treat losses as the same if they are within this fraction of the first model's."""
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R", help_behavior_hint="")] = None
    """Stop a trace at this relative standard error; 0.02 if there is no other stopping criterion."""
    sentences: Number = None
    """Measure on at most N sentences; by default the loss is measured on 10,000."""
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S", help_behavior_hint="")] = None
    """Spend at most S seconds on each model's loss, and S on its trace."""
    mask_rate: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.15
    """Share of a sentence's tokens that are masked at once, for masked models."""
    objective: Annotated[
        Literal["masked", "causal"] | None, tyro.conf.arg(metavar="{masked,causal}", help_behavior_hint="")
    ] = None
    """What the models predict; read from their configurations when not given."""
    seed: int = 0
    """Seed of the sentence order, the masks and the trace's random signs."""
    device: str = "cpu"
    """Where the models are measured: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16"] = "float32"
    """The precision of loss, trace and probe; fine-tuning is in float32."""
    output: Path = Path("comparison.html")
    """The report, a single HTML file; a file of records (.jsonl) and the folder .measured go beside it."""
    json: bool = False
    """Print JSON: {"records": [...], "verdicts": [...], ...}."""


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
    """What to measure; one or more."""
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R", help_behavior_hint="")] = None
    """Stop at this relative standard error; 0.02 if there is no other stopping criterion."""
    sentences: Number = None
    """Stop after N sentences. Quantities other than the two traces use the first N, or 256 by default."""
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


@dataclass(frozen=True)
class EnlargeOptions:
    """Write a wider and deeper checkpoint that computes the same scores (paper B.4).

    Example: isoloss enlarge runs/bert --width 4 --layers 2 runs/bert-large
    """

    checkpoint: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """The folder of a BertForMaskedLM or RobertaPreLayerNormForMaskedLM."""
    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="NEW_FOLDER")]
    """The folder to write; it must not exist yet."""
    width: int = 1
    """Multiply width, number of heads and feed-forward units by this integer; heads keep their size."""
    layers: int = 0
    """Add this many layers."""
    paper: bool = False
    """Follow B.4 to the letter, which changes the scores: see docs/enlarging.md."""
    most_parameters: int = 2_000_000_000
    """Refuse to write a model with more parameters than this; each takes four bytes of memory and disk."""
    json: bool = False
    """Print JSON."""
