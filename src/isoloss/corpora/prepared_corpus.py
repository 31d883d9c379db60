"""A corpus specification, and the cache folder in which the corpus is prepared once."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from isoloss.corpora.documents import DocumentSource, LocalFiles
from isoloss.corpora.packed_corpus import (
    CORPUS_FILE,
    PARTS,
    TOKENIZER_FOLDER,
    CorpusCounts,
    PackedCorpus,
    documents_file,
    is_held_out,
    read_packed_corpus,
    read_tokenizer,
    text_hash,
    tokens_file,
)
from isoloss.corpora.tokenisation import JOURNAL_FILE, DamagedBeginning, Packing, tokenise
from isoloss.corpora.vocabulary import OwnVocabulary, TokenizerChoice, renumbered
from isoloss.errors import BadInput
from isoloss.files import (
    complete_folder,
    is_still,
    remove_unfinished,
    sync,
    writable,
    write_atomically,
)
from isoloss.progress import Progress, silent
from isoloss.results.store import digests_in, write_sealed

LAYOUT = 1
"""Incremented when the same request would give other sequences, so that an outdated cache is never read."""

DUPLICATES = 2
"""Incremented when other documents count as one and the same. It is in the folder's name alone: none of the
books that shipped runs were trained on is concerned, and their plans hold the digest of the request."""

VOCABULARY_CHARACTERS = 1 << 28
"""A vocabulary is trained on at most this many characters from the start of the training part; which pieces
are frequent is settled long before."""

CHARACTERS_BETWEEN_REPORTS = 1 << 20

COMMIT_FILE = "commit"
"""In an unfinished corpus of a data set on a hub: the commit whose documents it was begun with."""
NOTES = (JOURNAL_FILE, COMMIT_FILE)
"""What an unfinished corpus has beside what is made of it."""


@dataclass(frozen=True)
class CorpusRequest:
    """The settings that a prepared corpus depends on.

    `length` counts a sequence's tokens, [CLS] and length - 1 words; the paper's is 128 (A.2). After removing
    duplicates, documents whose hash falls into `validation_share` are for validation. `across_documents`
    packs documents end to end with a separator between them, for those shorter than a sequence, such as
    BookCorpus's sentences; otherwise no sequence spans two documents.
    """

    source: DocumentSource
    words: TokenizerChoice = OwnVocabulary()  # noqa: RUF009  (frozen)
    length: int = 128
    validation_share: float = 0.05
    across_documents: bool = False

    def __post_init__(self) -> None:
        if self.length < 2:
            raise BadInput(f"a sequence needs [CLS] and a word, so a length of at least 2, not {self.length}")
        if not 0 < self.validation_share < 1:
            raise BadInput(
                f"the validation part's share must be above 0 and below 1, not {self.validation_share}"
            )

    @cached_property
    def digest(self) -> str:
        """Identifies the corpus in advance: by the source's and the tokenizer's digests, and the settings."""
        settings = [LAYOUT, self.length, self.validation_share, self.across_documents]
        named = json.dumps([self.source.digest, self.words.digest, *settings])
        return hashlib.sha256(named.encode()).hexdigest()


def prepared_corpus(request: CorpusRequest, cache: Path, progress: Progress = silent) -> PackedCorpus:
    """The corpus: read from corpora/ in `cache` if it is complete there, otherwise prepared there first.

    An interrupted preparation resumes where it stopped, with bitwise the same result; if several processes
    ask for a corpus, one prepares it and the others wait. Disk: two or four bytes per token. Raises BadInput
    if documents or tokenizer cannot be used or are too few, and IsolossError if something cannot be fetched
    or written. A damaged corpus is prepared again: its documents are kept elsewhere, so nothing is lost.
    """
    folder = cache / "corpora" / f"{request.digest[:16]}-{DUPLICATES}"
    if found := _whole(folder):
        with suppress(OSError):  # left by a process that was killed when all else was done
            _remove_notes(folder)
        return found
    with _alone_at(folder, progress):
        if found := _whole(folder):  # another process has prepared it in the meantime
            return found
        if folder.exists():
            progress("corpus", 0, 1, f"{folder} is damaged: it is prepared again from its documents")
            with writable(folder):
                shutil.rmtree(folder)
        _prepare(request, cache, folder, progress)
    return read_packed_corpus(folder)


def _whole(folder: Path) -> PackedCorpus | None:
    """The corpus in the folder; None if there is none, or a damaged one."""
    try:
        return read_packed_corpus(folder) if (folder / CORPUS_FILE).is_file() else None
    except BadInput:
        return None


def _prepare(request: CorpusRequest, cache: Path, folder: Path, progress: Progress) -> None:
    unfinished = folder.with_name(f".{folder.name}.part")
    commit = _begun_with(request.source, unfinished, progress)
    try:
        try:
            counts = _tokenised(request, cache, unfinished, progress)
        except DamagedBeginning as error:
            progress("corpus", 0, 1, f"{error}: the corpus is prepared from the first document on")
            shutil.rmtree(unfinished)
            _ = _begun_with(request.source, unfinished, progress)
            counts = _tokenised(request, cache, unfinished, progress)
        _refuse_too_few(counts, request, unfinished)
    except BadInput:  # other text makes another corpus: nothing would ever resume from here
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    facts = {
        "digest": _content_digest(unfinished),
        "maximum_length": request.length - 1,
        "counts": asdict(counts),
        # Of a data set on a hub, what its revision's name stood for when it was read.
        **({"commit": commit} if commit else {}),
    }
    with writable(folder):
        left_out = (CORPUS_FILE, *NOTES)
        digests = {name: of for name, of in digests_in(unfinished).items() if name not in left_out}
        write_sealed(unfinished / CORPUS_FILE, {**facts, "files": digests}, folder.name)
        unfinished.rename(folder)
        _remove_notes(folder)
        sync(folder.parent)


def _remove_notes(folder: Path) -> None:
    for name in NOTES:
        (folder / name).unlink(missing_ok=True)


def _begun_with(source: DocumentSource, unfinished: Path, progress: Progress) -> str | None:
    """The commit of a hub's data set whose documents are in `unfinished`, or will be; None of other sources.

    What an interrupted preparation made of another commit's documents is removed: its tokenizer and first
    sequences would be of texts that are read no more. Where the hub cannot be asked, its cache has those that
    were read before.
    """
    commit: str | None = getattr(source, "commit", None)
    path = unfinished / COMMIT_FILE
    begun = path.read_text("utf-8", "replace") if path.is_file() else None
    if commit in (None, begun):
        return begun
    with writable(unfinished):
        if unfinished.exists():
            progress("corpus", 0, 1, "the data set has changed on the hub: the corpus is prepared anew")
            shutil.rmtree(unfinished)
        unfinished.mkdir(parents=True)
        write_atomically(path, commit)
    return commit


def _tokenised(request: CorpusRequest, cache: Path, folder: Path, progress: Progress) -> CorpusCounts:
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    remove_unfinished(folder)
    if not (folder / TOKENIZER_FOLDER).is_dir():
        progress("tokenizer", 0, 1)
        chosen = request.words.tokenizer(lambda: _training_texts(request, cache, progress))
        made = renumbered(chosen, request.length)
        if request.across_documents and made.sep_token is None:
            raise BadInput("the tokenizer has no separator to put between documents; pack each by itself")
        with complete_folder(folder / TOKENIZER_FOLDER) as place:
            made.save_pretrained(place)
        progress("tokenizer", 1, 1)
    packing = Packing(request.length - 1, request.validation_share, request.across_documents)
    documents = request.source.documents(cache, progress)
    tokenizer = read_tokenizer(folder / TOKENIZER_FOLDER)
    size = request.source.size(cache)
    counts = tokenise(documents, tokenizer, packing, folder, size, progress)
    progress("tokenising", 1, 1)
    return counts


def _training_texts(request: CorpusRequest, cache: Path, progress: Progress) -> Iterator[str]:
    """The texts of the training part, duplicates included, from which an own vocabulary is made."""
    characters = reported = 0
    size = min(request.source.size(cache) or VOCABULARY_CHARACTERS, VOCABULARY_CHARACTERS)
    for document in request.source.documents(cache, progress):
        if is_held_out(text_hash(document.text), request.validation_share):
            continue
        yield document.text
        if (characters := characters + len(document.text)) > VOCABULARY_CHARACTERS:
            return
        if characters - reported >= CHARACTERS_BETWEEN_REPORTS:
            reported = characters
            progress("tokenizer", characters, max(size, characters + 1), "reading for a vocabulary")


def _refuse_too_few(counts: CorpusCounts, request: CorpusRequest, folder: Path) -> None:
    source = request.source
    place = " and ".join(map(str, source.paths)) if isinstance(source, LocalFiles) else "the source"
    if not counts.documents:
        raise BadInput(f"there are no documents in {place}; give texts that are not blank")
    read = f"{counts.documents:,} document{'s' * (counts.documents > 1)}"
    twice = f" ({counts.duplicates:,} of them duplicates)" if counts.duplicates else ""
    short = counts.training.dropped_words + counts.validation.dropped_words
    left_out = (
        f"; {short:,} words were in pieces too short to keep: a smaller --length"
        f"{'' if request.across_documents else ', --document file or --across-documents'} keeps them"
        if short
        else ""
    )
    for part, needed in zip(PARTS, (1, 2), strict=True):  # one document gives no error bar
        held = len(np.unique(np.fromfile(documents_file(folder, part), np.int32)))
        if held < needed:
            raise BadInput(
                f"there is too little text in {place}: of {read}{twice}, {held} went into the {part} part, "
                f"which needs at least {needed}; give more or longer documents, or another validation share "
                f"than {request.validation_share}{left_out}"
            )


def _content_digest(folder: Path) -> str:
    """SHA-256 of the tokenizer and of both parts' sequences."""
    digest = hashlib.sha256((folder / TOKENIZER_FOLDER / "tokenizer.json").read_bytes())
    for part in PARTS:
        with tokens_file(folder, part).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


@contextmanager
def _alone_at(folder: Path, progress: Progress) -> Iterator[None]:
    """Wait until no other process is preparing this corpus; a killed process holds no lock.

    Who held the lock removes its file, so that those who waited for it lock another.
    """
    lock = folder.with_name(f".{folder.name}.lock")
    with writable(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = lock.open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress("waiting", 0, 1, "another process prepares the corpus")
                fcntl.flock(file, fcntl.LOCK_EX)
                progress("waiting", 1, 1)
            if is_still(lock, file.fileno()):
                break
            file.close()
    with file:
        try:
            yield
        finally:
            with suppress(OSError):
                lock.unlink()
