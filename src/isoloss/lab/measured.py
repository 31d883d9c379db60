"""What the laboratory has measured: a number with its standard error for each model, as a table or frame."""

from dataclasses import dataclass, replace

import polars as pl
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.results.estimate import Estimate, paired_difference


@dataclass(frozen=True, repr=False)
class Row:
    """A model's number: its name, its step if any, the estimate, and the values it is the mean of."""

    model: str
    step: int | None
    estimate: Estimate
    values: Float[Tensor, " n"]

    @property
    def label(self) -> str:
        """The model's name and step."""
        return self.model if self.step is None else f"{self.model}, step {self.step:,}"

    def __repr__(self) -> str:
        return f"{self.label}  {self.estimate}"


@dataclass(frozen=True, repr=False)
class Measured:
    """A quantity of several models on the same `n` sentences; prints as a table.

    `kl` is, of an exact loss, what of it is the model's own: KL(distribution || model). `beside` are numbers
    of no model: the entropy, below which no loss can be, or a probe's accuracy without a model.
    """

    quantity: str
    unit: str
    seed: int
    rows: tuple[Row, ...]
    kl: "Measured | None" = None
    beside: tuple[tuple[str, Estimate], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Row:
        return self.rows[number]

    def differences(self) -> "Measured":
        """Each other model's number minus the first's, sentence by sentence, with the error of that."""
        first, *others = self.rows
        rows = []
        for row in others:
            values = row.values - first.values
            rows.append(replace(row, estimate=paired_difference(row.values, first.values), values=values))
        if not rows:
            raise BadInput("a single model differs from nothing; measure at least two")
        return Measured(f"{self.quantity}, less that of {first.label}", self.unit, self.seed, tuple(rows))

    @property
    def frame(self) -> pl.DataFrame:
        """A row for each model: model, step, the quantity and its error; of an exact loss also KL's."""
        rows = []
        for number, row in enumerate(self.rows):
            of_kl = _columns("kl", self.kl[number].estimate) if self.kl else {}
            measured = _columns(self.quantity, row.estimate)
            rows.append({"model": row.model, "step": row.step, **measured, **of_kl})
        return pl.DataFrame(rows)

    def __repr__(self) -> str:
        n = self.rows[0].estimate.n
        lines = [f"{self.quantity} ({self.unit}), {n:,} sentences, seed {self.seed}"]
        wide = max(len(row.label) for row in self.rows)
        for number, row in enumerate(self.rows):
            kl = f"   KL {self.kl[number].estimate}" if self.kl else ""
            lines.append(f"  {row.label:{wide}}  {row.estimate}{kl}")
        lines += [f"  {name:{wide}}  {estimate}" for name, estimate in self.beside]
        return "\n".join(lines)


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_error": estimate.standard_error}
