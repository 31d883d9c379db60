"""Sentences of a language, in words, to be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from isoloss.experiments.quantity import Columns
from isoloss.languages.language import Language
from isoloss.measurements.record import Record
from isoloss.progress import Progress


@dataclass(frozen=True)
class DrawnSentences:
    """`sentences` sentences drawn with `seed`, a column each; each one's number is how many words it has."""

    revision: ClassVar[int] = 1

    sentences: int
    seed: int

    def measure(self, language: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`: the words, with blanks between, are the setting `text`."""
        progress("sentences", 0, 1)
        drawn = language.sample(self.sentences, torch.Generator().manual_seed(self.seed))
        return [
            Record(
                "sentence_length",
                length,
                "words",
                None,
                1,
                self.seed,
                settings={"text": " ".join(language.vocabulary[word] for word in ids[:length])},
            )
            for ids, length in zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
        ]

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: `sentence_1`, `sentence_2` and so on, the texts."""
        return {f"sentence_{n}": record.settings["text"] for n, record in enumerate(records, start=1)}
