"""Documents made into packed sequences on disk, shard by shard: resumes at the next shard if interrupted."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from isoloss.corpora.documents import Document
from isoloss.corpora.packed_corpus import (
    PARTS,
    CorpusCounts,
    Part,
    PartCounts,
    documents_file,
    is_held_out,
    pack_each,
    pack_end_to_end,
    text_hash,
    token_type,
    tokens_file,
)
from isoloss.errors import BadInput
from isoloss.files import writable
from isoloss.models.tokenizer import naming_the_text
from isoloss.objectives.tokens import FIRST_WORD, PAD
from isoloss.progress import Progress
from isoloss.results.store import json_digest, read_sealed, write_sealed
from isoloss.results.tensors import from_plain

SHARD_CHARACTERS = 1 << 21
"""About how much text is tokenised and written at once: enough that all cores work, and a few hundred
megabytes of memory with what the tokenizer remembers of it."""

JOURNAL_FILE = "journal.json"
BYTES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Packing:
    """How documents become sequences of `words` words each, and which of them are for validation."""

    words: int
    validation_share: float
    across_documents: bool


@dataclass
class Shard:
    """Distinct documents in order, and how much had been read by the last of them.

    `documents` and `duplicates` count from the very first document; `characters` is how much was read.
    """

    documents: int = 0
    duplicates: int = 0
    characters: int = 0
    numbers: list[int] = field(default_factory=list)
    kept: list[Document] = field(default_factory=list)
    held_out: list[bool] = field(default_factory=list)


@dataclass(frozen=True)
class Journal:
    """What is safe on disk: all shards up to `counts.documents`, and words left over for the next.

    `left_over[part]` has those words' tokens and the document of the first of them; `digests` are the SHA-256
    of both parts' files so far, by name.
    """

    counts: CorpusCounts = CorpusCounts()  # noqa: RUF009  (frozen)
    left_over: dict[str, tuple[list[int], int]] = field(default_factory=lambda: {p: ([], 0) for p in PARTS})
    digests: dict[str, str] = field(default_factory=dict)


class DamagedBeginning(BadInput):
    """The files of an interrupted preparation are not as it wrote them, so it cannot be resumed."""


def tokenise(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerFast,
    packing: Packing,
    folder: Path,
    size: int,
    progress: Progress,
) -> CorpusCounts:
    """Write both parts' sequences into `folder`; resumes where the journal there ends.

    Documents are read again from the first, but those on disk are neither tokenised nor written; the result
    is bitwise the same. Tokenises on all cores, one shard ahead of packing and writing. Memory: two shards
    and the tokenizer's cache of them, and about 100 bytes per distinct document for its hash. `size` is the
    approximate number of characters, for progress. Raises DamagedBeginning if the files on disk do not match
    the journal there.
    """
    # The tokenizer of the words is part of the journal's name.
    name = json_digest(tokenizer.backend_tokenizer.to_str())
    journal = _read_journal(folder / JOURNAL_FILE, name)
    begun = journal.counts.documents
    shards = (shard for shard in _shards(documents, packing.validation_share) if shard.documents > begun)
    with writable(folder):
        writers = {part: _PartWriter(part, journal, tokenizer, packing, folder) for part in PARTS}
        try:
            for shard, words, lengths in _encoded_ahead(shards, tokenizer):
                held_out = np.array(shard.held_out, dtype=bool)
                numbers = np.array(shard.numbers, dtype=np.int32)
                for part, chosen in zip(PARTS, (~held_out, held_out), strict=True):
                    writers[part].add(words[np.repeat(chosen, lengths)], lengths[chosen], numbers[chosen])
                counts = CorpusCounts(
                    shard.documents, shard.duplicates, *(writers[part].settle() for part in PARTS)
                )
                left_over: dict[str, tuple[list[int], int]] = {p: writers[p].left_over for p in PARTS}
                digests = {file: digest for part in PARTS for file, digest in writers[part].digests.items()}
                journal = Journal(counts, left_over, digests)
                write_sealed(folder / JOURNAL_FILE, asdict(journal), name)
                so_far = f"{counts.training.words + counts.validation.words:,} words"
                progress("tokenising", shard.characters, max(size, shard.characters + 1), so_far)
        finally:
            for writer in writers.values():
                writer.close()
    return _with_dropped_rest(journal)


def _shards(documents: Iterable[Document], validation_share: float) -> Iterator[Shard]:
    """The documents in shards, each text once; the last shard may be empty."""
    seen: set[bytes] = set()
    shard, held = Shard(), 0
    for number, document in enumerate(documents):
        shard.documents = number + 1
        shard.characters += len(document.text)
        hashed = text_hash(document.text)
        if hashed in seen:
            shard.duplicates += 1
            continue
        seen.add(hashed)
        shard.numbers.append(number)
        shard.kept.append(document)
        shard.held_out.append(is_held_out(hashed, validation_share))
        held += len(document.text)
        if held >= SHARD_CHARACTERS:
            yield shard
            shard, held = Shard(shard.documents, shard.duplicates, shard.characters), 0
    yield shard


def _encoded_ahead(
    shards: Iterable[Shard], tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[Shard, Integer[np.ndarray, " w"], Integer[np.ndarray, " d"]]]:
    """Each shard with its documents' words; the next one is encoded in the meantime."""
    encoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    encoder.encode_special_tokens = True  # a text containing "[MASK]" must not yield the token
    kind = token_type(tokenizer)
    with ThreadPoolExecutor(1) as beside:
        before: tuple[Shard, Future[Any]] | None = None
        for shard in shards:
            now = shard, beside.submit(_encoded, encoder, shard.kept, kind)
            if before:
                yield before[0], *before[1].result()
            before = now
        if before:
            yield before[0], *before[1].result()


