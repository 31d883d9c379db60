"""What a change of the weights does to a model, predicted for each part of it: KL(before || after), in nats.

Two predictions. From one pass of exact per-sentence gradient norms, for every change at once: ½ Σ E[δ²] F_ii,
as if the errors of different weights were independent and spread evenly over a tensor. And from a
forward-mode derivative for each part and change: ½ δᵀFδ of the very errors.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import parameter_group, trainable_parameters
from isoloss.curvature.fisher_trace import RunningFisherTrace
from isoloss.curvature.output_rows import output_rows
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.predicted_kl import measured_kl, predicted_kl
from isoloss.curvature.stopping import refuse_too_few
from isoloss.curvature.weight_changes import (
    BitAllocation,
    MixedRounding,
    Replacement,
    Rounding,
    WeightChange,
    allocate_bits,
    differences,
    mean_squares,
)
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, sample_mean
from isoloss.results.record import Record, Setting, in_brief

UNIT = "nats per prediction"
TRUSTED = 0.1
"""In nats: predictions beyond it may be out by a factor of ten and more, since higher orders count."""
WHOLE = "all"
PartOf = Callable[[str], str]
_LAYER = re.compile(r"(decoder )?layer \d+")
_NUMBERED = re.compile(r"^.*?\.\d+\.")
_NUMBER = re.compile(r"\.\d+(?=\.)")


def layer_of(name: str) -> str:
    """The layer of the parameter called `name`, or what it is outside of layers.

    >>> layer_of("bert.encoder.layer.0.attention.self.query.weight"), layer_of("transformer.wte.weight")
    ('layer 1', 'embeddings')
    """
    group = parameter_group(name)
    found = _LAYER.match(group)
    return found[0] if found else group


def kind_of(name: str) -> str:
    """What kind of tensor it is: its name within the layer, if a decoder's so called; or what it is outside.

    >>> kind_of("bert.encoder.layer.0.attention.self.query.weight"), kind_of("transformer.wte.weight")
    ('attention.self.query.weight', 'embeddings')
    >>> kind_of("model.decoder.layers.0.self_attn.q_proj.weight")
    'decoder self_attn.q_proj.weight'
    """
    group = parameter_group(name)
    if found := _LAYER.match(group):
        return f"{found[1] or ''}{_NUMBER.sub('', _NUMBERED.sub('', name))}"
    return group


PARTS: dict[str, PartOf] = {"layer": layer_of, "kind": kind_of, "tensor": str}


@dataclass(frozen=True)
class PartUnderChange:
    """The KL of changing one part of a model in one way, all others as they are.

    `from_trace` is ½ Σ E[δ²] F_ii, `quadratic` ½ δᵀFδ, `linearised` the KL with logits to first order (see
    `predicted_kl`) and `measured` the true KL; `numbers` is how many numbers were changed.
    """

    part: str
    change: str
    numbers: int
    from_trace: Estimate
    quadratic: Estimate | None = None
    linearised: Estimate | None = None
    measured: Estimate | None = None

    @property
    def best(self) -> Estimate:
        """The best prediction there is."""
        return self.from_trace if self.quadratic is None else self.quadratic

    def records(self, checkpoint: str, seed: int, settings: Mapping[str, Setting]) -> list[Record]:
        """A record for each number, `kl_from_trace`, `kl_quadratic`, `kl_linearised` and `kl_measured`."""
        found = {
            "kl_from_trace": self.from_trace,
            "kl_quadratic": self.quadratic,
            "kl_linearised": self.linearised,
            "kl_measured": self.measured,
        }
        more: dict[str, Setting] = {"part": self.part, "change": self.change, "numbers": self.numbers}
        return [
            each.record(name, UNIT, seed, checkpoint, {**settings, **more})
            for name, each in found.items()
            if each is not None
        ]


def beyond_trust(found: Sequence[PartUnderChange]) -> str | None:
    """How many predictions exceed `TRUSTED`, the largest, and what to do; None if none does.

    >>> far = PartUnderChange("all", "3 bits", 99, Estimate(9.4, 0.1, 32))
    >>> print(beyond_trust([far]))
    1 of 1 predictions exceeds 0.1 nats (3 bits of all: 9.4 nats): so far from no change, a ... with --check
    """
    far = [each for each in found if each.best.value > TRUSTED]
    if not far:
        return None
    most = max(far, key=lambda each: each.best.value)
    checked = "believe what is measured" if most.measured is not None else "measure it with --check"
    return (
        f"{len(far):,} of {len(found):,} predictions exceed{'s' * (len(far) == 1)} {TRUSTED:g} nats "
        f"({most.change} of {most.part}: {in_brief(most.best.value, 2)} nats): so far from no change, a "
        f"prediction may be out by a factor of ten and more; {checked}"
    )


@dataclass(frozen=True)
class Sensitivity:
    """Predicts KL for one model on fixed sentences; `traces` are its tensors' Tr F, a value per sentence.

    With `of_errors` also ½ δᵀFδ of each change, and with `check` also the true KL.
    """

    model: nn.Module
    objective: Objective
    batches: Sequence[Batch]
    traces: Mapping[str, Float[Tensor, " n"]]
    of_errors: bool = True
    check: bool = False

    @staticmethod
    def of(
        model: nn.Module,
        objective: Objective,
        batches: Iterable[Batch],
        *,
        of_errors: bool = True,
        check: bool = False,
        seed: int = 0,
        memory_bytes: int = MEMORY_BYTES,
        progress: Progress = silent,
    ) -> "Sensitivity":
        """Measure the traces, one forward and one backward pass; see `fisher_trace`.

        Raises BadInput for fewer than two sentences, and as it does.
        """
        batches = list(batches)
        n = sum(map(len, batches))
        refuse_too_few(n)
        running = RunningFisherTrace(model, objective, seed, memory_bytes, part_of=str)
        for batch in batches:
            progress("trace of each tensor", running.sentences, n)
            running.add(batch)
        progress("trace of each tensor", n, n)
        traces = running.result("").groups
        return Sensitivity(model, objective, batches, traces, of_errors, check)

    def from_trace(self, change: WeightChange, part_of: PartOf) -> dict[str, PartUnderChange]:
        """½ Σ E[δ²] F_ii of each part that the change concerns, and of all together."""
        squares = {name: mean for name, mean in mean_squares(self.model, change).items() if mean > 0}
        sizes = {name: each.numel() for name, each in trainable_parameters(self.model).items()}
        members: dict[str, list[str]] = {}
        for name in squares:
            members.setdefault(part_of(name), []).append(name)
        if squares:
            members[WHOLE] = list(squares)
        return {
            part: PartUnderChange(
                part,
                change.name,
                sum(sizes[name] for name in names),
                sample_mean(torch.stack([0.5 * squares[name] * self.traces[name] for name in names]).sum(0)),
            )
            for part, names in members.items()
        }

    def under(
        self, changes: Sequence[WeightChange], part_of: PartOf, progress: Progress = silent
    ) -> list[PartUnderChange]:
        """Every part under every change."""
        predicted = [
            (change, each) for change in changes for each in self.from_trace(change, part_of).values()
        ]
        found = []
        for done, (change, each) in enumerate(predicted):
            progress("changes of parts", done, len(predicted))
            inside = frozenset(n for n in self.traces if each.part in (WHOLE, part_of(n)))
            found.append(self._completed(each, change, inside))
        progress("changes of parts", len(predicted), len(predicted))
        return found

    def of_whole(self, change: WeightChange) -> PartUnderChange:
        """The same for the whole model alone. Raises BadInput for a change that leaves every weight alone."""
        found = self.from_trace(change, layer_of)
        if not found:
            raise BadInput(f"{change.name}: no weight changes; there is nothing to predict")
        return self._completed(found[WHOLE], change, frozenset(self.traces))

    def _completed(
        self, part: PartUnderChange, change: WeightChange, inside: frozenset[str]
    ) -> PartUnderChange:
        """With the predictions that take the errors themselves, and the true KL.

        Of a whole model's replacement, the latter with what no gradient reaches, and no prediction has.
        """
        of_model = self.model, self.objective, self.batches
        moved = differences(self.model, change, inside) if self.of_errors or self.check else {}
        if self.of_errors:
            found = predicted_kl(*of_model, moved)
            quadratic = sample_mean(found.quadratic)
            part = replace(part, quadratic=quadratic, linearised=sample_mean(found.linearised))
        if self.check:
            if part.part == WHOLE and isinstance(change, Replacement):
                moved = {**moved, **change.constants}
            part = replace(part, measured=sample_mean(measured_kl(*of_model, moved)))
        return part


@dataclass(frozen=True)
class AllocatedBits:
    """The best bits for each part, its tensors' bits, and what the whole model then loses."""

    allocation: BitAllocation
    rounding: MixedRounding
    whole: PartUnderChange


