"""How far a model's distribution moves when its weights do: KL(before || after), predicted and measured.

For a change δ of the weights, the logits move by z' = J δ to first order, one forward-mode derivative, and
KL(p || softmax(z + z')) is to second order ½ δᵀFδ = ½ Var_p(z'), F the Fisher information: exact sums over
the vocabulary, without any sampling of labels.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.per_sentence.every_other_parameter import Scores, no_module_converted
from isoloss.device import is_out_of_memory
from isoloss.objectives.batch import Batch, Objective, refuse_non_finite, sentence_means
from isoloss.objectives.evaluation import (
    FORWARD_MEMORY_BYTES,
    displaced,
    evaluation_mode,
    pieces_within,
)

ARRAYS = 4
"""A forward-mode derivative holds about four times what a forward pass does."""


@dataclass(frozen=True)
class PredictedKL:
    """A value per sentence, the mean over its predictions, in nats, float64.

    `quadratic` is ½ δᵀFδ = ½ Var_p(z'). `linearised` is KL(p || softmax(z + z')): the logits to first order,
    the softmax in full. They differ where the change is so large that the softmax is not quadratic.
    """

    quadratic: Float[Tensor, " n"]
    linearised: Float[Tensor, " n"]


def predicted_kl(
    model: nn.Module,
    objective: Objective,
    batches: Sequence[Batch],
    change: Mapping[str, Tensor],
    *,
    memory_bytes: int = FORWARD_MEMORY_BYTES,
) -> PredictedKL:
    """The KL of adding `change` to the parameters of these names, from one forward-mode derivative a batch.

    A shared parameter is named once and moves in all its uses. The model is evaluated without dropout and
    left as found. Memory: about `memory_bytes` beside the model and the change. Raises NonFiniteScores where
    a logit is not finite.

    >>> from transformers import BertConfig, BertForMaskedLM
    >>> from isoloss.objectives.pretrained import PretrainedMasked
    >>> size = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> model = BertForMaskedLM(BertConfig(vocab_size=9, **size))
    >>> ids = torch.tensor([[3, 4, 2, 6], [5, 2, 7, 8]])
    >>> batch = PretrainedMasked().batch({"input_ids": ids, "labels": ids})
    >>> bias = {"cls.predictions.bias": 0.01 * torch.arange(9.0)}
    >>> found = predicted_kl(model, PretrainedMasked(), [batch], bias)
    >>> torch.allclose(found.quadratic, measured_kl(model, PretrainedMasked(), [batch], bias), rtol=0.01)
    True
    """
    quadratic: list[Tensor] = []
    linearised: list[Tensor] = []
    derivative = _twice_backward if _loses_derivatives(model) else _forward_mode
    with evaluation_mode(model):
        for batch in _pieces(model, batches, memory_bytes // ARRAYS):
            try:
                z, along = derivative(model, objective, batch, change)
            except (RuntimeError, NotImplementedError) as error:  # an operation without a forward derivative
                if is_out_of_memory(error) or derivative is _twice_backward:
                    raise
                derivative = _twice_backward
                z, along = derivative(model, objective, batch, change)
            refuse_non_finite(z, batch, sum(map(len, quadratic)))
            log_p, along = z.double().log_softmax(1), along.double()
            p = log_p.exp()
            mean = (p * along).sum(1, keepdim=True)
            quadratic.append(sentence_means(0.5 * (p * (along - mean).square()).sum(1), batch).cpu())
            # Σ p (log p - log q) = log Σ p exp(z' - mean), which loses no digits where the two are close.
            linearised.append(sentence_means((log_p + along - mean).logsumexp(1), batch).cpu())
    return PredictedKL(torch.cat(quadratic), torch.cat(linearised))


def measured_kl(
    model: nn.Module,
    objective: Objective,
    batches: Sequence[Batch],
    change: Mapping[str, Tensor],
    *,
    memory_bytes: int = FORWARD_MEMORY_BYTES,
) -> Float[Tensor, " n"]:
    """KL(before || after) once `change` is really added, a value per sentence as in `predicted_kl`.

    Frozen parameters and buffers can be changed, too. Two forward passes. The weights are restored bit for
    bit. Raises NonFiniteScores where a logit is not finite, before or after.
    """
    stored = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    moved = [stored[name] for name in change]
    found: list[Tensor] = []
    with evaluation_mode(model), torch.no_grad():
        for batch in _pieces(model, batches, memory_bytes):
            before = objective.logits(model, batch)
            with displaced(moved, list(change.values())):
                after = objective.logits(model, batch)
            for scores in (before, after):
                refuse_non_finite(scores, batch, sum(map(len, found)))
            log_p, apart = before.double().log_softmax(1), after.double() - before.double()
            apart -= (log_p.exp() * apart).sum(1, keepdim=True)
            found.append(sentence_means((log_p + apart).logsumexp(1), batch).cpu())
    return torch.cat(found)


def _forward_mode(
    model: nn.Module, objective: Objective, batch: Batch, change: Mapping[str, Tensor]
) -> tuple[Float[Tensor, "m v"], Float[Tensor, "m v"]]:
    """The logits, and their derivative along the change, also of what training would hold constant."""
    scores, weights = Scores(model, objective), trainable_parameters(model)

    def logits(values: dict[str, Tensor]) -> Tensor:
        with _NothingConstant():
            return scores.at(values, batch)

    at = {name: weights[name].detach() for name in change}
    # The fused attention kernels have no forward-mode derivative; the plain one has.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), no_module_converted(scores):
        found = jvp(logits, (at,), (dict(change),))
    return found[0], found[1]


def _twice_backward(
    model: nn.Module, objective: Objective, batch: Batch, change: Mapping[str, Tensor]
) -> tuple[Float[Tensor, "m v"], Float[Tensor, "m v"]]:
    """The same by two backward passes: Jᵀu is linear in u, and its derivative along δ in u is J δ."""
    weights = trainable_parameters(model)
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        with _NothingConstant():
            z = objective.logits(model, batch)
        u = torch.zeros_like(z, requires_grad=True)
        back = torch.autograd.grad(
            z, [weights[name] for name in change], u, create_graph=True, materialize_grads=True
        )
        inner = torch.stack([(each * change[name]).sum() for each, name in zip(back, change, strict=True)])
        along = torch.zeros_like(u)
        if inner.requires_grad:  # otherwise no scores depend on these parameters
            (along,) = torch.autograd.grad(inner.sum(), u, materialize_grads=True)
    return z.detach(), along


def _loses_derivatives(model: nn.Module) -> bool:
    """Whether it has layers of bitsandbytes: their 4-bit products lose forward derivatives silently."""
    return any(type(module).__module__.startswith("bitsandbytes.") for module in model.modules())


class _NothingConstant(TorchFunctionMode):
    """Within the block, `detach` cuts off no derivative, as DoRA's training does that of norms of weights."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return args[0] if func is Tensor.detach else func(*args, **(kwargs or {}))


def _pieces(model: nn.Module, batches: Sequence[Batch], memory_bytes: int) -> Iterator[Batch]:
    some = filter(len, batches)
    return itertools.chain.from_iterable(pieces_within(model, batch, memory_bytes) for batch in some)
