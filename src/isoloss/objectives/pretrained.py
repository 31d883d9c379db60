"""Masked and next-token prediction for any Hugging Face language model, on its tokens.

Some models' scores of a sentence change with padding or with its neighbours in a batch: `SentencesApart`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective, sentences_of
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.objectives.predicted_logits import causal_logits, masked_logits

IGNORED = -100
"""The label that `transformers` gives to what is not predicted."""


@dataclass(frozen=True)
class PretrainedMasked:
    """Predicts the tokens that have a label, as `DataCollatorForLanguageModeling` marks them; padding none.

    >>> ids = torch.tensor([[2, 9, 4, 3], [2, 8, 4, 3]])
    >>> labels = torch.tensor([[-100, -100, 7, -100], [-100, -100, 6, -100]])
    >>> batch = PretrainedMasked().batch({"input_ids": ids, "labels": labels})
    >>> batch.positions.tolist(), batch.targets.tolist()
    ([2, 2], [7, 6])
    """

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        return masked_logits(model, batch)

    def batch(self, inputs: Mapping[str, Any]) -> Batch:
        """A `DataLoader`'s batch; sentences without a label are dropped, even if that leaves none.

        Raises BadInput for padding on the left, inputs without labels, and token types other than 0.
        """
        ids, present, labels = _read(inputs)
        return _labelled(ids, present, present & (labels != IGNORED), labels)


@dataclass(frozen=True)
class PretrainedCausal:
    """Predicts each token that has a label from those before it, except for the first of a sentence.

    >>> ids = torch.tensor([[5, 6, 7], [8, 9, 0]])
    >>> batch = PretrainedCausal().batch({"input_ids": ids, "attention_mask": ids > 0})
    >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([0, 0, 1], [0, 1, 0], [6, 7, 9])
    """

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        return causal_logits(model, batch)

    def batch(self, inputs: Mapping[str, Any]) -> Batch:
        """A `DataLoader`'s batch; without labels, every token is predicted. Drops sentences of one token.

        Raises BadInput for padding on the left, and token types other than 0.
        """
        ids, present, labels = _read({"labels": inputs["input_ids"], **inputs})
        following = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
        predicted = (following != IGNORED) & torch.nn.functional.pad(present[:, 1:], (0, 1))
        return _labelled(ids, present, predicted, following)


def _read(inputs: Mapping[str, Any]) -> tuple[Int[Tensor, "n S"], Bool[Tensor, "n S"], Int[Tensor, "n S"]]:
    """Token ids, which of them are not padding, and labels."""
    missing = [name for name in ("input_ids", "labels") if name not in inputs]
    if missing:
        raise BadInput(
            f"the batch has no {missing[0]}; make it with a collator that does, such as "
            "transformers.DataCollatorForLanguageModeling"
        )
    types = inputs.get("token_type_ids")
    if types is not None and bool(types.any()):
        raise BadInput("token types other than 0 are not measured; give single sentences, not pairs")
    ids, mask = inputs["input_ids"], inputs.get("attention_mask")
    present = torch.ones_like(ids).bool() if mask is None else mask.bool()
    if bool((present[:, 1:] & ~present[:, :-1]).any()):
        raise BadInput("sentences are padded on the left; set the tokenizer's padding_side to 'right'")
    return ids, present, inputs["labels"]


def _labelled(
    ids: Int[Tensor, "n S"],
    present: Bool[Tensor, "n S"],
    predicted: Bool[Tensor, "n S"],
    labels: Int[Tensor, "n S"],
) -> Batch:
    some = predicted.any(dim=1)
    rows, positions = predicted[some].nonzero(as_tuple=True)
    return Batch(ids[some], present[some], rows, positions, labels[some][rows, positions])


def choose_places(maskable: Sequence[int], share: float | None, generator: torch.Generator) -> list[int]:
    """Which of a sentence's maskable positions to mask: `share` of them, or a single one if that is None.

    Chooses exactly round(share T) of T positions (halves to even), at least one, uniformly without
    replacement. In ascending order.

    >>> choose_places(range(100, 120), 0.15, torch.Generator().manual_seed(0))
    [104, 105, 113]
    """
    count = 1 if share is None else max(1, round(share * len(maskable)))
    order = torch.randperm(len(maskable), generator=generator)[:count]
    return sorted(maskable[place] for place in order.tolist())


def masked_batch(
    sentences: Sequence[Sequence[int]], places: Sequence[Sequence[int]], mask: int, pad: int
) -> Batch:
    """Masks the tokens at each sentence's `places`, all at once, with the token `mask`, and predicts them.

    >>> batch = masked_batch([[5, 6, 7], [8]], [[0, 2], [0]], mask=1, pad=0)
    >>> batch.input_ids.tolist(), batch.targets.tolist()
    ([[1, 6, 1], [1, 0, 0]], [5, 7, 8])
    """
    ids, present = rectangle(sentences, pad)
    rows = torch.tensor([row for row, chosen in enumerate(places) for _ in chosen], dtype=torch.int64)
    positions = torch.tensor([place for chosen in places for place in chosen], dtype=torch.int64)
    targets = ids[rows, positions]
    ids[rows, positions] = mask
    return Batch(ids, present, rows, positions, targets)


def next_token_batch(sentences: Sequence[Sequence[int]], pad: int) -> Batch:
    """Every token but a sentence's first is predicted from those before it.

    >>> batch = next_token_batch([[5, 6, 7], [8, 9]], pad=0)
    >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([0, 0, 1], [0, 1, 0], [6, 7, 9])
    """
    ids, present = rectangle(sentences, pad)
    rows, positions = present[:, 1:].nonzero(as_tuple=True)
    return Batch(ids, present, rows, positions, ids[rows, positions + 1])


def rectangle(
    sentences: Sequence[Sequence[int]], pad: int, width: int | None = None
) -> tuple[Int[Tensor, "n S"], Bool[Tensor, "n S"]]:
    """Sentences filled up with `pad` to the longest, or to `width`, and which of the tokens are theirs."""
    lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
    present = torch.arange(width or max(map(len, sentences), default=0)) < lengths[:, None]
    ids = torch.full(present.shape, pad)
    ids[present] = torch.tensor([token for sentence in sentences for token in sentence], dtype=torch.int64)
    return ids, present


@dataclass(frozen=True)
class EqualLengths:
    """Another objective's scores, from passes over sentences of equal length, which need no padding.

    For models in which padding affects other tokens, e.g. through a convolution or a Fourier transform.
    `at_once` bounds the sentences per pass: 1 if even sentences of equal length affect each other.
    """

    objective: Objective
    at_once: int | None = None

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        groups = self.groups(batch)
        if len(groups) == 1:
            return self.objective.logits(model, sentences_of(batch, groups[0]))
        scores = [self.objective.logits(model, sentences_of(batch, group)) for group in groups]
        places = torch.cat([torch.isin(batch.rows, group).nonzero().flatten() for group in groups])
        return torch.cat(scores)[places.argsort()]

    def groups(self, batch: Batch) -> list[Int[Tensor, " k"]]:
        """The indices of the sentences that share a pass.

        >>> ids = torch.tensor([[5, 6], [7, 0], [8, 9]])
        >>> every = torch.arange(3)
        >>> batch = Batch(ids, ids > 0, every, 0 * every, every)
        >>> [group.tolist() for group in EqualLengths(PretrainedMasked()).groups(batch)]
        [[1], [0, 2]]
        """
        lengths = batch.attention_mask.sum(dim=1)
        groups = [(lengths == length).nonzero().flatten() for length in sorted(set(lengths.tolist()))]
        at_once = self.at_once or len(batch)
        return [part for group in groups for part in torch.split(group, at_once)]


class SentencesApart:
    """Determines from the first batches how several sentences can be passed to a model at once."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        self._model = model
        self._objective, self._found = objective, objective
        self._met_a_pair = self._met_two_lengths = False
        self._longest = 0

    def objective(self, batch: Batch) -> Objective:
        """The objective itself, or one that keeps the sentences of this batch and of later ones apart.

        Decided at the first batch with several sentences, and again at the first whose sentences, or what a
        decoder reads, differ in length. Where nothing has to be kept apart, it is decided again at each that
        is longer than all before: positions may be scaled by how wide a batch is (Phi-3's beyond 4,096).
        """
        lengths = batch.lengths()
        mixed, longest = any(bool(each.min() < each.max()) for each in lengths), int(lengths[0].max())
        is_longer = longest > self._longest and not isinstance(self._found, EqualLengths)
        known = (self._met_two_lengths and not is_longer) or (self._met_a_pair and not mixed)
        if len(batch) > 1 and not known:
            self._found = kept_apart(self._model, self._objective, batch)
            self._met_a_pair, self._met_two_lengths, self._longest = True, mixed, longest
        return self._found

    def take_one_at_a_time(self) -> None:
        """Pass one sentence at a time from now on, whatever was determined."""
        self._found = EqualLengths(self._objective, at_once=1)
        self._met_a_pair = self._met_two_lengths = True

    @property
    def way(self) -> str | None:
        """In words, how the sentences had to be kept apart; None if they can be batched together."""
        if not isinstance(self._found, EqualLengths):
            return None
        return "equally long sentences at a time" if self._found.at_once is None else "one sentence at a time"


