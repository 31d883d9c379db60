"""`isoloss flatness`: how flat models are."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from isoloss.command_line.options import (
    File,
    Memory,
    Models,
    Name,
    Number,
    Objective,
    Precision,
    Quantities,
    Share,
    memory_bytes,
    models_on_text,
    refuse_named_twice,
    refuse_no_model,
    refuse_no_page,
    refuse_unusable_text,
    repeated_command,
    trace_stopping,
)
from isoloss.command_line.terminal import progress_display, starting
from isoloss.errors import BadInput
from isoloss.measurements.on_sentences import refuse_unknown_quantities
from isoloss.results.checkpoint import ADAPTER_FILE

if TYPE_CHECKING:
    from isoloss.command_line.flatness_table import Shown

EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class FlatnessOptions:
    """Measure how flat Hugging Face language models are, by default by the trace of the Fisher information.

    Example: isoloss flatness my-bert --text sentences.txt --relative-error 0.02

    Several models are measured on the same sentences, masks and random draws, and each is compared with the
    first: is it flatter, and at the same loss? Sentences are taken in random order, each at most once, until
    every model reaches the requested error or the text ends. Ctrl-C prints the estimates so far.
    """

    models: Models
    """Model folders, as written by save_pretrained or peft (of an adapter, its own weights are measured), or
    names on a hub; a folder of checkpoint-* stands for all of them."""
    text: File = None
    """A text in UTF-8 with one sentence (or document) per line; blank lines are skipped.
    Of a .csv, .tsv, .json, .jsonl or .parquet, the column text or sentence, or the only one with text."""
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
    mask_rate: Share = None
    """Share of a sentence's tokens that are masked at once; 0.15 by default."""
    objective: Objective = None
    """What the models predict; read from their configurations when not given."""
    parameters: Annotated[str | None, tyro.conf.arg(metavar="PATTERN", help_behavior_hint="")] = None
    """Measure only parameters whose names match this regular expression; the others are frozen."""
    seed: int = 0
    """Seed of the sentence order, the masks and the random draws; the same seed gives the same numbers."""
    device: str = "cpu"
    """Where the models are measured: cpu or cuda; cuda:0,cuda:1 puts their layers on several devices."""
    offload: bool = False
    """Keep the weights in the processor's memory; those of a layer are on the device while it computes."""
    dtype: Precision = None
    """The models' precision; float32 by default, or where that does not fit, as the weights are stored."""
    memory: Memory = None
    """Memory for fisher_trace, hessian_trace and pretraining_loss beside the models, in GiB.
    More is faster, up to a point; by default 1, or on a GPU half of what is free. Other quantities have 1."""
    output: File = None
    """An HTML file that charts the parts of the network.
    For checkpoints of one run, named by step (run/checkpoint-*), it also charts the values over steps."""
    json: bool = False
    """Print JSON: {"records": [...], ...}."""


def flatness(options: FlatnessOptions) -> int:
    """Carry out the request; returns 0 if all is well, 130 if it was interrupted.

    A quantity that has no number here is raised as BadInput when what the others gave has been written.
    """
    options = replace(options, models=with_checkpoints(options.models))
    _check_without_torch(options)
    for sentence in _beside_models(options.models):
        print(sentence, file=sys.stderr)
    with starting("flatness"):
        from isoloss.command_line.flatness_table import print_flatness, print_json
        from isoloss.measurements.measured_models import INTERRUPTED

    _check_what_torch_knows(options)
    shown, refused = _measured(options)
    (print_json if options.json else print_flatness)(shown)
    if options.output is not None:
        _write_page(options, shown)
    measured = shown.measured
    if refused:
        raise _in_one(refused)
    finished = len(measured) == len(set(options.quantity)) and measured[-1].stopped != INTERRUPTED
    return 0 if finished else EXIT_INTERRUPTED


def with_checkpoints(names: Sequence[str]) -> tuple[str, ...]:
    """The names, and in place of a folder that has no model but checkpoints of a Trainer, those by step.

    >>> with_checkpoints(["my-bert"])
    ('my-bert',)
    """
    found: list[str] = []
    for name in names:
        found += ([] if _is_model(Path(name)) else _checkpoints_in(name)) or [name]
    return tuple(found)


