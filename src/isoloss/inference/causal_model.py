"""What exact laws need of an autoregressive model, whatever library it comes from."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class KeyValueCache(Protocol):
    """The keys and values of tokens that a model has read."""

    def shared_prefix(self, tokens: int) -> "KeyValueCache":
        """The first `tokens` tokens of a cache of one row, as the past of any number of rows.

        Copies nothing, and is not changed by the passes that read it.
        """
        ...


@runtime_checkable
class CausalModel(Protocol):
    """Scores of K words after every token, from the tokens up to it."""

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        ...

    def __call__(
        self, tokens: Int[Tensor, "n s"], past: KeyValueCache | None = None
    ) -> tuple[Float[Tensor, "n s K"], KeyValueCache]:
        """Unnormalised log-probabilities of the word after each token, which follow those of `past`.

        Also the cache of the past and these tokens, for the next pass; that of a shared prefix is not kept.
        """
        ...

    def pass_bytes(self, past: int, tokens: int) -> int:
        """About what a pass holds at once for a row of `tokens` tokens after a shared prefix of `past`."""
        ...

    def cache_bytes(self, tokens: int) -> int:
        """What the cache of a row of `tokens` tokens takes."""
        ...

    def operations(self, past: int, tokens: int) -> float:
        """Floating-point operations of the matrix products of such a row's pass."""
        ...
