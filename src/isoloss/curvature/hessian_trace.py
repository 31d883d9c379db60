"""The trace of the loss's Hessian, split into the trace of the Fisher information and a residual."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.curvature.derivatives import (
    MeasuredParameters,
    hessian_vector_product,
    inner_products_by_group,
    sign_probe,
    trainable_parameters,
)
from isoloss.curvature.fisher_trace import RunningFisherTrace
from isoloss.curvature.loss import BatchLoss, losses_of
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.stopping import Stopping, measure_until
from isoloss.objectives.batch import Batch, Objective, split_sentences
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.objectives.pretrained import SentencesApart
from isoloss.progress import Progress, Share, silent, unheard
from isoloss.results.estimate import Estimate, mean_over_members

SENTENCES_A_PROBE = 8
"""Sentences that share one probe, and are one cluster of the error bar."""


@dataclass(frozen=True)
class HessianTrace:
    """One unbiased value of the trace per cluster of sentences; in nats per squared parameter.

    `fisher` and `residual` split each cluster's value, by group, into the trace of the Fisher information and
    the rest of the Hessian's, which vanishes if the model's distribution equals that of the labels (Lemma
    3.2); `sentences` is the number of sentences per cluster. The other fields are as in `FisherTrace`.
    """

    fisher: dict[str, Float[Tensor, " k"]]
    residual: dict[str, Float[Tensor, " k"]]
    sentences: Int[Tensor, " k"]
    parameters: MeasuredParameters
    ways: dict[str, str] = field(default_factory=dict)
    stopped: str = ""

    @property
    def values(self) -> Float[Tensor, " k"]:
        """Each cluster's unbiased value of the total trace, float64."""
        return _sum(self.fisher) + _sum(self.residual)

    @property
    def estimate(self) -> Estimate:
        """The trace of the Hessian; `n` counts clusters, and every sentence has equal weight."""
        return mean_over_members(self.values, self.sentences)

    @property
    def residual_estimate(self) -> Estimate:
        """Tr H - Tr F, with the standard error of this difference itself."""
        return mean_over_members(_sum(self.residual), self.sentences)

    @property
    def group_estimates(self) -> dict[str, Estimate]:
        """The trace of each group's diagonal block of the Hessian; the groups add up to the total."""
        return {
            name: mean_over_members(values + self.residual[name], self.sentences)
            for name, values in self.fisher.items()
        }


_PROBES_SHARE = 0.7
"""About how much of the time the products with probes take, where progress is reported."""


class RunningHessianTrace:
    """Accumulates a `HessianTrace` batch by batch; see `hessian_trace`, which runs it."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        seed: int,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self.sentences = 0
        self._fisher = RunningFisherTrace(model, objective, seed, memory_bytes)
        self._model, self._seed = model, seed
        self._residual: dict[str, list[float]] = {}
        self._sizes: list[int] = []

    def add(self, batch: Batch, share: Share = unheard) -> None:
        """Add the batch's sentences; clusters do not span batches."""
        batch = batch.to(device_of(self._model))
        # At least two clusters, so that a single batch already has an error bar.
        clusters = max(min(2, len(batch)), -(-len(batch) // SENTENCES_A_PROBE))
        objective = self.apart.objective(batch)
        parts, residuals = split_sentences(batch, clusters), list[dict[str, float]]()
        for loss in losses_of(self._model, parts, objective, self.sentences):
            residuals.append(self._residual_of(loss))
            share(_PROBES_SHARE * len(residuals) / len(parts))
        self._fisher.add(batch, lambda done: share(_PROBES_SHARE + (1 - _PROBES_SHARE) * done))
        for residual in residuals:
            for name, value in residual.items():
                self._residual.setdefault(name, []).append(value)
        self._sizes += [len(part) for part in parts]
        self.sentences += len(batch)

    @property
    def apart(self) -> SentencesApart:
        """How sentences are kept apart, the same as for the Fisher trace."""
        return self._fisher.apart

    def _residual_of(self, loss: BatchLoss) -> dict[str, float]:
        parameters = trainable_parameters(self._model)
        probe = sign_probe(parameters, f"{self._seed} probe {loss.first_sentence}")
        with evaluation_mode(self._model):
            product = hessian_vector_product(loss.label_surprise, parameters, probe)
        return inner_products_by_group(probe, product)

    @property
    def estimate(self) -> Estimate | None:
        return self.result("").estimate if len(self._sizes) > 1 else None

    def result(self, stopped: str, sentences: int | None = None) -> HessianTrace:
        """The result so far, restricted to whole clusters within the first `sentences` if given."""
        sizes = torch.tensor(self._sizes)
        if sentences is not None:
            sizes = sizes[sizes.cumsum(0) <= sentences]
        fisher = self._fisher.result(stopped, int(sizes.sum()))
        means = {
            name: torch.stack([part.mean() for part in torch.split(values, sizes.tolist())])
            for name, values in fisher.groups.items()
        }
        residual = {
            name: torch.tensor(self._residual[name][: len(sizes)], dtype=torch.float64) for name in means
        }
        return HessianTrace(means, residual, sizes, fisher.parameters, fisher.ways, stopped)


def hessian_trace(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    seed: int = 0,
    relative_error: float | None = None,
    sentences: int | None = None,
    seconds: float | None = None,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> HessianTrace:
    """Tr ∇²L of the sentence-averaged loss, under the batches' labels, drawn or soft.

    Tr ∇²L = Tr F + Tr R exactly, whatever the labels (`BatchLoss.label_surprise`). The first term is
    estimated with `fisher_trace`'s signs, and only the second with ±1 probes v, E v·Rv = Tr R (Hutchinson
    1990). Hence Tr H - Tr F, which vanishes at saturation, has an estimate and an error of its own; the
    total's error is about that of probing the whole Hessian, since R has large off-diagonal entries long
    before its trace is small.

    Each cluster of at most `SENTENCES_A_PROBE` sentences has its own probe: clusters are independent in both
    sentences and probes, so the deviation over clusters accounts for both. Restricted to a group's
    coordinates, the mean of v·Rv is the trace of that group's block.

    Arguments, stopping criteria and errors are those of `fisher_trace`. Clusters do not span batches, so
    batching changes the probes, and nothing else. Memory: four times that of a backward pass of
    `SENTENCES_A_PROBE` sentences, plus one probe.
    """
    running = RunningHessianTrace(model, objective, seed, memory_bytes)
    stopping = Stopping(relative_error, sentences, seconds)
    stopped = measure_until([running], batches, stopping, task="Hessian trace", progress=progress)
    return running.result(stopped)


def _sum(groups: Mapping[str, Tensor]) -> Float[Tensor, " k"]:
    return torch.stack(list(groups.values())).sum(dim=0)
