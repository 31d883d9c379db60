import pytest
import torch

from batches_of_heads import class_batch, labels_batch, target_batch, token_class_batch
from isoloss.corpora.token_sentences import TextCorpus, TokenCorpus, TokenSentence
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import SampledBatches
from isoloss.measurements.prediction import MaskedTokens, NextToken, SpecialTokens
from isoloss.measurements.task_heads import TargetText, TokenClasses
from isoloss.models.tokenizer import word_tokenizer
from isoloss.objectives.batch import Batch

CORPUS = TokenCorpus([[i % 7 + 3] * (i % 5 + 1) for i in range(150)], list(range(1, 151)))
MASK = 2
TOKENS, ONE_MASK = SpecialTokens(mask=MASK), MaskedTokens(share=None)


def read(batches):
    return [(b.input_ids.tolist(), b.positions.tolist(), b.targets.tolist()) for b in batches]


def test_every_sentence_once_in_an_order_that_the_seed_settles():
    batches = SampledBatches(CORPUS, ONE_MASK, 0, TOKENS)
    first = read(batches)
    assert sorted(batches.reading.lines) == list(range(1, 151))
    assert batches.reading.lines != list(range(1, 151))
    assert read(batches) == first
    assert read(SampledBatches(CORPUS, ONE_MASK, 1, TOKENS)) != first
    for batch in batches:
        assert ((batch.input_ids == MASK).sum(1) == 1).all()


def masked_places(corpus, seed):
    """Which position is masked, by line."""
    batches = SampledBatches(corpus, ONE_MASK, seed, TOKENS)
    places = [place for batch in batches for place in batch.positions.tolist()]
    return dict(zip(batches.reading.lines, places, strict=True))


def test_the_masks_of_a_sentence_are_its_own():
    """With other sentences around it, the same position is masked."""
    fewer = TokenCorpus(CORPUS.ids[:100], CORPUS.lines[:100])
    assert masked_places(fewer, 3).items() <= masked_places(CORPUS, 3).items()


def test_the_masks_follow_the_seed_and_not_the_order_alone():
    assert masked_places(CORPUS, 0) != masked_places(CORPUS, 1)


def test_shares_and_next_tokens():
    long = TokenCorpus([[5] * 20, [6] * 4], [1, 2])
    (batch,) = SampledBatches(long, MaskedTokens(0.25), 0, TOKENS)
    assert sorted(torch.bincount(batch.rows).tolist()) == [1, 5]
    batches = SampledBatches(TokenCorpus([[5], [6, 7], [8]], [4, 5, 6]), NextToken(), 0, TOKENS)
    (batch,) = batches
    assert batch.input_ids.tolist() == [[6, 7]]
    assert (batches.reading.lines, sorted(batches.reading.short)) == ([5], [4, 6])


def test_special_tokens_are_never_masked_and_cut_sentences_are_counted():
    tokenizer = word_tokenizer(["a", "b"], 6)
    texts = ["a b", "a b a b a b", ""]
    batches = SampledBatches(TextCorpus(texts, [1, 2, 3], tokenizer, 4), MaskedTokens(1.0), 0, TOKENS)
    (batch,) = batches
    assert (batch.input_ids[:, 0] == 1).all()
    assert sorted((batch.input_ids == MASK).sum(1).tolist()) == [2, 3]
    assert (batches.reading.cut, batches.reading.short) == ([2], [3])


def test_what_was_read_of_the_sentences_measured_leaves_out_the_rest_of_their_batch():
    tokenizer = word_tokenizer(["a", "b"], 8)
    texts = ["a b a b a b", "", "a b"] * 10
    batches = SampledBatches(TextCorpus(texts, list(range(30)), tokenizer, 4), NextToken(), 0, TOKENS)
    assert sum(map(len, batches.first(11))) == 11
    whole, measured = batches.reading, batches.reading.of_first(11)
    assert measured.lines == whole.lines[:11]
    after = whole.lines[11]  # what lies before it was looked at for the eleven
    order = [each.line for each in whole.sentences]
    before = order[: order.index(after)]
    assert measured.short == [line for line in before if line % 3 == 1]
    assert measured.cut == [line for line in before if line % 3 == 0]
    assert measured.tokens == sum({0: 3, 1: 0, 2: 2}[line % 3] for line in before)
    assert whole.of_first(len(whole.lines)) == whole


class OfOneToken:
    """Two sentences of a token that may not be masked, has no class, and nothing follows from."""

    def __len__(self):
        return 2

    def sentences(self, numbers):
        return [TokenSentence([5], [], line=number + 1) for number in numbers]


@pytest.mark.parametrize(
    ("prediction", "needs"),
    [
        (MaskedTokens(), "a token that may be masked"),
        (NextToken(), "two tokens"),
        (TokenClasses(), "a word with a class"),
        (TargetText(), "a token, and a target with one"),
    ],
)
def test_what_there_must_be_in_a_line_is_said_where_none_has_it(prediction, needs):
    with pytest.raises(BadInput, match=f"none of the 2 lines has {needs}; give longer sentences"):
        list(SampledBatches(OfOneToken(), prediction, 0, TOKENS))


def _predicted(batch: Batch) -> tuple[list[int], list[int], list[int]]:
    return batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()


def test_what_heads_predict_is_where_they_say_it() -> None:
    texts = [[5, 6], [7]]
    assert class_batch(texts, [1, 0], pad=0).targets.tolist() == [1, 0]
    of_labels = labels_batch(texts, [[1, 0, 1], [0, 0, 0]], pad=0)
    assert _predicted(of_labels) == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 0, 1, 0, 0, 0])
    assert _predicted(token_class_batch(texts, [[-100, 2], [0]], pad=0)) == ([0, 1], [1, 0], [2, 0])
    of_target = target_batch([[5, 6, 9]], [[7, 8]], start=1, pad=0)
    assert _predicted(of_target) == ([0, 0], [0, 1], [7, 8])
    assert of_target.decoder_ids is not None
    assert of_target.decoder_ids.tolist() == [[1, 7, 0]]
