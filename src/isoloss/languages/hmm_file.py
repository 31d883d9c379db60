"""Reads and writes HMMs as JSON files, and imports fitted hmmlearn models."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.hmm import HMM, hmm

KEYS = ("words", "initial", "transition", "emission", "length")


def read_hmm(path: Path | str) -> HMM:
    """Read an HMM from a JSON file; see `parse_hmm`.

    Raises BadInput when there is no such file, when it is no text, or for what `parse_hmm` refuses.
    """
    return parse_hmm(read_text(Path(path), "an HMM in JSON"), str(path))


def parse_hmm(text: str, source: str = "the HMM") -> HMM:
    """Read an HMM from JSON: words [c], initial [S], transition [S][S], emission [S][c], length.

    Raises BadInput, naming `source` and the key or row, for text that is not JSON, for keys that are
    missing or unknown, for tables of the wrong shape, and for what `hmm` refuses.

    >>> text = '{"words": ["a"], "initial": [1], "transition": [[1]], "emission": [[1]], "length": 2}'
    >>> parse_hmm(text).log_probability(parse_hmm(text).sample(1, torch.Generator())).item()
    0.0
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{source}: this is not JSON ({error}); mend it") from error
    except RecursionError as error:
        raise BadInput(f"{source}: its lists are nested too deeply for an HMM; mend it") from error
    _check_keys(content, source)
    words, length = content["words"], content["length"]
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise BadInput(f'{source}: words is no list of texts, or an empty one; write "words": ["a", "b"]')
    if not isinstance(length, int) or isinstance(length, bool):
        raise BadInput(f"{source}: length is not a whole number; give the number of words of a sentence")
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


def from_hmmlearn(model: Any, words: Sequence[str], length: int) -> HMM:
    """The language of a fitted `hmmlearn.hmm.CategoricalHMM` over `words`, its symbols 0, 1, .. in order.

    Raises BadInput for a model that is not fitted, if the number of words differs from that of its symbols,
    and for what `hmm` refuses.
    """
    source = "the hmmlearn model"
    try:
        arrays = (model.startprob_, model.transmat_, model.emissionprob_)
    except AttributeError as error:
        raise BadInput(f"{source} has no {error.name}; fit a CategoricalHMM first") from error
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
