"""A corpus on disk, tokenised once: sequences of one length, in a training and a validation part.

Of texts that are one and the same it has one, and a text's own hash says in which part.
"""

import hashlib
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from isoloss.errors import BadInput
from isoloss.files import file_digest
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.objectives.tokens import FIRST_WORD, PAD
from isoloss.results.store import read_sealed
from isoloss.results.tensors import from_plain

Part = Literal["training", "validation"]
PARTS: tuple[Part, Part] = ("training", "validation")

CORPUS_FILE = "corpus.json"
TOKENIZER_FOLDER = "tokenizer"


@dataclass(frozen=True)
class PartCounts:
    """The size of one part of a corpus: `sequences` of `words` words from `documents` distinct documents.

    `dropped_words` were in the last pieces of documents, too short to keep (`packing.shortest_piece`), or
    after the last full sequence; `unknown_words` are words for which the tokenizer has no pieces.
    """

    documents: int = 0
    sequences: int = 0
    words: int = 0
    dropped_words: int = 0
    unknown_words: int = 0


@dataclass(frozen=True)
class CorpusCounts:
    """How many documents were read, including `duplicates` of earlier ones, and the size of the parts."""

    documents: int = 0
    duplicates: int = 0
    training: PartCounts = PartCounts()
    validation: PartCounts = PartCounts()


@dataclass(frozen=True)
class PackedCorpus:
    """A `SentenceSource`: the training sequences, memory-mapped, each drawn with equal probability.

    A sequence is [CLS] and `maximum_length` words, fewer at the end of a document; a word is any token of
    `tokenizer` except [PAD], [CLS] and [MASK], numbered as in `objectives.tokens`. `digest` is that of
    tokenizer and sequences. Made by `prepared_corpus`; pickled as its folder's name and these numbers.
    """

    folder: Path
    digest: str
    maximum_length: int
    counts: CorpusCounts

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedCorpus, (self.folder, self.digest, self.maximum_length, self.counts)

    @cached_property
    def commit(self) -> str | None:
        """The commit of the hub's data set that was read; None of other sources, or if not known."""
        commit: str | None = read_sealed(self.folder / CORPUS_FILE, self.folder.name).get("commit")
        return commit

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer, renumbered: it is saved with every checkpoint trained on this corpus."""
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
        """All validation sequences, in the order of the documents; 8 bytes per word."""
        return _sentences(np.asarray(self._rows("validation")))

    def validation_documents(self) -> Int[Tensor, " n"]:
        """The document of each validation sequence, by its number in the corpus, in increasing order."""
        numbers = np.fromfile(documents_file(self.folder, "validation"), np.int32)
        return torch.from_numpy(numbers.astype(np.int64))

    def validation_sample(self, n: int, generator: torch.Generator) -> tuple[Sentences, Int[Tensor, " n"]]:
        """n sequences drawn without replacement, or all if there are no more, and the document of each."""
        sequences, documents = self.validation_sequences(), self.validation_documents()
        chosen = torch.randperm(len(sequences), generator=generator)[:n].sort().values
        return sequences[chosen], documents[chosen]

    def _rows(self, part: Part) -> Integer[np.ndarray, "n T"]:
        """[n, `maximum_length`] tokens on disk: reopened for each draw, so that none are pickled."""
        shape = (getattr(self.counts, part).sequences, self.maximum_length)
        return np.memmap(tokens_file(self.folder, part), token_type(self.tokenizer), "r", shape=shape)


def read_packed_corpus(folder: Path) -> PackedCorpus:
    """The corpus in a folder made by `prepared_corpus`, read through once to check its integrity.

    Raises BadInput if it is missing or damaged.
    """
    path = folder / CORPUS_FILE
    try:
        content = read_sealed(path, folder.name)
        for name, digest in content["files"].items():
            if file_digest(folder / name) != digest:
                raise ValueError(f"{name} is not what was written")
        counts = from_plain(CorpusCounts, content["counts"])
        return PackedCorpus(folder, content["digest"], content["maximum_length"], counts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"the corpus in {folder} is damaged ({error}); delete the folder and prepare it again"
        ) from error


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer that was saved with a corpus."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer


def tokens_file(folder: Path, part: Part) -> Path:
    """The file of a part's tokens: whole sequences without [CLS], end to end."""
    return folder / f"{part}.tokens"


def documents_file(folder: Path, part: Part) -> Path:
    """The file with the document of each of a part's sequences, int32."""
    return folder / f"{part}.documents"


def token_type(tokenizer: PreTrainedTokenizerFast) -> np.dtype[Any]:
    """The smaller of two types that can hold every token's number.

    >>> from isoloss.models.tokenizer import word_tokenizer
    >>> token_type(word_tokenizer(["cat"], maximum_length=4))
    dtype('uint16')
    """
    return np.dtype(np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32)


