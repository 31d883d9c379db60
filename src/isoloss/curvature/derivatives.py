"""Derivatives with respect to a model's trainable parameters: by name, by part of the model, along probes."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.errors import BadInput

_LAYER = re.compile(
    r"(?:^|\.)(?:layers?|h|blocks?|albert_layer_groups|attentions|ffns|layer_norm[12])\.(\d+)\."
)
_WRAPPER = re.compile(
    r"\.(?:modules_to_save|ln_tuning_layers)\.\w+(?=\.)|\.(?:base_layer|original_module)(?=\.)"
)
"""What peft puts into the name of a parameter that it wraps."""
_DECODER = re.compile(r"(?:^|[._])decoder\.")
_NORM = re.compile(r"(?:^|[._])(?:\w*norm|ln)\d*(?:_\w+)?(?:\.\d+)?(?:\.\w+)?$", re.IGNORECASE)
_CROSS_ATTENTION = re.compile(r"cross_?att|encoder_att|encdecatt", re.IGNORECASE)
_ATTENTION = re.compile(r"attn|attention|(?:^|\.)[qkvo]_proj\.", re.IGNORECASE)
_MIXER = re.compile(
    r"mamba|mlstm|temporal_block|(?:^|\.)conv\.|mixer\.(?!up_proj|down_proj|gate\.|\w*experts)"
)
_EMBEDDINGS = re.compile(
    r"embeddings?\.|embed_(?:tokens|positions|in)\.|wte\.|wpe\.|embedding_hidden|(?:tokens|positions)_embed\.|project_in\.|(?:^|\.)shared\."
)
_HEAD = re.compile(
    r"(?:^|\.)(?:cls|lm_head|lm_loss|predictions|pred_layer|generator_\w+|vocab_\w+|embed_out|project_out|output_projection)\."
    r"|^head\.|^decoder\.(?:weight|bias)$"
)


@dataclass(frozen=True)
class MeasuredParameters:
    """`count` numbers are differentiated, shared ones counted once; `frozen` names the other parameters."""

    count: int
    frozen: tuple[str, ...]

    @staticmethod
    def of(model: nn.Module) -> "MeasuredParameters":
        """Those of `model` that require a gradient. Raises BadInput if none does, or one is not in memory.

        >>> layer = nn.Linear(2, 3)
        >>> _ = layer.bias.requires_grad_(False)
        >>> MeasuredParameters.of(layer)
        MeasuredParameters(count=6, frozen=('bias',))
        """
        named = list(model.named_parameters())
        count = sum(p.numel() for _, p in named if p.requires_grad)
        if not count:
            raise BadInput("the model has no parameter that requires a gradient; unfreeze those to measure")
        away = next((name for name, p in named if p.is_meta), None)
        if away is not None:
            raise BadInput(
                f"{away} is offloaded to the processor or to disk by accelerate, where no gradient reaches "
                "it; call isoloss.models.streamed_weights.stream_offloaded_weights(model) first"
            )
        frozen = tuple(name for name, p in named if not p.requires_grad)
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

    The parts are a layer's norms, its attention, its cross-attention, its mixer (what else mixes words, such
    as Mamba's recurrence) and its MLP; the embeddings including their norm; the head; a pooler between the
    layers and the head of a task; and the final norm.
    Those of a decoder are called so, also where it stands alone, as in OPT. A tied output matrix is a single
    parameter named after the input embeddings, so it counts among the embeddings. Names are those of
    `transformers`; any other parameter belongs to the first component of its name.

    >>> parameter_group("bert.encoder.layer.0.attention.self.query.weight")
    'layer 1 attention'
    >>> parameter_group("transformer.h.3.ln_2.bias"), parameter_group("model.layers.1.mlp.up_proj.weight")
    ('layer 4 norms', 'layer 2 MLP')
    >>> parameter_group("decoder.block.0.layer.1.EncDecAttention.q.weight")
    'decoder layer 1 cross-attention'
    >>> parameter_group("roberta_prelayernorm.LayerNorm.weight"), parameter_group("lstm.weight_ih_l0")
    ('final norm', 'lstm')
    """
    name = _WRAPPER.sub("", name)
    if layer := _LAYER.search(name):
        decoder = "decoder " if _DECODER.search(name[: layer.start(1)]) else ""
        return f"{decoder}layer {int(layer[1]) + 1} {_part_of_layer(name[layer.start() :])}"
    if _EMBEDDINGS.search(name):
        return "embeddings"
    if _HEAD.search(name):
        return "head"
    if _NORM.search(name):
        return "decoder final norm" if _DECODER.search(name) else "final norm"
    parts = name.split(".")
    return "pooler" if "pooler" in parts else parts[0]


def is_norm(name: str) -> bool:
    """Whether the parameter called `name` is a norm's.

    >>> is_norm("transformer.h.3.ln_2.bias"), is_norm("lm_head.weight")
    (True, False)
    """
    return _NORM.search(_WRAPPER.sub("", name)) is not None


def _part_of_layer(inside: str) -> str:
    if _NORM.search(inside):
        return "norms"
    if _CROSS_ATTENTION.search(inside):
        return "cross-attention"
    if _ATTENTION.search(inside):
        return "attention"
    return "mixer" if _MIXER.search(inside) else "MLP"


