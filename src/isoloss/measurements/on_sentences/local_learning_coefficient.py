"""How fast the volume of nearly as good weights around a checkpoint shrinks, by sampling."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.local_learning_coefficient import (
    BURN_IN,
    CHAINS,
    DRAWS,
    LOCALISATION,
    local_learning_coefficient,
)
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order, rounding_of_steps
from isoloss.progress import Progress
from isoloss.results.record import Setting


@dataclass(frozen=True)
class LocalLearningCoefficientQuantity:
    """The coefficient from `sentences` sentences; see `local_learning_coefficient`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    error_over: ClassVar[str] = "chains"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("local_learning_coefficient")

    sentences: int
    seed: int
    localisation: float = LOCALISATION
    chains: int = CHAINS
    burn_in: int = BURN_IN
    draws: int = DRAWS

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`local_learning_coefficient`, with all that it was sampled by in its settings; `n` counts chains.

        A `warning` in them says why the number should not be trusted.
        """
        found = local_learning_coefficient(
            model,
            **given(drawn, subject, progress),
            chains=self.chains,
            burn_in=self.burn_in,
            draws=self.draws,
            localisation=self.localisation,
            seed=self.seed,
        )
        more: dict[str, Setting] = {
            "inverse_temperature": found.inverse_temperature,
            "localisation": self.localisation,
            "step": found.step,
            "burn_in": self.burn_in,
            "draws": self.draws,
            "drift": found.drift.value,
            "drift_error": found.drift.standard_error,
            "warning": rounding_of_steps(model).get("warning") or found.warning,
            "sentences": found.sentences,
            **found.parameters.settings,
        }
        name = "local_learning_coefficient"
        return subject.measurement(name, found.estimate, "parameters", self.seed, more, values=found.by_chain)


def on_sentences(sentences: int, seed: int, value: str | None = None) -> LocalLearningCoefficientQuantity:
    """See the folder; the value is the localisation γ."""
    try:
        localisation = LOCALISATION if value is None else float(value)
    except ValueError:
        localisation = -1.0
    if not 0 < localisation < float("inf"):
        raise BadInput(f"={value} is no localisation; give a number above 0, such as {LOCALISATION:g}")
    return LocalLearningCoefficientQuantity(sentences, seed, localisation)
