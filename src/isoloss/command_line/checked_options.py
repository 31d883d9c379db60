"""Checks of commands' options before any work is done, and the defaults of options that were not given."""

import tempfile
from pathlib import Path

from isoloss.corpora.token_sentences import Corpus, TextCorpus, read_text_corpus
from isoloss.curvature.stopping import Stopping
from isoloss.errors import BadInput
from isoloss.files import writable

RELATIVE_ERROR = 0.02
"""Of a trace, if no stopping criterion is given."""


def refuse_existing(path: Path) -> None:
    """Raise BadInput for a file that already exists; see also `refuse_unwritable`."""
    if path.exists():
        raise BadInput(f"{path} is there already; name another file, or delete it first")
    refuse_unwritable(path)


def refuse_unwritable(path: Path) -> None:
    """Create the file's folder. Raises IsolossError for a folder, or if nothing can be written into it."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file")
    with writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def refuse_below(least: int, number: int, option: str) -> None:
    """Raise BadInput for a number below the least that the option takes."""
    if number < least:
        raise BadInput(f"{option} must be at least {least}, not {number}")


def usable_seed(seed: int) -> int:
    """The seed, if torch accepts it. Raises BadInput otherwise."""
    if not 0 <= seed < 2**63:
        raise BadInput(f"--seed must be from 0 to {2**63 - 1}, not {seed}")
    return seed


def trace_stopping(relative_error: float | None, sentences: int | None, seconds: float | None) -> Stopping:
    """When a trace is known well enough: as requested, or at a relative error of `RELATIVE_ERROR`.

    Raises BadInput for fewer than two sentences, which have no error bar.

    >>> trace_stopping(None, None, None).relative_error, trace_stopping(None, 100, None).relative_error
    (0.02, None)
    """
    if sentences is not None:
        refuse_below(2, sentences, "--sentences")
    free = relative_error is None and sentences is None and seconds is None
    return Stopping(RELATIVE_ERROR if free else relative_error, sentences, seconds)


def usable_mask_rate(rate: float) -> float:
    """The share of tokens to mask. Raises BadInput if it is not a valid share."""
    if not 0 < rate <= 1:
        raise BadInput(f"the mask rate must be above 0 and at most 1, not {rate}")
    return rate


def measured_text(text: Path | None, dataset: str | None) -> TextCorpus | None:
    """The sentences of a text file or a data set, still without a tokenizer; None if neither is given.

    Raises BadInput if they cannot be read, and as `refuse_single_sentence` does.
    """
    if text is not None:
        corpus = read_text_corpus(text, None, None)
    elif dataset is not None:
        from isoloss.corpora.data_sets import read_data_set  # most calls need not wait for this

        corpus = read_data_set(dataset, None, None)
    else:
        return None
    refuse_single_sentence(corpus, text or dataset)
    return corpus


def refuse_single_sentence(corpus: Corpus, source: Path | str | None) -> None:
    """Raise BadInput for a corpus of one sentence, which has no error bar."""
    if len(corpus) < 2:
        raise BadInput(
            f"{source} has a single sentence, but an error bar takes two; give a sentence or a document a "
            "line"
        )
