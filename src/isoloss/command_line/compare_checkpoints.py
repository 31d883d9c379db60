"""`isoloss compare-checkpoints`: loss, flatness and accuracy of language models, side by side."""

from pathlib import Path
from typing import Annotated, Literal

import tyro


def compare_checkpoints(
    models: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL MODEL ...")],
    /,
    text: Path | None = None,
    dataset: str | None = None,
    task: Path | None = None,
    task_test: Path | None = None,
    task_columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN")] = (),
    task_examples: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    task_length: Annotated[int, tyro.conf.arg(metavar="TOKENS")] = 128,
    fine_tune: bool = False,
    same_loss: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.01,
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R")] = None,
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S")] = None,
    mask_rate: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.15,
    objective: Literal["masked", "causal"] | None = None,
    seed: int = 0,
    device: str = "cpu",
    dtype: Literal["float64", "float32", "bfloat16"] = "float32",
    output: Path = Path("comparison.html"),
    json: bool = False,
) -> int:
    """Compare Hugging Face language models: is their loss the same, which is flatter, which is better?

    Example: isoloss compare-checkpoints step-1000 step-2000 --text held-out.txt --task reviews.jsonl

    On a text: pre-training loss and the trace of the Fisher information, on the same sentences and masks.
    On a task, a file of texts with labels: a linear probe and, where asked, fine-tuning, 5 seeds each.
    Every number has its error bar, every difference its own, and a verdict is given only where its whole
    interval agrees. What is measured is kept beside the report: interrupted, the same command goes on.

    Args:
        models: Two or more folders, as save_pretrained writes them, or names on a hub; masked or causal.
        text: A held-out text in UTF-8, a sentence or a document a line, for loss and flatness.
        dataset: A data set of the package datasets instead: NAME or folder, :CONFIGURATION after it.
        task: Texts, or pairs of texts, with labels: .jsonl, .csv, .tsv or .parquet. Divided by a hash of
            the text into training, validation and test, unless there is a file for the test.
        task_test: A file of the same form with the test examples.
        task_columns: The columns of the text, or of the two texts, and then that of the label; when not
            given, such as GLUE calls them: text or sentence, sentence1 and sentence2, ...; label.
        task_examples: Train and test on N examples at most, chosen by their hash; all when not given.
        task_length: Cut the task's examples after so many tokens.
        fine_tune: Also fine-tune each model on the task, once a seed: this takes the longest.
        same_loss: Losses within this share of the first's count as the same.
        relative_error: Stop a model's trace at this standard error, as a share of the value: 0.02 if
            nothing else stops it.
        sentences: Measure on N sentences at most; the loss on 10,000 when not given.
        seconds: Stop each model's loss, and each one's trace, after S seconds.
        mask_rate: Share of a sentence's tokens that are masked at once, for masked models.
        objective: What the models predict; read from their configurations when not given.
        seed: Seed of the order of sentences, the masks and the trace's signs.
        device: Where the models are measured: cpu or cuda.
        dtype: The precision of loss, trace and probe; fine-tuning is in float32.
        output: The report, one HTML file; beside it a file of records (.jsonl) and the folder .measured.
        json: Print JSON: {"records": [...], "verdicts": [...], ...}.
    """
    # Models take seconds to import, which `--help` need not wait for.
    from isoloss.command_line.comparison_request import ComparisonRequest, measure_comparison

    asked = ComparisonRequest(
        models, text, dataset, task, task_test, task_columns, task_examples, task_length, fine_tune,
        same_loss, relative_error, sentences, seconds, mask_rate, objective, seed, device, dtype, output,
        json,
    )  # fmt: skip
    return measure_comparison(asked)
