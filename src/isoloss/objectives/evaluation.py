"""Evaluates a model without side effects: no dropout, bounded memory, temporary changes of weights."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge, saved_tensors_hooks

from isoloss.device import is_out_of_memory
from isoloss.errors import BadInput, IsolossError, first_line
from isoloss.objectives.batch import Batch, Objective, sentences_between, sentences_of

FORWARD_MEMORY_BYTES = 1 << 26
"""Default budget for what a forward pass without gradients holds at once: 64 MiB, which suits caches too."""

REAL_TEXT_MEMORY_BYTES = 1 << 28
"""The same for real text, 256 MiB: its vocabularies have tens of thousands of tokens, and 64 MiB would hold
the scores of a sequence or two."""


_REPACKS = "support_avx512bf16_for_cpu"
"""Of bitsandbytes' 4-bit layers: on processors with AVX512-BF16 they bring their weights into another format
in evaluation mode, through which there are no gradients, and in which small layers end the process."""


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch every module to evaluation mode, and back to its previous mode, even after an exception.

    >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with evaluation_mode(model):
    ...     print([module.training for module in model.modules()])
    [False, False, False]
    >>> [module.training for module in model.modules()]
    [True, True, False]
    """
    found = [(module, module.training) for module in model.modules()]
    switching = _before_each_forward_pass_as_found(model)
    repacking: list[Any] = [module for module, _ in found if getattr(module, _REPACKS, False)]
    if any(training for _, training in found):
        model.eval()
    for layer in repacking:
        setattr(layer, _REPACKS, False)
        if getattr(getattr(layer.weight, "quant_state", None), "packing_format_for_cpu", False):
            layer.state_dict()  # brings the weights back into their own format
    try:
        yield
    finally:
        for put_back in switching:
            put_back()
        for module, training in found:
            if module.training != training:  # setting attributes of hundreds of modules takes milliseconds
                module.training = training
        for layer in repacking:
            setattr(layer, _REPACKS, True)


def _before_each_forward_pass_as_found(model: nn.Module) -> list[Callable[[], None]]:
    """Undo in each forward pass what the one before it switched; what undoes the last and ends that.

    BigBird's attention is over blocks, but over all words from the first short batch on, for good, so that a
    sentence's scores would depend on which were scored before it.
    """
    every = [module for module in model.modules() if hasattr(module, "set_attention_type")]
    inside = {part for each in every for part in each.modules() if part is not each}
    ends: list[Callable[[], None]] = []
    for module in (each for each in every if each not in inside):
        switch_back = partial(cast("Any", module).set_attention_type, module.attention_type)
        hook = module.register_forward_pre_hook(lambda *_, switch_back=switch_back: switch_back())
        ends += [hook.remove, switch_back]
    return ends


