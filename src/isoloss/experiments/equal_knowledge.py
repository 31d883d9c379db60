"""Models of equal knowledge that differ in flatness: flattened or sharpened from one start, then polished.

Their statistics say how anything changes with flatness at equal KL.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import PlannedRun, continued, measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import Schedule
from isoloss.experiments.shared.claims import premise_of_loss
from isoloss.experiments.shared.language_runs import sizes_in_turn
from isoloss.experiments.statistics.across_models import DoublingsApart, PerDoubling
from isoloss.experiments.statistics.along_runs import Scaled
from isoloss.experiments.statistics.seed_bootstrap import Frames, once_per_frames
from isoloss.measurements.quantity import Quantity
from isoloss.models.transformers import GPT2Transformer, PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import Sharpened
from isoloss.pretraining.polishing import Polished
from isoloss.pretraining.update_rule import UpdateRuleSettings
from isoloss.results.verdict import above

STAGE, START, BRANCH, POLISHED = "stage", "start", "branch", "polished"
"""The column of a run's stage, and its values; the column `branch` has the ways on from a start."""
FLATTENED, CONTROL, SHARPENED = "flattened", "noise switched off", "sharpened"
"""SGD on words drawn, whose noise flattens; SGD without that noise; descent away from flatness."""


def polished(runs: Frames, *columns: str) -> pl.DataFrame:
    """A row for each polished model that has the columns, with them and `start`, the number of its start."""
    rows = [row for run in runs if not (row := _if_polished(run, columns)).is_empty()]
    if not rows:
        return pl.DataFrame()
    start = pl.struct("language", "width", "seed").rank("dense").alias("start")
    return pl.concat(rows, how="vertical_relaxed").with_columns(start)


