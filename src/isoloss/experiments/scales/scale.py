"""A scale: the settings shared by all experiments, so that equal runs are computed only once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from isoloss.curvature.ascent_sharpness import RADII
from isoloss.errors import BadInput
from isoloss.experiments.chosen_languages import headline_grammar
from isoloss.experiments.descent_runs import Descents
from isoloss.experiments.drift.adamw_clock import AdamWClockRuns
from isoloss.experiments.drift.interventions import Interventions
from isoloss.experiments.drift.runs import DriftRuns
from isoloss.experiments.dyck_runs import DyckRuns
from isoloss.experiments.language_runs import LanguageRuns, with_tokens
from isoloss.experiments.planned_run import ReadyLanguage
from isoloss.experiments.real_text_runs import RealTextRuns
from isoloss.experiments.teacher_plan import TeachersLanguage
from isoloss.measurements.exact_loss import MASKED, ExactLossQuantity
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.on_sentences.ascent_sharpness import AscentSharpnessQuantity, sam_column
from isoloss.measurements.on_sentences.fisher_trace import TraceQuantity
from isoloss.measurements.on_sentences.gradient_norm import GradientNormQuantity
from isoloss.measurements.on_sentences.hessian_top_eigenvalue import TopEigenvalueQuantity
from isoloss.measurements.on_sentences.noise_sensitivity import NoiseSensitivityQuantity
from isoloss.measurements.on_sentences.normalised_trace import NormalisedTraceQuantity
from isoloss.measurements.quantities.adapted_probe import Standardised, standardised
from isoloss.measurements.quantities.probe import ProbeQuantity
from isoloss.measurements.quantity import AnyQuantity
from isoloss.measurements.sample_efficiency import SampleEfficiencyQuantity
from isoloss.models.enlarging.transformer import enlargement_between
from isoloss.models.lstm import LSTM
from isoloss.models.shapes import Shape, laptop_shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.batch import ExactObjective
from isoloss.objectives.tokens import FIRST_WORD, vocabulary_settings
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.update_rule import UpdateRuleSettings

PILOT_SEEDS = (900, 901, 902, 101, 102, 103, 104, 105)
"""Those of runs that chose languages, settings and statistics; the last five were to be reported and had been
looked at when the statistics were changed."""

ScaleName = Literal["smoke", "laptop", "night", "gpu", "paper"]
UNJUDGED: ScaleName = "smoke"
"""Its few steps of tiny models show that everything runs, and nothing of what holds."""


FEWER_EXAMPLES = (100, 300, 1000)
STANDARDISED = "standardised_accuracy"
"""The column of the probe on standardised features."""


@dataclass(frozen=True)
class MeasurementSizes:
    """The number of sentences for each quantity, the probe's settings, and one seed for all."""

    loss_sentences: int
    trace_sentences: int
    probe_train: int
    probe_validation: int
    probe_test: int
    probe: ProbeSettings = ProbeSettings()  # noqa: RUF009  (frozen)
    seed: int = 20230701

    def loss(self, evaluated: ExactObjective = MASKED) -> ExactLossQuantity:
        """The exact masked loss; `evaluated` says which predictions it uses."""
        return ExactLossQuantity(self.loss_sentences, self.seed + 1, evaluated)

    def trace(self) -> TraceQuantity:
        """The trace of the Hessian."""
        return TraceQuantity(self.trace_sentences, self.seed + 2)

    def probe_of(self, task: str, column: str = "accuracy") -> ProbeQuantity:
        """A linear probe's accuracy on a task."""
        sizes = (self.probe_train, self.probe_validation, self.probe_test)
        return ProbeQuantity(task, *sizes, self.probe, self.seed, column)

    @property
    def fewer_examples(self) -> tuple[int, ...]:
        """Numbers of labelled sentences below `probe_train`, the number for the main probes."""
        return tuple(number for number in FEWER_EXAMPLES if number < self.probe_train)

    def probes_beside(self, task: str) -> tuple[AnyQuantity, ...]:
        """Alternatives to the paper's probe: standardised features, and fewer labelled sentences.

        Its learning rate is fixed, whatever the scale of the features; accuracy from few examples is what
        better features would show first.
        """
        scaled = standardised(self.probe_of(task), STANDARDISED)
        if not self.fewer_examples:
            return (scaled,)
        few = replace(self.probe, seeds=self.probe.seeds[:2])
        sizes = (self.probe_test, few, self.seed + 5, self.fewer_examples)
        by_number = SampleEfficiencyQuantity(task, *sizes, draws=2)
        return (scaled, by_number, replace(by_number, features=Standardised(), column=STANDARDISED))


GrammarRuns = LanguageRuns[PreLayerNormTransformer]
"""Transformers on the grammar. Its tasks stand in the places of the paper's A, B and C, which are the names
of the whole sentence's root, of half of it, and of a quarter; two places may have one task."""

HiddenMarkovRuns = LanguageRuns[LSTM]
"""LSTMs on the hidden Markov model. Its tasks are the paper's task-6 and task-10 of 16 words, or the states
at the same shares of a shorter sentence."""

CausalLanguageRuns = LanguageRuns[PreLayerNormTransformer]
"""Transformers on a causal model's language, with all of its teacher's tokens, so that they read real text
too. Its own tasks stand beside the paper's QNLI and SST-2. The exact loss is over one word a sentence: a
distribution takes a pass over every word."""


def students(
    models: Sequence[PreLayerNormTransformer], plan: TeachersLanguage
) -> tuple[PreLayerNormTransformer, ...]:
    """The models with room for all of the teacher's tokens."""
    tokens = plan.whole_tokenizer.pieces + FIRST_WORD
    return tuple(replace(model, tokens=tokens) for model in models)


