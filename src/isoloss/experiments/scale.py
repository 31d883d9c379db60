"""A scale: what all experiments share, so that equal runs are planned alike and computed once."""

from dataclasses import dataclass
from typing import Literal

from isoloss.errors import BadInput
from isoloss.experiments.compared_runs import ComparedRuns
from isoloss.experiments.longer_runs import LongerRuns
from isoloss.experiments.planned_run import LanguagePlan
from isoloss.experiments.quantities.exact_loss import ExactLossQuantity
from isoloss.experiments.quantities.probe import ProbeQuantity
from isoloss.experiments.quantities.trace import TraceQuantity
from isoloss.experiments.size_comparison import SizeComparison
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.pretraining.adamw import AdamW

ScaleName = Literal["smoke", "laptop", "paper"]


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

    def loss(self) -> ExactLossQuantity:
        """The exact masked loss."""
        return ExactLossQuantity(self.loss_sentences, self.seed + 1)

    def trace(self) -> TraceQuantity:
        """The trace of the Hessian."""
        return TraceQuantity(self.trace_sentences, self.seed + 2)

    def probe_of(self, task: str, column: str = "accuracy") -> ProbeQuantity:
        """A linear probe's accuracy on a task."""
        sizes = (self.probe_train, self.probe_validation, self.probe_test)
        return ProbeQuantity(task, *sizes, self.probe, self.seed, column)


@dataclass(frozen=True)
class GrammarRuns:
    """How transformers are pre-trained on the grammar, each size with each seed.

    `tasks` are the paper's A, B and C: the names of the whole sentence's root, of half of it, and of a
    quarter. Checkpoints from step `saturated_from` on are the dots that claims are judged on. It is a step
    and not a loss, so that the claim of one common loss can fail.
    """

    language: LanguagePlan
    tasks: tuple[str, str, str]
    architectures: tuple[PreLayerNormTransformer, ...]
    update_rule: AdamW
    batch_size: int
    steps: int
    checkpoint_steps: tuple[int, ...]
    saturated_from: int

    def __post_init__(self) -> None:
        if sum(step >= self.saturated_from for step in self.checkpoint_steps) < 2:
            raise BadInput(
                f"only one checkpoint comes after saturation (step {self.saturated_from}); "
                "let the run be longer or its checkpoints denser"
            )


@dataclass(frozen=True)
class Scale:
    """All that experiments depend on: one value is seconds, minutes on a laptop, or the paper's own.

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
