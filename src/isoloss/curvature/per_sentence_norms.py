"""Squared norms of each sentence's own gradient, split by the part of the model."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.parameter_groups import parameter_group
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective

MEMORY_BYTES = 1 << 27
"""Default budget for the gradients held at once: 128 MiB."""


class _Scores(nn.Module):
    """The objective's logits as a module, so that its model can be called with other parameters."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch) -> Tensor:
        return self.objective.logits(self.model, batch)


def per_sentence_squared_norms(
    model: nn.Module, objective: Objective, batch: Batch, cotangents: Float[Tensor, "m v"]
) -> dict[str, Float[Tensor, " n"]]:
    """||∇_θ Σ_j cotangents[j] · logits[j]||² of every sentence, j over its own predictions, by group.

    θ are the model's parameters that require a gradient, each once however many modules share it, split
    by `parameter_group`; the groups' values add up to the squared norm. float64. The sentences must have
    equal shapes: one attention mask and one number of predictions (`equal_pieces` makes such batches).
    The model is used in the mode it is in, and gradients it may hold are left alone.

    Exact: the gradient of one sentence by torch.func, mapped over sentences. Memory: the n gradients of
    all parameters, beside the activations of n sentences.

    Raises BadInput when no parameter requires a gradient.
    """
    n, predictions = len(batch), len(batch.targets) // len(batch)
    scores = _Scores(model, objective)
    parameters = {name: p.detach() for name, p in scores.named_parameters() if p.requires_grad}
    if not parameters:
        raise BadInput("the model has no parameter that requires a gradient; unfreeze those to measure")
    # Only what differs between sentences is mapped over: a model may then branch on the attention mask.
    rows = torch.zeros_like(batch.rows[:predictions])

    def inner_product(
        values: dict[str, Tensor], ids: Tensor, positions: Tensor, targets: Tensor, cotangent: Tensor
    ) -> Tensor:
        sentence = Batch(ids[None], batch.attention_mask[:1], rows, positions, targets)
        logits: Tensor = functional_call(scores, values, (sentence,))
        return (logits * cotangent).sum()

    by_prediction = (n, predictions)
    # The fused attention kernels cannot be mapped over sentences; the plain one can.
    with sdpa_kernel(SDPBackend.MATH):
        gradients = vmap(grad(inner_product), in_dims=(None, 0, 0, 0, 0))(
            parameters,
            batch.input_ids,
            batch.positions.view(by_prediction),
            batch.targets.view(by_prediction),
            cotangents.view(*by_prediction, -1),
        )
    norms: dict[str, Tensor] = defaultdict(
        lambda: torch.zeros(n, dtype=torch.float64, device=batch.rows.device)
    )
    for name, gradient in gradients.items():
        # Short sums in the gradient's precision, the long one in float64.
        matrix = gradient if gradient.ndim > 1 else gradient[:, None]
        by_row = torch.linalg.vector_norm(matrix, dim=-1).double().square()
        norms[parameter_group(name.removeprefix("model."))] += by_row.view(n, -1).sum(dim=1)
    return dict(norms)


def equal_pieces(
    model: nn.Module, batch: Batch, memory_bytes: int = MEMORY_BYTES
) -> Iterator[tuple[Int[Tensor, " k"], Batch]]:
    """Batches of sentences of one shape, each with its sentences' numbers in `batch`; all are covered.

    A piece's sentences have one attention mask and one number of predictions, and positions that are
    padding in all of them are cut off. Two gradients a sentence fit in `memory_bytes`, one sentence at
    the least.
    """
    size = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    at_once = max(1, memory_bytes // (2 * max(size, 1)))
    counts = torch.bincount(batch.rows, minlength=len(batch))
    shapes = torch.cat([batch.attention_mask.long(), counts[:, None]], dim=1)
    kinds, kind_of = torch.unique(shapes, dim=0, return_inverse=True)
    for kind in range(len(kinds)):
        sentences = (kind_of == kind).nonzero().flatten()
        for piece in torch.split(sentences, at_once):
            yield piece, _sentences_of(batch, piece)


def _sentences_of(batch: Batch, sentences: Int[Tensor, " k"]) -> Batch:
    """The sentences with these ascending numbers, without positions that are padding in all of them."""
    number = torch.full((len(batch),), -1, device=batch.rows.device)
    number[sentences] = torch.arange(len(sentences), device=batch.rows.device)
    kept = number[batch.rows] >= 0
    mask = batch.attention_mask[sentences]
    width = int(mask.any(0).nonzero().max()) + 1
    return replace(
        batch,
        input_ids=batch.input_ids[sentences, :width],
        attention_mask=mask[:, :width],
        rows=number[batch.rows[kept]],
        positions=batch.positions[kept],
        targets=batch.targets[kept],
    )
