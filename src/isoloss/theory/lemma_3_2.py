"""Lemma 3.2, Bartlett's identity: at an exact fit, gradient covariance, Hessian and Fisher are equal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.theory.bartlett_matrices import (
    BartlettMatrices,
    TrainingRuns,
    approaches,
    bartlett_matrices,
    checkpoint_matrices,
    gap_exponent,
)
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.minimisers import Minimisers, exact_transformer, factor_table

SOURCE = "Lemma 3.2"
EXACT = 1e-10
"""If KL < 1e-10 nats, probabilities are accurate to about 1e-5, and so are the matrices."""
NEAR_THE_DISTRIBUTION = 0.02
"""Where KL <= 0.02 nats, distribution and model are at most a tenth apart in total variation (Pinsker's
inequality): what is said of first order is put to the test on checkpoints of runs no farther away."""
KL = Axis("kl", "KL(distribution || model) (nats)", logarithmic=True)


@dataclass(frozen=True)
class BartlettSettings:
    """A language of `words` words and sentences of two, three models at its distribution, and `training`
    towards it.

    `gap_tolerance` is on relative gaps: √KL at a KL of 1e-10. `exponent_tolerance` is below a quarter, half
    the distance from one half to the other possible exponents of a Taylor series, 0 and 1.
    """

    words: int
    rank: int
    width: int
    distances: tuple[float, ...]
    directions: int
    seed: int
    training: TrainingRuns
    gap_tolerance: float = 1e-5
    exponent_tolerance: float = 0.1


FULL = BartlettSettings(
    words=3,
    rank=4,
    width=8,
    distances=(1e-2, 1e-3, 1e-4, 1e-5),
    directions=5,
    seed=1,
    training=TrainingRuns(3, 8, 2e-3, 512, (240, 320, 480, 640, 960), seeds=(1, 2, 3, 4, 5)),
)
SMOKE = BartlettSettings(
    words=2,
    rank=2,
    width=4,
    distances=(1e-2, 1e-3),
    directions=2,
    seed=1,
    training=TrainingRuns(2, 8, 4e-3, 64, (200, 300, 400), seeds=(1, 2)),
)


def lemma_3_2(settings: BartlettSettings, progress: Progress = silent) -> Statement:
    """The three matrices, dense and in float64, at an exact fit and on the way to it."""
    exact = exact_matrices(settings)
    progress("Lemma 3.2 at an exact fit", 1, 1)
    minimisers, start = exact_transformer(settings.width, 0.3, settings.seed, settings.words)
    near = approaches(minimisers, start, settings.distances, settings.directions, settings.seed, progress)
    trained = checkpoint_matrices(settings.training, progress)
    runs = [[each for each in run if each.kl <= NEAR_THE_DISTRIBUTION] for run in trained.values()]
    return Statement(
        name="lemma-3.2",
        title="Are gradient covariance, Hessian and Fisher information equal at an exact fit?",
        text=(
            "Three models are put at the exact distribution of a small language, and each matrix is computed "
            "independently: the covariance over all contexts and words, the Hessian by differentiating the "
            "loss twice, the Fisher information from the model's own labels. They would differ if the model "
            "were not at an exact fit. If the probabilities are off by δ, both gaps are first order in δ and "
            "the KL is second order, so the gaps grow as KL^(1/2): exactly in the limit, approximately at "
            f"checkpoints of training runs within {NEAR_THE_DISTRIBUTION} nats."
        ),
        findings=(
            *identity_findings(exact, settings.gap_tolerance),
            *exponent_findings(near, "near the distribution", settings.exponent_tolerance),
            *exponent_findings(runs, "along training runs", settings.exponent_tolerance),
        ),
        panels=(gap_panel(trained), trace_panel(trained)),
        settings=(
            *((name, value) for name, value in stated(settings) if name != "training"),
            *((f"training {name}", value) for name, value in stated(settings.training)),
        ),
    )


def exact_matrices(settings: BartlettSettings) -> dict[str, BartlettMatrices]:
    """For a table of logits, one in two factors, and a transformer taken there by Newton's method."""
    factors, start = factor_table(
        settings.words, settings.rank, language_seed=settings.seed, start_seed=settings.seed
    )
    table = Minimisers(lambda at: at.view(-1, settings.words), factors.distributions)
    logits = factors.distributions.distribution.log().flatten()
    transformer, exact = exact_transformer(settings.width, 0.3, settings.seed, settings.words)
    return {
        "table of logits": bartlett_matrices(table, logits),
        "table in two factors": bartlett_matrices(factors, factors.reach(start)),
        "transformer": bartlett_matrices(transformer, exact),
    }


