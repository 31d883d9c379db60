"""Small texts and data sets that several test files read."""

import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from isoloss.corpora.documents import local_files
from isoloss.corpora.prepared_corpus import CorpusRequest
from isoloss.corpora.vocabulary import OwnVocabulary

WORDS = ["the", "cat", "dog", "bird", "sees", "hears", "a", "and", "under", "over", "house", "never"]


def texts(count: int = 120, seed: int = 0, longest: int = 30) -> list[str]:
    """Lines of 1 to `longest` words, all different."""
    draw = random.Random(seed)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]
    return [f"{line} {number}" for number, line in enumerate(lines)]


def with_copies() -> list[str]:
    """120 different lines, then three that differ from one of them in capitals and white space at most."""
    lines = texts()
    return [*lines, lines[3].upper(), "  " + lines[4].replace(" ", "  "), lines[3]]


def request_for(path: Path, lines: list[str], **settings: object) -> CorpusRequest:
    """A corpus of these lines, one document each, written to `path`: sequences of [CLS] and 7 words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))
    wanted = {"words": OwnVocabulary(100), "length": 8, "validation_share": 0.2} | settings
    return CorpusRequest(local_files([path]), **wanted)


def loading(monkeypatch: Any, loaded: Any) -> list[Any]:
    """Let `datasets.load_dataset` return `loaded`, or raise it; returns the list of what is asked of it.

    The hub, whose address can take seconds to be looked up, is said to be out of reach.
    """
    asked = []

    def load(*names: str, **options: Any) -> Any:
        asked.append((names, options))
        if isinstance(loaded, Exception):
            raise loaded
        return loaded

    monkeypatch.setitem(
        sys.modules, "datasets", SimpleNamespace(load_dataset=load, are_progress_bars_disabled=lambda: True)
    )
    monkeypatch.setattr("isoloss.corpora.data_sets.hub_is_reachable", lambda: False)
    return asked
