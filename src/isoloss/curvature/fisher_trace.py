"""The trace of the Fisher information of any torch model, with its error bar (paper B.1)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.per_sentence_norms import MEMORY_BYTES
from isoloss.curvature.sentence_traces import sentence_fisher_traces
from isoloss.errors import BadInput
from isoloss.estimate import Estimate, mean_over_sentences
from isoloss.objectives.batch import Batch, Objective
from isoloss.progress import Progress, silent


@dataclass(frozen=True)
class FisherTrace:
    """One unbiased value of the trace a sentence, and their mean.

    `groups` splits the values by the part of the model (see `parameter_group`), `values` is their sum.
    `frozen` names the parameters left out because they require no gradient; `parameters` counts the
    numbers differentiated, each once however many modules share it. Unit: nats per squared parameter.
    Checkpoints measured on the same batch with the same seed share sentences, masks and signs: compare
    them by `paired_difference` of their `values`.
    """

    groups: dict[str, Float[Tensor, " n"]]
    parameters: int
    frozen: tuple[str, ...]

    @property
    def values(self) -> Float[Tensor, " n"]:
        """Each sentence's unbiased value of the whole trace, float64."""
        return torch.stack(list(self.groups.values())).sum(dim=0)

    @property
    def estimate(self) -> Estimate:
        """The trace, with its standard error over sentences."""
        return mean_over_sentences(self.values)

    @property
    def group_estimates(self) -> dict[str, Estimate]:
        """The trace of each group; the values add up to the whole's."""
        return {name: mean_over_sentences(values) for name, values in self.groups.items()}


def fisher_trace(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    *,
    seed: int,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> FisherTrace:
    """Tr F = E_{t, x_{-t}} E_{y ~ f(x_{-t})} ||∇_θ log f(x_{-t})_y||² over the batch (B.1, spec 5).

    Labels are the model's own and never the data's; instead of sampling them, one draw of signs a
    sentence gives a value with the same mean and a bounded variance (`fisher_cotangents`). The loss
    averages over a sentence's M predictions, and so does the trace: one draw for all M predictions at
    once has the sum of their traces as its mean, since the draws are independent with mean zero, and is
    divided by M. Dropout is off; the model is left as found. `memory_bytes` bounds the gradients held
    at once, at least one sentence's; the result does not depend on it.

    Raises BadInput when nothing is there to measure, or when a logit is not finite, naming the sentence.
    """
    if len(batch) == 0:
        raise BadInput("there are no sentences to measure the trace on; give at least 2")
    traces = sentence_fisher_traces(model, objective, batch, seed=seed, memory_bytes=memory_bytes)
    progress("trace", len(batch), len(batch))
    named = list(model.named_parameters())
    return FisherTrace(
        traces.groups,
        parameters=sum(p.numel() for _, p in named if p.requires_grad),
        frozen=tuple(name for name, p in named if not p.requires_grad),
    )