def apart_throughout(
    model: nn.Module, objective: Objective, batches: Sequence[Batch]
) -> tuple[Objective, str | None]:
    """The objective that keeps the sentences of all batches apart, and how, in words, if it has to."""
    apart = SentencesApart(model, objective)
    found = objective
    for batch in batches:
        found = apart.objective(batch.to(device_of(model)))
    return found, apart.way


def kept_apart(model: nn.Module, objective: Objective, batch: Batch) -> Objective:
    """`objective`, unless the model's scores of a sentence depend on padding or on the other sentences.

    The batch's shortest sentence is scored alone, and padded in a batch with the longest. If the scores
    differ by more than rounding, sentences must be passed in `EqualLengths`; if they differ even beside the
    beginning of the longest sentence, which needs no padding, or if padding what a decoder reads makes them
    differ, one at a time. Left padding is not supported by this test.
    """
    of_sentences, *of_targets = batch.lengths()
    with evaluation_mode(model), torch.no_grad():
        for lengths in of_targets:
            alone, pair, of_shortest = _beside_the_longest(model, objective, batch, lengths)
            if differ(alone, objective.logits(model, pair)[of_shortest]):
                return EqualLengths(objective, 1)
        alone, pair, of_shortest = _beside_the_longest(model, objective, batch, of_sentences)
        if not differ(alone, objective.logits(model, pair)[of_shortest]):
            return objective
        width = int(of_sentences.min())
        beginnings = pair.up_to(width)
        beginnings = replace(
            beginnings,
            attention_mask=torch.ones_like(beginnings.attention_mask),
            positions=torch.where(of_shortest, pair.positions, pair.positions.clamp(max=width - 1)),
        )
        beside_equal = objective.logits(model, beginnings)[of_shortest]
    return EqualLengths(objective, 1 if differ(alone, beside_equal) else None)


