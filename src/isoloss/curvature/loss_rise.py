"""How much each sentence's loss rises when the weights are moved."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.label_distributions import (
    LabelDistribution,
    NonFiniteScores,
    distribution_over,
    refuse_non_finite,
)
from isoloss.curvature.measured_parameters import trainable_parameters
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective, split_sentences
from isoloss.objectives.evaluation_mode import FORWARD_MEMORY_BYTES, displaced, rows_at_once


@torch.no_grad()
def sentence_losses(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, " n"]:
    """Each sentence's mean cross entropy over its predictions, in nats and float64; see `mean_loss`.

    Their mean is the sentence-averaged loss. Runs as many sentences at once as fit into
    `FORWARD_MEMORY_BYTES`. Raises BadInput where a logit is not finite, naming the sentence.
    """
    at_once = rows_at_once(model, batch.input_ids.shape[1], FORWARD_MEMORY_BYTES)
    losses: list[Tensor] = []
    for part in split_sentences(batch, -(-len(batch) // at_once)):
        logits = objective.logits(model, part)
        refuse_non_finite(logits, part, first_sentence + sum(map(len, losses)))
        targets = (
            part.targets
            if distribution is None
            else distribution_over(distribution, part, logits.shape[1]).to(logits)
        )
        of_predictions = nn.functional.cross_entropy(logits, targets, reduction="none").double()
        sums = torch.zeros(len(part), dtype=torch.float64, device=logits.device)
        sums.index_add_(0, part.rows, of_predictions)
        losses.append(sums / torch.bincount(part.rows, minlength=len(part)))
    return torch.cat(losses)


@dataclass(frozen=True)
class LossAtRest:
    """A batch's losses at the current weights, the reference for losses elsewhere.

    `first_sentence` is the number of the batch's first sentence, for error messages. The model must be in
    evaluation mode.
    """

    model: nn.Module
    objective: Objective
    batch: Batch
    first_sentence: int
    distribution: LabelDistribution | None
    losses: Float[Tensor, " n"]

    @staticmethod
    def of(
        model: nn.Module,
        objective: Objective,
        batch: Batch,
        first_sentence: int,
        distribution: LabelDistribution | None,
    ) -> "LossAtRest":
        """Measure the losses. Raises BadInput as `sentence_losses` does."""
        losses = sentence_losses(model, objective, batch, first_sentence, distribution)
        return LossAtRest(model, objective, batch, first_sentence, distribution, losses)

    def rise(self, direction: Mapping[str, Tensor], times: float) -> Float[Tensor, " n"]:
        """Each sentence's loss at θ + `times` · `direction` minus its loss at θ, on the CPU.

        `direction` has a tensor for each trainable parameter, by name. θ is restored bit for bit from a copy.
        Raises BadInput if a logit is not finite at the new weights.
        """
        weights = trainable_parameters(self.model)
        try:
            with displaced(list(weights.values()), [direction[name] for name in weights], times):
                moved = sentence_losses(
                    self.model, self.objective, self.batch, self.first_sentence, self.distribution
                )
        except NonFiniteScores as error:
            raise BadInput(
                f"the weights moved by {times:g} times the direction give scores that are not finite; "
                "move them less"
            ) from error
        return (moved - self.losses).cpu()


def refuse_unusable_strengths(strengths: tuple[float, ...], called: str) -> None:
    """Raise BadInput unless there is at least one strength, and all are positive, finite and distinct."""
    if not strengths or len(set(strengths)) < len(strengths):
        raise BadInput(f"give at least one of the {called}, each once, not {strengths}")
    if not all(0 < strength < float("inf") for strength in strengths):
        raise BadInput(f"the {called} must be positive numbers, not {strengths}")
