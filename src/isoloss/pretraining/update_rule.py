"""The interface of a training step: the optimiser's update and what it needs from the loop."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.language import SentenceSource
from isoloss.models.fused_training import FusedTransformer, can_be_fused
from isoloss.objectives.batch import Batch, Objective, sentence_averaged_loss
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.objectives.tokens import PAD
from isoloss.pretraining.processes import ALONE, Processes


@runtime_checkable
class UpdateRule(Protocol):
    """Turns batches into updates of the model it was built for; owns optimiser and learning rate."""

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """Update the model's parameters once from a fresh batch; steps count from 1.

        Returns the loss in nats from which the rule started, detached and on the model's device: the batch's
        loss before the update, unless the rule says otherwise. Randomness comes from the global generators,
        which the loop seeds for each step, or from `step` and the seed the rule was built with, so that a
        step is a function of the model, the rule's state, and `step`.
        """
        ...

    def readings(self) -> dict[str, float]:
        """What the rule reports besides the loss, by name: shown in progress, stored with each checkpoint.

        A function of the rule's state, so that a resumed run reports the same.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that later steps depend on besides the model: tensors, numbers, lists and dicts."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        ...


@runtime_checkable
class ComesToRest(Protocol):
    """An optional member of a rule, which may come to where further steps change nothing."""

    @property
    def is_at_rest(self) -> bool:
        """Whether steps would change neither weights nor state: none is taken, and no batch drawn.

        A function of the rule's state.
        """
        ...


@dataclass(frozen=True)
class Training:
    """The context of a rule: the model it updates, the objective, the length, and the source of data.

    A rule that trains on more than the batch (the adversarial rule on tasks) draws it from `language`, with
    seeds derived from `seed`, and refuses a language that lacks it.

    If several processes train together, all receive the same batches and must arrive at the same weights. A
    rule that uses `add_gradient`, or `loss`, `backward` and `averaged`, does: any terms it adds to the loss
    are added equally in every process. `micro_batch` is `Compute.micro_batch`, which only `add_gradient`
    respects: a rule that needs the whole batch's loss at once refuses it.
    """

    model: nn.Module
    objective: Objective
    language: SentenceSource
    seed: int
    steps: int
    batch_size: int
    processes: Processes = ALONE
    micro_batch: int | None = None

    def share(self, batch: Batch) -> tuple[Batch, float]:
        """The share of the batch for this process, and its mean's weight in the mean over processes.

        Shares are consecutive sentences, with sizes that differ by at most one; weights are 1 on average.
        """
        count, number = self.processes.count, self.processes.number
        if count == 1:
            return batch, 1.0
        start, stop = len(batch) * number // count, len(batch) * (number + 1) // count
        return batch.part(start, stop), (stop - start) * count / len(batch)

    def add_gradient(self, batch: Batch) -> Float[Tensor, ""]:
        """Add ∇L over the batch to the parameters' gradients; returns L, as `averaged` does.

        Passes `micro_batch` sentences at a time and needs memory for no more: with n_i of n sentences,
        ∇L = Σ_i (n_i / n) ∇L_i exactly. Processes average once, at the end. If the model
        `can_be_fused`, the gradient is a `FusedTransformer`'s. This is decided at the first call, after which
        the model must keep its parameters, its dropout and its hooks.
        """
        share, weight = self.share(batch)
        at_once = self.micro_batch or len(share)
        losses = []
        for start in range(0, len(share), at_once):
            part = share if at_once >= len(share) else share.part(start, start + at_once)
            losses.append(self._add_share(part, weight * len(part) / len(share)))
        self._average_gradients()
        return self.averaged(torch.stack(losses).sum())

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        """The share's sentence-averaged loss in nats, scaled so that its mean over processes is the batch's.

        See `share` for the share and its weight.
        """
        share, weight = self.share(batch)
        loss = sentence_averaged_loss(self.objective.logits(self.model, share), share)
        return loss if weight == 1 else weight * loss

    def backward(self, loss: Float[Tensor, ""], *, keep_graph: bool = False) -> None:
        """Add ∇`loss`, as the mean over processes, to the parameters' gradients."""
        loss.backward(retain_graph=keep_graph)  # type: ignore[no-untyped-call]
        self._average_gradients()

    def averaged(self, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """The mean over processes, detached."""
        mean = value.detach().clone()
        self.processes.average([mean])
        return mean

    def refuse_micro_batches(self, rule: str) -> None:
        """Raise BadInput for a `rule` that cannot accumulate its gradient over parts of a batch."""
        if self.micro_batch is not None:
            raise BadInput(
                f"{rule} needs the whole batch at once and cannot train by micro-batches of "
                f"{self.micro_batch}; leave the micro-batch out, or take a smaller batch"
            )

    def _add_share(self, batch: Batch, share: float) -> Float[Tensor, ""]:
        """Add the gradient of `share` times the batch's loss; returns that, detached."""
        if self._fused is None or len(batch.rows) != len(batch) or torch.is_autocast_enabled("cpu"):
            loss = share * sentence_averaged_loss(self.objective.logits(self.model, batch), batch)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()
        words = batch.attention_mask & (batch.input_ids != PAD)
        mask = None if bool(words.all()) else batch.attention_mask
        scores, add_gradient = self._fused.scores(batch.input_ids, mask, batch.positions)
        loss = share * sentence_averaged_loss(scores.requires_grad_(), batch)
        (of_scores,) = torch.autograd.grad(loss, scores)
        add_gradient(of_scores)
        return loss.detach()

    @cached_property
    def _fused(self) -> FusedTransformer | None:
        usable = self.objective in (MaskedObjective(), SoftLabels()) and can_be_fused(self.model)
        return FusedTransformer(self.model) if usable else None

    def _average_gradients(self) -> None:
        if self.processes.count == 1:
            return  # finding the parameters takes 2 % of a step at width 32
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        self.processes.average(gradients)


@runtime_checkable
class UpdateRuleSettings(Protocol):
    """A frozen dataclass of numbers and strings from which a rule is built; part of a run's digest."""

    def build(self, training: Training) -> UpdateRule:
        """A rule for this training, with newly initialised state.

        Raises BadInput if the settings do not fit, before anything is trained or written.
        """
        ...
