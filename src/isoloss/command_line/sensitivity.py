"""`isoloss sensitivity`: what rounding and other changes of the weights would cost a model."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from isoloss.command_line.options import (
    File,
    Memory,
    Name,
    Number,
    Objective,
    Precision,
    Share,
    memory_bytes,
    models_on_text,
    refuse_below,
    refuse_existing,
    refuse_no_page,
    refuse_unusable_text,
    repeated_command,
)
from isoloss.command_line.terminal import progress_display, starting
from isoloss.errors import BadInput

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from isoloss.command_line.sensitivity_table import Shown
    from isoloss.curvature.weight_changes import Rounding, WeightChange
    from isoloss.measurements.fixed_sentences import SampledBatches

BITS = (8, 6, 5, 4, 3)
MOST_NOISE = 1000
"""Times the weights' size, beyond which nothing is predicted; squares of 1e160 are beyond numbers."""


@dataclass(frozen=True)
class SensitivityOptions:
    """Predict how far a model's distribution moves when its weights are rounded, or changed otherwise.

    Example: isoloss sensitivity my-bert --text sentences.txt --bits 4.25

    For every layer (or kind of tensor, or tensor) and every number of bits, the Kullback-Leibler divergence
    between the model's predictions before and after, in nats per predicted token, with its standard error.
    """

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL", help_behavior_hint="")]
    """A model folder, as written by save_pretrained, or a name on a hub."""
    text: File = None
    """A text in UTF-8 with one sentence (or document) per line; blank lines are skipped.
    Of a model with the head of a task, a table of texts and labels, as of isoloss flatness."""
    token_ids: File = None
    """A file with a JSON list of token ids per line; no tokenizer needed."""
    dataset: Name = None
    """A data set of the datasets package: a name or folder, then :CONFIGURATION if needed."""
    round: Annotated[tuple[int, ...], tyro.conf.arg(metavar="BITS [BITS ...]", help_behavior_hint="")] = ()
    """Round matrices to so many bits; 8, 6, 5, 4 and 3 if no change is named."""
    group: Number = None
    """Every N numbers of a row have a scale of their own when rounded, such as 64; otherwise whole rows."""
    noise: Annotated[tuple[float, ...], tyro.conf.arg(metavar="SHARE [...]", help_behavior_hint="")] = ()
    """Add Gaussian noise to all weights, of so much of each tensor's root mean square."""
    prune: Annotated[tuple[float, ...], tyro.conf.arg(metavar="SHARE [...]", help_behavior_hint="")] = ()
    """Set that share of each matrix's numbers to 0, those of smallest magnitude."""
    replacement: Annotated[str | None, tyro.conf.arg(metavar="MODEL", help_behavior_hint="")] = None
    """Replace the weights by another model's of the same shape, fine-tuned or merged, or by an adapter's."""
    by: Literal["layer", "kind", "tensor"] = "layer"
    """What is changed at a time."""
    trace_only: bool = False
    """Predict from the trace of each tensor alone: one pass for all changes, but less exact, and of
    --replacement nothing reliable."""
    check: bool = False
    """Measure the true divergence of every change as well, and show it beside."""
    bits: Annotated[float | None, tyro.conf.arg(metavar="MEAN", help_behavior_hint="")] = None
    """Find the bits of each layer (or --by) that lose least at this mean, among those of --round."""
    allocation: File = None
    """The JSON file that --bits writes; allocation.json by default, which must not exist yet."""
    sentences: int = 32
    """How many sentences of the text to use."""
    one_mask: bool = False
    """Mask a single token of each sentence, chosen uniformly, instead of a share of them at once."""
    mask_token_id: Number = None
    """The mask token's id, if no tokenizer gives it."""
    mask_rate: Share = None
    """Share of a sentence's tokens that are masked at once; 0.15 by default."""
    objective: Objective = None
    """What the model predicts; read from its configuration when not given."""
    seed: int = 0
    """Seed of the sentence order, the masks and the random draws; the same seed gives the same numbers."""
    device: str = "cpu"
    """Where the model is measured: cpu or cuda; cuda:0,cuda:1 puts its layers on several devices."""
    offload: bool = False
    """Keep the weights in the processor's memory; those of a layer are on the device while it computes."""
    dtype: Precision = None
    """The model's precision; float32 by default, or where that does not fit, as the weights are stored."""
    memory: Memory = None
    """Memory for the trace beside the model, in GiB; by default 1, or on a GPU half of what is free."""
    output: File = None
    """An HTML file with a picture of the predictions."""
    json: bool = False
    """Print JSON: {"records": [...], ...}."""

    @property
    def allocation_file(self) -> Path:
        """The file of the allocated bits."""
        return self.allocation or Path("allocation.json")

    @property
    def rounded_to(self) -> tuple[int, ...]:
        """The numbers of bits to round to, largest first; `BITS` if no change is named."""
        other = self.noise or self.prune or self.replacement is not None
        chosen = self.round or (BITS if not other or self.bits is not None else ())
        return tuple(sorted(set(chosen), reverse=True))


