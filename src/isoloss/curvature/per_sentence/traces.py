"""Per-sentence unbiased values of the trace of the Fisher information (paper B.1), within a memory limit."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from isoloss.curvature.derivatives import parameter_group
from isoloss.curvature.per_sentence.directions import Directions, drawn_directions, sign_bits
from isoloss.curvature.per_sentence.norms import (
    MEMORY_BYTES,
    PerSentenceNorms,
    every_parameter_recorded,
    norms_along,
)
from isoloss.device import is_out_of_memory
from isoloss.errors import BadInput, IsolossError
from isoloss.objectives.batch import Batch, NonFiniteScores, Objective, refuse_non_finite, sentences_of
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.objectives.pretrained import EqualLengths
from isoloss.progress import Share, unheard


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


class DiffersAloneError(BadInput):
    """The gradient of a sentence differs alone and beside others, which it must not where it is computed."""


@dataclass(frozen=True)
class SentenceTraces:
    """Values of n sentences by part of the model, float64, which add up to the total trace.

    `ways` names the method used for each parameter; see `PerSentenceNorms`. `compared` says whether a
    sentence was checked to have the same gradient alone as when batched with others.
    """

    groups: dict[str, Float[Tensor, " n"]]
    ways: dict[str, str]
    compared: bool = False


def sentence_fisher_traces(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    *,
    seed: int,
    first_sentence: int = 0,
    part_of: Callable[[str], str] = parameter_group,
    memory_bytes: int = MEMORY_BYTES,
    compare: bool = True,
    kept_bytes: KeptBytes | None = None,
    share: Share = unheard,
) -> SentenceTraces:
    """One value per sentence, with mean E_t E_{y ~ f(x_{-t})} ||∇_θ log f(x_{-t})_y||² (B.1).

    The loss averages over a sentence's M predictions, and so does the trace: ||∇ Σ_j δ_j · logits_j||² / M,
    with one draw δ of `fisher_directions` for all M predictions, independent with mean zero. The output
    layer's part is replaced by its mean, Σ_j (1 - |p_j|²) (|h_j|² + 1) / M, where h_j is the layer's input
    and the 1 its bias: only the rest has noise from the draw, which can make a value negative. Sentence i's
    signs depend only on `seed` and `first_sentence` + i, so that batching changes nothing beyond rounding.
    Runs as many sentences at once as fit into `memory_bytes`, at least one; if memory runs out nevertheless,
    half as many; `kept_bytes` remembers from batch to batch what a sentence takes. With `EqualLengths`,
    sentences are measured one length at a time. `part_of` maps a parameter's name to its part of the model.
    With `compare`, the first sentence that shares a pass with others is also measured alone, which must give
    the same value. `share` is called with the fraction of the batch done, also within a pass. The model is
    evaluated without dropout and left as found.

    Raises BadInput for an empty batch, if a logit or a gradient is not finite, naming the sentence, if a
    sentence measured alone differs (`DiffersAloneError`), and as `norms_along` does; IsolossError if not even
    one sentence fits into memory.
    """
    n = len(batch)
    if n == 0:
        raise BadInput("there are no sentences to measure the trace on; give at least 2")
    reads, groups = objective, [torch.arange(n, device=batch.rows.device)]
    if isinstance(objective, EqualLengths):
        reads, groups = objective.objective, objective.groups(batch)
    at_once = sentences_at_once(model, reads, batch, memory_bytes, kept_bytes)
    along = partial(norms_along, model, reads, part_of=part_of, memory_bytes=memory_bytes)
    passes = _Passes(along, batch, seed, first_sentence, share, compare)
    values: dict[str, Tensor] = defaultdict(
        lambda: torch.zeros(n, dtype=torch.float64, device=batch.rows.device)
    )
    ways: dict[str, str] = {}
    for sentences, norms in _as_memory_allows(passes.norms, groups, at_once, first_sentence):
        predictions = torch.bincount(sentences_of(batch, sentences).rows)
        for name, of_each in norms.groups.items():
            values[name][sentences] = of_each / predictions
        ways |= norms.ways
    return SentenceTraces(dict(values), ways, passes.compared)


@dataclass
class _Passes:
    """Passes over some of a batch's sentences at a time, of which the first of several is also compared."""

    along: Callable[..., PerSentenceNorms]
    batch: Batch
    seed: int
    first_sentence: int
    share: Share
    compare: bool
    compared: bool = False
    done: int = 0

    def norms(self, sentences: Int[Tensor, " k"]) -> PerSentenceNorms:
        """||∇ Σ_j δ_j · logits_j||² of each of these, δ drawn from `seed` and the sentence's number."""
        also_alone = self.compare and not self.compared and len(sentences) > 1
        piece, numbers = sentences_of(self.batch, sentences), self.first_sentence + sentences
        first: list[tuple[Tensor, Directions]] = []
        drawn_for, predictions = numbers.cpu(), torch.bincount(piece.rows).cpu()

        def draw(logits: Float[Tensor, "m v"]) -> Directions:
            # While a GPU still computes the scores: looking at them waits for it.
            bits = sign_bits(drawn_for, predictions, logits.shape[1], self.seed)
            _refuse_non_finite(logits, piece, numbers)
            drawn = drawn_directions(logits, bits)
            if also_alone:
                first.append((logits[piece.rows == 0], drawn.at(piece.rows == 0)))
            return drawn

        along = partial(self.along, share=partial(self._report, len(sentences)))
        norms = along(piece, draw)
        _refuse_non_finite_gradients(norms, numbers)
        if also_alone:
            sentence = sentences_of(piece, torch.zeros(1, dtype=torch.int64, device=piece.rows.device))
            _refuse_other_sentences(along, sentence, norms, *first[0])
        self._report(len(sentences), 1.0)
        self.compared |= also_alone
        self.done += len(sentences)
        return norms

    def _report(self, sentences: int, of_pass: float) -> None:
        self.share((self.done + of_pass * sentences) / len(self.batch))


