"""The language of a file: a grammar in NLTK's notation, or JSON of an HMM or a Dyck language.

And that of a fitted model of hmmlearn.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.dyck import Dyck, dyck
from isoloss.languages.hmm import HMM, hmm, refuse_no_whole_number
from isoloss.languages.notation import LANGUAGE_FILE, is_json, json_content, parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg

DYCK_EXAMPLE = '{"dyck": {"length": 8}}'
KEYS = ("words", "initial", "transition", "emission", "length")


def read_language(path: Path | str, maximum_length: int | None = None) -> PCFG | HMM | Dyck:
    """The language of a file; see `parse_language`.

    Raises BadInput if there is no such file, if it is not text, or for what `parse_language` refuses.
    """
    return parse_language(read_text(Path(path), LANGUAGE_FILE), str(path), maximum_length)


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


def _keys(text: str) -> set[str]:
    """The keys of a JSON object; none if the text is not one, which its parser will report."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return set(content) if isinstance(content, dict) else set()


def parse_hmm(text: str, source: str = "the HMM") -> HMM:
    """Read an HMM from JSON: words [c], initial [S], transition [S][S], emission [S][c], length.

    Raises BadInput, naming `source` and the key or row, for text that is not JSON, for keys that are
    missing or unknown, for tables of the wrong shape, and for what `hmm` refuses.

    >>> text = '{"words": ["a"], "initial": [1], "transition": [[1]], "emission": [[1]], "length": 2}'
    >>> parse_hmm(text).log_probability(parse_hmm(text).sample(1, torch.Generator())).item()
    0.0
    """
    content = json_content(text, source)
    _check_keys(content, source)
    words, length = content["words"], content["length"]
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise BadInput(f'{source}: words is no list of texts, or an empty one; write "words": ["a", "b"]')
    refuse_no_whole_number(length, source)
    initial = content["initial"]
    states = len(initial) if isinstance(initial, list) else 0
    return hmm(
        words,
        _table([initial], 1, states, f"{source}: initial")[0],
        _table(content["transition"], states, states, f"{source}: transition"),
        _table(content["emission"], states, len(words), f"{source}: emission"),
        length,
        source,
    )


def parse_dyck(text: str, source: str = "the Dyck language") -> Dyck:
    """Read a Dyck language from JSON.

    Raises BadInput, naming `source`, for anything but an object like that of `write_dyck`, and for a length
    or a share that `dyck` refuses.

    >>> parse_dyck('{"dyck": {"length": 8}}')
    Dyck(length=8, balanced_share=1.0)
    """
    try:
        content = json.loads(text)
        length, share = content["dyck"]["length"], content["dyck"].get("balanced_share", 1)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{source}: this is no Dyck language; write {DYCK_EXAMPLE}") from error
    known = {"dyck": {"length": length}}, {"dyck": {"length": length, "balanced_share": share}}
    if content not in known or type(length) is not int or type(share) not in (int, float):
        raise BadInput(
            f"{source}: a Dyck language is its length, a whole number, and the share of balanced strings, if "
            f"not all are; write {DYCK_EXAMPLE}"
        )
    try:
        return dyck(length, share)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from error


def from_hmmlearn(model: Any, words: Sequence[str], length: int) -> HMM:
    """The language of a fitted `hmmlearn.hmm.CategoricalHMM` over `words`, its symbols 0, 1, .. in order.

    Raises BadInput for a model that is not fitted, for a MultinomialHMM, if the number of words differs from
    that of its symbols, and for what `hmm` refuses.
    """
    source = "the hmmlearn model"
    try:
        arrays = (model.startprob_, model.transmat_, model.emissionprob_)
    except AttributeError as error:
        raise BadInput(f"{source} has no {error.name}; fit a CategoricalHMM first") from error
    if np.any(np.asarray(getattr(model, "n_trials", 1)) != 1):
        raise BadInput(f"{source} draws several words at a time; fit a CategoricalHMM, which draws one")
    initial, transition, emission = (torch.tensor(np.asarray(array)) for array in arrays)
    return hmm(words, initial, transition, emission, length, source)


def _check_keys(content: Any, source: str) -> None:
    if not isinstance(content, dict):
        raise BadInput(
            f"{source}: this is JSON but no object; write an object with the keys {', '.join(KEYS)}"
        )
    for key in KEYS:
        if key not in content:
            raise BadInput(f"{source}: the key {key} is missing; an HMM has {', '.join(KEYS)}")
    for key in content:
        if key not in KEYS:
            raise BadInput(f"{source}: the key {key!r} is unknown; an HMM has {', '.join(KEYS)}")


def _table(rows: Any, height: int, width: int, place: str) -> Tensor:
    """[height, width] float64 numbers from lists of lists."""
    if not isinstance(rows, list) or len(rows) != height or height < 1:
        found = f"{len(rows)} rows" if isinstance(rows, list) else "no list"
        raise BadInput(f"{place} has {found} where the states need {max(1, height)}; give a row a state")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list) or len(row) != width or width < 1:
            found = f"{len(row)} numbers" if isinstance(row, list) else "no list"
            raise BadInput(
                f"{place}, row {number} has {found} where {max(1, width)} are needed; mend the row"
            )
        for value in row:
            if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > 2:
                raise BadInput(
                    f"{place}, row {number} has {value!r:.40}, which is no probability; mend the row"
                )
    return torch.tensor(rows, dtype=torch.float64)
