"""The trace of the Fisher information of any torch model (B.1), and relative to the size of the weights."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, parameter_group, trainable_parameters
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.per_sentence.traces import DiffersAloneError, SentenceTraces, sentence_fisher_traces
from isoloss.curvature.stopping import Stopping, measure_until, refuse_too_few
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import KeptBytes, device_of
from isoloss.objectives.pretrained import SentencesApart
from isoloss.progress import Progress, Share, silent, unheard
from isoloss.results.estimate import Estimate, mean_over_members, sample_mean

TRACE_UNIT = "nats per squared parameter"


@dataclass(frozen=True)
class FisherTrace:
    """One unbiased value of the trace per sentence, and their mean; in nats per squared parameter.

    `groups` splits the values by part of the model (see `parameter_group`), and `values` is their sum;
    `predictions` is the number of predictions of each sentence. `parameters` says what was differentiated and
    what was frozen, `ways` which method computed each parameter's part, `stopped` why the measurement ended.
    Models measured on the same batches with the same seed share sentences, masks and signs: compare them with
    `difference`.
    """

    groups: dict[str, Float[Tensor, " n"]]
    predictions: Int[Tensor, " n"]
    parameters: MeasuredParameters
    ways: dict[str, str] = field(default_factory=dict)
    stopped: str = ""

    @property
    def values(self) -> Float[Tensor, " n"]:
        """Each sentence's unbiased value of the total trace, float64."""
        return torch.stack(list(self.groups.values())).sum(dim=0)

    @property
    def estimate(self) -> Estimate:
        """The trace with its standard error over sentences; every sentence has equal weight."""
        return sample_mean(self.values)

    @property
    def group_estimates(self) -> dict[str, Estimate]:
        """The trace of each group; the groups add up to the total."""
        return {name: sample_mean(values) for name, values in self.groups.items()}

    @property
    def token_averaged(self) -> Estimate:
        """The trace with equal weight per prediction, not per sentence."""
        return mean_over_members(self.values, self.predictions)


class RunningFisherTrace:
    """Accumulates a `FisherTrace` batch by batch; see `fisher_trace`, which runs it.

    `part_of` maps a parameter's name to its group.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        seed: int,
        memory_bytes: int = MEMORY_BYTES,
        part_of: Callable[[str], str] = parameter_group,
    ) -> None:
        self.parameters = MeasuredParameters.of(model)
        self.sentences = 0
        self.apart = SentencesApart(model, objective)
        self._model = model
        self._seed, self._memory_bytes, self._part_of = seed, memory_bytes, part_of
        self._groups: dict[str, list[Tensor]] = {}
        self._predictions: list[Tensor] = []
        self._ways: dict[str, str] = {}
        self._compared = False
        self._kept_bytes: KeptBytes = {}

    def add(self, batch: Batch, share: Share = unheard) -> None:
        """Add the batch's sentences, numbered consecutively after the previous ones."""
        if not len(batch):
            return
        batch = batch.to(device_of(self._model))
        try:
            traces = self._traces(batch, share)
        except DiffersAloneError:
            self.apart.take_one_at_a_time()
            traces = self._traces(batch, share)
        self._compared |= traces.compared
        for name, values in traces.groups.items():
            self._groups.setdefault(name, []).append(values.cpu())
        self._predictions.append(torch.bincount(batch.rows.cpu(), minlength=len(batch)))
        self._ways.update(traces.ways)
        self.sentences += len(batch)

    def _traces(self, batch: Batch, share: Share) -> SentenceTraces:
        return sentence_fisher_traces(
            self._model,
            self.apart.objective(batch),
            batch,
            seed=self._seed,
            first_sentence=self.sentences,
            part_of=self._part_of,
            memory_bytes=self._memory_bytes,
            compare=not self._compared,
            kept_bytes=self._kept_bytes,
            share=share,
        )

    @property
    def estimate(self) -> Estimate | None:
        return self.result("").estimate if self.sentences > 1 else None

    def result(self, stopped: str, sentences: int | None = None) -> FisherTrace:
        """The result so far, restricted to the first `sentences` if given."""
        groups = {name: torch.cat(values)[:sentences] for name, values in self._groups.items()}
        predictions = torch.cat(self._predictions)[:sentences]
        return FisherTrace(groups, predictions, self.parameters, dict(self._ways), stopped)


def fisher_trace(
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
) -> FisherTrace:
    """Tr F = E_{t, x_{-t}} E_{y ~ f(x_{-t})} ||∇_θ log f(x_{-t})_y||² (B.1), over θ that require a gradient.

    Labels come from the model's distribution and never from the data. Instead of sampling them, one draw
    of random signs per sentence gives a value with the same mean and bounded variance (`fisher_directions`).
    The loss averages over a sentence's M predictions, and so does the trace: since the signs of different
    predictions are independent with mean zero, a single draw for all M predictions has the sum of their
    traces as its mean, which is then divided by M. Dropout is off; the model is left as found.

    Batches are read until the standard error falls to `relative_error` times the value (after at least
    `FEWEST` sentences), until the limit of `sentences` or `seconds`, or to their end. Sentence i's signs
    depend only on `seed` and i, so batching does not change the result, even if padding or a neighbouring
    sentence would change a model's scores (`SentencesApart`). `memory_bytes` bounds the memory held at once
    beside the model; one number per sentence is kept for each group.

    Raises BadInput for fewer than two sentences, for an invalid stopping criterion, if no parameter requires
    a gradient, or if a logit is not finite, naming the sentence.

    >>> from transformers import BertConfig, BertForMaskedLM
    >>> from isoloss.objectives.pretrained import PretrainedMasked
    >>> size = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> model = BertForMaskedLM(BertConfig(vocab_size=9, **size))
    >>> ids = torch.tensor([[3, 4, 2, 6], [5, 2, 7, 8]])
    >>> inputs = {"input_ids": ids, "labels": torch.tensor([[5, 6, 7, 8]] * 2).where(ids == 2, -100)}
    >>> trace = fisher_trace(model, [PretrainedMasked().batch(inputs)], PretrainedMasked())
    >>> trace.estimate.n, trace.stopped, bool((trace.values > 0).all())
    (2, 'the sentences ended', True)
    """
    running = RunningFisherTrace(model, objective, seed, memory_bytes)
    stopping = Stopping(relative_error, sentences, seconds)
    stopped = measure_until([running], batches, stopping, task="Fisher trace", progress=progress)
    return running.result(stopped)


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
    over layers: σ²/2 times the sum is the rise of the loss under noise of σ times the weights' size
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
        return sample_mean(self.by_tensor)

    @property
    def whole_estimate(self) -> Estimate:
        """`whole` with its standard error over sentences."""
        return sample_mean(self.whole)


def normalised_trace(
    model: nn.Module,
    batches: Iterable[Batch],
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
    batches = list(batches)
    n = sum(map(len, batches))
    refuse_too_few(n)
    measured, parameters = MeasuredParameters.of(model), trainable_parameters(model)
    squares = {name: float(p.detach().double().square().sum()) for name, p in parameters.items()}
    running = RunningFisherTrace(model, objective, seed, memory_bytes, part_of=str)
    for batch in batches:
        running.add(batch)
        progress(TASK, running.sentences, n)
    traces = running.result("").groups
    of_tensors = [
        values * (squares[name] / max(1, parameters[name].numel())) for name, values in traces.items()
    ]
    whole = torch.stack(list(traces.values())).sum(dim=0) * (sum(squares.values()) / measured.count)
    return NormalisedTrace(torch.stack(of_tensors).sum(dim=0), whole, measured)
