"""`isoloss inspect`: what a model's folder contains."""

import json
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from isoloss.command_line.options import (
    GIBIBYTE,
    File,
    Models,
    Number,
    Objective,
    Precision,
    precision_that_fits,
    refuse_below,
    refuse_no_file,
    refuse_no_memory,
    refuse_no_model,
)
from isoloss.command_line.terminal import duration, in_lines, progress_display, starting
from isoloss.errors import BadInput
from isoloss.results.checkpoint import refuse_damaged

if TYPE_CHECKING:
    from isoloss.measurements.foreseen_cost import ForeseenCost
    from isoloss.measurements.inspected_model import InspectedModel


@dataclass(frozen=True)
class InspectOptions:
    """Show what a language model's folder contains, and how its flatness would be measured.

    Prints type, objective, parameters, tied weights, tokenizer and maximum input length; and, from a trial on
    a few random sentences, the methods used and the memory and time per sentence. With --for, or of a folder
    that holds no weights, whether it fits follows from the configuration alone.

    Example: isoloss inspect my-bert --for 80GB
    """

    models: Models
    """Model folders, or names on a hub."""
    objective: Objective = None
    """What the models predict; read from their configurations when not given."""
    budget: Annotated[str | None, tyro.conf.arg(name="for", metavar="MEMORY", help_behavior_hint="")] = None
    """Tell from the configuration, without loading weights, if its flatness fits into that: 80GB, 24GiB.
    Within a fifth of the memory measured on 20 models, always too little: leave a fifth free."""
    text: File = None
    """A text, as of isoloss flatness: tells about how many of its sentences an error of 1 % takes."""
    length: Number = None
    """Tokens of the sentences that the configuration is asked about; 128 by default."""
    memory: Annotated[float, tyro.conf.arg(metavar="GIB")] = 1.0
    """The --memory of isoloss flatness, in GiB, which on a GPU is more by default."""
    device: str = "cpu"
    """Where the trial runs: cpu or cuda."""
    dtype: Precision = None
    """The models' precision; float32 by default, or where that does not fit, as the weights are stored."""
    json: bool = False
    """Print JSON: {"models": [...]}."""


def inspect(options: InspectOptions) -> int:
    """Print a few lines per model, or JSON. Raises BadInput for one that cannot be read or measured."""
    _check_without_torch(options)
    with starting("inspect"):
        import torch

        from isoloss.device import free_memory, usable_device
        from isoloss.measurements.foreseen_cost import foreseen_cost
        from isoloss.measurements.inspected_model import LENGTH, inspected_model

    device = usable_device(options.device)
    limit = None if options.budget is None else bytes_in(options.budget)
    tried = [name for name in options.models if limit is None and holds_weights(name)]
    if tried and options.length is not None:
        raise BadInput(
            f"--length is of sentences that a configuration is asked about, but {tried[0]} has weights to "
            "try; ask with --for MEMORY, or leave --length out"
        )
    memory = int(options.memory * GIBIBYTE)
    precision = None if options.dtype is None else getattr(torch, options.dtype)
    found = []
    for name in options.models:
        if name not in tried:
            length, asks = options.length or LENGTH, (name, options.objective, precision, options.device)
            with progress_display() as progress:
                cost = foreseen_cost(*asks, limit, length, memory, progress)
            shown = cost_in_words(name, cost, limit, options.device)
            found.append(_cost_as_json(name, cost, limit))
        else:
            used = precision or precision_that_fits([name], free_memory(device), memory)
            model = inspected_model(name, options.objective, used, options.device, options.text)
            shown = _in_words(model, options.device)
            found.append(_as_json(model))
        if not options.json:
            print("\n".join([shown[0], *(in_lines(f"  {line}", "    ") for line in shown[1:])]))
    if options.json:
        print(json.dumps({"models": found}, indent=2))
    return 0


def _check_without_torch(options: InspectOptions) -> None:
    """Refuse what can be refused before torch is imported, which takes seconds."""
    from isoloss.models.names import refuse_absent

    refuse_below(2, options.length, "--length")
    refuse_no_model(options.models)
    refuse_no_memory(options.memory)
    refuse_no_file(options.text)
    if options.budget is not None:
        bytes_in(options.budget)
        if options.text is not None:
            raise BadInput(
                "--for asks the configuration alone, which says nothing of --text; leave out one of the two"
            )
    refuse_absent(*options.models)


