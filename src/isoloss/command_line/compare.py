"""`isoloss compare`: loss, flatness and accuracy of several models, and what may be said of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from isoloss.command_line.options import File, Name, Number, Quantities
from isoloss.command_line.terminal import starting


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
    quantity: Quantities = ("fisher_trace",)
    """What to measure on the text besides the loss; one or more."""
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


def compare(options: CompareOptions) -> int:
    """Carry out the request; returns the exit code."""
    with starting("compare"):
        from isoloss.command_line.comparison_request import measure_comparison
    return measure_comparison(options)
