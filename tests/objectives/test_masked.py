import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch, PretrainingObjective, sentence_averaged_loss
from isoloss.objectives.masked import (
    AlwaysMask,
    BertReplacement,
    ManyMasksObjective,
    MaskedObjective,
    once_each,
)
from isoloss.objectives.tokens import FIRST_WORD, MASK, PAD, tokens_of_words
from tiny_language_models import tiny_language_model

OBJECTIVE = MaskedObjective()
RAGGED = Sentences.from_lists([[0, 1, 2, 3], [2], [4, 4, 0], [1, 3]])
EVEN = Sentences.from_lists([[0, 1, 2], [2, 2, 4], [4, 3, 0]])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("sentences", [RAGGED, EVEN])
def test_mask_one_hides_exactly_one_word_of_each_sentence(sentences: Sentences) -> None:
    batch = OBJECTIVE.mask_one(sentences, generator())
    plain = tokens_of_words(sentences.ids)
    hidden = batch.input_ids == MASK
    assert hidden.sum(1).tolist() == [1] * len(sentences)
    assert batch.rows.tolist() == list(range(len(sentences)))
    assert hidden[batch.rows, batch.positions].all()
    assert torch.equal(plain[batch.rows, batch.positions], batch.targets)
    assert torch.equal(torch.where(hidden, plain, batch.input_ids), plain)
    assert torch.equal(batch.attention_mask[:, 1:], sentences.real)
    assert bool((batch.targets >= FIRST_WORD).all())


def test_the_masked_position_is_uniform_over_the_sentence() -> None:
    n = 12_000
    sentences = Sentences.from_lists([[0, 1, 2], [3, 4]] * (n // 2))
    batch = OBJECTIVE.mask_one(sentences, generator(1))
    for first, length in ((0, 3), (1, 2)):
        counts = torch.bincount(batch.positions[first::2], minlength=length + 1)
        expected = n / 2 / length
        assert counts[0] == 0
        assert len(counts) == length + 1 or not counts[length + 1 :].any()
        chi_square = float(((counts[1 : length + 1] - expected) ** 2 / expected).sum())
        assert chi_square < 16  # beyond the 99.9 % point of two degrees of freedom


def test_mask_every_position_has_a_row_for_each_word_in_order() -> None:
    batch = OBJECTIVE.mask_every_position(RAGGED)
    row = 0
    for sentence, length in enumerate(RAGGED.lengths.tolist()):
        for place in range(length):
            expected = tokens_of_words(RAGGED.ids[sentence : sentence + 1])[0]
            assert int(batch.targets[row]) == int(expected[place + 1])
            expected[place + 1] = MASK
            assert torch.equal(batch.input_ids[row], expected)
            assert int(batch.positions[row]) == place + 1
            assert RAGGED.real.nonzero()[row].tolist() == [sentence, place]
            row += 1
    assert row == len(batch)
    assert batch.rows.tolist() == list(range(row))


def test_a_sentence_without_words_is_refused_by_number() -> None:
    sentences = Sentences.from_lists([[1], []])
    with pytest.raises(BadInput, match="sentence 1 "):
        OBJECTIVE.mask_one(sentences, torch.Generator())
    with pytest.raises(BadInput, match="sentence 1 "):
        OBJECTIVE.mask_every_position(sentences)


@pytest.mark.parametrize("objective", [MaskedObjective(), ManyMasksObjective()])
def test_several_predictions_a_row_and_the_sentence_average(objective: PretrainingObjective) -> None:
    model = tiny_language_model("bert")
    tokens = tokens_of_words(EVEN.ids)
    rows, positions = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 3, 2, 2])
    batch = Batch(tokens, torch.ones_like(tokens, dtype=torch.bool), rows, positions, tokens[rows, positions])
    with torch.no_grad():
        logits = objective.logits(model, batch)
        whole = model(input_ids=tokens).logits
    torch.testing.assert_close(logits, whole[rows, positions], rtol=1e-12, atol=1e-12)
    log_probability = logits.log_softmax(1)[range(4), batch.targets]
    expected = -(log_probability[:2].mean() + log_probability[2:].sum()) / 3
    torch.testing.assert_close(sentence_averaged_loss(logits, batch), expected)
    once = OBJECTIVE.mask_one(EVEN, generator())
    with torch.no_grad():
        logits = objective.logits(model, once)
    expected = -logits.log_softmax(1)[range(3), once.targets].sum() / 3
    torch.testing.assert_close(sentence_averaged_loss(logits, once), expected)


def test_a_batch_moves_to_a_device_and_stays_where_it_is() -> None:
    batch = OBJECTIVE.mask_every_position(EVEN)
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    assert {moved.input_ids.device.type, moved.targets.device.type, moved.rows.device.type} == {"meta"}


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


@pytest.mark.parametrize("objective", [OBJECTIVE, ManyMasksObjective(replacement=BertReplacement(30))])
def test_the_same_generator_gives_the_same_batch(objective: PretrainingObjective) -> None:
    sentences = ragged(LENGTHS * 5)
    first, again, other = (objective.draw(sentences, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.input_ids, again.input_ids)
    assert not torch.equal(first.input_ids, other.input_ids)


def test_what_is_measured_takes_every_sentence_once():
    in_copies, kept = ManyMasksObjective(share=0.3, copies=5), MaskedObjective()
    assert once_each(in_copies) == ManyMasksObjective(share=0.3)
    assert once_each(kept) is kept
