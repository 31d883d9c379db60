import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.language import SentenceSource
from isoloss.languages.sentences import encode_sentence, text_windows


def test_blanks_separate_words() -> None:
    sentence = encode_sentence("  the\tdog \n the ", ("dog", "the"))
    assert sentence.ids.tolist() == [[1, 0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "the sentence is empty"),
        ("the dgo", r"word 2, 'dgo', is not in the vocabulary; did you mean 'dog'\?"),
        ("zebra", "word 1, 'zebra', is not .*known words are 'dog', 'the'$"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        encode_sentence(text, ("dog", "the"))


VOCABULARY = tuple("abcdef")
TEXT = [[0, 1, 2], [3], [], [4, 5], [1]]


def test_every_window_starts_with_a_sentence_and_all_are_as_likely():
    windows = text_windows(TEXT, VOCABULARY, 3)
    assert isinstance(windows, SentenceSource)
    assert windows.starts.tolist() == [0, 3, 4]
    drawn = windows.sample(3000, torch.Generator().manual_seed(0))
    assert drawn.lengths.unique().tolist() == [3]
    kinds, counts = drawn.ids.unique(dim=0, return_counts=True)
    assert kinds.tolist() == [[0, 1, 2], [3, 4, 5], [4, 5, 1]]
    # Beyond the 99.99 % point of two degrees of freedom.
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 19


def test_draws_do_not_depend_on_how_calls_are_split():
    windows = text_windows(TEXT, VOCABULARY, 2)
    whole, split = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    apart = torch.cat([windows.sample(n, split).ids for n in (1, 17, 32)])
    assert torch.equal(windows.sample(50, whole).ids, apart)


def test_the_digest_is_that_of_the_content():
    digest = text_windows(TEXT, VOCABULARY, 3).digest
    assert digest == text_windows(TEXT, VOCABULARY, 3).digest
    others = [
        text_windows(TEXT, VOCABULARY, 2),
        text_windows([[0, 1, 2, 3], [4, 5], [1]], VOCABULARY, 3),
        text_windows([[0, 1, 2], [3], [4, 4], [1]], VOCABULARY, 3),
        text_windows(TEXT, (*VOCABULARY, "g"), 3),
    ]
    assert len({digest, *(other.digest for other in others)}) == 5


def test_texts_that_hold_no_window_are_refused():
    for text, length in ((TEXT, 8), ([], 1), ([[]], 1), (TEXT, 0)):
        with pytest.raises(BadInput, match=f"has no window of {length}"):
            text_windows(text, VOCABULARY, length)
    with pytest.raises(BadInput, match="none of its 5 words"):
        text_windows(TEXT, VOCABULARY[:5], 3)
