"""Documents made into packed sequences on disk, a shard at a time: interrupted, it goes on at the next."""

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Integer
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from isoloss.corpora.documents import Document, is_held_out, text_hash
from isoloss.corpora.packed_corpus import (
    PARTS,
    CorpusCounts,
    Part,
    PartCounts,
    counts_of_json,
    documents_file,
    pack_each,
    pack_end_to_end,
    token_type,
    tokens_file,
)
from isoloss.errors import BadInput, IsolossError
from isoloss.files import writable, write_atomically
from isoloss.objectives.tokens import FIRST_WORD, PAD
from isoloss.progress import Progress

SHARD_CHARACTERS = 1 << 21
"""About how much text is tokenised and written at once: enough that all cores work, and a few hundred
megabytes of memory with what the tokenizer remembers of it."""

JOURNAL_FILE = "journal.json"


@dataclass(frozen=True)
class Packing:
    """How documents become sequences of `words` words each, and which of them validate."""

    words: int
    validation_share: float
    across_documents: bool


@dataclass
class Shard:
    """Distinct documents in their order, and how much had been read when the last of them was.

    `documents` and `duplicates` count from the first document of all; `characters` are what was read.
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

    `left_over[part]` are those words' tokens and the document that the first of them stands in.
    """

    counts: CorpusCounts = CorpusCounts()  # noqa: RUF009  (frozen)
    left_over: dict[str, tuple[list[int], int]] = field(default_factory=lambda: {p: ([], 0) for p in PARTS})


def tokenise(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerFast,
    packing: Packing,
    folder: Path,
    size: int,
    progress: Progress,
) -> CorpusCounts:
    """Write both parts' sequences into `folder`; goes on where the journal there ends.

    Documents are read again from the first on, those on disk neither tokenised nor written; what comes out
    is the same to the bit. Tokenises on all cores, one shard ahead of packing and writing. Memory: two
    shards with what the tokenizer remembers of them, and about 100 bytes a distinct document for its hash.
    `size` is about how many characters there are, for progress.
    """
    journal = _read_journal(folder / JOURNAL_FILE)
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
                journal = Journal(counts, {part: writers[part].left_over for part in PARTS})
                write_atomically(folder / JOURNAL_FILE, json.dumps(asdict(journal)))
                told = f"{counts.training.words + counts.validation.words:,} words"
                progress("tokenising", shard.characters, max(size, shard.characters + 1), told)
        finally:
            for writer in writers.values():
                writer.close()
    return _with_dropped_rest(journal)


def _shards(documents: Iterable[Document], validation_share: float) -> Iterator[Shard]:
    """The documents in shards, each text once; the last shard may hold none."""
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
    """Each shard with its documents' words; the next one is being encoded meanwhile."""
    encoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    encoder.encode_special_tokens = True  # a text that says "[MASK]" shall not have one
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
    """The documents' words end to end, and how many each has."""
    texts = [document.text for document in documents]
    try:
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    except Exception as error:  # what `tokenizers` raises is a bare one, which does not say where
        raise _refusal(tokenizer, documents) from error
    lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
    words = np.fromiter(chain.from_iterable(e.ids for e in encodings), kind, int(lengths.sum()))
    special = words < FIRST_WORD
    if special.any():  # of a tokenizer whose pieces are special tokens too: nothing stands for them
        owners = np.repeat(np.arange(len(lengths)), lengths)[~special]
        words, lengths = words[~special], np.bincount(owners, minlength=len(lengths))
    return words, lengths


def _refusal(tokenizer: Tokenizer, documents: list[Document]) -> BadInput:
    for document in documents:
        try:
            tokenizer.encode(document.text)
        except Exception as error:
            reason = str(error).strip().rstrip(".")
            return BadInput(
                f"{document.place}: the tokenizer cannot encode the text ({reason}); choose one that knows "
                "all words or has a token for unknown ones"
            )
    return BadInput("the tokenizer cannot encode the texts together; choose another")


class _PartWriter:
    """Appends a part's sequences to its files, which first lose what the journal does not know of."""

    def __init__(
        self, part: Part, journal: Journal, tokenizer: PreTrainedTokenizerFast, packing: Packing, folder: Path
    ) -> None:
        self.kind, self.packing = token_type(tokenizer), packing
        self.separator = tokenizer.sep_token_id
        self.unknown = tokenizer.unk_token_id
        self.counts: PartCounts = getattr(journal.counts, part)
        self.left_over = journal.left_over[part]
        done = self.counts.sequences
        self.tokens = _opened(tokens_file(folder, part), done * packing.words * self.kind.itemsize)
        self.documents = _opened(documents_file(folder, part), done * np.dtype(np.int32).itemsize)

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
            owned = np.append(numbers, np.int32(document))[owners]  # its last is what -1 stands for
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
        """Make what was added durable; the counts."""
        for file in (self.tokens, self.documents):
            file.flush()
            os.fsync(file.fileno())
        return self.counts

    def close(self) -> None:
        """Close the files."""
        self.tokens.close()
        self.documents.close()


def _opened(path: Path, size: int) -> BinaryIO:
    """The file, to append to after its first `size` bytes. Raises IsolossError where it has fewer."""
    file = path.open("ab")
    if file.tell() < size:  # which `truncate` would make up for with padding
        file.close()
        raise IsolossError(
            f"{path} is shorter than what was written; delete the folder {path.parent} and prepare it again"
        )
    file.truncate(size)
    return file


def _read_journal(path: Path) -> Journal:
    try:
        kept = json.loads(path.read_text())
        left_over = {part: (words, document) for part, (words, document) in kept["left_over"].items()}
        return Journal(counts_of_json(kept["counts"]), left_over)
    except FileNotFoundError:
        return Journal()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path} is damaged ({error}); delete {path.parent} and prepare it again") from error


def _with_dropped_rest(journal: Journal) -> CorpusCounts:
    """The counts when no document follows that the words left over could be put before."""
    counts = journal.counts
    training, validation = (
        replace(each, dropped_words=each.dropped_words + len(journal.left_over[part][0]))
        for part, each in zip(PARTS, (counts.training, counts.validation), strict=True)
    )
    return replace(counts, training=training, validation=validation)
