"""A corpus on disk, tokenised once: sequences of one length, a training and a validation part."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from isoloss.errors import BadInput
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.objectives.tokens import FIRST_WORD, PAD

Part = Literal["training", "validation"]
PARTS: tuple[Part, Part] = ("training", "validation")

CORPUS_FILE = "corpus.json"
TOKENIZER_FOLDER = "tokenizer"


@dataclass(frozen=True)
class PartCounts:
    """What one part of a corpus holds: `sequences` of `words` words from `documents` distinct documents.

    `dropped_words` were in documents' last pieces, too short to keep (`packing.shortest_piece`), or after
    the last full sequence; `unknown_words` are those words that the tokenizer has no pieces for.
    """

    documents: int = 0
    sequences: int = 0
    words: int = 0
    dropped_words: int = 0
    unknown_words: int = 0


@dataclass(frozen=True)
class CorpusCounts:
    """How many documents were read, `duplicates` of earlier ones among them, and what the parts hold."""

    documents: int = 0
    duplicates: int = 0
    training: PartCounts = PartCounts()
    validation: PartCounts = PartCounts()


@dataclass(frozen=True)
class PackedCorpus:
    """A `SentenceSource`: sequences of the training part, memory-mapped, each drawn as likely.

    A sequence is [CLS] and `maximum_length` words, the last of a document fewer; a word is any token of
    `tokenizer` but [PAD], [CLS] and [MASK], whose numbers are those of `objectives.tokens`. `digest` is that
    of tokenizer and sequences. Made by `prepared_corpus`; pickled as its folder's name and these numbers.
    """

    folder: Path
    digest: str
    maximum_length: int
    counts: CorpusCounts

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedCorpus, (self.folder, self.digest, self.maximum_length, self.counts)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer, renumbered: it goes with every checkpoint that is trained on this corpus."""
        return read_tokenizer(self.folder / TOKENIZER_FOLDER)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The c words as the tokenizer writes them."""
        numbers = self.tokenizer.get_vocab()
        return tuple(sorted(numbers, key=numbers.__getitem__)[FIRST_WORD:])

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n training sequences, uniformly and independently; see `SentenceSource.sample`."""
        rows = self._rows("training")
        return _sentences(rows[torch.randint(len(rows), (n,), generator=generator).numpy()])

    def validation_sequences(self) -> Sentences:
        """All sequences of the validation part, in the documents' order; 8 bytes a word."""
        return _sentences(np.asarray(self._rows("validation")))

    def validation_documents(self) -> Int[Tensor, " n"]:
        """The document that each validation sequence comes from, by its number in the corpus, rising."""
        numbers = np.fromfile(documents_file(self.folder, "validation"), np.int32)
        return torch.from_numpy(numbers.astype(np.int64))

    def _rows(self, part: Part) -> Integer[np.ndarray, "n T"]:
        """[n, `maximum_length`] tokens on disk: opened anew for each draw, so that none are pickled."""
        shape = (getattr(self.counts, part).sequences, self.maximum_length)
        return np.memmap(tokens_file(self.folder, part), token_type(self.tokenizer), "r", shape=shape)


def read_packed_corpus(folder: Path) -> PackedCorpus:
    """The corpus in a folder that `prepared_corpus` made. Raises BadInput where it is missing or damaged."""
    path = folder / CORPUS_FILE
    try:
        kept = json.loads(path.read_text())
        counts = counts_of_json(kept["counts"])
        corpus = PackedCorpus(folder, kept["digest"], kept["maximum_length"], counts)
        for part in PARTS:
            sequences = getattr(counts, part).sequences
            wanted = sequences * corpus.maximum_length * token_type(corpus.tokenizer).itemsize
            if tokens_file(folder, part).stat().st_size != wanted:
                raise ValueError(f"{tokens_file(folder, part).name} is not as long as it was")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f"the corpus in {folder} is damaged ({error}); delete the folder and prepare it again"
        ) from error
    return corpus


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer that was saved with a corpus."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer


def tokens_file(folder: Path, part: Part) -> Path:
    """Where the tokens of a part stand: whole sequences without [CLS], end to end."""
    return folder / f"{part}.tokens"


def documents_file(folder: Path, part: Part) -> Path:
    """Where the document of each of a part's sequences stands, int32."""
    return folder / f"{part}.documents"


def token_type(tokenizer: PreTrainedTokenizerFast) -> np.dtype[Any]:
    """The smallest of two types that holds every token's number.

    >>> from isoloss.models.tokenizer import word_tokenizer
    >>> token_type(word_tokenizer(["cat"], maximum_length=4))
    dtype('uint16')
    """
    return np.dtype(np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32)


def counts_of_json(kept: dict[str, Any]) -> CorpusCounts:
    """What `dataclasses.asdict` of counts gave."""
    parts = {part: PartCounts(**kept[part]) for part in PARTS}
    return CorpusCounts(kept["documents"], kept["duplicates"], **parts)


def _sentences(rows: Integer[np.ndarray, "n T"]) -> Sentences:
    tokens = torch.from_numpy(rows.astype(np.int64))
    ids = torch.where(tokens == PAD, PADDING, tokens - FIRST_WORD)
    return Sentences(ids, (tokens != PAD).sum(dim=1))
