"""A.4's projection of features to 512 dimensions: whether the probe's accuracy is the same."""

import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figures.axes import ACCURACY, BY_WIDTH
from isoloss.experiments.figures.figures_3_and_8 import gain_by_projection
from isoloss.experiments.figures.shown_task import PROJECTED
from isoloss.experiments.grammar_runs import grammar_runs
from isoloss.experiments.language_runs import width_of
from isoloss.experiments.quantities.adapted_probe import AdaptedProbeQuantity
from isoloss.experiments.quantity import MeasuredAt
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.statistics.region import within
from isoloss.measurements.feature_adaptation import Projected
from isoloss.panels import Axis, Dots, Panel

PAPERS_DIMENSION = 512
CLAIMS = (
    Claim(
        name="projection-changes-nothing",
        sentence="A probe of features projected to few dimensions is as good as one of all features.",
        paper="projection to 512 dimensions “does not affect the final performance” (A.5; no number given)",
        measure="mean over runs of projected minus plain accuracy at the last checkpoint",
        unit="percent points",
        claimed=within(1.0),
        statistic=gain_by_projection,
        reason="a fraction of what the paper's sizes gain, 2.0 to 6.9 points",
    ),
)


def projected_dimension(scale: Scale) -> int:
    """The paper's 512, or half of the narrowest model's features where these are few.

    >>> from isoloss.experiments.scales.laptop import laptop
    >>> projected_dimension(laptop())
    128
    """
    narrowest = min(width_of(model) for model in scale.grammar.architectures)
    return min(PAPERS_DIMENSION, narrowest * scale.grammar.language.maximum_length // 2)


def projection(scale: Scale) -> Experiment:
    """Figure 1's runs, each probed twice at the end."""
    task, last = scale.grammar.tasks[1], scale.grammar.checkpoint_steps[-1:]
    probe, dimension = scale.sizes.probe_of(task), projected_dimension(scale)
    projected = AdaptedProbeQuantity(probe, Projected(dimension, scale.sizes.seed), PROJECTED)
    return Experiment(
        name="projection",
        title="Does a projection of the features change what a probe finds?",
        question=Question.LARGER,
        text=(
            "The paper concatenates the vectors of all words and says that a Gaussian projection to 512 "
            "dimensions does not affect the final performance, so that models of all sizes may be probed "
            "alike. Here the last checkpoint of each run is probed twice, on all its features and on their "
            f"projection to {dimension}: 512, or half of the narrowest model's features where they are few.",
        ),
        runs=grammar_runs(scale, tuple(MeasuredAt(q, last) for q in (scale.sizes.loss(), probe, projected))),
        claims=CLAIMS,
        panels=_panels,
        pilot_seeds=scale.pilot_seeds,
        settings=(
            ("downstream task", task),
            ("dimensions", ", ".join(_dimensions(scale)) + f", all projected to {dimension}"),
        ),
        paper_numbers=(("dimensions", f"{PAPERS_DIMENSION}"),),
    )


def _dimensions(scale: Scale) -> list[str]:
    length = scale.grammar.language.maximum_length
    return [
        f"width {model.shape.width}: {model.shape.width * length:,}" for model in scale.grammar.architectures
    ]


def _panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    if table.is_empty() or PROJECTED not in table.columns:
        return ()
    rows = table.filter(pl.col(PROJECTED).is_not_null() & pl.col("accuracy").is_not_null())
    chart = Dots(
        ACCURACY,
        Axis(PROJECTED, "accuracy on projected features", f"{PROJECTED}_deviation"),
        BY_WIDTH,
    )
    caption = "A dot a run, at its last checkpoint. Bars: one standard deviation over seeds of the probe."
    return (Panel("projection", "All features against projected ones", caption, (chart,), rows),)
