"""Word pieces made of a text: the same each time, and no rare letters."""

from small_corpora import texts

from isoloss.corpora.vocabulary import word_pieces


def test_an_own_vocabulary_is_the_same_each_time():
    # The package's trainer numbers letters by a hash table, which this would show.
    written = texts(60, seed=1)
    found = [word_pieces(lambda: iter(written), 120).get_vocab() for _ in range(5)]
    assert all(each == found[0] for each in found)
    assert [found[0][token] for token in ("[PAD]", "[CLS]", "[MASK]", "[UNK]", "[SEP]")] == [0, 1, 2, 3, 4]
    assert len(found[0]) <= 120
    assert "never" in found[0]


def test_letters_that_are_too_rare_for_a_vocabulary_are_unknown():
    letters = "".join(chr(0x4E00 + n) for n in range(200))
    tokenizer = word_pieces(lambda: iter(["the cat"] * 9 + [letters]), 100)
    assert len(tokenizer) <= 100
    assert tokenizer.unk_token in tokenizer.tokenize(letters[150:])
    assert tokenizer.unk_token not in tokenizer.tokenize("the cat")