def hessian_vector_product(
    scalar: Callable[[], Tensor], parameters: Mapping[str, Tensor], vector: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """∇²s(θ) v for the scalar s that `scalar` computes from `parameters`, by parameter name.

    Takes two backward passes and leaves the parameters' `.grad` untouched. Parameters on which s does not
    depend, or depends only linearly, get zeros. Memory: about four times that of one backward pass.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> hessian_vector_product(lambda: (x**3).sum(), {"x": x}, {"x": torch.tensor([1.0, 10.0])})["x"]
    tensor([  6., 120.])
    """
    leaves = list(parameters.values())
    # The fused attention kernels have no second derivative; the plain one has.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        value = _differentiable(scalar())
        gradients = torch.autograd.grad(value, leaves, create_graph=True, materialize_grads=True)
        products = _derivatives_along(gradients, parameters, vector)
    return dict(zip(parameters, products, strict=True))


def _derivatives_along(
    gradients: Sequence[Tensor],
    parameters: Mapping[str, Tensor],
    vector: Mapping[str, Tensor],
    create_graph: bool = False,
) -> Sequence[Tensor]:
    """The gradient of Σ `gradients` · `vector`, by parameter, without forming that sum."""
    varying = [
        (gradient, vector[name])
        for name, gradient in zip(parameters, gradients, strict=True)
        if gradient.requires_grad
    ]
    if not varying:
        return [torch.zeros_like(leaf) for leaf in parameters.values()]
    found, along = zip(*varying, strict=True)
    return torch.autograd.grad(
        found, list(parameters.values()), along, create_graph=create_graph, materialize_grads=True
    )


def hessian_quadratic_forms(
    scalars: Callable[[], Float[Tensor, " k"]],
    parameters: Mapping[str, Tensor],
    vectors: Sequence[Mapping[str, Tensor]],
) -> Iterator[tuple[dict[str, Tensor], Float[Tensor, " k"]]]:
    """Of each vector v in turn, Σ_i ∇²s_i(θ) v by parameter name, and vᵀ∇²s_i(θ) v of the k scalars.

    Takes two backward passes a vector, however many scalars there are, and one for all: Σ_i w_i vᵀ∇²s_i v is
    differentiated by w. Memory: about twice that of `hessian_vector_product`.

    >>> x, v = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 10.0])
    >>> for product, forms in hessian_quadratic_forms(lambda: x**3, {"x": x}, [{"x": v}]):
    ...     print(product["x"].tolist(), forms.tolist())
    [6.0, 120.0] [6.0, 1200.0]
    """
    leaves = list(parameters.values())
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        values = _differentiable(scalars())
        weights = torch.ones_like(values).requires_grad_()
        gradients = torch.autograd.grad(values, leaves, weights, create_graph=True, materialize_grads=True)
    for vector in vectors:
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            products = _derivatives_along(gradients, parameters, vector, create_graph=True)
            pairs = zip(products, parameters, strict=True)
            varying = [(product, vector[name]) for product, name in pairs if product.requires_grad]
            forms = torch.zeros_like(values)
            if varying:
                found, along = zip(*varying, strict=True)
                (forms,) = torch.autograd.grad(
                    found, [weights], along, retain_graph=True, materialize_grads=True
                )
        yield {name: each.detach() for name, each in zip(parameters, products, strict=True)}, forms.detach()


def gradient(scalar: Callable[[], Tensor], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """∇s(θ) by parameter name, zero for parameters on which s does not depend; `.grad` is left untouched."""
    with torch.enable_grad():
        value = _differentiable(scalar())
        gradients = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
    return dict(zip(parameters, gradients, strict=True))


def _differentiable(value: Tensor) -> Tensor:
    """The value. Raises BadInput if no parameter has a part in it."""
    if not value.requires_grad:
        raise BadInput(
            "the scores depend on none of the parameters that need a gradient, or are computed in "
            "torch.inference_mode; let others need one, or leave that"
        )
    return value


def inner_products_by_group(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> dict[str, float]:
    """Σ left · right over each group's parameters, in float64."""
    products: dict[str, float] = {}
    for name, values in left.items():
        group = parameter_group(name)
        products[group] = products.get(group, 0.0) + float((values.double() * right[name]).sum())
    return products


def unflattened(flat: Float[Tensor, " P"], parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A vector over all parameters, end to end, as tensors of the parameters' shapes and precision."""
    pieces = torch.split(flat, [p.numel() for p in parameters.values()])
    return {
        name: piece.view(p.shape).to(p) for (name, p), piece in zip(parameters.items(), pieces, strict=True)
    }


def sign_probe(parameters: Mapping[str, Tensor], key: str) -> dict[str, Tensor]:
    """Independent ±1 for every number of the parameters, drawn on the CPU from `key` alone.

    >>> probe = sign_probe({"weight": torch.zeros(2, 3)}, "7 probe 0")
    >>> probe["weight"].shape, probe["weight"].abs().unique().tolist()
    (torch.Size([2, 3]), [1.0])
    """
    generator = generator_of(key)
    return {
        name: (2 * torch.randint(0, 2, p.shape, generator=generator, dtype=torch.int8) - 1).to(p)
        for name, p in parameters.items()
    }


def normal_probe(parameters: Mapping[str, Tensor], key: str) -> dict[str, Tensor]:
    """Independent standard normal numbers for the parameters, drawn in float32 on the CPU from `key` alone.

    >>> probe = normal_probe({"weight": torch.zeros(2, 3)}, "7 noise 0")
    >>> probe["weight"].shape, bool((probe["weight"] == normal_probe(probe, "7 noise 0")["weight"]).all())
    (torch.Size([2, 3]), True)
    """
    generator = generator_of(key)
    return {
        name: torch.randn(p.shape, generator=generator, dtype=torch.float32).to(p)
        for name, p in parameters.items()
    }


def generator_of(key: str) -> torch.Generator:
    """A generator on the CPU whose numbers are a function of `key` alone."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))
