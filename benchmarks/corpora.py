"""Preparing a corpus beside its tokenizer alone: reading, de-duplicating, splitting, packing and writing.

    python -m benchmarks.corpora [--json] [--megabytes 8] [--pairs 5]

The peer is `tokenizers` with nothing around it: `encode_batch_fast` of the same texts, already in memory, on
all cores, its tokens thrown away. Both take turns in one process; the ratio is the median of the pairs'. Ours
reads a text file of a document a line and leaves memory-mapped sequences of 128 on disk. The text is made up:
words of 2 to 10 letters by Zipf's distribution, documents of 20 to 600 of them, and a vocabulary of 4,000
pieces.
"""

import json as json_format
import random
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path

import tyro
from transformers import PreTrainedTokenizerFast

from benchmarks.comparison import Comparison, compare
from isoloss.corpora.documents import LocalFiles, local_files
from isoloss.corpora.tokenisation import Packing, tokenise
from isoloss.corpora.vocabulary import renumbered, word_pieces
from isoloss.progress import silent

TEXTS_AT_ONCE = 1000
VOCABULARY_TEXTS = 500


def made_up_documents(characters: int) -> Iterator[str]:
    """Documents of at least so many characters together."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlcu", k=draw.randint(2, 10))) for _ in range(50_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    while characters > 0:
        text = " ".join(draw.choices(words, cum_weights=weights, k=draw.randint(20, 600))) + "."
        characters -= len(text)
        yield text


def prepare(source: LocalFiles, tokenizer: PreTrainedTokenizerFast) -> None:
    """What `prepared_corpus` does once it has a tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        documents = source.documents(Path(folder), silent)
        tokenise(documents, tokenizer, Packing(127, 0.05, False), Path(folder), 0, silent)


def encode(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> None:
    """The tokenizer's own work."""
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        tokenizer.backend_tokenizer.encode_batch_fast(
            texts[start : start + TEXTS_AT_ONCE], add_special_tokens=False
        )


def measure(megabytes: float, pairs: int) -> Comparison:
    """Both on the same texts."""
    texts = list(made_up_documents(round(megabytes * 1e6)))
    tokenizer = renumbered(word_pieces(lambda: iter(texts[:VOCABULARY_TEXTS]), 4000), 128)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "documents.txt"
        path.write_text("\n".join(texts))
        source = local_files([path])
        return compare(
            "preparing a corpus",
            lambda: prepare(source, tokenizer),
            "tokenizers alone",
            lambda: encode(texts, tokenizer),
            pairs,
        )


def main(json: bool = False, megabytes: float = 8.0, pairs: int = 5) -> None:
    """Preparing a corpus beside its tokenizer alone, about a minute.

    Args:
        json: Print JSON instead of a sentence.
        megabytes: How much text.
        pairs: Turns that the medians are over.
    """
    found = measure(megabytes, pairs)
    if json:
        print(json_format.dumps({"megabytes": megabytes, **asdict(found)}))
        return
    print(
        f"{found.name}: {megabytes / found.seconds:.1f} MB/s, {found.times_as_fast:.2f} of the speed of "
        f"{found.peer}, {megabytes / found.peer_seconds:.1f} MB/s"
    )


if __name__ == "__main__":
    tyro.cli(main)
