"""Per-sentence unbiased values of the trace of the Fisher information (paper B.1), from random directions."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from isoloss.curvature.derivatives import generator_of, parameter_group
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES, Directions, PerSentenceNorms, norms_along
from isoloss.device import is_out_of_memory
from isoloss.errors import BadInput, IsolossError
from isoloss.objectives.batch import Batch, NonFiniteScores, Objective, refuse_non_finite, sentences_of
from isoloss.objectives.evaluation import KeptBytes, sentences_at_once
from isoloss.objectives.pretrained import EqualLengths
from isoloss.progress import Share, unheard

NUMBERS_AT_ONCE, NUMBERS_AT_ONCE_ON_A_GPU = 1 << 20, 1 << 24
"""How many logits are worked on at once, in some seven arrays of that size: little memory beside a model's.
Pieces that suit a processor's caches would leave a GPU waiting for the next."""
BYTES_WORTH_A_THREAD = 1 << 18
"""A thread takes as long to start as it takes to draw some 10,000 random bytes."""


def sign_bits(
    sentences: Int[Tensor, " n"], predictions: Int[Tensor, " n"], vocabulary: int, seed: int
) -> UInt8[Tensor, "m w"]:
    """A random bit for every word of every prediction, on the CPU: w = ⌈v / 8⌉ bytes of eight words each.

    Sentence i has `predictions[i]` rows, in order, from its own generator, seeded by `seed` and its number
    `sentences[i]`. They do not depend on the other sentences measured, nor on chunking. torch's threads share
    the work, without which a GPU would wait for it.

    >>> both = sign_bits(torch.tensor([0, 1]), torch.tensor([1, 2]), 20, seed=7)
    >>> both.shape, bool((both[1:] == sign_bits(torch.tensor([1]), torch.tensor([2]), 20, seed=7)).all())
    (torch.Size([3, 3]), True)
    """

    def fill(of_sentence: Tensor, sentence: int) -> None:
        of_sentence.random_(generator=generator_of(f"{seed} {sentence}"))

    # In page-locked memory, if a GPU may be about to copy them.
    size, locked = (int(predictions.sum()), -(-vocabulary // 8)), torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    bits = torch.empty(size, dtype=torch.uint8, pin_memory=locked)
    rows, numbers = torch.split(bits, predictions.tolist()), sentences.tolist()
    threads = min(torch.get_num_threads(), bits.numel() // BYTES_WORTH_A_THREAD)
    if threads < 2:
        list(map(fill, rows, numbers))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, rows, numbers))
    return bits


def signs_of(bits: UInt8[Tensor, "m w"], vocabulary: int, dtype: torch.dtype) -> Float[Tensor, "m v"]:
    """±1 for each bit, lowest bits first.

    >>> signs_of(torch.tensor([[5]], dtype=torch.uint8), 4, torch.float32).tolist()
    [[1.0, -1.0, 1.0, -1.0]]
    """
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    if bits.device.type != "cpu":
        ones = (bits[..., None] >> places).bitwise_and_(1).view(len(bits), -1)[:, :vocabulary]
        return ones.to(dtype).mul_(2).sub_(1)
    # A processor looks up eight signs sooner than it shifts eight bits.
    every_byte = torch.arange(256, dtype=torch.uint8)[:, None] >> places & 1
    signs = (2 * every_byte.to(dtype) - 1).index_select(0, bits.flatten().int())
    return signs.view(len(bits), -1)[:, :vocabulary]


def fisher_directions(logits: Float[Tensor, "m v"], signs: Float[Tensor, "m v"]) -> Directions:
    """δ = √p ∘ s - p (√p · s) for p = softmax(logits) and signs s; in the logits' precision.

    This combines the columns of diag(√p) - p √pᵀ with random signs: E δ δᵀ = diag(p) - p pᵀ, the covariance
    of onehot(y) - p for a label y drawn from p. Hence ||∇ Σ δ · logits||² has the same mean as ||∇ log
    p_y||², without the heavy tail of rare labels; E |δ|² = 1 - |p|². Computed in at least float32.

    >>> fisher_directions(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]))
    Directions(cotangents=tensor([[ 0.7071, -0.7071]]), mean_squares=tensor([0.5000], dtype=torch.float64))
    """
    p = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(dim=1)
    root = p.sqrt().mul_(signs)
    cotangents = torch.addcmul(root, p, root.sum(dim=1, keepdim=True), value=-1)
    return Directions(cotangents.to(logits.dtype), (p * (1 - p)).sum(dim=1, dtype=torch.float64))


def drawn_directions(logits: Float[Tensor, "m v"], bits: UInt8[Tensor, "m w"]) -> Directions:
    """`fisher_directions` with the signs of `bits`, in chunks of rows: no other [m, v] array is allocated."""
    cotangents = torch.empty_like(logits)
    mean_squares = torch.empty(len(logits), dtype=torch.float64, device=logits.device)
    numbers = NUMBERS_AT_ONCE_ON_A_GPU if logits.is_cuda else NUMBERS_AT_ONCE
    at_once = max(1, numbers // logits.shape[1])
    for start in range(0, len(logits), at_once):
        some = slice(start, start + at_once)
        signs = signs_of(bits[some].to(logits.device, non_blocking=True), logits.shape[1], logits.dtype)
        of_some = fisher_directions(logits[some], signs)
        assert of_some.mean_squares is not None
        cotangents[some], mean_squares[some] = of_some.cotangents, of_some.mean_squares
    return Directions(cotangents, mean_squares)


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
