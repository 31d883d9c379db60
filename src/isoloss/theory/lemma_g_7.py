"""Lemma G.7, on which Theorem G.6 rests: output weights a(v) for which random neurons v mean the target."""

import math
from dataclasses import dataclass

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, sample_mean
from isoloss.theory.fact_g_2 import mean_inputs
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.one_layer_transformer import masked_strings
from isoloss.theory.theorem_g_6 import limiting_norm

SOURCE = "Lemma G.7"


@dataclass(frozen=True)
class LemmaG7Settings:
    """`batches` of `neurons` random v each for a mean and its error, at each length.

    `tolerance` is on the mean's share of the target, which is 1, and would be 1/2 or 2 with another constant;
    its square is on the mean square of the difference, as a share of the target's.
    """

    lengths: tuple[int, ...]
    neurons: int
    batches: int
    limit_lengths: tuple[int, ...]
    seed: int
    tolerance: float = 0.05


def lemma_g_7(settings: LemmaG7Settings, progress: Progress = silent) -> Statement:
    """Test by sampling that a(v) = -(2/√T) 1ᵀv does it, and how large a(v) has to be."""
    shares, differences = [], []
    for done, length in enumerate(settings.lengths, start=1):
        share, difference = mean_findings(length, *means_of_neurons(settings, length), settings.tolerance)
        shares.append(share)
        differences.append(difference)
        progress("drawing neurons", done, len(settings.lengths))
    least = {length: limiting_norm(masked_strings(length)) for length in settings.limit_lengths}
    return Statement(
        name="lemma-g.7",
        title="Is there an output weight that makes random neurons predict the masked bracket?",
        text=(
            "For v ~ N(0, T I) and |h| = 1/√T, E σ(vᵀh) v = T h / 2, so that a(v) = -(2/√T) 1ᵀv, with 1 on "
            "the brackets, has E σ(vᵀh) a(v) = -√T 1ᵀh and E a² = 4T. The mean is computed by drawing v, "
            "over all inputs h, as a share of the target's. It would fail with another constant, or if it "
            "were not linear in h. The least E a² of any function that predicts every masked bracket follows "
            "from the kernel of Theorem G.6."
        ),
        findings=(*shares, *differences, *(size_finding(length, size) for length, size in least.items())),
        panels=(_share_panel(settings.lengths, shares),),
        settings=stated(settings),
        corrections=(
            "The function that predicts the masked bracket is y = -T 1ᵀh, √T times the lemma's -√T 1ᵀh. For "
            "it a(v) = -2 · 1ᵀv, and E a² = 4 T²: the lemma's O(T²) is that of the right function, and the "
            "printed one needs 4T.",
        ),
    )


def means_of_neurons(
    settings: LemmaG7Settings, length: int
) -> tuple[Float[Tensor, "b h"], Float[Tensor, " h"]]:
    """Mean over each batch of v of σ(vᵀh) a(v), for all inputs h; and the lemma's y(h) = -√T 1ᵀh."""
    inputs = mean_inputs(length)
    target = inputs[:, :length].sum(1) * -math.sqrt(length)
    generator = torch.Generator().manual_seed(settings.seed)
    means = []
    for _ in range(settings.batches):
        v = math.sqrt(length) * torch.randn(
            settings.neurons, 2 * length, generator=generator, dtype=torch.float64
        )
        means.append((v @ inputs.T).relu().T @ output_weight(v) / len(v))
    return torch.stack(means), target


def share_of_target(means: Float[Tensor, "b h"], target: Float[Tensor, " h"]) -> Estimate:
    """Σ_h E[σ(vᵀh) a(v)] y(h) / Σ_h y(h)², over all inputs h; batches of v give the error."""
    return sample_mean(means @ target / target.square().sum())


def squared_difference(means: Float[Tensor, "b h"], target: Float[Tensor, " h"]) -> Estimate:
    """Σ_h (E[σ(vᵀh) a(v)] - y(h))² / Σ_h y(h)², without bias: products over pairs of independent batches."""
    differences = means - target
    products = differences[::2] * differences[1::2]
    return sample_mean(products.sum(1) / target.square().sum())


def output_weight(neurons: Float[Tensor, "m d"]) -> Float[Tensor, " m"]:
    """a(v) = -(2/√T) 1ᵀv."""
    length = neurons.shape[1] // 2
    return neurons[:, :length].sum(1) * (-2 / math.sqrt(length))


def mean_findings(
    length: int, means: Float[Tensor, "b h"], target: Float[Tensor, " h"], tolerance: float
) -> tuple[Finding, Finding]:
    """The mean is the lemma's function of h, and differs from it at no h, also where that is even in h."""
    share, square = share_of_target(means, target), squared_difference(means, target)
    same = f"E σ(vᵀh) a(v) = -√T 1ᵀh, T = {length} (mean over inputs, as a share of the right side)."
    at_every = f"E σ(vᵀh) a(v) = -√T 1ᵀh at every input h, T = {length} (relative squared difference)."
    of_share, of_square = f"share_of_the_target_{length}", f"squared_difference_{length}"
    return (
        estimated(of_share, same, SOURCE, share, "equal to", 1.0, tolerance=tolerance),
        estimated(of_square, at_every, SOURCE, square, "equal to", 0.0, tolerance=tolerance**2),
    )


def size_finding(length: int, size: float) -> Finding:
    """`size` is the least E a² over T² for y = -T 1ᵀh."""
    name = f"least_size_of_the_weight_{length}"
    sentence = f"The least E a² that predicts every masked bracket is 4 T², T = {length} (over T²)."
    return Finding(name, sentence, SOURCE, size, "equal to", 4.0, n=1, tolerance=1e-6, paper="O(T²)")


def _share_panel(lengths: tuple[int, ...], shares: list[Finding]) -> Panel:
    rows = [
        (length, each.measured, each.standard_error, "drawn")
        for length, each in zip(lengths, shares, strict=True)
    ]
    rows += [(length, 1.0, 0.0, "Lemma G.7") for length in lengths]
    x, y = Axis("length", "brackets T"), Axis("share", "share of -√T 1ᵀh", error="error")
    return Panel(
        "share",
        "The mean of random neurons with the lemma's output weight",
        "E σ(vᵀh) a(v) over all inputs h, as a share of the lemma's function; bars: one standard error over "
        "batches of neurons.",
        (Lines(x, y, Colour("series", "from"), series="series"),),
        pl.DataFrame(rows, ["length", "share", "error", "series"], orient="row"),
    )


ENTRY = Entry(
    "lemma-g.7",
    lemma_g_7,
    full=LemmaG7Settings((4, 6, 8), 50_000, 40, (4, 6, 8), seed=1),
    smoke=LemmaG7Settings((4,), 20_000, 20, (4, 6), seed=1),
    seconds=10,
)