def _beside_models(names: Sequence[str]) -> list[str]:
    """A sentence for each model whose folder has a Trainer's checkpoints too, which it does not stand for."""
    return [
        f"{name} is the model in that folder, without the {len(checkpoints)} checkpoints beside it; name "
        f"{name.rstrip('/')}/checkpoint-* for these"
        for name in names
        if _is_model(Path(name)) and (checkpoints := _checkpoints_in(name))
    ]


def _is_model(folder: Path) -> bool:
    return any((folder / file).exists() for file in ("config.json", ADAPTER_FILE))


def _checkpoints_in(name: str) -> list[str]:
    """A Trainer's checkpoints in a folder, by step."""
    steps = {
        int(path.name.removeprefix("checkpoint-")): f"{name.rstrip('/')}/{path.name}"
        for path in Path(name).glob("checkpoint-*")
        if path.is_dir() and path.name.removeprefix("checkpoint-").isdecimal()
    }
    return [steps[step] for step in sorted(steps)]


def _in_one(refused: Mapping[str, BadInput]) -> BadInput:
    """What is wrong with every quantity, each by its name."""
    return BadInput("; ".join(f"{name}: {error}" for name, error in refused.items()))


def _measured(options: FlatnessOptions) -> "tuple[Shown, Mapping[str, BadInput]]":
    """Every quantity of every model, as far as measured if it is interrupted, and those that have no number.

    Raises what is wrong with the only quantity, or with all.
    """
    from isoloss.command_line.flatness_table import Shown
    from isoloss.measurements.measured_models import measure_each, verdicts_on
    from isoloss.models.model_files import quiet

    stopping = trace_stopping(options.relative_error, options.sentences, options.seconds)
    models, batches, precision = models_on_text(options, options.models, options.parameters)
    settings = {"estimand": batches.prediction.estimand, "dtype": str(precision).removeprefix("torch.")}
    with progress_display() as progress, quiet():
        memory = memory_bytes(options.memory, options.device)
        asked = (options.quantity, models, batches, stopping, settings, progress, memory)
        measured, refused = measure_each(*asked)
        if not measured:
            alike = len({str(error) for error in refused.values()}) == 1
            raise next(iter(refused.values())) if alike else _in_one(refused)
        if len(models) == 1:
            return Shown(measured, models, batches, [], []), refused
        from isoloss.measurements.verdicts import conclusions

        verdicts = verdicts_on(measured, models, batches, progress)
    return Shown(measured, models, batches, verdicts, conclusions(verdicts)), refused


def _write_page(options: FlatnessOptions, shown: "Shown") -> None:
    # Drawing takes seconds to import, and a table need not wait for that.
    from isoloss.command_line.flatness_table import sentences_below
    from isoloss.report.flatness_page import flatness_page
    from isoloss.report.page import write_lone_page

    assert options.output is not None
    command = repeated_command("flatness", options)
    page = flatness_page(shown.measured, shown.verdicts, sentences_below(shown), command)
    write_lone_page(page, options.output)
    if not options.json:
        print(f"page: {options.output}")


def _check_without_torch(options: FlatnessOptions) -> None:
    """Refuse what can be refused before torch is imported, which takes seconds."""
    from isoloss.models.names import refuse_absent

    refuse_no_model(options.models)
    refuse_named_twice(options.models)
    refuse_unknown_quantities(options.quantity)
    refuse_unusable_text(options)
    if options.output is not None:
        refuse_no_page(options.output, "flatness.html")
    refuse_absent(*options.models)
    if options.parameters is not None:
        try:
            re.compile(options.parameters)
        except re.error as error:
            raise BadInput(f"--parameters {options.parameters} is no regular expression: {error}") from error


def _check_what_torch_knows(options: FlatnessOptions) -> None:
    """Refuse quantities, their limits and devices that there are not, before a model is read."""
    from isoloss.device import usable_devices
    from isoloss.measurements.measured_models import stops_anywhere
    from isoloss.measurements.on_sentences import short_name

    free = [stops_anywhere(name) for name in options.quantity]
    if not any(free) and (options.relative_error or options.seconds):
        raise BadInput(
            f"--relative-error and --seconds are for traces and losses; {short_name(options.quantity[0])} is "
            "measured on a fixed set of sentences: say how many with --sentences"
        )
    usable_devices(options.device)
