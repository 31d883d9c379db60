"""Figures 6 and 7: a sentence of the grammar as its tree, and sentences that a causal model generates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import torch
from tokenizers import decoders

from isoloss.errors import BadInput
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.planned_run import LanguagePlan, ReadyLanguage
from isoloss.experiments.reference import PlannedReference
from isoloss.experiments.scales.scale import Scale
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.quantity import Columns
from isoloss.measurements.record import Record
from isoloss.panels import Axis, Panel, Table, Tree
from isoloss.progress import Progress

SENTENCES = 8
SEED_OF_SENTENCES = 7
WORD_START = "Ġ"
"""How a byte-level vocabulary writes the blank before a word."""

TREES = 3
SEED = 6
CAPTION = (
    "The words of the sentence are at the bottom, in order, below the symbols that they derive from. The "
    "tasks ask for the symbol of the whole sentence, of its first half and of its first quarter, given the "
    "words below it."
)


def figure_6(scale: Scale) -> Experiment:
    """Derivations of the scale's grammar; nothing is pre-trained. Raises BadInput for another language."""
    plan = scale.grammar.language
    if not isinstance(plan, ReadyLanguage) or not isinstance(plan.ready, PCFG):
        raise BadInput("Figure 6 shows derivations, which only a grammar has; give the grammar itself")
    language = plan.ready
    return Experiment(
        name="figure-6",
        title="What do the grammar's sentences and their trees look like?",
        text=(
            "Sentences are drawn from a random grammar, each together with its derivation tree. Models see "
            "only the words.",
        ),
        runs=(),
        panels=lambda _: tree_panels(language),
        settings=(("grammar", language.digest[:16]), ("seed", str(SEED))),
    )


def tree_panels(language: PCFG) -> tuple[Panel, ...]:
    """A panel a derivation, whose data is its sentence, a row a word."""
    drawn = language.sample_derivations(TREES, torch.Generator().manual_seed(SEED))
    table = Table((Axis("position", "position"), Axis("word", "word")))
    return tuple(
        Panel(
            f"tree-{number}",
            f"Sentence {number}",
            CAPTION,
            (Tree(tree), table),
            pl.DataFrame({"position": range(1, len(tree.words) + 1), "word": tree.words}),
        )
        for number, tree in enumerate(drawn, start=1)
    )


def figure_7(language: LanguagePlan) -> Experiment:
    """Sentences of `language`, drawn once it is there; nothing else is measured."""
    return Experiment(
        name="figure-7",
        title="What do the causal language model's sentences look like?",
        text=(
            "A causal language model over its own vocabulary, restricted to its most frequent words, "
            "generates this language word by word, to a fixed length. The paper uses OPT with 125M "
            "parameters, 2,000 words and 24 positions.",
        ),
        runs=(),
        references=(PlannedReference("sentences", language, DrawnSentences(SENTENCES, SEED_OF_SENTENCES)),),
        panels=sentence_panels,
        settings=(("words", f"{language.words:,}"), ("seed", str(SEED_OF_SENTENCES))),
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
    caption = f"The first sentences drawn with seed {SEED}, truncated at their fixed length."
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


@dataclass(frozen=True)
class DrawnSentences:
    """`sentences` sentences drawn with `seed`, a column each; each one's number is how many words it has."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)

    sentences: int
    seed: int

    def measure(self, source: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`: the words, with blanks between, are the setting `text`."""
        progress("sentences", 0, 1)
        drawn = source.sample(self.sentences, torch.Generator().manual_seed(self.seed))
        return [
            Record(
                "sentence_length",
                length,
                "words",
                None,
                1,
                self.seed,
                settings={"text": " ".join(source.vocabulary[word] for word in ids[:length])},
            )
            for ids, length in zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
        ]

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `ReferenceQuantity`."""
        return tuple(f"sentence_{number}" for number in range(1, self.sentences + 1))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: `sentence_1`, `sentence_2` and so on, the texts."""
        return {f"sentence_{n}": record.settings["text"] for n, record in enumerate(records, start=1)}