def _sentences(rows: Integer[np.ndarray, "n T"]) -> Sentences:
    tokens = torch.from_numpy(rows.astype(np.int64))
    ids = torch.where(tokens == PAD, PADDING, tokens - FIRST_WORD)
    return Sentences(ids, (tokens != PAD).sum(dim=1))


def shortest_piece(width: int) -> int:
    """How many words the last piece of a document needs in order to be kept: an eighth of a sequence.

    A sequence counts as one in the loss however few words it has, so that a piece of two words would weigh as
    much as one of 127; what is dropped is counted and shown.

    >>> shortest_piece(127), shortest_piece(4)
    (15, 1)
    """
    return max(1, width // 8)


def pack_each(
    words: Integer[np.ndarray, " w"], lengths: Integer[np.ndarray, " d"], width: int
) -> tuple[Integer[np.ndarray, "n width"], Integer[np.ndarray, " n"]]:
    """Each document in its own sequences: no sequence spans two.

    `words` are the tokens of d documents end to end, `lengths[i]` those of document i. A document's last
    sequence is padded with PAD; one of fewer words than `shortest_piece` is dropped. Returns the sequences
    and the document, from 0, of each.

    >>> rows, documents = pack_each(np.arange(10, 17), np.array([5, 2]), width=4)
    >>> rows.tolist(), documents.tolist()
    ([[10, 11, 12, 13], [14, 0, 0, 0], [15, 16, 0, 0]], [0, 0, 1])
    """
    rest = lengths % width
    kept = lengths - np.where(rest < shortest_piece(width), rest, 0)
    pieces = -(-kept // width)
    documents = np.repeat(np.arange(len(lengths)), pieces)
    pieces_before = np.arange(len(documents)) - np.repeat(pieces.cumsum() - pieces, pieces)
    inside = np.arange(width) < (kept[documents] - pieces_before * width)[:, None]
    if (kept < lengths).any():
        places = np.arange(len(words)) - np.repeat(lengths.cumsum() - lengths, lengths)
        words = words[places < np.repeat(kept, lengths)]
    rows = np.full(inside.shape, PAD, dtype=words.dtype)
    rows[inside] = words  # sequences are in the order of the documents, and so are the words
    return rows, documents


def pack_end_to_end(
    words: Integer[np.ndarray, " w"],
    lengths: Integer[np.ndarray, " d"],
    width: int,
    separator: int,
    before: Integer[np.ndarray, " b"],
) -> tuple[Integer[np.ndarray, "n width"], Integer[np.ndarray, " n_1"], Integer[np.ndarray, " r"]]:
    """All documents concatenated, `separator` after each, cut every `width` words, without padding.

    `before` are the words left over from earlier documents, fewer than `width`. Returns the n sequences; the
    document, from 0, in which each starts (-1: an earlier one), followed by that of the left-over words; and
    these words.

    >>> rows, documents, rest = pack_end_to_end(
    ...     np.arange(10, 17), np.array([5, 2]), width=4, separator=3, before=np.array([9])
    ... )
    >>> rows.tolist(), documents.tolist(), rest.tolist()
    ([[9, 10, 11, 12], [13, 14, 3, 15]], [-1, 0, 1], [16, 3])
    """
    stream = np.concatenate([before, np.insert(words, lengths.cumsum(), separator)]).astype(words.dtype)
    n = len(stream) // width
    starts = np.arange(n + 1) * width - len(before)
    ends = (lengths + 1).cumsum()
    documents = np.minimum(np.searchsorted(ends, starts, side="right"), len(ends) - 1)
    documents[starts < 0] = -1
    return stream[: n * width].reshape(n, width), documents, stream[n * width :]


def text_hash(text: str) -> bytes:
    r"""16 bytes that identify a text up to white space, capitals, and how Unicode writes the same characters.

    Its format characters, such as a byte order mark within a text, make no difference.

    >>> text_hash("The cat\n sat. ") == text_hash("the cat sat.") != text_hash("the cat sat")
    True
    >>> text_hash("caf\u00e9") == text_hash("\ufeffcafe\u0301")
    True
    """
    if not text.isascii():
        text = unicodedata.normalize("NFD", text.translate(_format_characters()))
    folded = " ".join(text.split()).casefold()
    return hashlib.blake2b(unicodedata.normalize("NFC", folded).encode(), digest_size=16).digest()


@cache
def _format_characters() -> dict[int, None]:
    """Most have no width; BERT's tokenizer drops all."""
    return {code: None for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"}


def is_held_out(hashed: bytes, share: float) -> bool:
    """Whether a document with this hash is in the validation `share`, whatever the other documents are.

    >>> sum(is_held_out(text_hash(str(number)), 0.1) for number in range(1000))
    100
    """
    return int.from_bytes(hashed[:8]) < share * 2**64
