"""Options that several commands have: their types, and their checks before any work is done."""

import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from isoloss.errors import BadInput
from isoloss.files import refuse_endless, writable
from isoloss.measurements.on_sentences import quantity_names

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel

    from isoloss.command_line.flatness import FlatnessOptions
    from isoloss.command_line.sensitivity import SensitivityOptions
    from isoloss.curvature.stopping import Stopping
    from isoloss.measurements.fixed_sentences import SampledBatches

# Options that may be left out, named in `--help` by what they take; None stands for no such option.
File = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")]
Name = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
Number = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")]
Share = Annotated[float | None, tyro.conf.arg(metavar="SHARE", help_behavior_hint="")]
Objective = Annotated[
    Literal["masked", "causal"] | None, tyro.conf.arg(metavar="{masked,causal}", help_behavior_hint="")
]
Precision = Annotated[
    Literal["float64", "float32", "bfloat16", "float16"] | None,
    tyro.conf.arg(metavar="{float64,float32,bfloat16,float16}", help_behavior_hint=""),
]
Memory = Annotated[float | None, tyro.conf.arg(metavar="GIB", help_behavior_hint="")]
GIBIBYTE = 1 << 30
Quantities = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar=f"{{{','.join(quantity_names())},FILE.py}} [...]")
]
"""Names of quantities, or Python files that define one; of some, NAME=VALUE."""


Models = Annotated[
    tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL [MODEL ...]", help_behavior_hint="")
]
MOST_MEMORY = 10**6
"""In gibibytes; no machine has so much."""

RELATIVE_ERROR = 0.02
"""Of a trace, if no stopping criterion is given."""


def refuse_existing(path: Path) -> None:
    """Raise BadInput for a file that already exists; see also `refuse_unwritable`."""
    refuse_unwritable(path)
    if path.exists():
        raise BadInput(f"{path} is there already; name another file, or delete it first")


def refuse_unusable_text(options: "FlatnessOptions | SensitivityOptions") -> None:
    """Raise BadInput for what a text, its masks and the machine cannot be, before torch is imported."""
    several = options.device.split(",")
    if options.offload and options.device.startswith("cpu"):
        raise BadInput("--offload keeps the weights in the processor's memory, where --device cpu has them")
    if options.offload and len(several) > 1:
        raise BadInput(f"--offload computes on one device, not on {options.device}; name one of them")
    if sum(source is not None for source in (options.text, options.token_ids, options.dataset)) != 1:
        raise BadInput("name what to measure on by one of --text FILE, --token-ids FILE and --dataset NAME")
    if options.dataset is not None:
        from isoloss.models.names import refuse_absent_data_set

        refuse_absent_data_set(options.dataset)
    refuse_no_file(options.text, options.token_ids)
    usable_seed(options.seed)
    if options.one_mask and options.mask_rate is not None:
        raise BadInput("--one-mask masks one token and --mask-rate a share of them; give one of the two")
    refuse_no_memory(options.memory)


def models_on_text(
    options: "FlatnessOptions | SensitivityOptions", names: Sequence[str], parameters: str | None = None
) -> "tuple[dict[str, PreTrainedModel], SampledBatches, torch.dtype]":
    """The models of these names, what the text has for them to predict, and their precision.

    The precision is the one asked for, or else the one that fits beside the memory (`precision_that_fits`).
    Only parameters whose names match `parameters` are measured. Raises BadInput for what cannot be read or
    measured together.
    """
    import torch

    from isoloss.device import free_memory, usable_devices
    from isoloss.measurements.models_on_text import (
        load_together,
        masking,
        prediction_of_all,
        read_source,
        sampled_batches,
    )

    asked = prediction_of_all(names, options.objective)
    prediction = masking(asked, options.one_mask, options.mask_rate, options.mask_token_id)
    source = read_source(names, prediction, options.text, options.token_ids, options.dataset)
    if options.dtype is None:
        hold_weights = usable_devices("cpu" if options.offload else options.device)
        beside = int((options.memory or 1) * GIBIBYTE)
        precision = precision_that_fits(names, sum(map(free_memory, hold_weights)), beside)
    else:
        precision = getattr(torch, options.dtype)
    models = load_together(names, prediction, precision, _placed(options), parameters)
    return models, sampled_batches(models, prediction, source, options.seed), precision


def precision_that_fits(names: Sequence[str], free: int, beside: int) -> "torch.dtype":
    """float32, unless the models' weights in it and `beside` bytes exceed the `free` ones.

    Then the half precision that most of the weights are stored in, if they are stored in one: sums over
    products are in float32 also then. Of an adapter the weights are its base model's. What a hub's names
    stand for is not known before it is fetched.
    """
    import torch

    from isoloss.models.model_files import HALVES, stored_elements
    from isoloss.models.names import base_of_adapter

    bases = [base_of_adapter(name) or name for name in names]
    held = [stored_elements(Path(name)) for name in bases if Path(name).is_dir()]
    elements = sum(sum(of_model.values()) for of_model in held)
    halves = {each for of_model in held for each in of_model if each in HALVES}
    if not halves or 4 * elements + beside <= free:
        return torch.float32
    return max(halves, key=lambda each: sum(of_model.get(each, 0) for of_model in held))