def holds_weights(name: str) -> bool:
    """Whether the folder holds a file of weights, or it is no folder, but a name on a hub.

    Raises Damaged if a checkpoint of ours has lost its own.

    >>> holds_weights("gpt2")
    True
    """
    folder = Path(name)
    if not folder.is_dir() or any(any(folder.glob(each)) for each in ("*.safetensors", "*.bin", "*.gguf")):
        return True
    refuse_damaged(folder)
    return False


def _as_json(model: "InspectedModel") -> dict[str, Any]:
    return {
        "model": model.name,
        "predicts": model.prediction,
        "class": model.architecture,
        "type": model.kind,
        "parameters": model.parameters,
        "tensors": len(model.names),
        "trainable_parameters": model.trainable,
        "trainable_tensors": model.trainable_tensors,
        "tied": model.tied,
        "tokens": model.tokens,
        "longest_input": model.longest,
        "bytes_of_weights": model.bytes_of_weights,
        "precision": model.precision,
        "trial": asdict(model.trial),
        "pilot": None if model.pilot is None else asdict(model.pilot),
    }


def _cost_as_json(name: str, cost: "ForeseenCost", limit: int | None) -> dict[str, Any]:
    """Under the names that a model with weights has in `_as_json`, and whether it fits."""
    from isoloss.measurements.foreseen_cost import SENTENCES_FOR_ONE_PERCENT

    called = {"prediction": "predicts", "architecture": "class", "kind": "type", "longest": "longest_input"}
    known = {called.get(each, each): value for each, value in asdict(cost).items()}
    fits = None if limit is None else fits_into(limit, cost.peak_bytes)
    sentences = {"sentences_for_one_percent": list(SENTENCES_FOR_ONE_PERCENT)}
    return {"model": name, **known, **sentences, "limit_bytes": limit, "fits": fits}


LOWEST_FORETOLD = 0.8
"""The least share of a measured peak that was foretold, among twenty models (benchmarks/README.md)."""


def fits_into(limit: int, foretold: int) -> bool | None:
    """Whether a peak of so many bytes, as foretold, stays below the limit; None where it may exceed it.

    >>> fits_into(100, 79), fits_into(100, 90), fits_into(100, 101)
    (True, None, False)
    """
    return False if foretold > limit else True if foretold <= LOWEST_FORETOLD * limit else None


def bytes_in(size: str) -> int:
    """A number of bytes as people write it. Raises BadInput for anything else.

    >>> bytes_in("80GB"), bytes_in("1.5 GiB"), bytes_in("24g")
    (80000000000, 1610612736, 24000000000)
    """
    found = re.fullmatch(r"\s*(\d{1,6}(?:\.\d+)?)\s*([kmgt])(i?)b?\s*", size, re.IGNORECASE)
    if found is None:
        raise BadInput(f"--for takes an amount of memory, such as 80GB or 24GiB, not {size}")
    power = "kmgt".index(found[2].lower()) + 1
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def cost_in_words(name: str, cost: "ForeseenCost", limit: int | None, device: str) -> list[str]:
    """What the configuration tells, a line each."""
    from isoloss.curvature.stopping import FEWEST
    from isoloss.measurements.foreseen_cost import SENTENCES_FOR_ONE_PERCENT
    from isoloss.models.model_files import missing_parts

    counted, longest = cost.counted, cost.longest
    of_process = f", {_size(cost.process_bytes)} of it the interpreter's" if cost.process_bytes else ""
    if limit is None:
        missing, named = missing_parts(Path(name))
        fits = (
            f"the folder lacks {missing} of the {named} files that its index of weights names"
            if missing
            else "the folder holds no weights to try it with"
        )
    else:
        less = "try --dtype bfloat16, a smaller --memory, or less --length"
        fits = {
            True: f"fits into {_size(limit)}",
            None: f"may not fit into {_size(limit)}, since up to a quarter more than foretold was measured; "
            f"{less} to be sure",
            False: f"does not fit into {_size(limit)}; {less}",
        }[fits_into(limit, cost.peak_bytes)]
    time = (
        f"not known, since {cost.untimed}"
        if cost.seconds_a_sentence is None
        else f"about {duration(cost.seconds_a_sentence)} per sentence, so "
        f"{duration(FEWEST * cost.seconds_a_sentence)} for the first {FEWEST}, from a "
        "few layers timed here and the operations counted"
    )
    fewest, most = SENTENCES_FOR_ONE_PERCENT
    seconds = cost.seconds_a_sentence
    lasting = "" if seconds is None else f", in {duration(fewest * seconds)} to {duration(most * seconds)},"
    at_once = "1 sentence" if counted.at_once == 1 else f"{counted.at_once} sentences"
    return [
        f"{name}: {cost.architecture}, type {cost.kind}, {cost.prediction}; from its configuration alone",
        f"parameters: {counted.parameters:,}, {_size(counted.bytes_of_weights)} in {cost.precision}"
        f"{_counted_as(name)}",
        f"longest input: {_longest(longest)}",
        f"memory: {_size(cost.peak_bytes)} at its peak, with {at_once} of {cost.length} "
        f"tokens at once{of_process}: {fits}",
        f"time on {device}: {time}",
        f"sentences for an error of 1 %: {fewest:,} to {most:,}{lasting} as of five published models; for "
        "this one, give --text FILE, a folder with weights, and no --for",
    ]


