"""Lemma G.4: at zero loss the trace of the Hessian is that of the gradients alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import torch
from torch.func import grad, jacrev

from isoloss.panels import Axis, Colour, Dots, Panel
from isoloss.progress import Progress, silent
from isoloss.theory.finding import Entry, Finding, Statement, stated, vanishing
from isoloss.theory.one_layer_transformer import (
    SECOND_DERIVATIVE,
    BracketStrings,
    OneLayerTransformer,
    hessian_trace,
    masked_strings,
    squared_gradient_norms,
    squared_loss,
)
from isoloss.theory.zero_loss_solutions import fitted, random_weights

SOURCE = "Lemma G.4"


@dataclass(frozen=True)
class LemmaG4Settings:
    """`seeds` of solutions with all weights random; from each, `searches` moves look for a worse case.

    A move is Gaussian, `reach` times the weights' sizes, and brought back to zero loss. `tolerance` is
    relative: float64 sums of autograd leave 1e-13, the loss of at most 1e-20 about 1e-10 of a trace.
    """

    length: int
    neurons: int
    seeds: tuple[int, ...]
    searches: int
    reach: float = 0.1
    tolerance: float = 1e-7


FULL = LemmaG4Settings(length=4, neurons=12, seeds=(1, 2, 3, 4), searches=25)
SMOKE = LemmaG4Settings(length=4, neurons=12, seeds=(1,), searches=2)
MISSES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
"""Relative moves away from zero loss, for the picture."""


def lemma_g_4(settings: LemmaG4Settings, progress: Progress = silent) -> Statement:
    """Test the identity against dense Hessians, on random and on adversarial solutions.

    Raises IsolossError if random weights cannot be fitted: use another seed, or more neurons.
    """
    strings = masked_strings(settings.length)
    factors = []
    for done, seed in enumerate(settings.seeds):
        factors += _searched_factors(settings, strings, seed)
        progress("searching for a worse case", done + 1, len(settings.seeds))
    away = pl.concat([_away(settings, strings, seed) for seed in settings.seeds])
    return Statement(
        name="lemma-g.4",
        title="Is the trace of the Hessian 2 E ‖∇f‖² at zero loss?",
        text=(
            "The Hessian over Q, K, V and u is computed densely, by autograd in float64, over the whole "
            "pre-training distribution. Its trace is divided by E ‖∇f‖² at solutions with all weights "
            "random, and at those where a random search finds the largest deviation. Everywhere else along "
            "the way it is compared with the closed form, which holds at any loss."
        ),
        findings=identity_findings(factors, away, settings.tolerance),
        panels=(_panel(away),),
        settings=stated(settings),
        corrections=(
            "The paper's Hessian of the squared loss has ℓ''/2 in place of ℓ'', so it states E ‖∇f‖²; the "
            "trace is twice as large.",
        ),
    )


def dense_trace(model: OneLayerTransformer, strings: BracketStrings) -> float:
    """The trace of the dense Hessian by autograd; p² numbers in memory for p parameters."""

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return squared_loss(model.with_flat(flat), strings)

    return float(jacrev(grad(loss))(model.flat()).trace())


def factor(model: OneLayerTransformer, strings: BracketStrings) -> float:
    """The dense Hessian's trace over E ‖∇f‖², which by Lemma G.4 is a constant at zero loss."""
    return dense_trace(model, strings) / float(strings.mean(squared_gradient_norms(model, strings.tokens)))


def identity_findings(
    factors: Sequence[float], away: pl.DataFrame, tolerance: float
) -> tuple[Finding, Finding]:
    """The `factor` farthest from the constant, and traces `dense` and in `closed_form` at any loss."""
    ratio = "At zero loss, the trace of the Hessian is twice E ‖∇f‖² (ratio, the one farthest from 2)."
    closed = (
        "At any loss, the closed form equals the trace of the dense Hessian (largest relative difference)."
    )
    farthest = max(factors, key=lambda found: abs(found - SECOND_DERIVATIVE))
    off = (away["closed_form"] / away["dense"] - 1).abs().to_list()
    name, n, allowed = "hessian_trace_over_gradient_norm", len(factors), tolerance * SECOND_DERIVATIVE
    return (
        Finding(
            name, ratio, SOURCE, farthest, "equal to", SECOND_DERIVATIVE, n=n, tolerance=allowed, paper="1"
        ),
        vanishing("closed_form_off_dense_trace", closed, "Section 5", off, tolerance),
    )


def _searched_factors(settings: LemmaG4Settings, strings: BracketStrings, seed: int) -> list[float]:
    """The factors of a random solution, and of a search that continues from the worst one so far."""
    generator = torch.Generator().manual_seed(seed)
    worst = random_weights(strings, settings.neurons, generator)
    factors = [factor(worst, strings)]
    largest = abs(factors[0] - SECOND_DERIVATIVE)
    for _ in range(settings.searches):
        moved = fitted(_moved(worst, settings.reach, generator), strings)
        factors.append(factor(moved, strings))
        if (deviation := abs(factors[-1] - SECOND_DERIVATIVE)) > largest:
            worst, largest = moved, deviation
    return factors


def _moved(model: OneLayerTransformer, reach: float, generator: torch.Generator) -> OneLayerTransformer:
    parts = [
        (1 + reach * torch.randn(part.shape, generator=generator, dtype=torch.float64)) * part
        for part in model.parameters()
    ]
    return OneLayerTransformer(*parts)


def _away(settings: LemmaG4Settings, strings: BracketStrings, seed: int) -> pl.DataFrame:
    """Traces at growing distances from a solution."""
    generator = torch.Generator().manual_seed(seed)
    solution = random_weights(strings, settings.neurons, generator)
    rows = []
    for reach in MISSES:
        model = _moved(solution, reach, generator)
        dense = dense_trace(model, strings)
        gradients = float(strings.mean(squared_gradient_norms(model, strings.tokens)))
        rows.append(
            {
                "seed": str(seed),
                "loss": float(squared_loss(model, strings)),
                "dense": dense,
                "closed_form": float(hessian_trace(model, strings)),
                "factor": dense / gradients,
            }
        )
    return pl.DataFrame(rows)


def _panel(away: pl.DataFrame) -> Panel:
    loss = Axis("loss", "pre-training loss", logarithmic=True)
    return Panel(
        "factor",
        "The trace over the squared gradient norm, at the solutions and away from them",
        "2 at zero loss, for all weights; away from it the curvature of f contributes.",
        (Dots(loss, Axis("factor", "Tr ∇²L / E ‖∇f‖²"), Colour("seed", "seed")),),
        # A loss of 0 has no place on a logarithmic axis.
        away.with_columns(pl.col("loss").clip(lower_bound=1e-24)),
    )


ENTRY = Entry("lemma-g.4", lemma_g_4, FULL, SMOKE, seconds=25)