def identity_findings(exact: dict[str, BartlettMatrices], tolerance: float) -> tuple[Finding, ...]:
    """For each model, that it is at an exact fit, and the distances between its three matrices."""
    return tuple(
        Finding(
            f"{what}, {model}",
            f"{model.capitalize()}: {sentence}",
            SOURCE,
            measured,
            "at most",
            0.0,
            n=len(matrices.fisher),
            unit=unit,
            tolerance=allowed,
        )
        for model, matrices in exact.items()
        for what, sentence, measured, unit, allowed in (
            ("KL", "KL is 0, an exact fit.", matrices.kl, "nats", EXACT),
            (
                "Σ - ∇²L",
                "gradient covariance and Hessian are equal.",
                matrices.lemma_gap,
                "of ||∇²L||",
                tolerance,
            ),
            (
                "largest entry",
                "they are equal in every entry.",
                matrices.largest_gap,
                "of the largest",
                tolerance,
            ),
            (
                "∇²L - F",
                "Hessian and Fisher information are equal.",
                matrices.hessian_gap,
                "of ||F||",
                tolerance,
            ),
        )
    )


def exponent_findings(
    paths: Sequence[Sequence[BartlettMatrices]], where: str, tolerance: float
) -> tuple[Finding, Finding]:
    """The exponents of both gaps in KL: one slope through all points, with the error over paths."""

    def finding(name: str, matrix: str, gap: Callable[[BartlettMatrices], float]) -> Finding:
        exponent = gap_exponent([[(point.kl, gap(point)) for point in path] for path in paths])
        sentence = (
            f"{where.capitalize()}, the {matrix}'s relative distance from the Fisher information grows as "
            "the square root of KL (exponent)."
        )
        source, name = f"{SOURCE}; first order in the probabilities' error", f"exponent of {name}, {where}"
        return estimated(name, sentence, source, exponent, "equal to", 0.5, tolerance=tolerance)

    return (
        finding("Σ - F", "gradient covariance", lambda point: point.covariance_gap),
        finding("∇²L - F", "Hessian", lambda point: point.hessian_gap),
    )


def gap_panel(trained: Mapping[int, Sequence[BartlettMatrices]]) -> Panel:
    """Both relative gaps against KL, one line per run, with a line of slope one half."""
    rows = [
        (each.kl, gap, name, f"{name}, run {seed}", False)
        for seed, run in trained.items()
        for each in run
        for name, gap in (("Σ - F", each.covariance_gap), ("∇²L - F", each.hessian_gap))
    ]
    kls = [row[0] for row in rows]
    rows += [(kl, kl**0.5, "√KL", "√KL", True) for kl in (min(kls), max(kls))]
    chart = Lines(
        KL,
        Axis("gap", "relative gap", logarithmic=True),
        Colour("matrix", "gap"),
        series="series",
        predicted="predicted",
    )
    return Panel(
        "lemma-3.2-gaps",
        "How the three matrices diverge away from the exact fit",
        "Relative Frobenius distances of gradient covariance and Hessian from the Fisher information at "
        "checkpoints of training runs, against the checkpoint's KL from the distribution. The dashed line "
        "√KL shows the predicted slope; its height is arbitrary.",
        (chart,),
        pl.DataFrame(rows, ["kl", "gap", "matrix", "series", "predicted"], orient="row"),
    )


def trace_panel(trained: Mapping[int, Sequence[BartlettMatrices]]) -> Panel:
    """The three traces against KL."""
    rows = [
        (each.kl, float(matrix.trace()), name, f"{name}, run {seed}")
        for seed, run in trained.items()
        for each in run
        for name, matrix in (("Tr F", each.fisher), ("Tr ∇²L", each.hessian), ("Tr Σ", each.covariance))
    ]
    chart = Lines(KL, Axis("trace", "trace", logarithmic=True), Colour("matrix", "matrix"), series="series")
    return Panel(
        "lemma-3.2-traces",
        "The three traces along training runs",
        "Traces of the Fisher information, the Hessian and the gradient covariance at the same checkpoints.",
        (chart,),
        pl.DataFrame(rows, ["kl", "trace", "matrix", "series"], orient="row"),
    )


ENTRY = Entry("lemma-3.2", lemma_3_2, FULL, SMOKE, seconds=30)
