"""Whether accuracy depends on a projection of the features."""

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY as PROBE
from isoloss.experiments.figures import BY_WIDTH, PROJECTED
from isoloss.experiments.grammar_runs import grammar_runs
from isoloss.experiments.measured_at import measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import width_of
from isoloss.experiments.suite.figure_3 import gain_by_projection
from isoloss.measurements.accuracy import Projected
from isoloss.panels import Axis, Dots, Panel
from isoloss.results.verdict import within

PAPERS_DIMENSION = 512
PROJECTION_CLAIMS = (
    Claim(
        name="projection-changes-nothing",
        sentence="A probe of features projected to few dimensions is as good as one of all features.",
        paper="projection to 512 dimensions “does not affect the final performance” (A.5; no number given)",
        measure="mean over runs of projected minus plain accuracy at the last checkpoint",
        unit="percentage points",
        claimed=within(1.0),
        statistic=gain_by_projection,
        reason="a fraction of what the paper's sizes gain, 2.0 to 6.9 points",
    ),
)


def projected_dimension(scale: Scale) -> int:
    """The paper's 512, or half of the narrowest model's features if there are too few.

    >>> from isoloss.experiments.scale import scale_named
    >>> projected_dimension(scale_named("laptop"))
    128
    """
    narrowest = min(width_of(model) for model in scale.grammar.architectures)
    return min(PAPERS_DIMENSION, narrowest * scale.grammar.language.maximum_length // 2)


def projection(scale: Scale) -> Experiment:
    """Figure 1's runs, each with two probes at the end."""
    task, last = scale.grammar.tasks[1], scale.grammar.checkpoint_steps[-1:]
    probe, dimension = scale.sizes.probe_of(task), projected_dimension(scale)
    projected = scale.sizes.probe_of(task, PROJECTED, Projected(dimension, scale.sizes.seed))
    return Experiment(
        name="projection",
        title="Does a projection of the features change what a probe finds?",
        question=Question.LARGER,
        text=(
            "The paper concatenates the vectors of all words and says that a Gaussian projection to 512 "
            "dimensions does not affect the final performance, which lets models of all sizes be probed in "
            "the same way. Here the last checkpoint of each run is probed twice: on all its features, and on "
            f"their projection to {dimension} dimensions (512, or half the number of features of the "
            "narrowest model if that is smaller).",
            "If the claim holds, models of different widths can be probed at one dimension, and what a "
            "larger model gains is not due to a larger probe. It says nothing about smaller dimensions.",
        ),
        runs=grammar_runs(scale, measured_at(last, scale.sizes.loss(), probe, projected)),
        claims=PROJECTION_CLAIMS,
        panels=_projection_panels,
        paper_numbers=(("dimensions", f"{PAPERS_DIMENSION}"),),
    )


def _dimensions(scale: Scale) -> list[str]:
    length = scale.grammar.language.maximum_length
    return [
        f"width {model.shape.width}: {model.shape.width * length:,}" for model in scale.grammar.architectures
    ]


def _projection_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    if PROJECTED not in table.columns:
        return ()
    rows = table.filter(pl.col(PROJECTED).is_not_null() & pl.col("accuracy").is_not_null())
    chart = Dots(
        PROBE,
        Axis(PROJECTED, "accuracy on projected features", f"{PROJECTED}_deviation"),
        BY_WIDTH,
    )
    caption = "One dot per run, at its last checkpoint. Bars: one standard deviation over probe seeds."
    return (Panel("projection", "All features against projected ones", caption, (chart,), rows),)


EXPERIMENT = Design(
    projection,
    registered="6e0939cbec00d4abbc5976da5a47bb2bfecf347b",
    earlier_seeds={"laptop": ((111, 112, 113, 114, 115),)},
)
