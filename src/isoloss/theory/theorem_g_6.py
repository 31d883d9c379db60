"""Theorem G.6: random features predict every masked bracket, and are far from flat."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, part_of, silent
from isoloss.theory.finding import Entry, Finding, Statement, stated, vanishing
from isoloss.theory.one_layer_transformer import BracketStrings, farthest_output, masked_strings
from isoloss.theory.zero_loss_solutions import pseudo_inverse, random_features, rebalanced, trace_over_bound

SOURCE = "Theorem G.6"


@dataclass(frozen=True)
class TheoremG6Settings:
    """For each length, a solution for each number of neurons, `wide` times as many as masked strings.

    `tolerance` is on the exponent with which ‖u‖² grows with m: it is 1 up to terms that vanish with strings
    over neurons, some hundredths at these sizes; the paper's exponent is 0.
    """

    lengths: tuple[int, ...]
    wide: tuple[int, ...]
    limit_lengths: tuple[int, ...]
    seed: int
    tolerance: float = 0.15


def theorem_g_6(settings: TheoremG6Settings, progress: Progress = silent) -> Statement:
    """Test the existence and the size of random-feature solutions, and compute their traces."""
    found = pl.concat(
        [
            _solutions(settings, length, part_of(progress, done, len(settings.lengths)))
            for done, length in enumerate(settings.lengths)
        ]
    )
    limits = {length: limiting_norm(masked_strings(length)) for length in settings.limit_lengths}
    return Statement(
        name="theorem-g.6",
        title="Do random features fit pre-training without being flat?",
        text=(
            "Neurons V_i ~ N(0, T I) are drawn, and the minimum-norm output layer that predicts every masked "
            "bracket is solved for. Its norm as the number of neurons grows follows from the kernel E σ(vᵀh) "
            "σ(vᵀh'), in closed form. The trace of each solution is compared with the flattest, also after "
            "every neuron has been rescaled to the least trace that its outputs allow."
        ),
        findings=feature_findings(found, limits, settings.tolerance),
        panels=(_panel(found),),
        settings=stated(settings),
        corrections=(
            "The theorem bounds ‖u'‖² by O(T²/δ), which omits the number of neurons: u_i = a(V_i) with E a² "
            "= O(T²) has ‖u'‖² of order m T². In the limit ‖u‖²/m is 4 T².",
            "The proof's y = -√T 1ᵀh and ‖h‖ = 1/T should be y = -T 1ᵀh and ‖h‖ = 1/√T for h = (1/T) Σ x_j.",
        ),
    )


def limiting_norm(strings: BracketStrings) -> float:
    """yᵀ K⁻¹ y, the limit of ‖u‖²/m for many neurons, over T²; K = E σ(vᵀh) σ(vᵀh'), v ~ N(0, T I).

    With T h·h' = cos θ, K = (sin θ + (π - θ) cos θ) / 2π (Cho and Saul, Kernel Methods for Deep Learning,
    2009). u = 4 T² has the function of a(v) = -2 · 1ᵀv, by E σ(vᵀh) v = T h / 2.

    >>> round(limiting_norm(masked_strings(4)), 6)
    4.0
    """
    length = strings.length
    sums = strings.tokens.sum(1)
    cosines = (sums @ sums.T / length).clamp(-1, 1)
    angles = cosines.arccos()
    kernel = (angles.sin() + (torch.pi - angles) * cosines) / (2 * torch.pi)
    return float(strings.target @ pseudo_inverse(kernel) @ strings.target) / length**2


def feature_findings(
    found: pl.DataFrame, limits: Mapping[int, float], tolerance: float
) -> tuple[Finding, ...]:
    """How well the solutions fit, their size, and whether they are flat; `limits` are ‖u‖²/(m T²) by T.

    An error of 1e-6 is the loss 1e-12: pseudo-inverses of eigenvalues down to 1e-9 of the largest are as
    exact. The exponent of m in ‖u‖² is fitted by least squares to the logarithms, for the longest strings.
    """
    longest = found.filter(pl.col("length") == pl.col("length").max())
    slope = float(np.polyfit(longest["neurons"].log().to_numpy(), longest["norm"].log().to_numpy(), 1)[0])
    sizes, said = len(longest), "0: ‖u'‖² = O(T²/δ)"
    least, n = float(found["balanced"].to_numpy().min()), len(found)
    fit = "With as many random neurons as strings or more, every masked bracket is predicted (largest error)."
    size = "As the number m of random neurons grows, ‖u‖² tends to 4 T² m, T = {} (limit over T² m)."
    growth = "‖u‖² grows in proportion to the number m of neurons (exponent)."
    flat = "Random features, even rescaled, are less flat than two neurons (smallest trace over 4/(m √T))."
    name = "random_features_norm"
    return (
        vanishing("random_features_miss", fit, SOURCE, found["miss"].to_list(), 1e-6),
        *(
            Finding(f"{name}_{t}", size.format(t), SOURCE, limit, "equal to", 4.0, n=1, tolerance=1e-6)
            for t, limit in limits.items()
        ),
        Finding(
            f"{name}_exponent",
            growth,
            SOURCE,
            slope,
            "equal to",
            1.0,
            n=sizes,
            tolerance=tolerance,
            paper=said,
        ),
        Finding("random_features_trace_over_flattest", flat, "Section 5", least, "at least", 1.0, n=n),
    )


def _solutions(settings: TheoremG6Settings, length: int, progress: Progress) -> pl.DataFrame:
    strings = masked_strings(length)
    generator = torch.Generator().manual_seed(settings.seed)
    rows = []
    for done, wide in enumerate(settings.wide):
        neurons = wide * len(strings)
        model = random_features(strings, neurons, generator)
        rows.append(
            {
                "length": length,
                "neurons": neurons,
                "miss": farthest_output(model, strings),
                "norm": float(model.output.square().sum()),
                "raw": trace_over_bound(model, strings),
                "balanced": trace_over_bound(rebalanced(model, strings), strings),
            }
        )
        progress("solving for output layers", done + 1, len(settings.wide))
    return pl.DataFrame(rows)


def _panel(found: pl.DataFrame) -> Panel:
    names = {"raw": "V ~ N(0, T I)", "balanced": "neurons rescaled"}
    data = found.unpivot(
        on=["raw", "balanced"], index=["length", "neurons"], variable_name="scale", value_name="ratio"
    ).with_columns(series=pl.format("T = {}, {}", pl.col("length"), pl.col("scale").replace(names)))
    x = Axis("neurons", "neurons m", logarithmic=True)
    y = Axis("ratio", "trace over 4/(m √T)", logarithmic=True)
    return Panel(
        "trace",
        "Random features compared with the flattest solution",
        "Trace of the Hessian over that of the two-neuron solution with the same number of neurons.",
        (Lines(x, y, Colour("series", "solution"), series="series"),),
        data,
    )


ENTRY = Entry(
    "theorem-g.6",
    theorem_g_6,
    full=TheoremG6Settings(lengths=(4, 6), wide=(8, 16, 32, 64), limit_lengths=(4, 6, 8), seed=1),
    smoke=TheoremG6Settings(lengths=(4,), wide=(16, 64), limit_lengths=(4, 6), seed=1),
    seconds=5,
)
