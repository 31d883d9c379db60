"""Figure 1: exact loss, trace of the Hessian and probe accuracy of checkpoints after saturation."""

from dataclasses import dataclass

from isoloss.errors import BadInput
from isoloss.experiments.cost import training_operations
from isoloss.experiments.measured_on import MeasurementSettings
from isoloss.languages.language import Language
from isoloss.languages.task import Task
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.specification import PretrainingSpecification


@dataclass(frozen=True)
class FigureOne:
    """All that Figure 1 depends on besides the language: one value is one scale.

    Checkpoints from step `saturated_from` on are the dots of the scatter panels and what the claims are
    judged on; earlier ones are drawn over steps only. It is a step and not a loss, so that the claim of
    one common loss can fail. `pilot_seeds` were used to choose the scale and must not be among `seeds`.
    """

    scale: str
    architectures: tuple[PreLayerNormTransformer, ...]
    update_rule: AdamW
    batch_size: int
    steps: int
    checkpoint_steps: tuple[int, ...]
    saturated_from: int
    seeds: tuple[int, ...]
    pilot_seeds: tuple[int, ...]
    measurement: MeasurementSettings

    def __post_init__(self) -> None:
        if overlap := set(self.seeds) & set(self.pilot_seeds):
            raise BadInput(f"seeds {sorted(overlap)} chose the scale and cannot be reported; take others")
        if sum(step >= self.saturated_from for step in self.checkpoint_steps) < 2:
            raise BadInput(
                f"only one checkpoint comes after saturation (step {self.saturated_from}); "
                "let the run be longer or its checkpoints denser"
            )


@dataclass(frozen=True)
class FigureRun:
    """One run of the figure: a width, a seed, and its pre-training's complete specification."""

    width: int
    seed: int
    specification: PretrainingSpecification

    @property
    def name(self) -> str:
        """What the figure calls this run, and `--runs` selects it by."""
        return f"width-{self.width}-seed-{self.seed}"


def figure_runs(figure: FigureOne, language: Language) -> list[FigureRun]:
    """Every run of the figure, smallest models first."""
    return [
        FigureRun(
            architecture.shape.width,
            seed,
            PretrainingSpecification(
                architecture=architecture,
                update_rule=figure.update_rule,
                language_digest=language.digest,
                steps=figure.steps,
                batch_size=figure.batch_size,
                seed=seed,
                checkpoint_steps=figure.checkpoint_steps,
            ),
        )
        for architecture in figure.architectures
        for seed in figure.seeds
    ]


def run_operations(run: FigureRun, language: Language) -> float:
    """Floating-point operations of the run's pre-training; see `training_operations`."""
    specification = run.specification
    architecture = specification.architecture
    assert isinstance(architecture, PreLayerNormTransformer)
    return training_operations(
        architecture.shape,
        words=len(language.vocabulary),
        sentence_tokens=language.maximum_length + 1,
        batch_size=specification.batch_size,
        steps=specification.steps,
    )


def choose_task(language: Language, name: str | None) -> Task:
    """The task of that name; by default the prefix of half the longest sentence (the paper's Task B).

    Without such a prefix, the language's last task, which has the shortest prefix. Raises BadInput for a
    language without tasks, or without one of that name.
    """
    tasks = {task.name: task for task in language.tasks()}
    if not tasks:
        raise BadInput(
            "the language has no task: every symbol at the start of its sentences is certain; "
            "give a grammar whose start symbol, or whose first parts, can be several symbols"
        )
    if name is None:
        return tasks.get(f"prefix-{language.maximum_length // 2}", list(tasks.values())[-1])
    if name not in tasks:
        raise BadInput(f"the language has no task {name!r}; choose {', '.join(tasks)}")
    return tasks[name]


def only_named(runs: list[FigureRun], names: tuple[str, ...]) -> list[FigureRun]:
    """The runs with these names, all when none is given. Raises BadInput for a name that no run has."""
    known = {run.name: run for run in runs}
    for name in names:
        if name not in known:
            raise BadInput(f"no run is called {name!r}; choose among {', '.join(known)}")
    return [known[name] for name in names] if names else runs
