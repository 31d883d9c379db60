"""The language of a file: a grammar in NLTK's notation, or JSON of an HMM or a Dyck language."""

import json
from pathlib import Path

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.dyck import Dyck, parse_dyck
from isoloss.languages.hmm import HMM
from isoloss.languages.hmm_file import parse_hmm
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg

EXPECTED = "a language: a grammar in NLTK's notation, or JSON of an HMM, a Dyck or a causal language"


def read_language(path: Path | str, maximum_length: int | None = None) -> PCFG | HMM | Dyck:
    """The language of a file; see `parse_language`.

    Raises BadInput if there is no such file, if it is not text, or for what `parse_language` refuses.
    """
    return parse_language(read_text(Path(path), EXPECTED), str(path), maximum_length)


def parse_language(
    text: str, source: str = "the language", maximum_length: int | None = None
) -> PCFG | HMM | Dyck:
    """The language of a file's text: JSON of an HMM or Dyck, or else a grammar.

    Raises BadInput for what `parse_hmm`, `parse_dyck`, `parse_grammar` and `pcfg` refuse, for a maximum
    length given with a language of one length, and for a causal language, which needs its model and is read
    by `models.causal_language`.

    >>> parse_language('{"dyck": {"length": 4}}')
    Dyck(length=4, balanced_share=1.0)
    """
    if not is_json(text):
        return pcfg(parse_grammar(text, source), maximum_length)
    refuse_maximum_length(source, maximum_length)
    if names_a_model(text):
        raise BadInput(f"{source} is a causal language; read it with models.causal_language")
    return parse_dyck(text, source) if "dyck" in _keys(text) else parse_hmm(text, source)


def names_a_model(text: str) -> bool:
    """Whether a file's text is that of a causal language.

    >>> names_a_model('{"causal_language_model": "facebook/opt-125m"}')
    True
    """
    return text.lstrip().startswith("{") and "causal_language_model" in _keys(text)


def refuse_maximum_length(source: str, maximum_length: int | None) -> None:
    """Raise BadInput for a maximum length, to which only a grammar can be truncated."""
    if maximum_length is not None:
        raise BadInput(
            f"{source} is no grammar, and its sentences have one length; leave the maximum length out"
        )


def is_json(text: str) -> bool:
    """Whether a file's text is meant as JSON; no grammar starts with a brace or a bracket."""
    return text.lstrip().startswith(("{", "["))


def _keys(text: str) -> set[str]:
    """The keys of a JSON object; none if the text is not one, which its parser will report."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return set(content) if isinstance(content, dict) else set()
