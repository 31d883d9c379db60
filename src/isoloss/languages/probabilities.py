"""Tables of probabilities as users give them: checked, and normalised where they do not quite sum to 1."""

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput

TOLERANCE = 1e-6
"""How far from 1 a row's sum may be."""

ROUNDING = 1e-12
"""Rows closer to 1 than this are left as they are, so that writing and reading changes nothing."""


def checked_laws(rows: Float[Tensor, "r k"], place: str) -> Float[Tensor, "r k"]:
    """The rows as float64 laws; raises BadInput for one that is none, `place` saying whose rows they are.

    >>> checked_laws(torch.tensor([[0.5, 0.4999995]], dtype=torch.float64), "emission").sum().item()
    1.0
    >>> checked_laws(torch.tensor([[0.5, 0.5], [0.5, 0.25]]), "emission")
    Traceback (most recent call last):
    isoloss.errors.BadInput: emission, row 2 sums to 0.75; make its probabilities sum to 1
    """
    laws = rows.double().contiguous()
    wrong = ~((laws >= 0) & (laws <= 1 + TOLERANCE))
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise BadInput(
            f"{place}, row {row + 1} has {laws[row, column].item():g} at place {column + 1}, which is no "
            "probability; give numbers from 0 to 1"
        )
    totals = laws.sum(1, keepdim=True)
    off = (totals - 1).abs()
    if (off > TOLERANCE).any():
        row = int((off > TOLERANCE).nonzero()[0, 0])
        raise BadInput(
            f"{place}, row {row + 1} sums to {totals[row].item():.8g}; make its probabilities sum to 1"
        )
    return torch.where(off > ROUNDING, laws / totals, laws)
