import pytest

from isoloss.errors import BadInput
from isoloss.languages.sentences import encode_sentence


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
