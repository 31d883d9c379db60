"""Any torch module as a model of the laboratory, called as a Hugging Face model is."""

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from isoloss.errors import BadInput, first_line
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.objectives.tokens import FIRST_WORD

ROWS_AT_ONCE = 8
"""Of which a module shows that it reads a language: all at once would score every token squared."""


@dataclass
class Scored:
    """What a `TorchModel` gives: scores [n, S, v], and the vectors [n, S, d] they were computed from."""

    logits: Tensor
    hidden: Tensor | None

    @property
    def last_hidden_state(self) -> Tensor:
        """The input of the module's last linear layer. Raises BadInput if there is no such layer."""
        if self.hidden is None:
            raise BadInput(
                "the torch module has no last linear layer whose inputs a probe could read; give it one, or "
                "measure its loss and its trace alone"
            )
        return self.hidden


class TorchModel(PreTrainedModel):
    """Any torch module, called as a Hugging Face model is."""

    config_class = PretrainedConfig
    base_model_prefix = ""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(PretrainedConfig())
        self.module = module
        self._takes_mask = "attention_mask" in inspect.signature(module.forward).parameters
        self._heads = [each for each in module.modules() if isinstance(each, nn.Linear)]

    def forward(
        self, input_ids: Int[Tensor, "n S"], attention_mask: Tensor | None = None, **_more: Any
    ) -> Scored:
        """Scores of every token at every place."""
        read: dict[int, Tensor] = {}
        hooks = [
            head.register_forward_pre_hook(lambda layer, inputs: read.update({id(layer): inputs[0]}))
            for head in self._heads
        ]
        mask = {"attention_mask": attention_mask} if self._takes_mask else {}
        try:
            scores = self.module(input_ids, **mask)
        finally:
            for hook in hooks:
                hook.remove()
        scores = getattr(scores, "logits", scores)
        if not isinstance(scores, Tensor) or scores.shape[:2] != input_ids.shape or scores.ndim != 3:
            shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise BadInput(
                f"the torch module gave {shape} for token numbers {tuple(input_ids.shape)}; it must give "
                "scores [n, S, v] of all v tokens at every place"
            )
        last = [read[id(each)] for each in self._heads if id(each) in read]
        fits = last and last[-1].shape[:2] == input_ids.shape
        return Scored(scores, last[-1] if fits else None)

    def refuse_misfit(self, tokens: int, longest: int) -> None:
        """Raise BadInput unless it gives the scores of so many tokens, for sentences of `longest` words.

        Every token is read at some place, a few rows at once; the module is left as it was.
        """
        places = longest + 1
        numbers = torch.arange(places * math.ceil(tokens / places), device=device_of(self)) % tokens
        name = type(self.module).__name__
        try:
            with torch.no_grad(), evaluation_mode(self):
                for rows in torch.split(numbers.view(-1, places), ROWS_AT_ONCE):
                    scores = self(rows, torch.ones_like(rows).bool()).logits
        except BadInput:
            raise
        except Exception as error:
            reason = first_line(error)
            raise BadInput(
                f"{name} cannot read token numbers 0 to {tokens - 1} in rows of {longest + 1}, which the "
                f"language's sentences are ({reason}); give a module that can"
            ) from None
        if scores.shape[-1] != tokens:
            raise BadInput(
                f"{name} gives scores of {scores.shape[-1]} tokens, but the language's words and the "
                f"{FIRST_WORD} special tokens are {tokens}; give a module with as many"
            )
