"""Descent on the trace of the Hessian among weights with zero pre-training loss."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import IsolossError
from isoloss.progress import Progress, silent
from isoloss.theory.bracket_strings import BracketStrings
from isoloss.theory.one_layer_transformer import (
    OneLayerTransformer,
    farthest_output,
    output_gradients,
    zero_loss_trace,
)

MISS = 1e-10
"""The largest |f(x) - g*(x)| at which the loss counts as zero: a loss of 1e-20."""
RIDGE = 1e-10
"""Added to J Jᵀ relative to its mean diagonal: near the end many strings require the same step."""
CORRECTIONS, FITTING_STEPS = 8, 200
FIRST_STEP, LEAST_STEP = 0.1, 1e-9


@dataclass(frozen=True)
class Descent:
    """Weights and traces along a descent, from the start: one entry per accepted step."""

    models: tuple[OneLayerTransformer, ...]
    traces: tuple[float, ...]

    @property
    def end(self) -> OneLayerTransformer:
        """The flattest weights found."""
        return self.models[-1]


def random_weights(
    strings: BracketStrings, neurons: int, rows: int, generator: torch.Generator
) -> OneLayerTransformer:
    """Gaussian Q, K (k = `rows`), V and u, brought to zero loss by `fitted` (see there).

    Entries have standard deviations 0.3 (Q, K), √T (V, as in G.6) and √m / 10 (u, so that f starts small).
    """
    length, d = strings.length, 2 * strings.length

    def gaussian(size: float, *shape: int) -> Tensor:
        return size * torch.randn(*shape, generator=generator, dtype=torch.float64)

    query, key = gaussian(0.3, rows, d), gaussian(0.3, rows, d)
    value, output = gaussian(length**0.5, neurons, d), gaussian(neurons**0.5 / 10, neurons)
    return fitted(OneLayerTransformer(query, key, value, output), strings)


def fitted(model: OneLayerTransformer, strings: BracketStrings) -> OneLayerTransformer:
    """The weights brought to zero loss by Levenberg-Marquardt steps on all of them, in the descent's units.

    p (n + p) numbers in memory for p parameters. Raises IsolossError if 200 steps do not suffice.
    """
    units, damping = _units(model), 1.0
    misses = model.outputs(strings.tokens) - strings.target
    for _ in range(FITTING_STEPS):
        if float(misses.abs().max()) <= MISS:
            return model
        jacobian = output_gradients(model, strings.tokens) * units
        moved = model.with_flat(model.flat() - units * _least(jacobian, misses, damping))
        tried = moved.outputs(strings.tokens) - strings.target
        if float(tried.norm()) < float(misses.norm()):
            model, misses, damping = moved, tried, max(damping / 3, RIDGE)
        else:
            damping *= 3
    raise IsolossError(
        f"{model.neurons} neuron(s) did not fit {len(strings)} masked strings; give more, or another seed"
    )


def flattest_from(
    start: OneLayerTransformer, strings: BracketStrings, steps: int, progress: Progress = silent
) -> Descent:
    """Descend Tr ∇²L over Q, K, V and u along the manifold of zero loss: the problem of Theorem 5.1.

    Conjugate gradients (Polak-Ribière) on the manifold, in units in which all weights have similar effects
    (see `_units`). The trace's gradient (Lemma G.4's closed form, by autograd) is projected onto the tangent
    space J δ = 0 of the constraints f(x) = g*(x), J being their Jacobian; each step is brought back by Newton
    corrections, the least δ with J δ = -(f - g*), until no output is off by more than `MISS`. A step that
    does not lower the trace is halved, and the next one is half as large again. The trace jumps where a
    neuron starts or stops firing on a string: its gradient does not see that, the comparison of traces does.
    Ends early if no step lowers the trace.

    Raises IsolossError if `start` does not have zero loss.
    """
    if farthest_output(start, strings) > MISS:
        raise IsolossError("the descent must begin at zero loss; fit the weights first")
    units = _units(start)
    models, traces = [start], [float(zero_loss_trace(start, strings))]
    size, before = FIRST_STEP, None
    for step in range(1, steps + 1):
        jacobian = output_gradients(models[-1], strings.tokens) * units
        gradient = _tangent(_trace_gradient(models[-1], strings) * units, jacobian)
        direction = gradient if before is None else _conjugate(gradient, *before, jacobian)
        before = gradient, direction
        while (found := _lower(models[-1], units, size * direction, traces[-1], strings)) is None:
            size /= 2
            if size < LEAST_STEP:
                return Descent(tuple(models), tuple(traces))
        models.append(found[0])
        traces.append(found[1])
        size *= 1.5
        progress("descending on the trace", step, steps)
    return Descent(tuple(models), tuple(traces))


def _units(model: OneLayerTransformer) -> Float[Tensor, " p"]:
    """How far each weight moves per unit: about 1 over the root of the trace's second derivative.

    E h_j² is about 1/T², and V's and u's terms have the factor 1/m²: m T for V, m √T for u, and 1 for Q and
    K.
    """
    length = model.value.shape[1] // 2
    sizes = (1.0, 1.0, model.neurons * float(length), model.neurons * length**0.5)
    return torch.cat(
        [
            torch.full((weights.numel(),), size, dtype=torch.float64)
            for weights, size in zip(model.parameters(), sizes, strict=True)
        ]
    )


def _trace_gradient(model: OneLayerTransformer, strings: BracketStrings) -> Float[Tensor, " p"]:
    flat = model.flat().requires_grad_()
    (gradient,) = torch.autograd.grad(zero_loss_trace(model.with_flat(flat), strings), flat)
    return gradient


def _tangent(direction: Float[Tensor, " p"], jacobian: Float[Tensor, "n p"]) -> Float[Tensor, " p"]:
    """The direction without the part that would change the outputs to first order."""
    return direction - _least(jacobian, jacobian @ direction)


def _conjugate(
    gradient: Float[Tensor, " p"],
    before: Float[Tensor, " p"],
    direction: Float[Tensor, " p"],
    jacobian: Float[Tensor, "n p"],
) -> Float[Tensor, " p"]:
    """Polak and Ribière's direction, from the last gradient and direction; the gradient if that is uphill."""
    share = max(0.0, float(gradient @ (gradient - before) / before.square().sum()))
    conjugate = gradient + share * _tangent(direction, jacobian)
    return conjugate if float(conjugate @ gradient) > 0 else gradient


def _lower(
    model: OneLayerTransformer,
    units: Float[Tensor, " p"],
    step: Float[Tensor, " p"],
    trace: float,
    strings: BracketStrings,
) -> tuple[OneLayerTransformer, float] | None:
    """Weights and trace after the corrected step, if it can be corrected and lowers the trace."""
    moved = model.with_flat(model.flat() - units * step)
    for _ in range(CORRECTIONS):
        misses = moved.outputs(strings.tokens) - strings.target
        if not bool(misses.isfinite().all()):
            return None
        if float(misses.abs().max()) <= MISS:
            lower = float(zero_loss_trace(moved, strings))
            return (moved, lower) if lower < trace else None
        correction = _least(output_gradients(moved, strings.tokens) * units, misses)
        moved = model.with_flat(moved.flat() - units * correction)
    return None


def _least(
    jacobian: Float[Tensor, "n p"], change: Float[Tensor, " n"], damping: float = RIDGE
) -> Float[Tensor, " p"]:
    """The least δ with J δ = `change`, damped."""
    gram = jacobian @ jacobian.T
    gram.diagonal().add_(damping * gram.diagonal().mean())
    weights: Tensor = torch.linalg.solve(gram, change)
    return jacobian.T @ weights
