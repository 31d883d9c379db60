"""Runs on one language or corpus, models of several sizes with each seed, and the names of the scales."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, Generic, Literal, TypeVar

from isoloss.errors import BadInput
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import CorpusPlan, MeasuredAt, PlannedRun
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import ExactObjective, PretrainingObjective
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.other_optimisers import SOAP
from isoloss.pretraining.specification import Compute, log_spaced_steps

ScaleName = Literal["smoke", "laptop", "night", "gpu", "paper"]
UNJUDGED: ScaleName = "smoke"
"""Its few steps of tiny models show that everything runs, and nothing of what holds."""

Setting = TypeVar("Setting")


def at_scales(
    smoke: Setting, laptop: Setting, night: Setting, gpu: Setting, paper: Setting
) -> dict[ScaleName, Setting]:
    """A setting at every scale, by the scale's name."""
    return {"smoke": smoke, "laptop": laptop, "night": night, "gpu": gpu, "paper": paper}


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds written as numbers, and as ranges with both of their ends.

    >>> seeds_of("3-5, 8")
    (3, 4, 5, 8)
    """
    ranges = (each.partition("-") for each in text.split(", "))
    return tuple(seed for first, _, last in ranges for seed in range(int(first), int(last or first) + 1))


def seeds_at(
    smoke: str = "", laptop: str = "", night: str = "", gpu: str = "", paper: str = ""
) -> dict[ScaleName, tuple[int, ...]]:
    """An experiment's own seeds at the scales at which it has some, written as for `seeds_of`."""
    written = at_scales(smoke, laptop, night, gpu, paper)
    return {scale: seeds_of(text) for scale, text in written.items() if text}


def rounds_at(laptop: str = "", night: str = "") -> dict[ScaleName, tuple[tuple[int, ...], ...]]:
    """The seeds of one round of runs after the other at the scales that have results.

    >>> rounds_at(laptop="1-2; 1-2, 4")
    {'laptop': ((1, 2), (1, 2, 4))}
    """
    written: tuple[tuple[ScaleName, str], ...] = (("laptop", laptop), ("night", night))
    return {scale: tuple(map(seeds_of, text.split("; "))) for scale, text in written if text}


GPU_LENGTHS: dict[str, Any] = {
    "steps": 12_000,
    "checkpoint_steps": log_spaced_steps(3_000, 12_000, per_doubling=3),
    "saturated_from": 3_000,
}
"""At the scale gpu: what four hours of one card have room for, less than the 30,000 steps after which the
preprint calls the loss converged. Whether it has is what the premises judge."""

AnyModel = PreLayerNormTransformer | LSTM
Model = TypeVar("Model", bound=AnyModel, covariant=True)
Plan = TypeVar("Plan", bound=LanguagePlan | CorpusPlan, covariant=True)
Size = TypeVar("Size")


