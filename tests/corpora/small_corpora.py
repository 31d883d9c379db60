"""Small texts that several test files prepare."""

import random
from pathlib import Path

from isoloss.corpora.documents import local_files
from isoloss.corpora.prepared_corpus import CorpusRequest
from isoloss.corpora.vocabulary import OwnVocabulary

WORDS = ["the", "cat", "dog", "bird", "sees", "hears", "a", "and", "under", "over", "house", "never"]


def texts(count: int = 120, seed: int = 0, longest: int = 30) -> list[str]:
    """Lines of 1 to `longest` words, all different."""
    draw = random.Random(seed)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]
    return [f"{line} {number}" for number, line in enumerate(lines)]


def request_for(path: Path, lines: list[str], **settings: object) -> CorpusRequest:
    """A corpus of these lines, one document each, written to `path`: sequences of [CLS] and 7 words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))
    wanted = {"words": OwnVocabulary(100), "length": 8, "validation_share": 0.2} | settings
    return CorpusRequest(local_files([path]), **wanted)
