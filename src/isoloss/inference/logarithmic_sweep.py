"""The recursion of the forward and backward passes, in logarithms: slower, and never out of range."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

TERMS_AT_ONCE = 1 << 20


def logarithmic_sweep(
    start: Float[Tensor, " S"],
    matrix: Float[Tensor, "S S"],
    by_word: Float[Tensor, "c S"],
    words: Int[Tensor, "T n"],
) -> Float[Tensor, "T_1 n S"]:
    """log v_0 = log start, log v_{t+1}[s'] = log Σ_s v_t[s] by_word[x_t, s] matrix[s, s']; T_1 is T + 1.

    >>> half = torch.full((2, 2), 0.5, dtype=torch.float64)
    >>> logarithmic_sweep(half[0], half, half, torch.tensor([[0]])).exp().round(decimals=3).tolist()
    [[[0.5, 0.5]], [[0.25, 0.25]]]
    """
    log_matrix, log_by_word = matrix.log(), by_word.log()
    values = start.log().expand(words.shape[1], -1)
    swept = [values]
    for here in words:
        values = log_product(values + log_by_word[here], log_matrix)
        swept.append(values)
    return torch.stack(swept)


def log_product(rows: Float[Tensor, "n S"], log_matrix: Float[Tensor, "S S"]) -> Float[Tensor, "n S"]:
    """log(exp(rows) @ exp(log_matrix)), a few rows at a time: each takes S² numbers.

    >>> log_product(torch.tensor([[-torch.inf, -800.0]]), torch.tensor([[0.0, 0.0], [-1.0, -2.0]])).tolist()
    [[-801.0, -802.0]]
    """
    at_once = max(1, TERMS_AT_ONCE // log_matrix.numel())
    return torch.cat(
        [torch.logsumexp(part[:, :, None] + log_matrix, dim=1) for part in torch.split(rows, at_once)]
    )
