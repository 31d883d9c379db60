import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.models.shapes import Shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.batch import PretrainingObjective, sentence_averaged_loss
from isoloss.objectives.masked import (
    AlwaysMask,
    BertReplacement,
    ManyMasksObjective,
    MaskedObjective,
    once_each,
)
from isoloss.objectives.tokens import FIRST_WORD, MASK, PAD, tokens_of_words


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def ragged(lengths, words=30, seed=1):
    drawn = generator(seed)
    return Sentences.from_lists([torch.randint(0, words, (n,), generator=drawn).tolist() for n in lengths])


LENGTHS = [1, 2, 3, 7, 10, 20, 30, 33, 40]
COUNTS = [1, 1, 1, 1, 2, 3, 4, 5, 6]
"""round(0.15 T), halves to even as BERT's code does (10 gives 1.5 and 2, 30 gives 4.5 and 4), at least 1."""


@pytest.mark.parametrize("replacement", [AlwaysMask(), BertReplacement(30)])
def test_as_many_words_as_bert_takes_are_predicted_and_padding_never(replacement):
    sentences = ragged(LENGTHS)
    objective = ManyMasksObjective(replacement=replacement)
    assert isinstance(objective, PretrainingObjective)
    batch = objective.draw(sentences, generator())
    plain = tokens_of_words(sentences.ids)
    assert torch.bincount(batch.rows).tolist() == COUNTS
    assert torch.equal(batch.targets, plain[batch.rows, batch.positions])
    assert (batch.targets >= FIRST_WORD).all()
    untouched = torch.ones_like(plain, dtype=torch.bool)
    untouched[batch.rows, batch.positions] = False
    assert torch.equal(batch.input_ids[untouched], plain[untouched])
    assert torch.equal(batch.attention_mask, plain != PAD)
    assert torch.equal(batch.rows, batch.rows.sort().values)
    places = list(zip(batch.rows.tolist(), batch.positions.tolist(), strict=True))
    assert places == sorted(set(places))


def test_places_are_uniform_without_replacement():
    n = 20_000
    sentences = Sentences(torch.zeros(n, 5, dtype=torch.int64), torch.full((n,), 5))
    batch = ManyMasksObjective(share=0.4).draw(sentences, generator(3))
    pairs = batch.positions.view(n, 2) - 1
    counts = torch.bincount(pairs @ torch.tensor([5, 1]), minlength=25).view(5, 5)
    assert int(counts.tril().sum()) == 0
    observed = counts[torch.triu_indices(5, 5, 1).unbind()].double()
    # 10 pairs: beyond the 99.99 % point of nine degrees of freedom.
    assert float(((observed - n / 10) ** 2 / (n / 10)).sum()) < 34


def test_berts_replacement_is_80_10_10():
    n = 200_000
    tokens = torch.full((n,), 7 + FIRST_WORD)
    shown = BertReplacement(words=20).replace(tokens, generator(4))
    counts = torch.bincount(shown, minlength=20 + FIRST_WORD).double()
    assert counts[[0, 1]].sum() == 0
    expected = torch.full((21,), 0.1 * n / 20, dtype=torch.float64)
    expected[7] += 0.1 * n
    expected[20] = 0.8 * n
    observed = torch.cat([counts[FIRST_WORD:], counts[MASK : MASK + 1]])
    # Beyond the 99.99 % point of 20 degrees of freedom.
    assert float(((observed - expected) ** 2 / expected).sum()) < 52


def test_copies_are_of_the_same_sentences_masked_anew():
    sentences = ragged([20] * 10)
    batch = ManyMasksObjective(copies=5).draw(sentences, generator())
    assert len(batch) == 10
    assert torch.bincount(batch.rows).tolist() == [3] * 10
    shown = batch.input_ids.clone()
    shown[batch.rows, batch.positions] = batch.targets
    assert torch.equal(shown, tokens_of_words(sentences.ids)[[0] * 5 + [1] * 5])
    assert len({tuple(places) for places in batch.positions.view(10, 3)[:5].tolist()}) > 1
    with pytest.raises(BadInput, match="not in 0 copies"):
        ManyMasksObjective(copies=0)


def test_the_same_generator_gives_the_same_batch():
    objective, sentences = ManyMasksObjective(replacement=BertReplacement(30)), ragged(LENGTHS * 5)
    first, again, other = (objective.draw(sentences, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.input_ids, again.input_ids)
    assert not torch.equal(first.input_ids, other.input_ids)


def test_logits_and_loss_average_within_a_sentence_first():
    sentences = ragged([20, 3, 10], words=5)
    model = PreLayerNormTransformer(Shape(8, 2, 1, 16)).build(5, 20, 0).double().eval()
    objective = ManyMasksObjective(replacement=BertReplacement(5))
    batch = objective.draw(sentences, generator())
    with torch.no_grad():
        logits = objective.logits(model, batch)
        torch.testing.assert_close(logits, MaskedObjective().logits(model, batch), rtol=0, atol=0)
        losses = -logits.log_softmax(1).gather(1, batch.targets[:, None])[:, 0]
    expected = torch.stack([part.mean() for part in losses.split([3, 1, 2])]).mean()
    torch.testing.assert_close(sentence_averaged_loss(logits, batch), expected)


def test_bad_settings_and_sentences_are_refused():
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(BadInput, match="share of words that are masked"):
            ManyMasksObjective(share=share)
    for settings in ((0,), (5, -0.1), (5, 0.9, 0.2)):
        with pytest.raises(BadInput, match="makes no sense"):
            BertReplacement(*settings)
    with pytest.raises(BadInput, match="sentence 1 "):
        ManyMasksObjective().draw(Sentences.from_lists([[1], []]), generator())
    with pytest.raises(BadInput, match="word number 9, but the objective was made for 5 words"):
        ManyMasksObjective(share=1.0, replacement=BertReplacement(5)).draw(
            Sentences.from_lists([[9]]), generator()
        )


def test_what_is_measured_takes_every_sentence_once():
    in_copies, kept = ManyMasksObjective(share=0.3, copies=5), MaskedObjective()
    assert once_each(in_copies) == ManyMasksObjective(share=0.3)
    assert once_each(kept) is kept
