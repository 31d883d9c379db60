"""Changes of a model's weights, an output number's in a row: rounding, noise, pruning, another's weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import normal_probe
from isoloss.curvature.output_rows import output_rows
from isoloss.errors import BadInput


def rounded_to(
    weights: Float[Tensor, "*rows columns"], bits: int, group: int | None = None
) -> Float[Tensor, "*rows columns"]:
    """Each row rounded to the nearest of the 2^bits - 1 evenly spaced numbers up to its largest magnitude.

    Symmetric round-to-nearest with one scale a row, the plainest post-training quantisation. With `group`,
    every `group` consecutive numbers of a row have a scale of their own (the last ones may be fewer). Zeros
    stay as they are. Raises BadInput for fewer than two bits, which leave no number but 0.

    >>> rounded_to(torch.tensor([[0.9, -1.2, 3.0], [0.0, 0.0, 0.0]]), bits=3).tolist()
    [[1.0, -1.0, 3.0], [0.0, 0.0, 0.0]]
    >>> rounded_to(torch.tensor([[1.0, 0.4, 30.0, 29.0]]), bits=2, group=2).tolist()
    [[1.0, 0.0, 30.0, 30.0]]
    """
    if bits < 2:
        raise BadInput(f"{bits} bits leave no number but 0 to round to; take at least 2")
    if not weights.numel():  # as MobileBERT's head has where embeddings are as wide as states
        return weights
    columns = weights.shape[-1]
    width = columns if group is None else min(group, columns)
    exact = weights.to(torch.promote_types(weights.dtype, torch.float32))  # float16 may hold no spacing
    padded = nn.functional.pad(exact, (0, -columns % width))
    padded = padded.reshape(*weights.shape[:-1], -1, width)
    spacing = padded.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)
    rounded = torch.where(spacing > 0, (padded / spacing).round() * spacing, padded)
    return rounded.flatten(-2)[..., :columns].to(weights)


@runtime_checkable
class WeightChange(Protocol):
    """What is done to weights. Matrices have the weights of one output number in a row."""

    @property
    def name(self) -> str:
        """In words, for a table."""
        ...

    def difference(self, name: str, weight: Tensor) -> Tensor | None:
        """What is added to the parameter of that name; None if it is left as it is."""
        ...

    def mean_square(self, name: str, weight: Tensor) -> float:
        """The mean over the tensor's numbers of E[δ²], over the change's draws if it has any."""
        ...


def _mean_square_of(change: WeightChange, name: str, weight: Tensor) -> float:
    difference = change.difference(name, weight)
    return 0.0 if difference is None else float(difference.double().square().mean())


def _moved_by_rounding(weight: Tensor, bits: int, group: int | None) -> Tensor:
    """In at least single precision: half precision would round what is rounded once more."""
    exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
    return rounded_to(exact, bits, group) - exact


@dataclass(frozen=True)
class Rounding:
    """Matrices `rounded_to` so many bits; vectors (biases and gains) keep their precision."""

    bits: int
    group: int | None = None

    @property
    def name(self) -> str:
        """See `WeightChange`.

        >>> Rounding(4).name, Rounding(4, 64).name
        ('4 bits', '4 bits of 64')
        """
        return f"{self.bits} bits" + ("" if self.group is None else f" of {self.group}")

    def difference(self, name: str, weight: Tensor) -> Tensor | None:
        return None if weight.ndim < 2 else _moved_by_rounding(weight, self.bits, self.group)

    mean_square = _mean_square_of


@dataclass(frozen=True)
class MixedRounding:
    """Each tensor `rounded_to` its own number of bits; those without one keep their precision."""

    bits: Mapping[str, int]
    group: int | None = None

    @property
    def name(self) -> str:
        return "allocated bits"

    def difference(self, name: str, weight: Tensor) -> Tensor | None:
        return _moved_by_rounding(weight, self.bits[name], self.group) if name in self.bits else None

    mean_square = _mean_square_of


@dataclass(frozen=True)
class Pruning:
    """The `share` of each matrix's numbers of smallest magnitude set to 0."""

    share: float

    @property
    def name(self) -> str:
        return f"{100 * self.share:.10g} % pruned"

    def difference(self, name: str, weight: Tensor) -> Tensor | None:
        count = round(self.share * weight.numel())
        if weight.ndim < 2 or not count:
            return None
        smallest = weight.abs().flatten().topk(count, largest=False).indices
        removed = torch.zeros_like(weight).flatten()
        removed[smallest] = -weight.flatten()[smallest]
        return removed.view_as(weight)

    mean_square = _mean_square_of


