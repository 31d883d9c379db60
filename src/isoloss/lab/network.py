"""Networks that are handed over: torch modules as models, models as architectures, and their digests."""

import copy
import hashlib
import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import FunctionType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from isoloss.errors import BadInput, first_line
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.results.store import ONLY_WHEN_CHANGED

ROWS_AT_ONCE = 8
"""Of which a module shows that it reads a language: all at once would score every token squared."""
LIBRARIES = ("torch", "transformers", "isoloss")
"""Whose modules are identified by their names and settings; of others the code is hashed too."""
OF_NO_NETWORK = ("architectures", "dtype", "torch_dtype", "transformers_version", "language_words")
"""Settings of a configuration that tell how it was written, and of which tokens a language is."""
KEPT_BY_TORCH = frozenset(vars(nn.Module()))
"""Attributes of every module: its weights, buffers and hooks, and whether it is trained."""


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


@dataclass(frozen=True)
class GivenModel:
    """An `Architecture` that is a model already there.

    `weights` is a digest of what it starts from, and `network` one of what it computes from its weights.
    """

    weights: str
    network: str
    module: PreTrainedModel = field(compare=False, repr=False)
    frozen: tuple[str, ...] = field(default=(), metadata=ONLY_WHEN_CHANGED)

    @staticmethod
    def of(module: PreTrainedModel) -> "GivenModel":
        """The architecture that is this model; of one that is frozen as a whole, with all weights trained."""
        flags = {name: weight.requires_grad for name, weight in module.named_parameters()}
        frozen = tuple(name for name, trained in flags.items() if not trained and any(flags.values()))
        return GivenModel(digest_of_weights(module), digest_of_network(module), module, frozen)

    def build(self, words: int, maximum_length: int, seed: int) -> PreTrainedModel:
        """A copy; see `Architecture.build`."""
        module = copy.deepcopy(self.module)
        for name, weight in module.named_parameters():
            weight.requires_grad_(name not in self.frozen)
        return module


def digest_of_weights(module: nn.Module) -> str:
    """A hexadecimal digest of the names and values of a module's weights, and of its buffers."""
    digest = hashlib.sha256()
    for name, weight in module.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


def digest_of_network(module: nn.Module) -> str:
    """A hexadecimal digest of what a module computes from its weights: its layers, settings and code.

    Lists and the like that a module of one's own keeps are part of it. Functions that its classes' methods
    call elsewhere are not looked at, nor are tensors that are not saved with its weights, as caches are not.

    >>> digest_of_network(nn.Sequential(nn.ReLU())) == digest_of_network(nn.Sequential(nn.Tanh()))
    False
    >>> digest_of_network(nn.Dropout(0.1)) == digest_of_network(nn.Dropout(0.1))
    True
    """
    hashed = [repr(module)]
    if isinstance(module, PreTrainedModel):
        settings = module.config.to_dict()
        hashed += [f"{name}: {settings[name]!r}" for name in sorted(settings) if _is_hashed(name)]
    kinds = {type(each): None for each in module.modules()}
    hashed += [setting for each in module.modules() for setting in _settings(each)]
    hashed += [_code(each) for kind in kinds for base in kind.__mro__ for each in _methods_of_users(base)]
    return hashlib.sha256("\n".join(hashed).encode()).hexdigest()


def _settings(module: nn.Module) -> Iterator[str]:
    """What a module keeps beside its weights, of libraries' modules numbers, texts and functions.

    Those of transformers are in their configuration.
    """
    library = _library(type(module))
    if library == "transformers":
        return
    is_users = library not in LIBRARIES
    for name, value in sorted(vars(module).items()):
        if name in KEPT_BY_TORCH or (not is_users and name.startswith("_")):
            continue
        is_hashed = is_users or isinstance(value, int | float | str) or callable(value)
        if is_hashed and (text := _as_text(value)):
            yield f"{name}: {text}"


def _as_text(value: Any) -> str:
    """Containers of numbers, texts and functions as text, the same in every process; empty for all else."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        pairs = (f"{_as_text(key)}: {_as_text(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_text, value))}]"
    if isinstance(value, int | float | str):
        return repr(value)
    return _code(value) if callable(value) and not isinstance(value, nn.Module) else ""


def _is_hashed(name: str) -> bool:
    return name not in OF_NO_NETWORK and not name.startswith("_")


def _methods_of_users(kind: type) -> list[FunctionType]:
    if kind is object or _library(kind) in LIBRARIES:
        return []
    return [each for each in vars(kind).values() if isinstance(each, FunctionType)]


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _code(function: Any) -> str:
    """The source of a function; where there is none, what Python made of it, or its name."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        name = getattr(function, "__qualname__", type(function).__name__)
        return name if code is None else repr((code.co_code, code.co_names, code.co_varnames))
