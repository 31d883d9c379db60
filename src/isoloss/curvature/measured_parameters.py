"""Which parameters are differentiated, and which part of a transformer each belongs to."""

import re
from dataclasses import dataclass

from torch import Tensor, nn

from isoloss.errors import BadInput

_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?|albert_layer_groups)\.(\d+)\.(.+)")
_NORM = re.compile(r"(?:^|[._])(?:\w*norm|ln_\w+)(?:\.|$)", re.IGNORECASE)
_EMBEDDINGS = re.compile(
    r"embeddings?\.|embed_(?:tokens|positions|in)\.|wte\.|wpe\.|embedding_hidden|project_in\."
)
_HEAD = re.compile(
    r"(?:^|\.)(?:cls|lm_head|predictions|vocab_\w+|embed_out|project_out)\.|^(?:head|decoder)\."
)


@dataclass(frozen=True)
class MeasuredParameters:
    """`count` numbers are differentiated, shared ones counted once; `frozen` names the other parameters."""

    count: int
    frozen: tuple[str, ...]

    @staticmethod
    def of(model: nn.Module) -> "MeasuredParameters":
        """Those of `model` that require a gradient. Raises BadInput if none does.

        >>> layer = nn.Linear(2, 3)
        >>> _ = layer.bias.requires_grad_(False)
        >>> MeasuredParameters.of(layer)
        MeasuredParameters(count=6, frozen=('bias',))
        """
        count = sum(p.numel() for p in trainable_parameters(model).values())
        if not count:
            raise BadInput("the model has no parameter that requires a gradient; unfreeze those to measure")
        frozen = tuple(name for name, p in model.named_parameters() if not p.requires_grad)
        return MeasuredParameters(count, frozen)

    @property
    def settings(self) -> dict[str, int]:
        """Settings for records: how many numbers were differentiated, and how many tensors were frozen."""
        return {"parameters": self.count, "frozen_tensors": len(self.frozen)}


def trainable_parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that require a gradient, by name; a shared tensor appears once, under its first name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def parameter_group(name: str) -> str:
    """The part of the model that the parameter called `name` belongs to; layers count from 1.

    The parts are a layer's norms, its attention and its MLP; the embeddings including their norm; the head;
    and the final norm. A tied output matrix is a single parameter named after the input embeddings, so it
    counts among the embeddings. The names of BERT, RoBERTa, ALBERT, DistilBERT, ModernBERT, GPT-2, OPT,
    GPT-NeoX and Llama are recognised; any other parameter belongs to the first component of its name.

    >>> parameter_group("bert.encoder.layer.0.attention.self.query.weight")
    'layer 1 attention'
    >>> parameter_group("transformer.h.3.ln_2.bias"), parameter_group("model.layers.1.mlp.up_proj.weight")
    ('layer 4 norms', 'layer 2 MLP')
    >>> parameter_group("roberta_prelayernorm.LayerNorm.weight"), parameter_group("lstm.weight_ih_l0")
    ('final norm', 'lstm')
    """
    layer = _LAYER.search(name)
    if layer:
        number, inside = int(layer[1]) + 1, layer[2]
        if _NORM.search(inside):
            return f"layer {number} norms"
        is_attention = "attention" in inside or "attn" in inside
        return f"layer {number} attention" if is_attention else f"layer {number} MLP"
    if _EMBEDDINGS.search(name):
        return "embeddings"
    if _HEAD.search(name):
        return "head"
    return "final norm" if _NORM.search(name) else name.split(".")[0]
