"""A scale: what all experiments share, so that equal runs are planned alike and computed once."""

from dataclasses import dataclass, replace
from typing import Literal

from isoloss.experiments.causal_language_runs import CausalLanguageRuns
from isoloss.experiments.compared_runs import ComparedRuns
from isoloss.experiments.descent_runs import Descents
from isoloss.experiments.drift.runs import DriftRuns
from isoloss.experiments.flatness_settings import FlatnessSettings
from isoloss.experiments.hidden_markov_runs import HiddenMarkovRuns
from isoloss.experiments.language_runs import LanguageRuns, with_tokens
from isoloss.experiments.longer_runs import LongerRuns
from isoloss.experiments.quantities.exact_loss import ExactLossQuantity
from isoloss.experiments.quantities.probe import ProbeQuantity
from isoloss.experiments.quantities.trace import TraceQuantity
from isoloss.experiments.real_text_runs import RealTextRuns
from isoloss.experiments.size_comparison import SizeComparison
from isoloss.measurements.exact_loss import MASKED
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.pretraining_objective import ExactObjective
from isoloss.objectives.tokens import vocabulary_settings

ScaleName = Literal["smoke", "laptop", "night", "gpu", "paper"]


@dataclass(frozen=True)
class MeasurementSizes:
    """How many sentences each quantity is measured on, the probe's settings, and one seed for all."""

    loss_sentences: int
    trace_sentences: int
    probe_train: int
    probe_validation: int
    probe_test: int
    probe: ProbeSettings = ProbeSettings()  # noqa: RUF009  (frozen)
    seed: int = 20230701

    def loss(self, evaluated: ExactObjective = MASKED) -> ExactLossQuantity:
        """The exact masked loss; `evaluated` says which predictions it looks at."""
        return ExactLossQuantity(self.loss_sentences, self.seed + 1, evaluated)

    def trace(self) -> TraceQuantity:
        """The trace of the Hessian."""
        return TraceQuantity(self.trace_sentences, self.seed + 2)

    def probe_of(self, task: str, column: str = "accuracy") -> ProbeQuantity:
        """A linear probe's accuracy on a task."""
        sizes = (self.probe_train, self.probe_validation, self.probe_test)
        return ProbeQuantity(task, *sizes, self.probe, self.seed, column)


GrammarRuns = LanguageRuns[PreLayerNormTransformer]
"""Transformers on the grammar. Its tasks stand in the places of the paper's A, B and C, which are the names
of the whole sentence's root, of half of it, and of a quarter; two places may have one task."""


@dataclass(frozen=True)
class Scale:
    """All that experiments depend on: seconds, minutes or a night on a laptop, one GPU's, or the paper's own.

    `pilot_seeds` were used to choose it and are not among `seeds`.
    """

    name: ScaleName
    seeds: tuple[int, ...]
    pilot_seeds: tuple[int, ...]
    sizes: MeasurementSizes
    grammar: GrammarRuns
    compared: ComparedRuns
    longer: LongerRuns
    sizes_compared: SizeComparison
    flatness: FlatnessSettings
    hidden_markov: HiddenMarkovRuns
    causal_language: CausalLanguageRuns
    descents: Descents
    drift: DriftRuns
    real_text: RealTextRuns

    def with_tokens(self, tokens: int) -> "Scale":
        """The same with models of languages that have so many tokens, such as `WHOLE_TOKENIZER`.

        Those of the causal language have all of its teacher's as it is. Raises BadInput where a language has
        more words.
        """
        for runs in (self.grammar, self.hidden_markov):
            vocabulary_settings(runs.language.words, tokens)
        compared = tuple(replace(model, tokens=tokens) for model in self.sizes_compared.architectures)
        return replace(
            self,
            grammar=with_tokens(self.grammar, tokens),
            hidden_markov=with_tokens(self.hidden_markov, tokens),
            sizes_compared=replace(self.sizes_compared, architectures=compared),
        )
