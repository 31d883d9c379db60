"""The trace of the Fisher information of any torch model, with its error bar (paper B.1)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.curvature.measured_parameters import MeasuredParameters
from isoloss.curvature.per_sentence_norms import MEMORY_BYTES
from isoloss.curvature.sentence_traces import (
    LayoutNotUnderstoodError,
    SentenceTraces,
    sentence_fisher_traces,
)
from isoloss.curvature.stopping import Stopping, measure_until
from isoloss.estimate import Estimate, mean_over_sentences, mean_over_tokens, paired_difference
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation_mode import device_of
from isoloss.objectives.sentences_apart import SentencesApart
from isoloss.progress import Progress, silent

TRACE_UNIT = "nats per squared parameter"


@dataclass(frozen=True)
class FisherTrace:
    """One unbiased value of the trace a sentence, and their mean; in nats per squared parameter.

    `groups` splits the values by the part of the model (see `parameter_group`), `values` is their sum;
    `predictions` counts each sentence's. `parameters` says what was differentiated and what was frozen,
    `ways` the method that gave each parameter's part, `stopped` why there are as many sentences as there are.
    Models measured on the same batches with the same seed share sentences, masks and signs: compare them
    by `difference`.
    """

    groups: dict[str, Float[Tensor, " n"]]
    predictions: Int[Tensor, " n"]
    parameters: MeasuredParameters
    ways: dict[str, str] = field(default_factory=dict)
    stopped: str = ""

    @property
    def values(self) -> Float[Tensor, " n"]:
        """Each sentence's unbiased value of the whole trace, float64."""
        return torch.stack(list(self.groups.values())).sum(dim=0)

    @property
    def estimate(self) -> Estimate:
        """The trace, with its standard error over sentences; every sentence counts alike."""
        return mean_over_sentences(self.values)

    @property
    def group_estimates(self) -> dict[str, Estimate]:
        """The trace of each group; the values add up to the whole's."""
        return {name: mean_over_sentences(values) for name, values in self.groups.items()}

    def difference(self, reference: "FisherTrace") -> Estimate:
        """Less `reference`, both of the same sentences and seed, with the error of the difference."""
        return paired_difference(self.values, reference.values)

    @property
    def token_averaged(self) -> Estimate:
        """The trace with every prediction counting alike: another number where their counts differ."""
        return mean_over_tokens(self.values, self.predictions)


class RunningFisherTrace:
    """A `FisherTrace` that takes in sentences batch by batch; see `fisher_trace`, which runs it."""

    def __init__(
        self, model: nn.Module, objective: Objective, seed: int, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self.parameters = MeasuredParameters.of(model)
        self.sentences = 0
        self.apart = SentencesApart(model, objective)
        self._model = model
        self._seed, self._memory_bytes = seed, memory_bytes
        self._groups: dict[str, list[Tensor]] = {}
        self._predictions: list[Tensor] = []
        self._ways: dict[str, str] = {}
        self._compared = False

    def add(self, batch: Batch) -> None:
        """Take in the batch's sentences, which are numbered on from those before."""
        batch = batch.to(device_of(self._model))
        try:
            traces = self._traces(batch)
        except LayoutNotUnderstoodError:
            self.apart.take_one_at_a_time()
            traces = self._traces(batch)
        self._compared |= traces.compared
        for name, values in traces.groups.items():
            self._groups.setdefault(name, []).append(values.cpu())
        self._predictions.append(torch.bincount(batch.rows.cpu(), minlength=len(batch)))
        self._ways.update(traces.ways)
        self.sentences += len(batch)

    def _traces(self, batch: Batch) -> SentenceTraces:
        return sentence_fisher_traces(
            self._model,
            self.apart.objective(batch),
            batch,
            seed=self._seed,
            first_sentence=self.sentences,
            memory_bytes=self._memory_bytes,
            compare=not self._compared,
        )

    @property
    def estimate(self) -> Estimate | None:
        """See `RunningEstimate.estimate`."""
        return self.result("").estimate if self.sentences > 1 else None

    def result(self, stopped: str, sentences: int | None = None) -> FisherTrace:
        """What is known by now, of the first `sentences` only where that is given."""
        kept = self.sentences if sentences is None else sentences
        groups = {name: torch.cat(values)[:kept] for name, values in self._groups.items()}
        predictions = torch.cat(self._predictions)[:kept]
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
    """Tr F = E_{t, x_{-t}} E_{y ~ f(x_{-t})} ||∇_θ log f(x_{-t})_y||² (B.1), θ what needs a gradient.

    Labels are the model's own and never the data's; instead of sampling them, one draw of signs a
    sentence gives a value with the same mean and a bounded variance (`fisher_directions`). The loss
    averages over a sentence's M predictions, and so does the trace: one draw for all M predictions at
    once has the sum of their traces as its mean, since the draws are independent with mean zero, and is
    divided by M. Dropout is off; the model is left as found.

    Batches are read until the standard error is `relative_error` of the value (not before `FEWEST`
    sentences), until so many `sentences` or `seconds`, or to their end. Sentence i's signs come from `seed`
    and i: how sentences are batched changes nothing, also where padding or a neighbour would change a model's
    scores (`SentencesApart`). `memory_bytes` bounds what is held at once beside the
    model; a number a sentence is kept for each group.

    Raises BadInput when there are fewer than two sentences, when a number asked makes no sense, when no
    parameter needs a gradient, or when a logit is not finite, naming the sentence.

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
    expected = sum(map(len, batches)) if isinstance(batches, list | tuple) else None
    stopped = measure_until(
        [running], batches, stopping, task="Fisher trace", expected=expected, progress=progress
    )
    return running.result(stopped)
