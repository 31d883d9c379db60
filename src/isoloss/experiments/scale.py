"""A scale: the settings that experiments share, so that equal runs are computed once."""

import math
from dataclasses import dataclass, replace

from isoloss.errors import BadInput
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.experiments.shared.causal_language import CAUSAL_LANGUAGE, CausalLanguageRuns
from isoloss.experiments.shared.grammar_and_hmm import (
    COMPARED,
    GRAMMAR,
    HIDDEN_MARKOV,
    ComparedRuns,
    GrammarRuns,
    HiddenMarkovRuns,
)
from isoloss.experiments.shared.language_runs import UNJUDGED, ScaleName, runs_of_sizes
from isoloss.experiments.shared.real_text import RealTextRuns
from isoloss.experiments.shared.real_text_settings import REAL_TEXT
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG, named_task
from isoloss.languages.task import Task, task_splits
from isoloss.measurements.accuracy import (
    AccuracyQuantity,
    AsTheyAre,
    FeatureAdaptation,
    LinearProbe,
    Standardised,
)
from isoloss.measurements.exact_loss import MASKED, ExactLossQuantity
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.room_and_price import RoomSettings, measure_room
from isoloss.measurements.sample_efficiency import SampleEfficiencyQuantity
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.objectives.batch import ExactObjective
from isoloss.pretraining.specification import Compute

PILOT_SEEDS = (900, 901, 902, 101, 102, 103, 104, 105)
"""Those of runs that chose languages, settings and statistics; the last five were to be reported and had been
looked at when the statistics were changed."""

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

    def probe_of(
        self,
        task: str,
        column: str = "accuracy",
        features: FeatureAdaptation = AsTheyAre(),  # noqa: B008  (frozen)
    ) -> AccuracyQuantity:
        """A linear probe's accuracy on a task."""
        return AccuracyQuantity(self.examples_of(task), LinearProbe(self.probe, features), column)

    def examples_of(self, task: str) -> TaskSentences:
        """The task's sentences for training, validation and the test."""
        return TaskSentences(task, self.probe_train, self.probe_validation, self.probe_test, self.seed)

    @property
    def fewer_examples(self) -> tuple[int, ...]:
        """Numbers of labelled sentences below `probe_train`, the number for the main probes."""
        return tuple(number for number in FEWER_EXAMPLES if number < self.probe_train)

    def probes_beside(self, task: str) -> tuple[Quantity, ...]:
        """Alternatives to the paper's probe: standardised features, and fewer labelled sentences.

        Its learning rate is fixed, whatever the scale of the features; accuracy from few examples is what
        better features would show first.
        """
        scaled = self.probe_of(task, STANDARDISED, Standardised())
        if not self.fewer_examples:
            return (scaled,)
        few = replace(self.probe, seeds=self.probe.seeds[:2])
        sizes = (self.probe_test, few, self.seed + 5, self.fewer_examples)
        by_number = SampleEfficiencyQuantity(task, *sizes, draws=2)
        return (scaled, by_number, replace(by_number, features=Standardised(), column=STANDARDISED))


@dataclass(frozen=True)
class Scale:
    """What experiments share: seconds, minutes or a night on a laptop, one GPU's hours, or the paper's own.

    `pilot_seeds` were used to choose it and are not among `seeds`. `language_given` says that the grammar's
    language is a user's, in place of the scale's. `compute` is how its runs are trained, unless asked
    otherwise.
    """

    name: ScaleName
    seeds: tuple[int, ...]
    sizes: MeasurementSizes
    grammar: GrammarRuns
    compared: ComparedRuns
    hidden_markov: HiddenMarkovRuns
    causal_language: CausalLanguageRuns
    real_text: RealTextRuns
    pilot_seeds: tuple[int, ...] = PILOT_SEEDS
    language_given: bool = False
    compute: Compute = Compute()  # noqa: RUF009  (frozen)

    @property
    def followed(self) -> tuple[ExactLossQuantity, TraceQuantity, AccuracyQuantity]:
        """What is measured along a run on the grammar: exact loss, trace, and probe on the second task."""
        return self.sizes.loss(), self.sizes.trace(), self.sizes.probe_of(self.grammar.tasks[1])

    def with_seeds(self, seeds: tuple[int, ...] | None) -> "Scale":
        """The same with these seeds, where there are any."""
        return replace(self, seeds=seeds) if seeds else self


SIZES: dict[ScaleName, MeasurementSizes] = {
    "smoke": MeasurementSizes(64, 64, 256, 64, 256, ProbeSettings(epochs=5)),
    "laptop": MeasurementSizes(2000, 500, 4000, 500, 4000, ProbeSettings(batch_size=64)),
    "night": MeasurementSizes(2000, 500, 4000, 500, 4000, ProbeSettings(batch_size=64)),
    "gpu": MeasurementSizes(4000, 1000, 10_000, 1000, 10_000),
    "paper": MeasurementSizes(58_824, 10_000, 80_000, 10_000, 10_000),
}
"""The paper's loss is over 10^6 sentences with one mask each; here it is over 10^6 masks, every position of
58,824 sentences of 17 words on average."""

SEEDS: dict[ScaleName, tuple[int, ...]] = {
    "smoke": (1, 2),
    "laptop": (171, 172, 173, 174, 175),
    "night": tuple(range(241, 251)),
    "gpu": tuple(range(301, 311)),
    "paper": (1, 2, 3),
}
"""The paper shows one run per size."""

