"""Squared norms of per-sentence gradients, split by part of the model, from a single backward pass."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.utils.checkpoint import CheckpointError

from isoloss.curvature.derivatives import MeasuredParameters, parameter_group, trainable_parameters
from isoloss.curvature.per_sentence.factors import GatheredGradient, sentence_gradients, with_mean
from isoloss.curvature.per_sentence.parameter_uses import (
    AutogradGraph,
    ParameterUses,
    Use,
    method_of,
    output_layer,
)
from isoloss.curvature.per_sentence.sentence_rows import Node, SentenceRows
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode, every_parameter_recorded
from isoloss.progress import Share, unheard

MEMORY_BYTES = 1 << 30
"""Default budget for what is held at once: 1 GiB."""


_FORWARD_SHARE = 0.3
"""About how much of a pass's time its forward half takes, where progress is reported."""


@dataclass(frozen=True)
class Directions:
    """A vector c_j for each of the m predictions; the quantity measured is ||∇_θ Σ_j c_j · logits_j||².

    If the c_j are random, independent and of mean zero, `mean_squares` holds E |c_j|². Terms of the norm
    whose expectation has a closed form are then replaced by it, which removes their sampling noise: for the
    output layer's matrix with inputs h_j, Σ_{j,j'} (c_j·c_j')(h_j·h_j') becomes Σ_j E|c_j|² |h_j|². The mean
    over draws is unchanged, but a single sentence's value may be negative.
    """

    cotangents: Float[Tensor, "m v"]
    mean_squares: Float[Tensor, " m"] | None = None

    def at(self, chosen: Bool[Tensor, " m"] | Int[Tensor, " k"]) -> "Directions":
        """The directions of a subset of the predictions, or of those with these indices."""
        mean_squares = None if self.mean_squares is None else self.mean_squares[chosen]
        return Directions(self.cotangents[chosen], mean_squares)


@dataclass(frozen=True)
class PerSentenceNorms:
    """Squared norms of n sentences' gradients, float64, by part of the model; the parts add up to the total.

    `ways` gives for each parameter how its norm was computed: the kinds of operation it takes part in, "not
    used", or "per-sentence gradients" where no factored form applies.
    """

    groups: dict[str, Float[Tensor, " n"]]
    ways: dict[str, str]


def norms_along(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    draw: Callable[[Float[Tensor, "m v"]], Directions],
    *,
    part_of: Callable[[str], str] = parameter_group,
    memory_bytes: int = MEMORY_BYTES,
    share: Share = unheard,
) -> PerSentenceNorms:
    """||∇_θ Σ_j c_j · logits_j||² of every sentence, j over its predictions, c = draw(logits).

    θ are the parameters that require a gradient, each counted once even if several modules share it. Takes
    one forward and one backward pass over the batch (`draw` is called once in between, with detached logits)
    and never forms the weight gradients: the norm of a sum of outer products is computed from its factors.
    These are read from the autograd graph, which contains every use of a parameter. Per-sentence gradients
    are computed only for parameters with an unknown kind of use. Sentences may have any padding and any
    number of predictions. For random `Directions`, values have the same mean but less noise. `part_of` maps a
    parameter's name to the part of the model to which its norms are attributed; `share` is called with the
    fraction of the pass done.

    The model is evaluated without dropout and left as found, even after an exception. Memory: a forward pass
    that keeps what a backward pass needs, and `memory_bytes` for products, but at least what one sentence
    needs.

    Raises BadInput when no parameter requires a gradient, when the scores carry none, or when the model
    normalises over its batch.
    """
    MeasuredParameters.of(model)  # refuses a model without any
    parameters = trainable_parameters(model)
    n, m = len(batch), len(batch.rows)
    # Arrays distinguish sentences from positions by their number, so the numbers must differ.
    distinct = last_sentence_twice(batch) if n == batch.input_ids.shape[1] and n > 1 else batch
    _refuse_unfit_modules(model)
    with evaluation_mode(model), every_parameter_recorded(model):
        rows = SentenceRows.of(distinct)
        logits = objective.logits(model, distinct)
        if logits.grad_fn is None:
            raise BadInput(
                "the scores were computed without gradients; do so with gradients enabled, and outside "
                "torch.inference_mode"
            )
        # Before drawing, which waits for the scores: a GPU computes them meanwhile.
        uses = _known_uses(logits, rows, distinct, parameters)
        directions = draw(logits.detach()[:m])
        try:
            found = _by_factors(logits, directions, *uses, parameters, memory_bytes, share) if uses else {}
        except CheckpointError:  # as in `_known_uses`
            found = {}
        del logits, uses
        if others := {name: p for name, p in parameters.items() if name not in found}:
            from isoloss.curvature.per_sentence.every_other_parameter import squared_norms_by_sentence

            one_by_one = squared_norms_by_sentence(
                model, objective, batch, directions.cotangents, others, memory_bytes
            )
            found |= {name: ("per-sentence gradients", norms) for name, norms in one_by_one.items()}
    groups: dict[str, Tensor] = {}
    for name in parameters:
        part, norms = part_of(name), found[name][1][:n]
        groups[part] = groups.get(part, torch.zeros_like(norms)) + norms
    return PerSentenceNorms(groups, {name: found[name][0] for name in parameters})


