"""Which part of a transformer in BERT's layout a parameter belongs to, so that a trace can be split."""

import re

_LAYER = re.compile(r"(?:^|\.)layer\.(\d+)\.(.+)")
_NORM = re.compile(r"(?:^|[._])layer_?norm", re.IGNORECASE)


def parameter_group(name: str) -> str:
    """The part of the model that the parameter called `name` belongs to; layers count from 1.

    Norms inside a layer, its attention, its MLP; the embeddings with their own norm; the head. A tied
    output matrix is one parameter with the input embeddings' name, so it counts among the embeddings.
    A parameter of another architecture belongs to the first component of its name.

    >>> parameter_group("bert.encoder.layer.0.attention.self.query.weight")
    'layer 1 attention'
    >>> parameter_group("bert.encoder.layer.0.attention.output.LayerNorm.bias")
    'layer 1 norms'
    >>> parameter_group("roberta_prelayernorm.LayerNorm.weight"), parameter_group("lstm.weight_ih_l0")
    ('final norm', 'lstm')
    """
    layer = _LAYER.search(name)
    if layer:
        number, inside = int(layer[1]) + 1, layer[2]
        if _NORM.search(inside):
            return f"layer {number} norms"
        return f"layer {number} attention" if "attention" in inside else f"layer {number} MLP"
    if "embeddings." in name:
        return "embeddings"
    if name.startswith(("cls.", "lm_head.")):
        return "head"
    return "final norm" if _NORM.search(name) else name.split(".")[0]