@contextmanager
def every_parameter_recorded(model: nn.Module) -> Iterator[None]:
    """Let autograd record frozen parameters too, and freeze them again afterwards, even after an exception.

    The graph then shows what is computed from a sentence's words even if the embeddings are frozen. Raises
    BadInput for a model that was loaded under `torch.inference_mode`.
    """
    parameters = list(model.parameters())
    if any(parameter.is_inference() for parameter in parameters):
        raise BadInput(
            "the model was loaded under torch.inference_mode, whose tensors never have gradients; load it "
            "outside of that"
        )
    frozen = [each for each in parameters if not each.requires_grad and each.is_floating_point()]
    try:
        for parameter in frozen:
            parameter.requires_grad_(True)
        with torch.enable_grad():
            yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's parameters, or that to which they are streamed; the CPU without any.

    >>> device_of(nn.Linear(2, 2)), device_of(nn.Identity())
    (device(type='cpu'), device(type='cpu'))
    """
    parameter = next(model.parameters(), None)
    if parameter is None:
        return torch.device("cpu")
    return cast("torch.device", getattr(parameter, "streamed_to", parameter.device))


def rows_at_once(model: nn.Module, tokens: int, memory_bytes: int) -> int:
    """How many rows of `tokens` tokens a forward pass without gradients may take in `memory_bytes`.

    Counts eight arrays as wide as the model's widest matrix at every token (the widest layer, or the
    scores of the vocabulary), which is generous for a transformer; at least one row.

    >>> rows_at_once(nn.Linear(64, 256), tokens=9, memory_bytes=1 << 20)
    14
    """
    widest = max((max(p.shape) for p in model.parameters() if p.ndim > 1), default=1)
    size = max((p.element_size() for p in model.parameters()), default=4)
    return max(1, memory_bytes // (8 * widest * size * tokens))


def pieces_within(model: nn.Module, batch: Batch, memory_bytes: int) -> Iterator[Batch]:
    """The batch's sentences, as many at once as `rows_at_once` allows, on the model's device."""
    at_once = rows_at_once(model, batch.input_ids.shape[1], memory_bytes)
    for start in range(0, len(batch), at_once):
        yield sentences_between(batch, start, min(start + at_once, len(batch))).to(device_of(model))


def bytes_kept_for_backward(model: nn.Module, objective: Objective, batch: Batch) -> int:
    """Bytes that a forward pass keeps for the backward pass, beside the parameters; measured by running one.

    The scores, which exist in several forms, count four times.
    """
    of_model = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    saved: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in of_model:
            saved[storage._cdata] = storage.nbytes()
        # Detached, since a result that an operation saves would keep the whole graph alive in a cycle.
        return tensor.detach()

    def give_back(tensor: Any) -> Any:
        return tensor

    with evaluation_mode(model), every_parameter_recorded(model), saved_tensors_hooks(count, give_back):
        logits = objective.logits(model, batch)
    return sum(saved.values()) + 4 * logits.nbytes


KeptBytes = dict[tuple[int, int], int]
"""`bytes_kept_for_backward` of a sentence of so many tokens and predictions."""


def sentences_at_once(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    memory_bytes: int,
    kept_bytes: KeptBytes | None = None,
) -> int:
    """How many of the batch's sentences, as large as the largest, `sentence_fisher_traces` passes at once.

    That is the longest or, where a decoder predicts, the one with the most to predict, if that takes more.
    """
    if len(batch) == 1:
        return 1
    known = {} if kept_bytes is None else kept_bytes
    sizes = []
    for of_sentences in batch.lengths():
        largest = sentences_of(batch, of_sentences.argmax()[None])
        size = int(largest.attention_mask.sum()), len(largest.rows)
        if size not in known:
            known[size] = bytes_kept_for_backward(model, objective, largest)
        sizes.append(known[size])
    return min(len(batch), max(1, memory_bytes // max(sizes)))


@contextmanager
def displaced(weights: list[Tensor], by: list[Tensor], times: float = 1.0) -> Iterator[None]:
    """Add `times` · `by` to the weights in place while the context is open; keeps a copy of them.

    The copy is restored, because subtracting would leave rounding errors.

    >>> weight = torch.tensor([0.1])
    >>> with displaced([weight], [torch.tensor([1.0])], times=2.0):
    ...     print(weight)
    tensor([2.1000])
    >>> weight
    tensor([0.1000])
    """
    with torch.no_grad():
        found = [weight.clone() for weight in weights]
        # One call for all, as in torch's optimisers: for small weights, the calls dominate the cost.
        torch._foreach_add_(weights, by, alpha=times)
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(weights, found)


def refuse_without_gradient(model: nn.Module, objective: Objective, batch: Batch) -> None:
    """Raise BadInput if the batch's shortest sentence, alone, cannot be run forward and backward.

    Any exception from the model's code becomes a one-sentence BadInput, except running out of memory;
    gradients that are not finite are refused too.

    >>> from isoloss.objectives.pretrained import PretrainedMasked
    >>> ids = torch.tensor([[1, 2]])
    >>> batch = PretrainedMasked().batch({"input_ids": ids, "labels": ids})
    >>> refuse_without_gradient(nn.Linear(2, 2), PretrainedMasked(), batch)
    Traceback (most recent call last):
    isoloss.errors.BadInput: Linear cannot be run forward and backward on a sentence of 2 tokens: ...
    """
    sentence = sentences_of(batch, batch.attention_mask.sum(dim=1).argmin()[None])
    try:
        with evaluation_mode(model), torch.enable_grad():
            logits = objective.logits(model, sentence)
            if not logits.requires_grad and any(each.requires_grad for each in model.parameters()):
                raise BadInput(
                    f"the scores of {type(model).__name__} depend on none of the parameters to measure; "
                    "choose others"
                )
            are_finite = _gradients_are_finite(logits.mean(), model)
    except IsolossError:
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        advice = (
            "this is the model's own code, so try another precision, longer sentences, or another version of "
            "transformers"
        )
        if any(hasattr(each, "streamed_to") for each in model.parameters()):
            advice = (
                "its weights may be read in a way in which they cannot be kept off the device: leave "
                "--offload (or stream_weights) out"
            )
        raise BadInput(
            f"{type(model).__name__} cannot be run forward and backward on a sentence of "
            f"{sentence.input_ids.shape[1]} tokens: {first_line(error)}; {advice}"
        ) from error
    if are_finite or not logits.isfinite().all():  # scores are named later, with their line
        return
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise BadInput(
                f"{name} of {type(model).__name__} holds numbers that are not finite: its training diverged, "
                "or its file is damaged; measure an earlier checkpoint, or fetch or copy it again"
            )
    raise BadInput(
        f"the gradients of {type(model).__name__} are not finite although its scores are; this is the "
        "model's own code, so try longer sentences, or another version of transformers"
    )


def _gradients_are_finite(scores: Tensor, model: nn.Module) -> bool:
    finite: list[bool] = []

    def look(gradient: Tensor) -> None:
        values = gradient.coalesce().values() if gradient.is_sparse else gradient
        # The largest takes no memory to find; a sum in double precision would copy all of them into that.
        finite.append(values.numel() == 0 or bool(torch.linalg.vector_norm(values, torch.inf).isfinite()))

    a_gradient_at_a_time(scores, model, look)
    return all(finite)


def a_gradient_at_a_time(scores: Tensor, model: nn.Module, look: Callable[[Tensor], None]) -> None:
    """Show each parameter's gradient of the number `scores`; none is kept: all take as much as the weights.

    >>> layer, seen = nn.Linear(2, 1), []
    >>> a_gradient_at_a_time(layer(torch.ones(2)).sum(), layer, seen.append)
    >>> len(seen), layer.bias.grad is None
    (2, True)
    """

    def shown(gradients: tuple[Tensor, ...]) -> tuple[None]:
        look(gradients[0])
        return (None,)  # and so nothing is accumulated

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    hooks = [get_gradient_edge(each).node.register_prehook(shown) for each in parameters]
    try:
        scores.backward()  # type: ignore[no-untyped-call]
    finally:
        for hook in hooks:
            hook.remove()
