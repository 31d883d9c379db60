"""Word pieces trained on a text: reproducible, and without rare letters."""

import pytest
from small_corpora import texts
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerFast

from isoloss.corpora.vocabulary import renumbered, word_pieces
from isoloss.errors import BadInput
from isoloss.models.tokenizer import word_tokenizer


def test_an_own_vocabulary_is_the_same_each_time():
    # The package's trainer numbers letters by a hash table, which this would reveal.
    written = texts(60, seed=1)
    found = [word_pieces(lambda: iter(written), 120).get_vocab() for _ in range(5)]
    assert all(each == found[0] for each in found)
    assert [found[0][token] for token in ("[PAD]", "[CLS]", "[MASK]", "[UNK]", "[SEP]")] == [0, 1, 2, 3, 4]
    assert len(found[0]) <= 120
    assert "never" in found[0]


def test_no_piece_is_learnt_from_a_word_without_end():
    """The trainer's time goes with the square of its letters."""
    written, data = texts(60, seed=1), "the" * 400
    with_data = word_pieces(lambda: iter([*written, data, f"{data} never"]), 120)
    assert with_data.get_vocab() == word_pieces(lambda: iter([*written, "never"]), 120).get_vocab()
    assert with_data.tokenize(data) == [with_data.unk_token]


def test_letters_that_are_too_rare_for_a_vocabulary_are_unknown():
    letters = "".join(chr(0x4E00 + n) for n in range(200))
    tokenizer = word_pieces(lambda: iter(["the cat"] * 9 + [letters]), 100)
    assert len(tokenizer) <= 100
    assert tokenizer.unk_token in tokenizer.tokenize(letters[150:])
    assert tokenizer.unk_token not in tokenizer.tokenize("the cat")


def test_of_letters_that_are_as_frequent_the_first_are_known():
    """A quarter of a hundred pieces are letters: all but the last of the alphabet."""
    tokenizer = word_pieces(lambda: iter(["zyxwvutsrqponmlkjihgfedcba"]), 100)
    assert tokenizer.tokenize("z a y") == ["[UNK]", "a", "y"]


TEXTS = ["the cat sees the dog", "a dog sees a cat and the cats", "dogs see cats"] * 5
TRAINERS = {
    "WordPiece": (models.WordPiece(unk_token="<unk>"), trainers.WordPieceTrainer),
    "WordLevel": (models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer),
    "BPE": (models.BPE(unk_token="<unk>"), trainers.BpeTrainer),
    "Unigram": (models.Unigram(), trainers.UnigramTrainer),
}


def trained(kind):
    """[PAD] and [CLS] in the middle of the numbers, the mask added after the last."""
    model, trainer = TRAINERS[kind]
    options = {"unk_token": "<unk>"} if kind == "Unigram" else {}
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    special = ["<unk>", "<s>", "<pad>", "</s>"]
    tokenizer.train_from_iterator(
        TEXTS, trainer(vocab_size=60, special_tokens=special, show_progress=False, **options)
    )
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 3), ("<s>", 1))
    tokenizer.enable_truncation(4)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", cls_token="<s>", sep_token="</s>", unk_token="<unk>"
    )
    fast.add_special_tokens({"mask_token": "<mask>"})
    return fast


@pytest.mark.parametrize("kind", TRAINERS)
def test_the_tokens_are_the_same_under_other_numbers(kind, tmp_path):
    before = trained(kind)
    after = renumbered(before, longest=16)
    before.backend_tokenizer.no_truncation()
    assert after.convert_ids_to_tokens([0, 1, 2]) == ["<pad>", "<s>", "<mask>"]
    assert set(after.get_vocab()) == set(before.get_vocab())
    assert sorted(after.get_vocab().values()) == list(range(len(before)))
    others = [
        t
        for t in sorted(before.get_vocab(), key=before.get_vocab().get)
        if t not in ("<pad>", "<s>", "<mask>")
    ]
    assert after.convert_ids_to_tokens(range(3, len(before))) == others
    after.save_pretrained(tmp_path)
    BertConfig(vocab_size=len(after)).save_pretrained(tmp_path)
    for tokenizer in (after, AutoTokenizer.from_pretrained(tmp_path)):
        for text in ("the cats see a zebra", "the <mask> sees dogs", ""):
            wanted = before.convert_ids_to_tokens(before(text, add_special_tokens=False).input_ids)
            assert tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids) == ["<s>", *wanted]
        pair = tokenizer.convert_ids_to_tokens(tokenizer("the cat", "a dog").input_ids)
        assert pair == ["<s>", *before.tokenize("the cat"), "</s>", *before.tokenize("a dog")]
        assert tokenizer.model_max_length == 16
        assert tokenizer.unk_token == "<unk>"


@pytest.mark.parametrize("missing", ["pad_token", "cls_token", "mask_token"])
def test_a_tokenizer_without_a_special_token_is_refused(missing):
    tokenizer = word_tokenizer(["cat"], 4)
    setattr(tokenizer, missing, None)
    with pytest.raises(BadInput, match=r"has no .*; choose one of a masked language model"):
        renumbered(tokenizer, 4)


def test_a_tokenizer_written_in_python_is_refused(monkeypatch):
    tokenizer = word_tokenizer(["cat"], 4)
    monkeypatch.setattr(type(tokenizer), "backend_tokenizer", None)
    with pytest.raises(BadInput, match="is not of the package `tokenizers`; choose one that is"):
        renumbered(tokenizer, 4)


def test_a_tokenizer_with_one_token_for_two_purposes_is_refused():
    tokenizer = word_tokenizer(["the", "cat"], maximum_length=8)
    tokenizer.pad_token = tokenizer.cls_token
    with pytest.raises(BadInput, match=r"has one token for two of padding, .CLS. and .MASK."):
        renumbered(tokenizer, longest=9)
