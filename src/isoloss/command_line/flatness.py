"""`isoloss flatness`: how flat models are, each number with its error bar."""

from pathlib import Path
from typing import Annotated, Literal

import tyro


def flatness(
    models: tyro.conf.Positional[tuple[str, ...]],
    /,
    text: Path | None = None,
    token_ids: Path | None = None,
    dataset: str | None = None,
    quantity: tuple[
        Literal["fisher_trace", "hessian_trace", "gradient_norm", "hessian_top_eigenvalue"], ...
    ] = ("fisher_trace",),
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R")] = None,
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S")] = None,
    one_mask: bool = False,
    mask_token_id: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    mask_rate: Annotated[float | None, tyro.conf.arg(metavar="SHARE")] = None,
    objective: Literal["masked", "causal"] | None = None,
    parameters: Annotated[str | None, tyro.conf.arg(metavar="PATTERN")] = None,
    seed: int = 0,
    device: str = "cpu",
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32",
    json: bool = False,
) -> int:
    """Measure how flat Hugging Face language models are, by default the trace of the Fisher information.

    Example: isoloss flatness my-bert --text sentences.txt --relative-error 0.02

    Several models are measured on the same sentences, masks and draws, and compared with the first.
    Sentences are taken in random order, each at most once, until every model's error is as asked or the
    text ends. Ctrl-C shows what is known so far.

    Args:
        models: Folders of models, as save_pretrained writes them, or names on a hub.
        text: A text in UTF-8, a sentence (or a document) a line; blank lines are left out.
        token_ids: A file with a JSON list of token numbers a line; needs no tokenizer.
        dataset: A data set of the package datasets: a name or folder, :CONFIGURATION after it if needed.
        quantity: What to measure; several may be named.
        relative_error: Stop at this standard error, as a share of the value: 0.02 if nothing else stops.
        sentences: Stop after N sentences; the gradient and the top eigenvalue take the first N, or 256.
        seconds: Stop after S seconds.
        one_mask: Mask one token of a sentence, each as likely; otherwise a share of them at once.
        mask_token_id: The mask token's number, where no tokenizer says it.
        mask_rate: Share of a sentence's tokens that are masked at once; 0.15 when not given.
        objective: What the models predict; read from their configurations when not given.
        parameters: Measure parameters whose name this regular expression finds; the others are frozen.
        seed: Seed of the order, the masks and the draws; the same seed gives the same figures.
        device: Where the models are measured: cpu or cuda.
        dtype: The models' precision.
        json: Print JSON: {"records": [...], ...}.
    """
    # Models take seconds to import, which `--help` need not wait for.
    from isoloss.command_line.flatness_request import Request, measure_flatness

    asked = Request(
        models, text, token_ids, dataset, quantity, relative_error, sentences, seconds, one_mask,
        mask_token_id, mask_rate, objective, parameters, seed, device, dtype, json,
    )  # fmt: skip
    return measure_flatness(asked)
