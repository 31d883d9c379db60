"""Strings of brackets as the input vectors of Section 5's model, their distribution and target."""

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck

LONGEST_MASKED, LONGEST_ENUMERATED = 12, 14
"""22,176 masked strings of 12 brackets, as vectors, are 51 MB; 16,384 strings of 14 are as many."""


@dataclass(frozen=True)
class BracketStrings:
    """Strings x_1..x_T in R^2T (Section 5), float64: x_t = e_t for ⟨, -e_t for ⟩, ±e_{t+T} for a mask.

    `target` is g* = #⟩ - #⟨ among the visible brackets (equation 2), `probability` each string's.
    """

    tokens: Float[Tensor, "n T d"]
    target: Float[Tensor, " n"]
    probability: Float[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.target)

    @property
    def length(self) -> int:
        """T."""
        return self.tokens.shape[1]

    def mean(self, values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
        """Expectation of a function given by its value on each string."""
        return self.probability @ values


def masked_strings(length: int) -> BracketStrings:
    """The whole distribution of pre-training: every balanced string, each bracket masked, with both masks.

    2 T C(T, T/2) strings, equally likely; the target is 1 if a ⟨ is masked and -1 if a ⟩ is. Raises BadInput
    for an odd length, one below 2, and one above 12.

    >>> strings = masked_strings(4)
    >>> len(strings), strings.tokens.sum(1)[0].tolist(), float(strings.target[0])
    (48, [0.0, 1.0, -1.0, -1.0, 1.0, 0.0, 0.0, 0.0], 1.0)
    """
    dyck(length)  # rejects odd lengths
    if length > LONGEST_MASKED:
        raise BadInput(
            f"the masked strings of {length} brackets are too many to take all of them; "
            f"give a length of at most {LONGEST_MASKED}"
        )
    lefts = torch.tensor(list(itertools.combinations(range(length), length // 2)))
    signs = -torch.ones(len(lefts), length, dtype=torch.float64)
    signs.scatter_(1, lefts, 1.0)
    # One row for each string, masked position and mask, in this order.
    tokens = _unmasked(signs).repeat_interleave(2 * length, 0)
    n = len(tokens)
    position = torch.arange(length).repeat_interleave(2).repeat(len(signs))
    tokens[torch.arange(n), position] = 0.0
    tokens[torch.arange(n), position, position + length] = torch.tensor([1.0, -1.0]).repeat(n // 2).double()
    target = signs.repeat_interleave(2, 1).flatten()
    return BracketStrings(tokens, target, torch.full((n,), 1 / n, dtype=torch.float64))


def all_strings(length: int) -> BracketStrings:
    """The whole downstream distribution: the 2^T strings, equally likely. Raises BadInput above T = 14.

    >>> all_strings(2).target.tolist()
    [-2.0, 0.0, 0.0, 2.0]
    """
    if not 1 <= length <= LONGEST_ENUMERATED:
        raise BadInput(
            f"the strings of {length} brackets cannot all be taken; give a length from 1 to "
            f"{LONGEST_ENUMERATED}"
        )
    signs = torch.tensor(list(itertools.product([1.0, -1.0], repeat=length)), dtype=torch.float64)
    probability = torch.full((2**length,), 0.5**length, dtype=torch.float64)
    return BracketStrings(_unmasked(signs), 0.0 - signs.sum(1), probability)


def string_classes(length: int) -> BracketStrings:
    """The downstream distribution for models that ignore the order of all brackets but the first.

    One string for each first bracket and each number j of ⟨ among the others, placed before the ⟩, with
    probability C(T-1, j) / 2^T: 2 T strings instead of 2^T. Raises BadInput for a length below 1.

    >>> classes = string_classes(20)
    >>> len(classes), round(float(classes.probability.sum()), 12)
    (40, 1.0)
    """
    if length < 1:
        raise BadInput(f"strings of {length} brackets hold nothing to count; give a length of at least 1")
    others = 2.0 * torch.ones(length, length - 1, dtype=torch.float64).tril(-1) - 1
    signs = torch.cat([torch.nn.functional.pad(others, (1, 0), value=first) for first in (1.0, -1.0)])
    # Python's integers divide without overflow, however long the strings.
    shares = [math.comb(length - 1, lefts) / 2**length for lefts in range(length)]
    return BracketStrings(_unmasked(signs), -signs.sum(1), torch.tensor(2 * shares, dtype=torch.float64))


def _unmasked(signs: Float[Tensor, "n T"]) -> Float[Tensor, "n T d"]:
    return torch.nn.functional.pad(torch.diag_embed(signs), (0, signs.shape[1]))