@dataclass(frozen=True)
class Noise:
    """Gaussian noise on every number, `relative` times the tensor's root mean square; drawn from `seed`."""

    relative: float
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{100 * self.relative:.10g} % noise"

    def difference(self, name: str, weight: Tensor) -> Tensor | None:
        """One draw; see `WeightChange`."""
        drawn = normal_probe({name: weight}, f"{self.seed} weight noise of {name}")[name]
        deviation: float = self.mean_square(name, weight) ** 0.5
        return drawn * deviation

    def mean_square(self, name: str, weight: Tensor) -> float:
        """Over all draws."""
        return self.relative**2 * float(weight.double().square().mean())


@dataclass(frozen=True)
class Replacement:
    """Every weight replaced by that of the same name in `weights`, which come from `source`.

    `constants` is what it adds, by name, to what else the model stores, which no gradient reaches.
    """

    weights: Mapping[str, Tensor]
    source: str
    constants: Mapping[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def by(other: nn.Module, source: str) -> "Replacement":
        """Replacement by the parameters of another model of the same shape."""
        return Replacement({each.name: each.rows for each in output_rows(other)}, source)

    @property
    def name(self) -> str:
        return f"as {self.source}"

    def difference(self, name: str, weight: Tensor) -> Tensor | None:
        found = self.weights[name].to(weight) - weight
        return found if bool(found.any()) else None

    mean_square = _mean_square_of


@torch.no_grad()
def differences(
    model: nn.Module, change: WeightChange, only: frozenset[str] | None = None
) -> dict[str, Tensor]:
    """What the change adds to each of the model's trainable parameters, by name, or to those named in `only`.

    Parameters that it leaves alone are absent.
    """
    found = {}
    for each in output_rows(model):
        if only is None or each.name in only:
            difference = change.difference(each.name, each.rows)
            if difference is not None:
                found[each.name] = each.stored(difference).to(each.weight.dtype)
    return found


@torch.no_grad()
def mean_squares(model: nn.Module, change: WeightChange) -> dict[str, float]:
    """`WeightChange.mean_square` of each of the model's trainable parameters, by name."""
    return {each.name: change.mean_square(each.name, each.rows) for each in output_rows(model)}


@dataclass(frozen=True)
class BitAllocation:
    """The bits of each part, their mean over all numbers, and the sum of the parts' predicted KL in nats."""

    bits: Mapping[str, int]
    mean_bits: float
    predicted: float


def allocate_bits(
    costs: Mapping[str, Mapping[int, float]], sizes: Mapping[str, int], mean_bits: float
) -> BitAllocation:
    """The choice of one number of bits for each part with the least sum of costs, exactly.

    `costs` has each part's predicted KL for each number of bits it may get, `sizes` how many numbers it
    stores; the mean of the bits over all numbers may be at most `mean_bits`. This is the multiple-choice
    knapsack problem, solved by dynamic programming over the parts: of all choices for the first k parts, only
    those are kept that no other one beats in both size and cost. Raises BadInput if no choice is small
    enough.

    >>> costs = {"first": {4: 1.0, 8: 0.0}, "second": {4: 3.0, 8: 0.5}}
    >>> allocate_bits(costs, {"first": 100, "second": 100}, mean_bits=6.5)
    BitAllocation(bits={'first': 4, 'second': 8}, mean_bits=6.0, predicted=1.5)
    """
    numbers = sum(sizes[part] for part in costs)
    most = mean_bits * numbers * (1 + 1e-12)  # 4.35 bits of 100 numbers are 435, not a bit less
    fewest = sum(sizes[part] * min(choices) for part, choices in costs.items())
    if fewest > most:
        raise BadInput(
            f"a mean of {mean_bits:g} bits is below the {fewest / numbers:.3g} of the fewest bits of all"
        )
    weights, values = np.zeros(1, dtype=np.int64), np.zeros(1)
    chosen: list[tuple[list[int], np.ndarray, np.ndarray]] = []
    for part, choices in costs.items():
        options = sorted(choices)
        grown = weights[:, None] + sizes[part] * np.array(options)
        dearer = values[:, None] + np.array([choices[bits] for bits in options])
        # Lightest first, and of the equally light the cheapest; a dearer one after it is beaten.
        order = np.lexsort((dearer.ravel(), grown.ravel()))
        cheapest = np.minimum.accumulate(dearer.ravel()[order])
        kept = order[np.r_[True, dearer.ravel()[order][1:] < cheapest[:-1]]]
        kept = kept[grown.ravel()[kept] <= most]
        chosen.append((options, kept // len(options), kept % len(options)))
        weights, values = grown.ravel()[kept], dearer.ravel()[kept]
    last = len(values) - 1  # the cheapest is the heaviest
    bits: dict[str, int] = {}
    at = last
    for part, (options, before, choice) in zip(reversed(list(costs)), reversed(chosen), strict=True):
        bits[part] = options[choice[at]]
        at = before[at]
    in_order = {part: bits[part] for part in costs}
    return BitAllocation(in_order, float(weights[last]) / numbers, float(values[last]))