def _placed(options: "FlatnessOptions | SensitivityOptions") -> "Callable[[nn.Module], object]":
    """What brings a model to the device, to several, or lets one compute while the weights stay here."""
    from isoloss.device import usable_devices

    first, *others = usable_devices(options.device)
    if others:
        from isoloss.models.streamed_weights import spread_over_devices

        return partial(spread_over_devices, devices=[first, *others])
    if options.offload:
        from isoloss.models.streamed_weights import stream_weights

        return partial(stream_weights, device=first)
    return lambda model: model.to(first)


def refuse_no_file(*paths: Path | None, holds: str = "what to measure on") -> None:
    """Raise BadInput where a path, if given, is not that of a file with an end; say what it `holds`."""
    for path in filter(None, paths):
        if path.is_dir():
            raise BadInput(f"{path} is a folder; name the file that holds {holds}")
        refuse_endless(path, holds)
        if not path.is_file():
            raise BadInput(f"there is no file {path}; name a file that holds {holds}")


def refuse_unwritable(path: Path) -> None:
    """Raise IsolossError for a folder, or a file in a folder that does not exist or cannot be written in."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file")
    if not path.parent.exists():
        raise BadInput(f"there is no folder {path.parent} to write {path.name} in; make it, or name another")
    with writable(path.parent), tempfile.TemporaryFile(dir=path.parent):
        pass


def refuse_no_page(output: Path, example: str) -> None:
    """Raise BadInput for an --output that is no page, or cannot be written; `example` is a page's name."""
    if output.suffix != ".html":
        raise BadInput(f"--output names an HTML file, such as {example}, not {output}")
    refuse_unwritable(output)


def refuse_no_model(models: tuple[str, ...]) -> None:
    """Raise BadInput where no model is named."""
    if not models:
        raise BadInput("no model is named; name a model's folder, or its name on a hub")


def refuse_named_twice(names: Sequence[str]) -> None:
    """Raise BadInput for a duplicate name, or a folder given under two names."""
    seen: dict[str, str] = {}
    for name in names:
        place = str(Path(name).resolve()) if Path(name).exists() else name
        if place in seen:
            if seen[place] == name:
                raise BadInput(f"{name} is named twice; name each checkpoint once")
            raise BadInput(f"{seen[place]} and {name} are one checkpoint; name each once")
        seen[place] = name


def memory_bytes(gibibytes: float | None, device: str) -> int:
    """What --memory says; by default 1 GiB, or half of what a GPU has free: it needs large passes.

    Of several GPUs that of the fullest counts. To be asked once the models are loaded.

    >>> memory_bytes(None, "cpu"), memory_bytes(0.5, "cuda")
    (1073741824, 536870912)
    """
    if gibibytes is not None:
        return int(gibibytes * GIBIBYTE)
    from isoloss.device import free_memory, usable_devices

    places = usable_devices(device)
    if any(place.type != "cuda" for place in places):
        return GIBIBYTE
    return max(GIBIBYTE, min(map(free_memory, places)) // 2)


def refuse_no_memory(gibibytes: float | None) -> None:
    """Raise BadInput for what --memory cannot be."""
    if gibibytes is not None and not 0 < gibibytes <= MOST_MEMORY:
        raise BadInput(
            f"--memory must be above 0 and at most {MOST_MEMORY:,} gibibytes, not {gibibytes:g}; 1 is usual"
        )


def refuse_below(least: int, number: int | None, option: str) -> None:
    """Raise BadInput for a number, if one is given, below the least that the option takes."""
    if number is not None and number < least:
        raise BadInput(f"{option} must be at least {least}, not {number}")


def usable_seed(seed: int) -> int:
    """The seed, if torch accepts it. Raises BadInput otherwise."""
    if not 0 <= seed < 2**32:  # of more bits, torch's generator of a CPU ignores some
        raise BadInput(f"--seed must be from 0 to {2**32 - 1}, not {seed}")
    return seed


def trace_stopping(relative_error: float | None, sentences: int | None, seconds: float | None) -> "Stopping":
    """When a trace is known well enough: as requested, or at a relative error of `RELATIVE_ERROR`.

    >>> trace_stopping(None, None, None).relative_error, trace_stopping(None, 100, None).relative_error
    (0.02, None)
    """
    from isoloss.curvature.stopping import Stopping

    free = relative_error is None and sentences is None and seconds is None
    return Stopping(RELATIVE_ERROR if free else relative_error, sentences, seconds)


def repeated_command(command: str, request: Any) -> str:
    """`isoloss` with that command and those options of a request that differ from their defaults.

    The request's first field contains the positional arguments. Options for printing the result are omitted.

    >>> from isoloss.command_line.flatness import FlatnessOptions
    >>> repeated_command("flatness", FlatnessOptions(("my model", "b"), one_mask=True, seed=3))
    "isoloss flatness 'my model' b --one-mask --seed 3"
    """
    positional, *options = fields(request)
    named = getattr(request, positional.name)
    words = ["isoloss", command, *map(shlex.quote, map(str, named if isinstance(named, tuple) else (named,)))]
    for field in options:
        value, name = getattr(request, field.name), field.name.replace("_", "-")
        if value == field.default or name == "json":
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            each = value if isinstance(value, tuple) else (value,)
            words += [f"--{name}", *map(shlex.quote, map(str, each))]
    return " ".join(words)