def _as_memory_allows(
    norms_of: Callable[[Tensor], PerSentenceNorms], groups: list[Tensor], at_once: int, first_sentence: int
) -> Iterator[tuple[Int[Tensor, " k"], PerSentenceNorms]]:
    """The sentences of all groups, `at_once` per pass; if memory runs out, half as many from then on."""
    waiting = groups[::-1]
    while waiting:
        group = waiting.pop()
        sentences = group[:at_once]
        if len(sentences) < len(group):
            waiting.append(group[at_once:])
        try:
            norms = norms_of(sentences)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if len(sentences) == 1:
                raise IsolossError(
                    f"memory does not hold the gradients of sentence {first_sentence + int(sentences) + 1}; "
                    "give shorter sentences, or a machine with more memory"
                ) from error
            at_once = len(sentences) // 2
            waiting.append(sentences)
            continue
        yield sentences, norms


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
    lengths = [batch.attention_mask.sum(dim=1)]
    lengths += [] if batch.decoder_ids is None else [torch.bincount(batch.rows)]
    for of_sentences in lengths:
        largest = sentences_of(batch, of_sentences.argmax()[None])
        size = int(largest.attention_mask.sum()), len(largest.rows)
        if size not in known:
            known[size] = bytes_kept_for_backward(model, objective, largest)
        sizes.append(known[size])
    return min(len(batch), max(1, memory_bytes // max(sizes)))


def _refuse_non_finite(logits: Float[Tensor, "m v"], piece: Batch, numbers: Int[Tensor, " k"]) -> None:
    """As `refuse_non_finite`, for sentences whose numbers need not be consecutive."""
    try:
        refuse_non_finite(logits, piece, 0)
    except NonFiniteScores as error:
        sentence = int(numbers[error.sentence - 1]) + 1
        raise NonFiniteScores(sentence, f"sentence {sentence}") from None


def _refuse_non_finite_gradients(norms: PerSentenceNorms, numbers: Int[Tensor, " k"]) -> None:
    """Raise BadInput, as Longformer's may be in float64."""
    bad = ~torch.stack(list(norms.groups.values())).sum(0).isfinite()
    if bad.any():
        raise BadInput(
            f"the gradient of sentence {int(numbers[bad][0]) + 1} is not finite although its scores are; "
            "this is the model's own code, so try another precision, or longer sentences"
        )


def _refuse_other_sentences(
    along: Callable[..., PerSentenceNorms],
    sentence: Batch,
    together: PerSentenceNorms,
    scores: Float[Tensor, "m v"],
    directions: Directions,
) -> None:
    """Raise BadInput if the gradient of the batch's first `sentence` depends on the others.

    Checked once: rounding changes its norm by far less than the cube root of the precision. How much its
    `scores` change tells a model that mixes sentences from one whose layout is not understood.
    """
    scores_alone: list[Tensor] = []

    def drawn_before(logits: Float[Tensor, "m v"]) -> Directions:
        scores_alone.append(logits)
        return directions

    alone = along(sentence, drawn_before)
    precision = torch.finfo(scores.dtype).eps
    single = torch.stack([values[0] for values in alone.groups.values()])
    beside_others = torch.stack([values[0] for values in together.groups.values()])
    if (single - beside_others).abs().sum() <= precision ** (1 / 3) * single.abs().sum():
        return
    found = (
        f"the squared gradient of a sentence is {single.sum():.6g} alone and {beside_others.sum():.6g} beside"
    )
    if (scores_alone[0] - scores).abs().max() <= precision**0.5 * scores.abs().max():
        raise DiffersAloneError(
            f"{found} others, although its scores are the same: how this model lays out its sentences is "
            "not understood; measure one sentence a batch"
        )
    raise DiffersAloneError(
        f"{found} others: the model lets sentences of a batch see each other, so that they have no traces of "
        "their own; measure one sentence a batch"
    )
