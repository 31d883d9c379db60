import json
from pathlib import Path

import pytest

from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck
from isoloss.languages.hmm import HMM, write_hmm
from isoloss.languages.language_file import read_language
from isoloss.languages.pcfg import PCFG
from isoloss.languages.random_hmm import laptop_hmm


def test_the_content_tells_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "language"
    path.write_text("S -> 'a' S [0.5] | 'b' [0.5]\n")
    grammar = read_language(str(path), 3)
    assert isinstance(grammar, PCFG)
    assert grammar.maximum_length == 3
    path.write_text("\ufeff \n" + write_hmm(laptop_hmm(0)))
    model = read_language(path)
    assert isinstance(model, HMM)
    assert model.digest == laptop_hmm(0).digest
    path.write_text('{"dyck": {"length": 6}}')
    assert read_language(path) == dyck(6)
    with pytest.raises(
        BadInput, match="is no grammar, and its sentences have one length; leave the maximum length out"
    ):
        read_language(path, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"dyck": {"length": 3}}', "give an even length of at least 2"),
        ('{"causal_language_model": "x"}', "is a causal language; read it with models.causal_language"),
        ("", "it holds no rules"),
        (json.dumps({}), "the key words is missing"),
        ("{", "this is not JSON"),
        ("[1, 2]", "this is JSON but no object; write an object with the keys words, "),
    ],
)
def test_what_is_neither_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "language"
    path.write_text(content)
    with pytest.raises(BadInput, match=message) as refusal:
        read_language(path)
    assert str(path) in str(refusal.value)
    with pytest.raises(BadInput, match="a grammar in NLTK's notation, or JSON of an HMM"):
        read_language(tmp_path / "none")