def allocated(
    sensitivity: Sensitivity,
    found: Sequence[PartUnderChange],
    roundings: Sequence[Rounding],
    part_of: PartOf,
    mean_bits: float,
) -> AllocatedBits:
    """The bits of each part that minimise the sum of the predicted KL; see `allocate_bits`.

    `found` are the parts under each of the `roundings`, all of one group size; what a rounding leaves
    as it is costs nothing. Raises BadInput if there are no matrices to round.
    """
    bits_of = {each.name: each.bits for each in roundings}
    matrices = [each for each in output_rows(sensitivity.model) if each.rows.ndim > 1]
    if not matrices:
        raise BadInput("no measured weight is a matrix, and vectors are not rounded; leave --bits out")
    costs: dict[str, dict[int, float]] = {}
    sizes: dict[str, int] = {}
    for matrix in matrices:
        part = part_of(matrix.name)
        costs[part] = dict.fromkeys(bits_of.values(), 0.0)
        sizes[part] = sizes.get(part, 0) + matrix.weight.numel()
    for each in found:
        if each.change in bits_of and each.part != WHOLE:
            costs[each.part][bits_of[each.change]] = each.best.value
    allocation = allocate_bits(costs, sizes, mean_bits)
    of_tensors = {each.name: allocation.bits[part_of(each.name)] for each in matrices}
    rounding = MixedRounding(of_tensors, roundings[0].group)
    return AllocatedBits(allocation, rounding, sensitivity.of_whole(rounding))