Rules = tuple[tuple[str, UpdateRuleSettings], ...]


@dataclass(frozen=True)
class ComparedRuns:
    """How long compared runs are trained, with the grammar's batches and seeds, and by which rules.

    `size` indexes the grammar's architectures from 0; its own runs at that size are the reference. `small` is
    a smaller model, trained like the grammar's, to which the adversary's is also compared. `own_seeds`
    replace the scale's in the tables and where rules are compared with AdamW's. Raises BadInput for fewer
    than two checkpoints, between which runs are matched in loss.
    """

    size: int
    small: PreLayerNormTransformer
    adversary: Adversarial
    peers: Rules
    steps: int
    checkpoint_steps: tuple[int, ...]
    saturated_from: int
    own_seeds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.checkpoint_steps) < 2:
            raise BadInput("runs are brought to one loss between checkpoints; let each leave at least two")


@dataclass(frozen=True)
class LongerRuns:
    """The compared size trained longer by the grammar's rule, with its batches and seeds, to `steps`.

    `train` and so on are the sizes of the splits for fine-tuning a checkpoint; `own_seeds` replace the
    grammar's. Raises BadInput if the training split is too small for the warm-up of fine-tuning.
    """

    steps: int
    checkpoint_steps: tuple[int, ...]
    fine_tuning: FineTuningSettings
    train: int
    validation: int
    test: int
    own_seeds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self.fine_tuning.steps(self.train)


@dataclass(frozen=True)
class SizeComparison:
    """Architectures trained like the grammar's, and the `common` shape to which each is enlarged.

    `sentences` is the number of sentences for the trace of an enlarged model. Raises BadInput if an
    architecture cannot be enlarged to the common shape.
    """

    architectures: tuple[PreLayerNormTransformer, ...]
    common: Shape
    sentences: int

    def __post_init__(self) -> None:
        for architecture in self.architectures:
            enlargement_between(architecture.shape, self.common)


@dataclass(frozen=True)
class FlatnessSettings:
    """Sentences for each measure; `noises` are in units of the weights' deviation before pre-training."""

    trace_sentences: int
    gradient_sentences: int
    eigenvalue_sentences: int
    ascent_sentences: int
    noise_sentences: int
    radii: tuple[float, ...] = RADII
    noises: tuple[float, float, float] = (0.3, 1.0, 3.0)

    def competitors(self, seed: int) -> tuple[AnyQuantity, ...]:
        """The measures of flatness to which the trace is compared."""
        return (
            NormalisedTraceQuantity(self.trace_sentences, seed),
            TopEigenvalueQuantity(self.eigenvalue_sentences, seed),
            GradientNormQuantity(self.gradient_sentences, seed),
            AscentSharpnessQuantity(self.ascent_sentences, seed, self.radii),
        )

    @property
    def competing_columns(self) -> tuple[str, ...]:
        """The competitors' names in a table."""
        by_radius = tuple(map(sam_column, self.radii))
        return ("normalised_trace", "wholly_normalised_trace", "top_eigenvalue", "gradient_norm", *by_radius)

    def noise(self, seed: int) -> NoiseSensitivityQuantity:
        """Sensitivity to noise on the weights."""
        return NoiseSensitivityQuantity(self.noises, self.noise_sentences, seed)


@dataclass(frozen=True)
class Scale:
    """All that experiments depend on: seconds, minutes or a night on a laptop, one GPU's, or the paper's own.

    `pilot_seeds` were used to choose it and are not among `seeds`. `later_seeds` replace those where claims
    were registered after this scale's own results had been seen, and `lazy_seeds` these in turn where
    initial weights are compared.
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
    adamw_clock: AdamWClockRuns
    interventions: Interventions
    dyck: DyckRuns
    real_text: RealTextRuns
    later_seeds: tuple[int, ...] | None = None
    lazy_seeds: tuple[int, ...] | None = None

    def with_seeds(self, *preferred: tuple[int, ...] | None) -> "Scale":
        """The same with the first of `preferred` that is given, or else its own seeds."""
        return replace(self, seeds=next((seeds for seeds in preferred if seeds), self.seeds))

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
            compared=replace(self.compared, small=replace(self.compared.small, tokens=tokens)),
            sizes_compared=replace(self.sizes_compared, architectures=compared),
            dyck=replace(self.dyck, architecture=replace(self.dyck.architecture, tokens=tokens)),
        )


def laptop_transformers(widths: Sequence[int]) -> tuple[PreLayerNormTransformer, ...]:
    """Transformers for laptops: two layers, without dropout, which would leave the loss higher.

    With plain attention they are trained by a gradient written out (`fused_training`), half as fast again.
    """
    return tuple(
        PreLayerNormTransformer(laptop_shape(width), dropout=0.0, attention="eager") for width in widths
    )


def headline_runs(
    widths: tuple[int, ...],
    learning_rate: float,
    steps: int,
    checkpoint_steps: tuple[int, ...],
    saturated_from: int,
) -> GrammarRuns:
    """The headline grammar's runs, alike at the laptop's and the night's scale but for these."""
    return GrammarRuns(
        language=ReadyLanguage(headline_grammar()),
        tasks=("prefix-4", "prefix-8", "prefix-8"),
        architectures=laptop_transformers(widths),
        update_rule=AdamW(learning_rate, warm_up_steps=500),
        batch_size=128,
        steps=steps,
        checkpoint_steps=checkpoint_steps,
        saturated_from=saturated_from,
        averaging_horizon=200,
    )
