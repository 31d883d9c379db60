"""The sentences that `isoloss flatness` and `isoloss compare` measure on, read before any model."""

from pathlib import Path

from isoloss.corpora.token_sentences import Corpus, TextCorpus, read_text_corpus
from isoloss.errors import BadInput


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