@dataclass(frozen=True)
class LanguageRuns(Generic[Plan, Model]):
    """How models of each size are pre-trained on a language or a corpus, and the language's tasks for probes.

    Claims are judged on checkpoints from step `saturated_from` on. It is a step and not a loss, so that the
    claim of a common loss can fail. `evaluated` says which predictions the exact loss uses,
    `averaging_horizon` over how many steps checkpoint weights are averaged (None: not at all). Sizes are
    matched in loss among the checkpoints from `compared_from` on, or else the saturated ones: by the time the
    smallest model plateaus, the largest may have long passed that loss. `most_seeds` are pairs of a width and
    the number of seeds, the first ones, with which models of that width are trained at most; with `in_turn` a
    seed has a model of one size, each size's turn after the other's. `objective` is what they are trained on.
    """

    language: Plan
    tasks: tuple[str, ...]
    architectures: tuple[Model, ...]
    update_rule: AdamW | SOAP
    batch_size: int
    steps: int
    checkpoint_steps: tuple[int, ...]
    saturated_from: int
    evaluated: ExactObjective = MaskedObjective()  # noqa: RUF009  (frozen)
    averaging_horizon: int | None = None
    compared_from: int | None = None
    most_seeds: tuple[tuple[int, int], ...] = ()
    in_turn: bool = False
    objective: PretrainingObjective = MaskedObjective()  # noqa: RUF009  (frozen)
    compute: Compute = Compute()  # noqa: RUF009  (frozen)

    def __post_init__(self) -> None:
        if sum(step >= self.saturated_from for step in self.checkpoint_steps) < 2:
            raise BadInput(
                f"only one checkpoint comes after saturation (step {self.saturated_from}); "
                "let the run be longer or its checkpoints denser"
            )

    def shrunk(self) -> "LanguageRuns[Plan, Model]":
        """The same in seconds, which shows nothing but that it runs."""
        return replace(
            self,
            update_rule=AdamW(warm_up_steps=10),
            batch_size=32,
            steps=40,
            checkpoint_steps=log_spaced_steps(10, 40),
            saturated_from=20,
            averaging_horizon=None,
            compared_from=None,
        )

    def sizes_and_seeds(self, seeds: Sequence[int]) -> Sequence[tuple[Model, int]]:
        """The model and the seed of every run."""
        if self.in_turn:
            return sizes_in_turn(self.architectures, seeds)
        most = dict(self.most_seeds)
        return [(model, seed) for model in self.architectures for seed in seeds[: most.get(width_of(model))]]

    @property
    def compared_steps(self) -> tuple[int, ...]:
        """The steps of the checkpoints at which sizes are compared."""
        first = self.saturated_from if self.compared_from is None else self.compared_from
        return tuple(step for step in self.checkpoint_steps if step >= first)


AnyRuns = LanguageRuns[LanguagePlan | CorpusPlan, AnyModel]


def runs_of_sizes(
    runs: AnyRuns, seeds: Sequence[int], measured: tuple[MeasuredAt, ...]
) -> tuple[PlannedRun, ...]:
    """A run for each size and seed, in the order of the architectures, or of the seeds with sizes in turn."""
    return tuple(
        PlannedRun(
            name=f"width-{width_of(architecture)}-seed-{seed}",
            language=runs.language,
            architecture=architecture,
            update_rule=runs.update_rule,
            steps=runs.steps,
            batch_size=runs.batch_size,
            seed=seed,
            checkpoint_steps=runs.checkpoint_steps,
            saturated_from=runs.saturated_from,
            measured=measured,
            labels=(("width", width_of(architecture)),),
            objective=runs.objective,
            compute=runs.compute,
            averaging_horizon=runs.averaging_horizon,
        )
        for architecture, seed in runs.sizes_and_seeds(seeds)
    )


def variants_of(
    runs: Sequence[PlannedRun], variants: Mapping[str, Mapping[str, Any]], label: str = "rule"
) -> tuple[PlannedRun, ...]:
    """The runs, one a seed, changed as each of the named variants says, and labelled by its name.

    A variant changes fields of `PlannedRun`, such as {"batch_size": 9}.
    """
    return tuple(
        replace(run, name=f"{name.replace(' ', '-')}-seed-{run.seed}", labels=((label, name),), **changes)
        for name, changes in variants.items()
        for run in runs
    )


def sizes_in_turn(sizes: Sequence[Size], seeds: Sequence[int]) -> list[tuple[Size, int]]:
    """One of the sizes for each seed, each size's turn after the other's.

    >>> sizes_in_turn(("small", "large"), (3, 4, 5))
    [('small', 3), ('large', 4), ('small', 5)]
    """
    return list(zip(cycle(sizes), seeds, strict=False))


def width_of(architecture: AnyModel) -> int:
    """The width of a word's contextual vector."""
    return architecture.width if isinstance(architecture, LSTM) else architecture.shape.width


def laptop_transformers(widths: Sequence[int]) -> tuple[PreLayerNormTransformer, ...]:
    """Transformers for laptops: two layers, without dropout, which would leave the loss higher.

    With plain attention they are trained by a gradient written out (`fused_training`), half as fast again.
    """
    return tuple(
        PreLayerNormTransformer(laptop_shape(width), dropout=0.0, attention="eager") for width in widths
    )