def _encoded(
    tokenizer: Tokenizer, documents: list[Document], kind: np.dtype[Any]
) -> tuple[Integer[np.ndarray, " w"], Integer[np.ndarray, " d"]]:
    """The documents' words end to end, and the number of words of each."""
    texts = [document.text for document in documents]
    places = [document.place for document in documents]
    advice = "choose one that knows all words or has a token for unknown ones"
    with naming_the_text(places, lambda number: tokenizer.encode(texts[number]), "the", advice):
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
    words = np.fromiter(chain.from_iterable(e.ids for e in encodings), kind, int(lengths.sum()))
    special = words < FIRST_WORD
    if special.any():  # for a tokenizer whose pieces are special tokens too: nothing stands for them
        owners = np.repeat(np.arange(len(lengths)), lengths)[~special]
        words, lengths = words[~special], np.bincount(owners, minlength=len(lengths))
    return words, lengths


class _PartWriter:
    """Appends a part's sequences to its files, after truncating them to what the journal records."""

    def __init__(
        self, part: Part, journal: Journal, tokenizer: PreTrainedTokenizerFast, packing: Packing, folder: Path
    ) -> None:
        self.kind, self.packing = token_type(tokenizer), packing
        self.separator = tokenizer.sep_token_id
        self.unknown = tokenizer.unk_token_id
        self.counts: PartCounts = getattr(journal.counts, part)
        self.left_over = journal.left_over[part]
        done = self.counts.sequences
        wide = packing.words * self.kind.itemsize
        self.tokens = _Appended(tokens_file(folder, part), done * wide, journal.digests)
        self.documents = _Appended(documents_file(folder, part), done * 4, journal.digests)

    def add(
        self,
        words: Integer[np.ndarray, " w"],
        lengths: Integer[np.ndarray, " d"],
        numbers: Integer[np.ndarray, " d"],
    ) -> None:
        """Pack and write documents: their words end to end, their lengths, and their numbers."""
        width, dropped = self.packing.words, 0
        if self.packing.across_documents:
            before, document = self.left_over
            rows, owners, rest = pack_end_to_end(
                words, lengths, width, self.separator, np.array(before, self.kind)
            )
            owned = np.append(numbers, np.int32(document))[owners]  # its last is the one that -1 refers to
            self.left_over = rest.tolist(), int(owned[-1])
            owned = owned[:-1]
        else:
            rows, owners = pack_each(words, lengths, width)
            owned = numbers[owners]
            dropped = len(words) - int((rows != PAD).sum())
        self.tokens.write(rows.tobytes())
        self.documents.write(owned.tobytes())
        self.counts = PartCounts(
            self.counts.documents + len(lengths),
            self.counts.sequences + len(rows),
            self.counts.words + int((rows != PAD).sum()),
            self.counts.dropped_words + dropped,
            self.counts.unknown_words + int((rows == self.unknown).sum()),
        )

    def settle(self) -> PartCounts:
        """Make the additions durable; returns the counts."""
        for file in (self.tokens, self.documents):
            file.file.flush()
            os.fsync(file.file.fileno())
        return self.counts

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the files so far, by name."""
        return {file.path.name: file.digest.hexdigest() for file in (self.tokens, self.documents)}

    def close(self) -> None:
        """Close the files."""
        self.tokens.file.close()
        self.documents.file.close()


class _Appended:
    """A file to append to after its first `size` bytes, and the digest of its whole content.

    Raises DamagedBeginning if those bytes are missing or not those that were written.
    """

    def __init__(self, path: Path, size: int, digests: Mapping[str, str]) -> None:
        self.path, self.digest = path, hashlib.sha256()
        self.file = path.open("a+b")
        self.file.truncate(min(size, self.file.tell()))
        self.file.seek(0)
        while piece := self.file.read(BYTES_AT_ONCE):
            self.digest.update(piece)
        found = self.digest.hexdigest()
        if self.file.tell() < size or digests.get(path.name, found) != found:
            self.file.close()
            raise DamagedBeginning(f"{path} is not what was written")

    def write(self, content: bytes) -> None:
        """Append."""
        self.digest.update(content)
        self.file.write(content)


def _read_journal(path: Path, name: str) -> Journal:
    if not path.exists():
        return Journal()
    try:
        content = read_sealed(path, name)
        left_over = {part: (words, document) for part, (words, document) in content["left_over"].items()}
        return Journal(from_plain(CorpusCounts, content["counts"]), left_over, content["digests"])
    except (BadInput, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedBeginning(f"{path} is not what was written") from error


def _with_dropped_rest(journal: Journal) -> CorpusCounts:
    """The counts if no further document can use the words left over."""
    counts = journal.counts
    training, validation = (
        replace(each, dropped_words=each.dropped_words + len(journal.left_over[part][0]))
        for part, each in zip(PARTS, (counts.training, counts.validation), strict=True)
    )
    return replace(counts, training=training, validation=validation)
