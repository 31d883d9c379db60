"""Fixed sentences, the same for all models measured on them, with their predictions and labels."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor
from torch.nn.functional import pad

from isoloss.errors import BadInput
from isoloss.measurements.quantity import LANGUAGES_AND_TEXT, Subject
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.objectives.batch import Batch, Objective, PretrainingObjective
from isoloss.progress import Progress

if TYPE_CHECKING:  # a text of the user's needs none of what languages and stored sets do
    from isoloss.corpora.packed_corpus import PackedCorpus
    from isoloss.languages.language import Language, SentenceSource
    from isoloss.results.tensors import Tensors


@dataclass(frozen=True)
class FixedSentences:
    """The predictions of each sentence: with `MaskedObjective`, one word.

    Several masks per sentence are averaged, as in the training loss. `pad` is the token that fills up
    sentences.
    """

    batches: tuple[Batch, ...]
    pad: int = 0

    @staticmethod
    def draw(
        source: "SentenceSource | PackedCorpus", objective: PretrainingObjective, n: int, seed: int
    ) -> "FixedSentences":
        """Draw n sentences and what the objective predicts of them, each taken once (`once_each`).

        For a corpus, these are validation sequences.
        """
        from isoloss.corpora.packed_corpus import PackedCorpus
        from isoloss.objectives.masked import once_each  # a text is masked otherwise

        generator = torch.Generator().manual_seed(seed)
        if isinstance(source, PackedCorpus):
            sentences, _ = source.validation_sample(n, generator)
        else:
            sentences = source.sample(n, generator)
        return FixedSentences((once_each(objective).draw(sentences, generator),))

    def tensors(self) -> "Tensors":
        """Those of the one batch that was drawn."""
        from isoloss.results.tensors import tensors_of

        (batch,) = self.batches
        return tensors_of(batch)

    @staticmethod
    def of_tensors(tensors: "Tensors") -> "FixedSentences":
        from isoloss.results.tensors import drawn_of

        return FixedSentences((drawn_of(Batch, tensors),))

    @property
    def joined(self) -> Batch:
        """All sentences in one batch, padded to the longest."""
        if len(self.batches) == 1:
            return self.batches[0]
        by_name = [batch.per_sentence(lambda array: array) for batch in self.batches]
        width = max(array.shape[1] for arrays in by_name for array in arrays.values())
        starts = itertools.accumulate(map(len, self.batches), initial=0)
        rows = torch.cat([b.rows + start for b, start in zip(self.batches, starts, strict=False)])
        positions, targets = (
            torch.cat([getattr(b, part) for b in self.batches]) for part in ("positions", "targets")
        )

        def widened(name: str, array: Tensor) -> Tensor:
            filling = self.pad if name in ("input_ids", "decoder_ids") else 0
            return pad(array, (0, width - array.shape[1]), value=filling)

        of_sentences = {
            name: torch.cat([widened(name, arrays[name]) for arrays in by_name]) for name in by_name[0]
        }
        return Batch(rows=rows, positions=positions, targets=targets, **of_sentences)


def draw_sentences(
    quantity: Any,
    source: "Language | PackedCorpus | SampledBatches",
    objective: Any,
    progress: Progress,  # noqa: ARG001
) -> FixedSentences:
    """`Quantity.draw` of a quantity with `sentences`, determined by its `seed`: of a text, the first."""
    if isinstance(source, SampledBatches):
        return FixedSentences(tuple(source.first(quantity.sentences)), source.tokens.pad)
    return FixedSentences.draw(source, objective, quantity.sentences, quantity.seed)


def draw_labelled_sentences(
    quantity: Any,
    source: "Language | PackedCorpus | SampledBatches",
    objective: Any,
    progress: Progress,
) -> FixedSentences:
    """As `draw_sentences`, for a quantity that needs exact labels; raises BadInput if none are known."""
    labelled((), source, objective)
    return draw_sentences(quantity, source, objective, progress)


DRAWN = (LANGUAGES_AND_TEXT, FixedSentences, draw_sentences)
DRAWN_WITH_LABELS = (LANGUAGES_AND_TEXT, FixedSentences, draw_labelled_sentences)
"""`sources`, `drawn_as` and `draw` of a quantity of fixed sentences."""


class Given(TypedDict):
    """What an estimator of flatness is given besides the model and the settings of its own."""

    batches: tuple[Batch, ...]
    objective: Objective
    progress: Progress


def given(drawn: FixedSentences, subject: Subject[Any], progress: Progress) -> Given:
    """For a quantity of `DRAWN_WITH_LABELS`: `gradient_norm(model, **given(drawn, subject, progress))`."""
    batches = labelled(drawn.batches, subject.source, subject.objective)
    return Given(batches=batches, objective=subject.objective, progress=progress)


def labelled(batches: Iterable[Batch], source: Any, objective: Objective) -> tuple[Batch, ...]:
    """The batches with their labels' exact distributions, without sampling noise; as they are on real text.

    Raises BadInput if the distribution is not known for this language and objective.
    """
    if source is None or isinstance(source, SampledBatches):
        return tuple(batches)
    from isoloss.corpora.packed_corpus import PackedCorpus
    from isoloss.objectives.masked import MaskedObjective
    from isoloss.objectives.next_word import NextWordObjective
    from isoloss.objectives.soft_labels import with_exact_labels

    if isinstance(source, PackedCorpus):
        return tuple(batches)
    if not isinstance(objective, MaskedObjective | NextWordObjective):
        raise BadInput(
            f"the exact distribution of {objective} is not known, which this measure of flatness needs; "
            "measure it on masked words or next words"
        )
    return tuple(with_exact_labels(batch, source, objective) for batch in filter(len, batches))
