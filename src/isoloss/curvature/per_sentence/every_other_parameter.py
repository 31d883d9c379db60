"""Per-sentence gradients of the parameters whose gradient has no simpler form."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.per_sentence.factors import sums_by_sentence
from isoloss.device import is_out_of_memory
from isoloss.objectives.batch import Batch, Objective, sentences_of


class Scores(nn.Module):
    """Wraps the objective's logits in a module, so that the model can be called with other parameters."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch) -> Tensor:
        """The logits of the batch's predictions."""
        return self.objective.logits(self.model, batch)

    def at(self, values: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """The logits with these values of the model's parameters, by the first of each one's names.

        Every place that holds a parameter is named once. Left to find them itself, `functional_call` sets
        those of a module that is part of two others twice, and leaves the second value in the model.
        """
        places: dict[Tensor, list[str]] = {}
        for prefix, module in self.model.named_modules(prefix="model"):
            for last, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
                places.setdefault(parameter, []).append(f"{prefix}.{last}")
        held = dict(self.model.named_parameters())
        renamed = {place: value for name, value in values.items() for place in places[held[name]]}
        logits: Tensor = functional_call(self, renamed, (batch,), tie_weights=False)
        return logits


def squared_norms_by_sentence(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    cotangents: Float[Tensor, "m v"],
    parameters: dict[str, Tensor],
    memory_bytes: int,
) -> dict[str, Float[Tensor, " n"]]:
    """||∇_θ Σ_j cotangents[j] · logits[j]||² of every sentence for each of `parameters`, by name, float64."""
    norms = {name: cotangents.new_zeros(len(batch), dtype=torch.float64) for name in parameters}
    for sentences, gradients in gradients_by_sentence(
        model, objective, batch, cotangents, parameters, memory_bytes
    ):
        for name, gradient in gradients.items():
            squares = gradient.to(torch.promote_types(gradient.dtype, torch.float32)).square()
            norms[name][sentences] = sums_by_sentence(squares).to(norms[name].device)
    return norms


def gradients_by_sentence(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    cotangents: Float[Tensor, "m v"],
    parameters: dict[str, Tensor],
    memory_bytes: int,
) -> Iterator[tuple[Int[Tensor, " k"], dict[str, Tensor]]]:
    """∇_θ Σ_j cotangents[j] · logits[j] for k sentences at a time: their indices, and [k, ...] by name.

    Uses torch.func to map the gradient of one sentence over as many sentences as `memory_bytes` has room for,
    all with the same attention mask and number of predictions; for operations that cannot be mapped over,
    makes one backward pass per sentence.
    """
    size = sum(2 * p.numel() * p.element_size() for p in parameters.values())
    scores = Scores(model, objective)
    at_once = _mapped_over_sentences
    for sentences, piece, predictions in _equal_pieces(batch, max(1, memory_bytes // size)):
        try:
            gradients = at_once(scores, piece, cotangents[predictions], parameters)
        except RuntimeError as error:  # an operation without a vmap rule, or one that inspects its values
            if is_out_of_memory(error):
                raise
            at_once = _one_after_another
            gradients = at_once(scores, piece, cotangents[predictions], parameters)
        yield sentences, gradients


def _mapped_over_sentences(
    scores: Scores, piece: Batch, cotangents: Float[Tensor, "m v"], parameters: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Per-sentence gradients, [k, ...], of sentences of the same shape."""
    predictions = len(piece.targets) // len(piece)
    # Map only over what differs between sentences: a model may then branch on the attention mask.
    rows = torch.zeros_like(piece.rows[:predictions])

    def inner_product(
        values: dict[str, Tensor],
        read: dict[str, Tensor],
        positions: Tensor,
        targets: Tensor,
        cotangent: Tensor,
    ) -> Tensor:
        alone = {name: each[None] for name, each in read.items()}
        mask = piece.attention_mask[:1]
        sentence = Batch(attention_mask=mask, rows=rows, positions=positions, targets=targets, **alone)
        return (scores.at(values, sentence) * cotangent).sum()

    read = piece.per_sentence(lambda array: array)
    del read["attention_mask"]
    by_prediction = (len(piece), predictions)
    gradient_of_one: Callable[..., dict[str, Tensor]] = grad(inner_product)
    # The fused attention kernels cannot be mapped over sentences; the plain one can.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), no_module_converted(scores):
        return vmap(gradient_of_one, in_dims=(None, 0, 0, 0, 0))(
            {name: p.detach() for name, p in parameters.items()},
            read,
            piece.positions.view(by_prediction),
            piece.targets.view(by_prediction),
            cotangents.view(*by_prediction, -1),
        )


@contextmanager
def no_module_converted(model: nn.Module) -> Iterator[None]:
    """Within the block, a module that converts its parameters raises RuntimeError.

    The routers of Switch Transformers do so at every call; mapped over, or derived, that crashes the process.
    """

    def refuse(*_: object) -> nn.Module:
        raise RuntimeError("a module converts its parameters whenever it is called")

    try:
        for module in model.modules():
            module._apply = refuse  # type: ignore[method-assign]
        yield
    finally:
        for module in model.modules():
            module.__dict__.pop("_apply", None)


def _one_after_another(
    scores: Scores, piece: Batch, cotangents: Float[Tensor, "m v"], parameters: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The same by ordinary backward passes."""
    gradients: dict[str, list[Tensor]] = {name: [] for name in parameters}
    for sentence in range(len(piece)):
        predictions = (piece.rows == sentence).nonzero().flatten()
        alone = sentences_of(piece, torch.tensor([sentence], device=piece.rows.device))
        with torch.enable_grad():
            inner_product = (scores(alone) * cotangents[predictions]).sum()
        found = torch.autograd.grad(inner_product, list(parameters.values()), materialize_grads=True)
        for name, gradient in zip(parameters, found, strict=True):
            gradients[name].append(gradient)
    return {name: torch.stack(of_each) for name, of_each in gradients.items()}


def _equal_pieces(batch: Batch, at_once: int) -> Iterator[tuple[Int[Tensor, " k"], Batch, Int[Tensor, " p"]]]:
    """Yields up to `at_once` sentences of the same shape: their indices, batch, and indices of predictions.

    The sentences of a piece share one attention mask and one number of predictions.
    """
    counts = torch.bincount(batch.rows, minlength=len(batch))
    shapes = torch.cat([batch.attention_mask.long(), counts[:, None]], dim=1)
    kinds, kind_of = torch.unique(shapes, dim=0, return_inverse=True)
    for kind in range(len(kinds)):
        for sentences in torch.split((kind_of == kind).nonzero().flatten(), at_once):
            predictions = torch.isin(batch.rows, sentences).nonzero().flatten()
            yield sentences, sentences_of(batch, sentences), predictions
