"""What the commands on a checkpoint take: `compare`, `flatness`, `inspect` and `enlarge`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class CompareOptions:
    """Compare Hugging Face language models: is their loss the same, which is flatter, which is better?

    Example: isoloss compare step-1000 step-2000 --text held-out.txt --task reviews.jsonl

    On a text: pre-training loss and the trace of the Fisher information, on the same sentences and masks.
    On a task, a file of texts with labels: a linear probe and, where asked, fine-tuning, 5 seeds each.
    Every number has its error bar, every difference its own, and a verdict is given only where its whole
    interval agrees. What is measured is kept beside the report: interrupted, the same command goes on.
    """

    models: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL MODEL ...")]
    """Two or more folders, as save_pretrained writes them, or names on a hub; masked or causal."""
    text: Path | None = None
    """A held-out text in UTF-8, a sentence or a document a line, for loss and flatness."""
    dataset: str | None = None
    """A data set of the package datasets instead: NAME or folder, :CONFIGURATION after it."""
    task: Path | None = None
    """Texts, or pairs of texts, with labels: .jsonl, .csv, .tsv or .parquet. Divided by a hash of
    the text into training, validation and test, unless there is a file for the test."""
    task_test: Path | None = None
    """A file of the same form with the test examples."""
    task_columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN")] = ()
    """The columns of the text, or of the two texts, and then that of the label; when not
    given, such as GLUE calls them: text or sentence, sentence1 and sentence2, ...; label."""
    task_examples: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Train and test on N examples at most, chosen by their hash; all when not given."""
    task_length: Annotated[int, tyro.conf.arg(metavar="TOKENS")] = 128
    """Cut the task's examples after so many tokens."""
    fine_tune: bool = False
    """Also fine-tune each model on the task, once a seed: this takes the longest."""
    same_loss: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.01
    """Losses within this share of the first's count as the same."""
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R")] = None
    """Stop a model's trace at this standard error, as a share of the value: 0.02 if
    nothing else stops it."""
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Measure on N sentences at most; the loss on 10,000 when not given."""
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S")] = None
    """Stop each model's loss, and each one's trace, after S seconds."""
    mask_rate: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.15
    """Share of a sentence's tokens that are masked at once, for masked models."""
    objective: Literal["masked", "causal"] | None = None
    """What the models predict; read from their configurations when not given."""
    seed: int = 0
    """Seed of the order of sentences, the masks and the trace's signs."""
    device: str = "cpu"
    """Where the models are measured: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16"] = "float32"
    """The precision of loss, trace and probe; fine-tuning is in float32."""
    output: Path = Path("comparison.html")
    """The report, one HTML file; beside it a file of records (.jsonl) and the folder .measured."""
    json: bool = False
    """Print JSON: {"records": [...], "verdicts": [...], ...}."""


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


@dataclass(frozen=True)
class InspectOptions:
    """Tell what a language model's folder holds, and how its flatness would be measured.

    Type, objective, parameters, tied weights, tokenizer and longest input; and of a trial on a few random
    sentences by which ways, and how much memory and time a sentence takes.

    Example: isoloss inspect my-bert
    """

    models: tyro.conf.Positional[tuple[str, ...]]
    """Folders of models, or names on a hub."""
    objective: Literal["masked", "causal"] | None = None
    """What the models predict; read from their configurations when not given."""
    device: str = "cpu"
    """Where the trial is made: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """The models' precision."""


@dataclass(frozen=True)
class EnlargeOptions:
    """Write a wider and deeper checkpoint that computes the same scores (paper B.4).

    Example: isoloss enlarge runs/bert --width 4 --layers 2 runs/bert-large
    """

    checkpoint: tyro.conf.Positional[Path]
    """The folder of a BertForMaskedLM or RobertaPreLayerNormForMaskedLM."""
    out: tyro.conf.Positional[Path]
    """The folder to write; it must not exist."""
    width: int = 1
    """Multiply width, heads and feed-forward units by this integer; heads keep their size."""
    layers: int = 0
    """Add this many layers."""
    paper: bool = False
    """Follow B.4 to the letter, which changes the scores: see docs/enlarging.md."""
    most_parameters: int = 2_000_000_000
    """Refuse to make more parameters than this; each takes four bytes of memory and of disk."""
    json: bool = False
    """Print JSON."""