def _beside_the_longest(
    model: nn.Module, objective: Objective, batch: Batch, lengths: Int[Tensor, " n"]
) -> tuple[Float[Tensor, "k v"], Batch, Bool[Tensor, " m"]]:
    """The shortest sentence's scores alone, it and the longest, and which of their predictions are its."""
    shortest, longest = int(lengths.argmin()), int(lengths.argmax())
    longest = longest if longest != shortest else (shortest + 1) % len(batch)
    numbers = torch.tensor(sorted((shortest, longest)), device=batch.rows.device)
    pair = sentences_of(batch, numbers)
    alone = objective.logits(model, sentences_of(batch, numbers[numbers == shortest]))
    return alone, pair, pair.rows == int(shortest > longest)


def differ(scores: Float[Tensor, "m v"], others: Float[Tensor, "m v"]) -> bool:
    """Whether they differ by more than rounding: the root of the precision, as parts of models have less.

    >>> scores = torch.tensor([[1.0, 2.0]])
    >>> differ(scores, scores + 1e-6), differ(scores, scores + 1e-3)
    (False, True)
    """
    precision = max(torch.finfo(scores.dtype).eps, torch.finfo(torch.float32).eps)
    spread = (scores - scores.mean(dim=1, keepdim=True)).abs().max()
    return bool((scores - others).abs().max() > precision**0.5 * spread)


def refuse_reading_ahead(model: nn.Module, objective: Objective, batch: Batch) -> None:
    """Raise BadInput if the scores of a sentence's tokens depend on its last token, which they predict.

    Checked on the batch's longest sentence, with another last token; of a model with a decoder, on the
    longest that it reads. The class does not tell: XLNet and XLM are called language models with a head
    whether they are causal or bidirectional.
    """
    sentence = sentences_of(batch, batch.lengths()[-1].argmax()[None])
    read = "input_ids" if sentence.decoder_ids is None else "decoder_ids"
    other = getattr(sentence, read).clone()
    last = int(sentence.positions.max()) + (sentence.decoder_ids is None)
    other[0, last] = (other[0, last] + 1) % (other.max() + 1)
    before = sentence.positions < last
    if not before.any():  # targets of one token, before which nothing is predicted
        return
    with evaluation_mode(model), torch.no_grad():
        scores = objective.logits(model, sentence)
        after_another = objective.logits(model, replace(sentence, **{read: other}))
    if differ(scores[before], after_another[before]):
        raise BadInput(
            f"{type(model).__name__} sees the token that it is to predict: its scores change with what "
            "follows; measure it as masked, or save it with a configuration that looks back only"
        )
