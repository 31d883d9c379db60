"""Sentences on which a loss is differentiated or displaced: its labels are the exact law's."""

from dataclasses import dataclass

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.measurements.exact_label_law import ExactLabelLaw
from isoloss.measurements.flatness import FlatnessSet
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import ExactObjective, PretrainingObjective
from isoloss.objectives.tokens import FIRST_WORD


@dataclass(frozen=True)
class ExactLawSet:
    """One batch, and the law of its predictions, so that a gradient or a rise has no noise of labels."""

    batch: Batch
    law: ExactLabelLaw
    seed: int

    @staticmethod
    def draw(language: Language, objective: PretrainingObjective, sentences: int, seed: int) -> "ExactLawSet":
        """Draw as `FlatnessSet` does. Raises BadInput for an objective whose law is not known."""
        drawn = FlatnessSet.draw(language, objective, sentences, seed)
        return ExactLawSet.of(drawn.batch, language, objective, seed)

    @staticmethod
    def of(batch: Batch, language: Language, objective: PretrainingObjective, seed: int) -> "ExactLawSet":
        """A batch of the language's sentences, drawn before; raises BadInput as `draw` does."""
        if not isinstance(objective, ExactObjective):
            raise BadInput(
                f"the exact law of {objective} is not known, which this measure of flatness needs; "
                "measure it on masked words or next words"
            )
        tokens = len(language.vocabulary) + FIRST_WORD
        return ExactLawSet(batch, ExactLabelLaw(language, objective, tokens), seed)
