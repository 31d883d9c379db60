"""What `isoloss compare` takes."""

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