FRESH_SEEDS: dict[ScaleName, tuple[int, ...]] = {
    "laptop": tuple(range(631, 636)),
    "night": tuple(range(701, 717)),
}
"""Those of the figures and tables on the paper's claims, and of the update rules. They share them, so that
equal runs are computed once. docs/pilots.md has why others."""


def scale_named(name: ScaleName) -> Scale:
    """The scale of that name.

    smoke: tiny models, two seeds, seconds: shows that everything runs, and nothing about the claims. laptop:
    two sizes, five seeds, minutes on two cores; in Figure 1 six seeds of one size each. night: three sizes
    over a factor of four, ten seeds, three times the laptop's steps: ten hours on two cores. gpu: the
    paper's grammar and hidden Markov model, batches and rates, in bfloat16 and compiled, its sizes named 2M
    to 41M by BERT's tokens (0.07M to 25.6M with the language's), ten seeds of the small and three of the
    large, planned for four hours of one card of 80 GB (`--device cuda --processes 5`); the ten runs of its
    smallest size have been finished on a card, and do not reach the loss of the others. paper: the paper's
    own settings.
    """
    return Scale(
        name=name,
        seeds=SEEDS[name],
        sizes=SIZES[name],
        grammar=GRAMMAR[name],
        compared=COMPARED[name],
        hidden_markov=HIDDEN_MARKOV[name],
        causal_language=CAUSAL_LANGUAGE[name],
        real_text=REAL_TEXT[name],
        compute=Compute("bfloat16", compiled=True) if name == "gpu" else Compute(),
    )


def grammar_runs(scale: Scale, measured: tuple[MeasuredAt, ...]) -> tuple[PlannedRun, ...]:
    """One run for each size and seed, smallest models first."""
    return runs_of_sizes(scale.grammar, scale.seeds, measured)


MOST_EXAMPLES = 3000
"""A probe on words learns from as many sentences as the models' probes do, but for a check from no more."""


def with_language(
    scale: Scale, plan: LanguagePlan, language: Language, task: str | None, *, needs_room: bool
) -> Scale:
    """The scale on a user's language, of `plan`, in place of its grammar, with the task of that name.

    Raises BadInput for a task that does not exist or, if it needs room, has none.
    """
    # The smoke scale shows nothing about the claims anyway.
    if needs_room and scale.name != UNJUDGED:
        found = headline_task(language, task, scale.sizes)
    else:
        found = task_name(language, task)
    grammar = replace(scale.grammar, language=plan, tasks=(found,) * len(scale.grammar.tasks))
    return replace(scale, grammar=grammar, language_given=plan.digest != scale.grammar.language.digest)


def refuse_too_few_sentences(task: Task, sizes: MeasurementSizes) -> None:
    """Raise BadInput if the task's sentences cannot be divided into parts that share none."""
    # Parts of the same proportions, since these decide which part a sentence belongs to.
    parts = (sizes.probe_train, sizes.probe_validation, sizes.probe_test)
    train, validation, test = (part // math.gcd(*parts) for part in parts)
    try:
        task_splits(task, train, validation, test, sizes.seed)
    except BadInput as error:
        raise BadInput(
            f"{task.name} of the language has too few different sentences for a part to learn from, one to "
            "validate on and one to test on, which share none; give a language with more sentences"
        ) from error


def task_name(language: Language, name: str | None) -> str:
    """The task of that name; by default the prefix of half the longest sentence (the paper's Task B).

    For an HMM, the state in the middle; failing both, the language's last task, which for a grammar is the
    shortest prefix. Raises BadInput for a language without tasks, or without one of that name.
    """
    names = [task.name for task in language.tasks()]
    if not names:
        why = ": every symbol at the start of its sentences is certain" * isinstance(language, PCFG)
        raise BadInput(
            f"the language has no task{why}; give a grammar whose start symbol, or whose first parts, can be "
            "several symbols, Dyck strings among uniform ones (balanced_share below 1), or another language "
            "with tasks"
        )
    if name is None:
        half = language.maximum_length // 2
        return next((name for name in (f"prefix-{half}", f"state-{half}") if name in names), names[-1])
    return named_task(language, name).name


def headline_task(language: Language, name: str | None, sizes: MeasurementSizes) -> str:
    """The task of that name if it has room; by default the one that has the most.

    Raises BadInput for a task without room, or one that is easily guessed (`Room.refusal`), for a language
    that has no other, and for what `task_name` refuses.
    """
    settings = RoomSettings(train=min(sizes.probe_train, MOST_EXAMPLES))
    _ = task_name(language, name)  # rejects a language without tasks, and unknown names
    if name is not None:
        room = measure_room(language, named_task(language, name), settings)
        if room.refusal is None:
            return name
    rooms = [measure_room(language, task, settings) for task in language.tasks()]
    fit = [room for room in rooms if room.refusal is None]
    if name is not None:
        choices = f"choose {' or '.join(room.task for room in fit)}" if fit else "choose another language"
        raise BadInput(f"{room.refusal}; {choices}, or give --any-task to show it all the same")
    if not fit:
        raise BadInput(
            "no task of the language has room and is hard to guess, so that a probe's accuracy would say "
            "nothing of the models; give one found as docs/languages.md shows, or --any-task"
        )
    return max(fit, key=lambda room: room.room.value).task
