"""Figure 7: sentences of the language that a causal language model generates."""

import polars as pl
from tokenizers import decoders

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.planned_run import LanguagePlan
from isoloss.experiments.quantities.sentences import DrawnSentences
from isoloss.experiments.reference import PlannedReference
from isoloss.panels import Axis, Panel, Table

SENTENCES = 8
SEED = 7
WORD_START = "Ġ"
"""How a byte-level vocabulary writes the blank before a word."""


def figure_7(language: LanguagePlan) -> Experiment:
    """Sentences of `language`, drawn once it is there; nothing else is measured."""
    return Experiment(
        name="figure-7",
        title="What do the causal language model's sentences look like?",
        text=(
            "A causal language model over its own vocabulary, cut to its most frequent words, generates this "
            "language word by word, to a fixed length. The paper's is OPT with 125M parameters, 2,000 words "
            "and 24 positions.",
        ),
        runs=(),
        references=(PlannedReference("sentences", language, DrawnSentences(SENTENCES, SEED)),),
        panels=sentence_panels,
        settings=(("words", f"{language.words:,}"), ("seed", str(SEED))),
        paper_numbers=(
            (
                "sentences",
                "I really don't either, so why do you feel it wouldn't be great when you can; I want the "
                "person in the photo to tell me there are children under 6 years old in the",
            ),
        ),
    )


def sentence_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    """One table, a row a sentence; the vocabulary's pieces are put together again."""
    texts = [text for name in table.columns if name.startswith("sentence_") for text in table[name]]
    rows = pl.DataFrame({"sentence": [readable(text) for text in texts]}, schema={"sentence": pl.String})
    caption = f"The first sentences drawn with seed {SEED}, cut off where their length ends."
    return (Panel("sentences", "Sentences", caption, (Table((Axis("sentence", "sentence"),)),), rows),)


def readable(pieces: str) -> str:
    """Pieces of a byte-level vocabulary as text; words of any other are left as they are.

    >>> readable("ĠHe Ġwent Ġout side .")
    'He went outside.'
    >>> readable("w3 w11")
    'w3 w11'
    """
    if WORD_START not in pieces:
        return pieces
    return str(decoders.ByteLevel().decode(pieces.split())).strip()
