"""The trace of the Fisher information relative to the size of the weights: flatness in nats."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, trainable_parameters
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.per_sentence.traces import sentence_fisher_traces
from isoloss.curvature.stopping import refuse_too_few
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation_mode import device_of
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, mean_over_sentences, paired_difference

TASK = "normalised trace"


@dataclass(frozen=True)
class NormalisedTrace:
    """One unbiased value per sentence of each of two normalisations; both in nats, float64.

    `by_tensor` is Σ_W (||W||² / |W|) Tr F_W over the tensors W of |W| numbers each. Multiplying one tensor by
    a factor and dividing another by it such that the function stays the same (as with a ReLU between two
    layers) leaves it unchanged, unlike the trace (Dinh et al. 2017). ||W||² Tr H_W is the flatness measure of
    Petzka et al. 2019 ("A Reparameterization-Invariant Flatness Measure for Deep Neural Networks"), and an
    upper bound on that of Petzka et al. 2021 ("Relative Flatness and Generalization"), Σ_{s,s'} (w_s·w_s') Tr
    H_{ss'} over a layer's neurons. Both are measures of one layer. After division by |W|, they can be summed
    over layers: σ²/2 times the sum is the rise of the loss under noise of σ times the weights' own size
    (`noise_sensitivity`), to second order and at saturation, where F is the Hessian. Zero tensors do not
    contribute.

    `whole` is (||θ||² / P) Tr F over all P parameters together, which corresponds to noise of the same scale
    in all tensors. It is invariant only if all weights are rescaled alike.
    """

    by_tensor: Float[Tensor, " n"]
    whole: Float[Tensor, " n"]
    parameters: MeasuredParameters

    @property
    def estimate(self) -> Estimate:
        """`by_tensor` with its standard error over sentences."""
        return mean_over_sentences(self.by_tensor)

    @property
    def whole_estimate(self) -> Estimate:
        """`whole` with its standard error over sentences."""
        return mean_over_sentences(self.whole)

    def difference(self, reference: "NormalisedTrace") -> Estimate:
        """The difference in `by_tensor` from `reference` on the same sentences and seed, with its error."""
        return paired_difference(self.by_tensor, reference.by_tensor)


def normalised_trace(
    model: nn.Module,
    batches: Sequence[Batch],
    objective: Objective,
    *,
    seed: int = 0,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> NormalisedTrace:
    """Both normalisations of the trace in one pass, with signs, memory and errors as in `fisher_trace`.

    Raises BadInput for fewer than two sentences, when no parameter needs a gradient, and where a logit is
    not finite.
    """
    n = sum(map(len, batches))
    refuse_too_few(n)
    measured, parameters = MeasuredParameters.of(model), trainable_parameters(model)
    squares = {name: float(p.detach().double().square().sum()) for name, p in parameters.items()}
    mean_square = sum(squares.values()) / measured.count
    by_tensor: list[Tensor] = []
    whole: list[Tensor] = []
    done, compared = 0, False
    for batch in batches:
        found = sentence_fisher_traces(
            model,
            objective,
            batch.to(device_of(model)),
            seed=seed,
            first_sentence=done,
            part_of=str,  # every tensor is its own part
            memory_bytes=memory_bytes,
            compare=not compared,
        )
        traces, compared = found.groups, compared or found.compared
        of_tensors = [values * (squares[name] / parameters[name].numel()) for name, values in traces.items()]
        by_tensor.append(torch.stack(of_tensors).sum(dim=0).cpu())
        whole.append(mean_square * torch.stack(list(traces.values())).sum(dim=0).cpu())
        done += len(batch)
        progress(TASK, done, n)
    return NormalisedTrace(torch.cat(by_tensor), torch.cat(whole), measured)
