"""The exponential average of a model's weights over its training steps."""

import copy

import torch
from transformers import PreTrainedModel


class WeightAverage:
    """A copy of a model that holds the running average of its weights after each step.

    After step t, with θ_t the weights and h the horizon in steps,

        average_t = average_{t-1} + (θ_t - average_{t-1}) / min(t, h) :

    the plain mean of all steps until there are h of them, so that the initial weights are not retained for
    longer than others, and from then on the exponential average with decay 1 - 1/h (Polyak averaging as in
    torch.optim.swa_utils.AveragedModel), in which a step's weight falls by a factor of e in h further steps.

    It has the precision of the weights. Tied parameters are tied in the copy and averaged once; buffers are
    those of the model, not averaged. The average depends only on the weights and t: with both, training
    resumes from any step with bit-identical results.

    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> model = PreLayerNormTransformer(laptop_shape(16)).build(12, 8, seed=0)
    >>> average = WeightAverage(model, horizon=4)
    >>> for step, value in enumerate((1.0, 2.0, 6.0), start=1):
    ...     _ = model.get_input_embeddings().weight.data.fill_(value)
    ...     average.update(step)
    >>> average.model.get_input_embeddings().weight[0, 0].item()
    3.0
    """

    def __init__(self, model: PreTrainedModel, horizon: int) -> None:
        self.model: PreTrainedModel = copy.deepcopy(model)
        self._horizon = horizon
        # Listed once: walking over the modules at each step would take longer than the average itself.
        self._averages, self._weights = list(self.model.parameters()), list(model.parameters())
        self._copies, self._buffers = list(self.model.buffers()), list(model.buffers())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the model's weights after `step`, counted from 1."""
        torch._foreach_lerp_(self._averages, self._weights, 1 / min(step, self._horizon))
        for held, buffer in zip(self._copies, self._buffers, strict=True):
            held.copy_(buffer)