def sensitivity(options: SensitivityOptions) -> int:
    """Carry out the request."""
    _check_without_torch(options)
    with starting("sensitivity"):
        from isoloss.command_line.sensitivity_table import notes, print_json, print_tables, write_allocation
        from isoloss.device import usable_devices
        from isoloss.measurements.sensitivity import beyond_trust

    usable_devices(options.device)
    models, batches, _ = models_on_text(options, [options.model])
    roundings, others, doubts = _changes(options, models[options.model])
    for doubt in doubts:
        print(f"warning: {doubt}", file=sys.stderr)
    shown = _predicted(options, models, batches, roundings, others, doubts)
    if (far := beyond_trust(shown.found)) is not None:
        print(f"warning: {far}", file=sys.stderr)
        shown = replace(shown, doubts=[*doubts, far])
    if shown.best is not None:
        write_allocation(options, shown.best)
    if options.output is not None:
        from isoloss.report.flatness_page import sensitivity_page
        from isoloss.report.page import write_lone_page

        below = [*(f"Warning: {doubt}." for doubt in shown.doubts), *notes(shown)]
        command = repeated_command("sensitivity", options)
        page = sensitivity_page(options.model, shown.found, roundings, below, command)
        write_lone_page(page, options.output)
    if options.json:
        print_json(shown)
    else:
        print_tables(shown)
        if options.output is not None:
            print(f"page: {options.output}")
    return 0


def _predicted(
    options: SensitivityOptions,
    models: "Mapping[str, nn.Module]",
    batches: "SampledBatches",
    roundings: "list[Rounding]",
    others: "list[WeightChange]",
    doubts: list[str],
) -> "Shown":
    """The divergence of every part under every change, and the best allocation of bits if asked for."""
    from isoloss.command_line.sensitivity_table import Shown
    from isoloss.measurements.measured_models import refuse_unusable
    from isoloss.measurements.sensitivity import PARTS, Sensitivity, allocated
    from isoloss.models.model_files import quiet
    from isoloss.objectives.pretrained import apart_throughout

    model, drawn = models[options.model], batches.first(options.sentences)
    for note in batches.reading.of_first(options.sentences).notes:
        print(note, file=sys.stderr)
    part_of, memory = PARTS[options.by], memory_bytes(options.memory, options.device)
    with progress_display() as progress, quiet():
        refuse_unusable(models, batches)
        objective, _ = apart_throughout(model, batches.prediction, drawn)
        engine = Sensitivity.of(
            model,
            objective,
            drawn,
            of_errors=not options.trace_only,
            check=options.check,
            seed=options.seed,
            memory_bytes=memory,
            progress=progress,
        )
        found = engine.under([*roundings, *others], part_of, progress)
        best = None if options.bits is None else allocated(engine, found, roundings, part_of, options.bits)
        return Shown(options, model, batches, found, best, doubts)


def _changes(
    options: SensitivityOptions, model: "PreTrainedModel"
) -> "tuple[list[Rounding], list[WeightChange], list[str]]":
    """The roundings and the other changes asked for, and warnings; roundings to `BITS` if none is."""
    from isoloss.curvature.weight_changes import Noise, Pruning, Rounding
    from isoloss.measurements.quantity import half_precision

    roundings = [Rounding(bits, options.group) for bits in options.rounded_to]
    others: list[WeightChange] = [Noise(share, options.seed) for share in dict.fromkeys(options.noise)]
    others += [Pruning(share) for share in dict.fromkeys(options.prune)]
    doubts = []
    if options.replacement is not None:
        from isoloss.measurements.replaced_weights import replacement_by

        by_other, unpredicted = replacement_by(options.replacement, options.model, model, options.objective)
        others.append(by_other)
        doubts += unpredicted
        if options.trace_only:
            doubts.append(
                "of a replacement the trace alone tells nothing reliable, since an update's changes are not "
                "independent; leave --trace-only out"
            )
    if options.check and (precision := half_precision(model)):
        doubts.append(
            f"what --check changes is rounded to the weights' {precision}, in which small changes are lost; "
            "give --dtype float32"
        )
    return roundings, others, doubts


def _check_without_torch(options: SensitivityOptions) -> None:
    from isoloss.models.names import refuse_absent

    refuse_unusable_text(options)
    refuse_below(2, options.sentences, "--sentences")
    if options.output is not None:
        refuse_no_page(options.output, "sensitivity.html")
    _check_changes(options)
    refuse_absent(options.model, *([] if options.replacement is None else [options.replacement]))


def _check_changes(options: SensitivityOptions) -> None:
    for bits in options.round:
        if not 2 <= bits <= 16:
            raise BadInput(f"--round takes 2 to 16 bits, not {bits}")
    if options.group is not None:
        refuse_below(2, options.group, "--group")
        if not options.rounded_to:
            raise BadInput(
                "--group is of rounding, and nothing is to be rounded; add --round, or leave it out"
            )
    for share in options.noise:
        if not 0 < share <= MOST_NOISE:
            raise BadInput(
                f"--noise must be above 0 and at most {MOST_NOISE}, not {share}; 0.01 is one percent of the "
                "weights' size"
            )
    for share in options.prune:
        if not 0 < share <= 1:
            raise BadInput(f"--prune takes a share above 0 and at most 1, not {share}")
    if options.bits is None:
        if options.allocation is not None:
            raise BadInput("--allocation is where --bits writes; say the mean number of bits with --bits")
        return
    fewest, most = min(options.rounded_to), max(options.rounded_to)
    if not fewest <= options.bits <= most:
        raise BadInput(
            f"--bits {options.bits:g} is no mean of {fewest} to {most} bits; choose between, or name others "
            "with --round"
        )
    if options.by == "kind":
        raise BadInput("--bits gives bits to layers or tensors; leave --by kind out")
    refuse_existing(options.allocation_file)
    if options.allocation_file == options.output:
        raise BadInput(f"{options.output} is both --allocation and --output; name two files")
