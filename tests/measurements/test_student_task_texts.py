"""A student's tokenisation of a text, against the text itself and a hand-written byte-pair encoding."""

import json
from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from isoloss.corpora.labelled_texts import LabelledTexts
from isoloss.errors import BadInput
from isoloss.experiments.teacher import piece_tokenizer
from isoloss.measurements.student_task_texts import (
    StudentTokenizer,
    bags_of_tokens,
    closed_within,
    student_tokenizer,
)
from isoloss.objectives.tokens import CLS, FIRST_WORD, MASK

PROSE = ["the cat sat on the mat", "a bat and a hat", "that cat, the fat cat, sat at the tap"] * 3
TEXTS = LabelledTexts(("the cat sat", "a bat that taps at the mat and the hat"), None, (0, 1))


def whole() -> Tokenizer:
    return piece_tokenizer(PROSE, 40)


def student(words: int = 8) -> StudentTokenizer:
    """Its words: the pieces with the highest numbers, hence the longest, in descending order."""
    pieces = whole().get_vocab()
    return student_tokenizer(whole(), sorted(pieces, key=pieces.__getitem__, reverse=True)[:words])


def pieces_of(student: StudentTokenizer, row: torch.Tensor) -> list[str]:
    token = {number: place for place, number in enumerate(student.numbers.tolist())}
    return [student.tokenizer.id_to_token(token[number]) for number in row.tolist()]


def test_the_languages_words_come_first_and_every_token_has_one_number() -> None:
    reader = student()
    tokens = whole().get_vocab()
    assert sorted(reader.numbers.tolist()) == list(range(FIRST_WORD, FIRST_WORD + len(tokens)))
    newest = max(tokens.values())
    assert reader.numbers[[newest, newest - 1]].tolist() == [FIRST_WORD, FIRST_WORD + 1]


def test_a_text_is_tokenised_ordinarily_and_cut_to_what_is_read() -> None:
    reader = student()
    read = reader.read(TEXTS, longest=100)
    for row, text in enumerate(TEXTS.texts):
        ids = read.ids[row, : int(read.lengths[row])]
        assert ids[0] == CLS
        assert pieces_of(reader, ids[1:]) == whole().encode(text).tokens
    own = [number < FIRST_WORD + 8 for row in read.ids.tolist() for number in row if number > CLS]
    assert reader.coverage(TEXTS) == pytest.approx(sum(own) / len(own))
    assert 0 < reader.coverage(TEXTS) < 1
    assert read.cut == 0
    short = reader.read(TEXTS, longest=4)
    assert short.lengths.tolist() == [4, 5]
    assert short.cut == 1


def test_a_pair_is_cut_where_it_is_longer_and_each_token_knows_its_text() -> None:
    pairs = LabelledTexts(
        ("the cat sat on the mat and sat", "cat"), ("hat", "the mat and the hat sat"), (0, 1)
    )
    reader = student()
    lengths = [[len(whole().encode(text).ids) for text in column] for column in (pairs.texts, pairs.seconds)]
    read = reader.read(pairs, longest=6)
    for row in range(2):
        first, second = (int((read.parts[row] == part).sum()) for part in (0, 1))
        assert first + second == 6
        shorter = min(lengths[0][row], lengths[1][row])
        assert min(first, second) == min(shorter, 3)
    assert (read.parts[:, 0] == -1).all()


def test_tokens_never_generated_are_masked_and_nothing_else() -> None:
    reader = student()
    plain, masked = (reader.read(TEXTS, 100, policy).ids for policy in ("untrained", "mask"))
    assert reader.coverage(TEXTS, "mask") == reader.coverage(TEXTS) < 1
    generated = plain < FIRST_WORD + 8
    assert torch.equal(masked[generated], plain[generated])
    assert (masked[~generated] == MASK).all()


def test_resegmented_texts_are_of_generated_words_and_single_characters() -> None:
    """Oracle: byte pairs merged by hand, those merges alone that stay within the words."""
    pieces = whole().get_vocab()
    words = sorted(pieces, key=pieces.__getitem__)[:24]  # with everything that their own merges need
    reader = student_tokenizer(whole(), words)
    layout = closed_within(whole(), words)
    anew = reader.read(TEXTS, 100, "resegment")
    assert reader.coverage(TEXTS, "resegment") > reader.coverage(TEXTS)
    for row, text in enumerate(TEXTS.texts):
        found = pieces_of(reader, anew.ids[row, 1 : int(anew.lengths[row])])
        assert "".join(found) == "".join(whole().encode(text).tokens)
        assert all(piece in words or len(piece) == 1 for piece in found)
        assert found == by_hand(layout, [list(word) for word in "".join(found).split("Ġ")[1:]])


def test_a_tokenizer_that_takes_whole_words_without_merges_is_resegmented_alike() -> None:
    layout = json.loads(whole().to_str())
    layout["model"]["ignore_merges"] = True
    pieces = whole().get_vocab()
    words = sorted(pieces, key=pieces.__getitem__)[:24]
    closed, with_merges = (
        closed_within(each, words) for each in (Tokenizer.from_str(json.dumps(layout)), whole())
    )
    for text in TEXTS.texts:
        assert closed.encode(text).tokens == with_merges.encode(text).tokens


def by_hand(tokenizer: Tokenizer, words: list[list[str]]) -> list[str]:
    merges = [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]
    found = []
    for letters in words:
        pieces = ["Ġ", *letters]
        while ranked := [
            (merges.index(pair), place) for place, pair in enumerate(pairwise(pieces)) if pair in merges
        ]:
            _, place = min(ranked)
            pieces[place : place + 2] = ["".join(pieces[place : place + 2])]
        found += pieces
    return found


def test_a_bag_counts_each_texts_tokens_over_its_length() -> None:
    reader = student()
    texts = reader.read(TEXTS, 100)
    bags, same = bags_of_tokens(texts, texts, most=3)
    assert torch.equal(bags, same)
    assert bags.shape == (2, 4)
    assert bags.sum(1).tolist() == pytest.approx([1, 1])
    counts = torch.bincount(texts.ids[texts.parts >= 0].long())
    first = int(counts.argmax())
    share = (texts.ids[1] == first).sum() / (texts.lengths[1] - 1)
    assert float(bags[1, 0]) == pytest.approx(float(share))


def test_tokenizers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="'zebra' of the language is no token"):
        student_tokenizer(whole(), ["zebra"])
    words = Tokenizer(models.WordLevel({"the": 0, "cat": 1}, unk_token="the"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(BadInput, match="kind WordLevel has no merges"):
        closed_within(words, ["the"])