def _counted_as(name: str) -> str:
    """Of a model whose measurement takes less than that of all its weights, what was counted instead."""
    from isoloss.models.names import base_of_adapter, read_configuration

    if base_of_adapter(name) is not None:
        return "; those of the base model, as if all were measured: the adapter's alone take less"
    folder = Path(name)
    if folder.is_dir() and read_configuration(folder).get("quantization_config"):
        return "; as if they were not quantised: they take less"
    return ""


def _longest(longest: int | None) -> str:
    return "as long as memory allows" if longest is None else f"{longest:,} tokens"


def _size(size: int) -> str:
    from isoloss.results.record import in_brief

    return f"{in_brief(size / 1e9)} GB" if size >= 1e8 else f"{in_brief(size / 1e6)} MB"


def _in_words(model: "InspectedModel", device: str) -> list[str]:
    from isoloss.curvature.stopping import FEWEST

    tied = "; ".join(map(" and ".join, model.tied))
    frozen = (
        f", of which {model.trainable:,} in {model.trainable_tensors:,} are measured and the others frozen"
        if model.trainable < model.parameters
        else ""
    )
    pilot = model.pilot
    needed = (
        "unknown without a text; give --text FILE"
        if pilot is None
        else f"about {pilot.sentences_for_one_percent:,}, in {duration(pilot.seconds_for_one_percent)}, "
        f"by the spread over the first {pilot.sentences} of the text; their number is itself uncertain by "
        f"{100 * pilot.relative_error_of_number:.0f} %"
    )
    trial, weights = model.trial, model.bytes_of_weights / 2**20
    seconds, timed_on = (
        (trial.seconds_a_sentence, f"per sentence of {trial.length} tokens")
        if pilot is None
        else (pilot.seconds_a_sentence, "per sentence of the text")
    )
    ways = ", ".join(f"{way} {count}" for way, count in trial.ways.items())
    apart = "" if trial.padded else "; equally long sentences at a time, since padding changes its scores"
    return [
        f"{model.name}: {model.architecture}, type {model.kind}, {model.prediction}",
        f"parameters: {model.parameters:,} in {len(model.names):,} tensors{frozen}; tied: {tied or 'none'}",
        f"tokenizer: {model.tokenizer}",
        f"longest input: {_longest(model.longest)}",
        f"tensors, by how they are measured: {ways}{apart}",
        f"memory: {weights:,.4g} MiB of weights in {model.precision}, plus "
        f"{trial.bytes_a_sentence / 2**20:,.3g} MiB per sentence of {trial.length} tokens",
        f"time on {device}: {duration(seconds)} {timed_on}, so {duration(FEWEST * seconds)} for the first "
        f"{FEWEST}",
        f"sentences for an error of 1 %: {needed}",
        f"to measure it: isoloss flatness {shlex.quote(model.name)} --text FILE",
    ]