@once_per_frames
def _if_polished(run: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
    """Its rows with these columns alone: resampling joins them thousands of times."""
    if not ({STAGE, *columns} <= {*run.columns} and run[STAGE][0] == POLISHED):
        return pl.DataFrame()
    return run.select("language", "width", "seed", *dict.fromkeys(columns)).drop_nulls(columns)


def per_doubling(of: Scaled) -> PerDoubling:
    """How a column changes as the trace doubles, among the polished models of one start."""
    return PerDoubling(of, polished, within="start")


def most_divergent(runs: Frames) -> float:
    """Mean over starts of the largest KL among a start's polished models, in 1e-5 nats."""
    rows = polished(runs, "kl")
    if rows.is_empty():
        return math.nan
    return 1e5 * float(np.mean(rows.group_by("start").agg(pl.col("kl").max())["kl"].to_numpy()))


def share_of_fall(runs: Frames) -> float:
    """Fall of log2 trace along SGD on soft labels, over that on words drawn; sums over starts.

    nan if the trace does not fall on words drawn.
    """
    traces: dict[str, dict[object, float]] = {START: {}, FLATTENED: {}, CONTROL: {}}
    for run in runs:
        if {STAGE, "trace"} <= {*run.columns} and run[STAGE][0] in (START, BRANCH):
            of_branch = traces.get(run["branch"][0], {})
            of_branch[run["language"][0], run["width"][0], run["seed"][0]] = float(np.log2(run["trace"][-1]))
    whole = traces[START].keys() & traces[FLATTENED].keys() & traces[CONTROL].keys()
    fell = {name: sum(traces[START][one] - ends[one] for one in whole) for name, ends in traces.items()}
    return fell[CONTROL] / fell[FLATTENED] if fell[FLATTENED] > 0 else math.nan


SET_APART = "none: the paper compares checkpoints, and does not separate flatness from KL"
PREMISES = (
    premise_of_loss(
        "know-nearly-everything",
        sentence="The polished models are within 1e-5 nats of the distribution.",
        paper="0.008 to 0.012 nats (losses 3.204 to 3.208 over an entropy of 3.196; Figures 1 and 2)",
        measure="mean over starts of the largest KL(distribution || model) among its polished models",
        unit="× 1e-5 nats",
        bound=1.0,
        statistic=most_divergent,
        reason="a thousandth of the KL of the paper's models: there is nothing left to learn",
    ),
    premise_of_loss(
        "know-the-same",
        sentence="The polished models of one start have the same KL to within a fifth.",
        paper=SET_APART,
        measure="mean over starts of log2 of the largest KL over the smallest among its polished models",
        unit="doublings of KL",
        bound=math.log2(1.2),
        statistic=DoublingsApart("kl", polished, within="start"),
        reason="log2 of 1.2, a fifth more",
    ),
    Claim(
        name="differ-in-flatness",
        sentence="The traces of the polished models of one start lie a factor of four apart.",
        paper=SET_APART,
        measure="mean over starts of log2 of the largest trace over the smallest among its polished models",
        unit="doublings of the trace",
        claimed=above(2.0),
        statistic=DoublingsApart("trace", polished, within="start"),
        kind="premise",
        lowest=0.0,
        reason="at least twice as far as the trace falls along the paper's runs",
    ),
)


@dataclass(frozen=True)
class Branch:
    """A way on from a start for `steps`, measured on weights averaged over `averaging_horizon` steps.

    It trains on words drawn if `on_words_drawn`, and on soft labels otherwise.
    """

    name: str
    update_rule: UpdateRuleSettings
    steps: int
    batch_size: int
    averaging_horizon: int | None
    on_words_drawn: bool


def by_label_noise(descent: Schedule, steps: int, warm_up: float = 0.0) -> tuple[Branch, Branch]:
    """SGD on words drawn, whose label noise flattens (Theorem 3.3), and on soft labels, which have none.

    Over a share `warm_up` of the steps the rate rises, since at the full one a sharp start would come loose.
    """
    rule = SGD(descent.learning_rate, warm_up_share=warm_up)
    flattened = Branch(FLATTENED, rule, steps, descent.batch_size, descent.horizon, on_words_drawn=True)
    return flattened, replace(flattened, name=CONTROL, on_words_drawn=False)


@dataclass(frozen=True)
class EqualKnowledge:
    """How models come to know one language to within a KL divergence, each at three degrees of flatness.

    `start` trains on the exact distribution (soft labels) until KL has fallen to its divergence. The branches
    `flattened` go on from its last weights, and `sharpened` goes the other way for `sharpened_steps`, on soft
    labels. From each, `polished` trains on soft labels until KL has fallen to one divergence below the
    start's. But for the flattened, batches have `batch_size` sentences. A seed has a model of every size, or
    with `in_turn` of one, each size's turn after the other's; `polished_branches` are those that are
    polished.
    """

    name: str
    language: LanguagePlan
    architectures: tuple[PreLayerNormTransformer | GPT2Transformer, ...]
    start: Polished
    start_steps: int
    flattened: tuple[Branch, ...]
    sharpened: Sharpened
    sharpened_steps: int
    polished: Polished
    polished_steps: int
    predicted: MaskedObjective | NextWordObjective = MaskedObjective()  # noqa: RUF009  (frozen)
    batch_size: int = 128
    in_turn: bool = False
    polished_branches: tuple[str, ...] = (FLATTENED, CONTROL, SHARPENED)

    def runs(self, scale: Scale, downstream: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
        """For each start its branches, and those of them that are to be polished.

        All have loss and trace measured at their ends, and the polished ones `downstream` too.
        """
        followed: tuple[Quantity, ...] = (scale.sizes.loss(self.predicted), scale.sizes.trace())
        found: list[PlannedRun] = []
        sizes, every = self.architectures, sizes_in_turn if self.in_turn else product
        for architecture, seed in every(sizes, scale.seeds):
            start = self._start(architecture, seed, followed)
            branches = self._branches(start, followed)
            ends = (*followed, *downstream)
            polished = [each for each in branches if dict(each.labels)["branch"] in self.polished_branches]
            found += [start, *branches, *(self._polished(branch, ends) for branch in polished)]
        return tuple(found)

    def _start(
        self, architecture: PreLayerNormTransformer | GPT2Transformer, seed: int, followed: Sequence[Quantity]
    ) -> PlannedRun:
        width, last = architecture.shape.width, (self.start_steps,)
        return PlannedRun(
            name=f"{START}-{self.name.replace(' ', '-')}-width-{width}-seed-{seed}",
            language=self.language,
            architecture=architecture,
            update_rule=self.start,
            steps=self.start_steps,
            batch_size=self.batch_size,
            seed=seed,
            checkpoint_steps=last,
            saturated_from=self.start_steps,
            measured=measured_at(last, *followed),
            labels=(("language", self.name), ("width", width), (STAGE, START), ("branch", START)),
            objective=SoftLabels(self.predicted),
        )

    def _branches(self, start: PlannedRun, followed: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
        flattened = (
            _on(
                start,
                BRANCH,
                branch.name,
                branch.steps,
                followed,
                update_rule=branch.update_rule,
                batch_size=branch.batch_size,
                averaging_horizon=branch.averaging_horizon,
                objective=self.predicted if branch.on_words_drawn else start.objective,
            )
            for branch in self.flattened
        )
        further = self.sharpened_steps
        sharpened = _on(start, BRANCH, SHARPENED, further, followed, update_rule=self.sharpened)
        return (*flattened, sharpened)

    def _polished(self, branch: PlannedRun, measured: Sequence[Quantity]) -> PlannedRun:
        return _on(
            branch,
            POLISHED,
            str(dict(branch.labels)["branch"]),
            self.polished_steps,
            measured,
            update_rule=self.polished,
            batch_size=self.batch_size,
            averaging_horizon=None,
            objective=SoftLabels(self.predicted),
        )


def in_seconds(
    models: EqualKnowledge, architecture: PreLayerNormTransformer | GPT2Transformer
) -> EqualKnowledge:
    """The same with one small model and a few steps, down to a quarter of a nat: for the scale smoke."""
    rule, kl = AdamW(8e-3, warm_up_steps=5, weight_decay=0.0), 0.25
    return replace(
        models,
        architectures=(architecture,),
        start=Polished(1.2 * kl, rule),
        start_steps=30,
        flattened=tuple(replace(branch, steps=10) for branch in models.flattened),
        sharpened_steps=4,
        polished=Polished(kl, rule, held_out=64),
        polished_steps=20,
        batch_size=64,
    )


def _on(
    origin: PlannedRun, stage: str, branch: str, steps: int, measured: Sequence[Quantity], **changes: Any
) -> PlannedRun:
    """A run on from another's end, named and labelled by its stage and branch, measured at its own end."""
    before = dict(origin.labels)
    key = f"{before['language']}-width-{before['width']}-seed-{origin.first_seed}"
    return continued(
        origin,
        origin.steps,
        name=f"{stage}-{branch}-{key}".replace(" ", "-"),
        steps=steps,
        checkpoint_steps=(steps,),
        saturated_from=steps,
        measured=measured_at((steps,), *measured),
        labels=tuple((before | {STAGE: stage, "branch": branch}).items()),
        **changes,
    )
