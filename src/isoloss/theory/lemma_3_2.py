"""Lemma 3.2, Bartlett's identity: at an exact fit, gradient covariance, Hessian and Fisher are equal."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.progress import Progress, silent
from isoloss.results.checkpoint import Checkpoint
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.minimisers import Minimisers, exact_transformer, factor_table
from isoloss.theory.optimiser_paths import gap_exponent
from isoloss.theory.softmax_model import (
    BartlettMatrices,
    Logits,
    alike_pairs,
    bartlett_matrices,
    enumerated_contexts,
    enumerated_transformer,
    parameter_vector,
)

SOURCE = "Lemma 3.2"
EXACT = 1e-10
"""If KL < 1e-10 nats, probabilities are accurate to about 1e-5, and so are the matrices."""
NEAR_THE_DISTRIBUTION = 0.02
"""Where KL <= 0.02 nats, distribution and model are at most a tenth apart in total variation (Pinsker's
inequality): what is said of first order is put to the test on checkpoints of runs no farther away."""
KL = Axis("kl", "KL(distribution || model) (nats)", logarithmic=True)


@dataclass(frozen=True)
class TrainingRuns:
    """Tiny transformers trained with AdamW on fresh sentences of `alike_pairs`; one run per seed.

    Checkpoints start when the model begins to distinguish contexts; before that, KL hardly moves.
    """

    words: int
    width: int
    learning_rate: float
    batch_size: int
    checkpoint_steps: tuple[int, ...]
    seeds: tuple[int, ...]


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
    near = approaches(minimisers, start, settings, progress)
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
    words, seed = settings.words, settings.seed
    factors, start = factor_table(words, settings.rank, language_seed=seed, start_seed=seed)
    distributions = factors.distributions
    table = distributions.distribution.log().flatten()
    transformer, exact = exact_transformer(settings.width, 0.3, seed, words)
    return {
        "table of logits": bartlett_matrices(lambda at: at.view(-1, words), distributions, table),
        "table in two factors": bartlett_matrices(factors.logits, distributions, factors.reach(start)),
        "transformer": bartlett_matrices(transformer.logits, transformer.distributions, exact),
    }


def approaches(
    minimisers: Minimisers,
    minimiser: Float[Tensor, " P"],
    settings: BartlettSettings,
    progress: Progress = silent,
) -> list[list[BartlettMatrices]]:
    """The three matrices at `minimiser` + distance · direction: one row per random unit direction.

    For short distances, KL is quadratic and both gaps are linear in the distance (`BartlettMatrices`).
    """
    generator, count = torch.Generator().manual_seed(settings.seed), settings.directions
    drawn = torch.randn(count, len(minimiser), generator=generator, dtype=torch.float64)
    found: list[list[BartlettMatrices]] = []
    for number, direction in enumerate(torch.nn.functional.normalize(drawn), start=1):
        points = [minimiser + distance * direction for distance in settings.distances]
        found.append([bartlett_matrices(minimisers.logits, minimisers.distributions, at) for at in points])
        progress("Lemma 3.2 near the distribution", number, count)
    return found


def checkpoint_matrices(runs: TrainingRuns, progress: Progress = silent) -> dict[int, list[BartlettMatrices]]:
    """Train the run of each seed and compute Σ, ∇²L and F at each of its checkpoints, in float64.

    The three are those of the loss over the words; see `enumerated_transformer`.
    """
    language = alike_pairs(runs.words)
    contexts = enumerated_contexts(language)
    architecture = PostLayerNormTransformer(Shape(runs.width, 2, 1, 2 * runs.width), 0.0, "eager")
    found: dict[int, list[BartlettMatrices]] = {seed: [] for seed in runs.seeds}
    for seed in runs.seeds:
        specification = PretrainingSpecification(
            architecture,
            AdamW(learning_rate=runs.learning_rate, warm_up_steps=10, weight_decay=0.0),
            language.digest,
            steps=runs.checkpoint_steps[-1],
            batch_size=runs.batch_size,
            seed=seed,
            checkpoint_steps=runs.checkpoint_steps,
        )
        # A copy in float64, since the training model must be left unchanged.
        double = architecture.build(runs.words, language.maximum_length, seed).double().eval()
        small = enumerated_transformer(double, contexts)

        def measure(_: Checkpoint, model: PreTrainedModel, seed: int = seed, small: Logits = small) -> None:
            at = parameter_vector(model)
            found[seed].append(bartlett_matrices(small, contexts.distributions, at))
            done, every = sum(map(len, found.values())), len(found) * len(runs.checkpoint_steps)
            progress("Lemma 3.2 along runs", done, every)

        with tempfile.TemporaryDirectory() as folder:
            pretrain(specification, language, Path(folder), at_checkpoint=measure)
    return found


def identity_findings(exact: Mapping[str, BartlettMatrices], tolerance: float) -> list[Finding]:
    """For each model, that it is at an exact fit, and the distances between its three matrices."""
    findings = []
    for model, at in exact.items():
        largest = float((at.covariance - at.hessian).abs().max() / at.hessian.abs().max())
        for what, says, measured, unit, allowed in (
            ("KL", "KL is 0, an exact fit.", at.kl, "nats", EXACT),
            ("Σ - ∇²L", "gradient covariance and Hessian are equal.", at.lemma_gap, "of ||∇²L||", tolerance),
            ("largest entry", "they are equal in every entry.", largest, "of the largest", tolerance),
            ("∇²L - F", "Hessian and Fisher information are equal.", at.hessian_gap, "of ||F||", tolerance),
        ):
            name, sentence, n = f"{what}, {model}", f"{model.capitalize()}: {says}", len(at.fisher)
            findings.append(
                Finding(name, sentence, SOURCE, measured, "at most", 0.0, n=n, unit=unit, tolerance=allowed)
            )
    return findings


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