def _known_uses(
    logits: Float[Tensor, "m v"], rows: SentenceRows, batch: Batch, parameters: dict[str, Tensor]
) -> tuple[ParameterUses, dict[str, list[Use]]] | None:
    """All uses in the graph, and, by name, those of the parameters all of whose uses are known.

    None where anything is recomputed in the backward pass: it is only available there.
    """
    try:
        uses = ParameterUses.within(AutogradGraph.below(logits), rows, batch.input_ids)
        of_each = {name: uses.of(parameter) for name, parameter in parameters.items()}
    except CheckpointError:
        return None
    return uses, {name: known for name, known in of_each.items() if known is not None}


def _by_factors(
    logits: Float[Tensor, "m v"],
    directions: Directions,
    all_uses: ParameterUses,
    uses_of: dict[str, list[Use]],
    parameters: dict[str, Tensor],
    memory_bytes: int,
    share: Share,
) -> dict[str, tuple[str, Tensor]]:
    """Methods and squared norms, by name, of the parameters all of whose uses are known, `uses_of`."""
    cotangents = _filled_up(directions.cotangents, logits)
    means = None if directions.mean_squares is None else _filled_up(directions.mean_squares, logits)
    output = output_layer(logits)
    gathered = _to_be_gathered(uses_of, parameters, memory_bytes)
    watched: dict[Node, list[tuple[str, Use]]] = defaultdict(list)
    for name, uses in uses_of.items():
        for use in uses:
            watched[use.watched].append((name, use))

    received = 0

    @torch.no_grad()
    def receive(node: Node, gradient: Tensor | None) -> None:
        nonlocal received
        received += 1
        share(_FORWARD_SHARE + (1 - _FORWARD_SHARE) * received / len(watched))
        if gradient is None:
            return
        for name, use in watched[node]:
            rows = all_uses.rows.on(gradient.device)
            factors = sentence_gradients(use, gradient, rows, all_uses)
            if factors is not None and means is not None and use.operation is output:
                factors = with_mean(factors, use, means.to(gradient.device), rows)
            gathered[name, use.part].receive(factors)

    share(_FORWARD_SHARE)
    if watched:
        _backward_pass(logits, cotangents, all_uses.graph, list(watched), receive)
    nothing = cotangents.new_zeros(all_uses.rows.sentences, dtype=torch.float64)
    found: dict[str, tuple[str, Tensor]] = {}
    for name, uses in uses_of.items():
        parts = [gathered[name, part].norms for part in {use.part for use in uses}]
        known = [norms.to(nothing.device) for norms in parts if norms is not None]
        if len(known) == len(parts):
            found[name] = method_of(uses), sum(known[1:], start=known[0]) if known else nothing
    return found


def _to_be_gathered(
    uses_of: dict[str, list[Use]], parameters: dict[str, Tensor], memory_bytes: int
) -> dict[tuple[str, int | None], GatheredGradient]:
    """What collects the gradients of each parameter, or of each of its parts, from all of its uses."""
    return {
        (name, part): GatheredGradient(
            tuple(parameters[name].shape)[part is not None :],
            sum(use.part == part for use in uses),
            memory_bytes,
        )
        for name, uses in uses_of.items()
        for part in {use.part for use in uses}
    }


def _filled_up(of_predictions: Tensor, logits: Tensor) -> Tensor:
    """Pads with zeros for the predictions of a repeated sentence."""
    more = of_predictions.new_zeros(len(logits) - len(of_predictions), *of_predictions.shape[1:])
    return torch.cat([of_predictions, more]) if len(more) else of_predictions


def _backward_pass(
    logits: Float[Tensor, "m v"],
    cotangents: Float[Tensor, "m v"],
    graph: AutogradGraph,
    watched: list[Node],
    receive: Callable[[Node, Tensor | None], None],
) -> None:
    """Report the gradient that reaches each of the nodes `watched`, as soon as it arrives.

    Only the gradients at the lowest of these nodes are requested, so that autograd computes no weight
    gradient.
    """
    above = graph.above(set(watched))
    lowest = [node for node in watched if node not in above]
    hooks = [
        node.register_prehook(lambda found, node=node: receive(node, found[0]))
        for node in watched
        if node in above
    ]
    try:
        edges = [GradientEdge(node, 0) for node in lowest]
        at_lowest = torch.autograd.grad(logits, edges, cotangents)
    finally:
        for hook in hooks:
            hook.remove()
    for node, gradient in zip(lowest, at_lowest, strict=True):
        receive(node, gradient)


def _refuse_unfit_modules(model: nn.Module) -> None:
    """Raise BadInput for a layer without gradients, or one that lets sentences depend on each other.

    The former are torch's quantized layers, the latter norms over the batch.
    """
    for name, module in model.named_modules():
        if ".quantized." in type(module).__module__:
            raise BadInput(
                f"{name} is quantized ({type(module).__name__}), and no gradient goes through it; measure "
                "the model as it was before"
            )
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not module.track_running_stats:
            raise BadInput(
                f"{name} normalises over the batch, so that a sentence has no gradient of its own; give it "
                "running statistics, or replace it by a layer norm"
            )


def last_sentence_twice(batch: Batch) -> Batch:
    """The batch with a copy of its last sentence and of that sentence's predictions appended."""
    last = batch.rows == len(batch) - 1
    return Batch(
        **batch.per_sentence(lambda array: torch.cat([array, array[-1:]])),
        rows=torch.cat([batch.rows, batch.rows[last] + 1]),
        positions=torch.cat([batch.positions, batch.positions[last]]),
        targets=torch.cat([batch.targets, batch.targets[last]]),
    )
