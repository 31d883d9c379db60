"""Weights of Section 5's model that predict every masked bracket: zero loss, and very different traces."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput, IsolossError
from isoloss.theory.minimisers import least_change
from isoloss.theory.one_layer_transformer import (
    BracketStrings,
    OneLayerTransformer,
    output_gradients,
    zero_loss_trace,
)

SCORE_SIZE = 2
"""Rows of Q and K; the statements hold for any number."""
MISS = 1e-10
"""The largest |f(x) - g*(x)| at which the loss counts as zero: a loss of 1e-20."""
RIDGE = 1e-10
"""The least damping of `least_change`: near the end many strings require the same step."""
FITTING_STEPS = 200


def corrected_bound(neurons: int, length: int) -> float:
    """4 / (m √T), what Lemma G.1's chain of inequalities gives with f's 1/m and the squared loss's 2.

    Tr ∇²L = 2 E ‖∇f‖² >= (2/m²) E Σ_i [σ(V_i h)² + 1[V_i h > 0] u_i² ‖h‖²] >= (4/m²) E Σ_i σ(V_i h) |u_i| ‖h‖
    >= (4/m) E |f| ‖h‖ >= 4 / (m √T), since |f| = 1 and the x_j are orthonormal, so that ‖h‖ >= 1/√T.

    >>> corrected_bound(2, 16)
    0.5
    """
    return 4 / (neurons * math.sqrt(length))


def paper_bound(length: int) -> float:
    """√(4/T), as printed in Lemma G.1: the same number only for m = 2.

    >>> paper_bound(16)
    0.5
    """
    return math.sqrt(4 / length)


def trace_over_bound(model: OneLayerTransformer, strings: BracketStrings) -> float:
    """Tr ∇²L at zero loss over `corrected_bound`."""
    return float(zero_loss_trace(model, strings)) / corrected_bound(model.neurons, strings.length)


def two_neurons(length: int, neurons: int = 2) -> OneLayerTransformer:
    """The flattest solution: V_1 = c (1_T; 0), V_2 = -V_1, balanced, the other neurons zero (Section 5).

    c = |u| √T and u² = m √T, so that Σ_i u_i σ(V_i h) / m = g* and both terms of the trace are equal.
    Raises BadInput for fewer than two neurons.

    >>> from isoloss.theory.one_layer_transformer import masked_strings
    >>> from isoloss.theory.one_layer_transformer import farthest_output
    >>> farthest_output(two_neurons(6), masked_strings(6)) < 1e-12
    True
    """
    ones = torch.cat([torch.ones(length), torch.zeros(length)]).double()
    return _balanced(torch.stack([ones]), neurons)


def split_neurons(length: int) -> OneLayerTransformer:
    """Each of the two neurons split in two, one of which is silent, at V_i h = 0, whenever the other fires.

    V = c/2 (1_T + e_1; e_1) and c/2 (1_T - e_1; -e_1), and their negatives: on masked strings each gives
    either 0 or the value of the whole neuron, so that conditions (3) to (5) of Lemma G.1 hold to the letter,
    and yet no neuron is a multiple of 1_T.
    """
    ones = torch.cat([torch.ones(length), torch.zeros(length)]).double()
    first = torch.zeros(2 * length, dtype=torch.float64)
    first[[0, length]] = 1.0
    return _balanced(torch.stack([ones + first, ones - first]) / 2, neurons=4)


def random_features(strings: BracketStrings, neurons: int, generator: torch.Generator) -> OneLayerTransformer:
    """V_i ~ N(0, T I), Q = K = 0, and the minimum-norm u that fits all strings (Theorem G.6).

    u = m Φᵀ (Φ Φᵀ)⁺ y, Φ = σ(V h): n² + n m numbers in memory. Φ has rank n/2 + 2T at most, since inputs come
    as h and -h and σ(x) - σ(-x) = x. Raises BadInput for fewer neurons than strings, of which the theorem
    says nothing.
    """
    length = strings.length
    if neurons < len(strings):
        raise BadInput(
            f"Theorem G.6 is about as many random neurons as masked strings, here {len(strings)}, or more; "
            f"give at least as many, not {neurons}"
        )
    value = torch.randn(neurons, 2 * length, generator=generator, dtype=torch.float64) * length**0.5
    model = _evenly_attending(value, torch.zeros(neurons, dtype=torch.float64))
    features = model.features(strings.tokens)
    weights = pseudo_inverse(features @ features.T) @ strings.target
    return _evenly_attending(value, neurons * features.T @ weights)


def pseudo_inverse(gram: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Of a positive semidefinite matrix, on the range of its eigenvalues above 1e-12 of the largest."""
    inverse: Tensor = torch.linalg.pinv(gram, rtol=1e-12, hermitian=True)
    return inverse


def rebalanced(model: OneLayerTransformer, strings: BracketStrings) -> OneLayerTransformer:
    """The same outputs with each neuron's V_i and u_i rescaled against each other, for the least trace.

    At Q = K = 0 the trace is a sum over neurons of A_i / c_i² + c_i² B_i after u_i -> u_i / c_i and V_i ->
    c_i V_i; its minimum is 2 Σ_i √(A_i B_i). Every neuron must fire on some string.
    """
    attended = model.attended(strings.tokens)
    before = model.preactivations(attended)
    weights = strings.probability
    from_value = (weights * attended.square().sum(1)) @ (before > 0).double() * model.output.square()
    factors = (from_value / (weights @ before.relu().square())) ** 0.25
    return OneLayerTransformer(model.query, model.key, factors[:, None] * model.value, model.output / factors)


def _balanced(directions: Float[Tensor, "a d"], neurons: int) -> OneLayerTransformer:
    """`directions`, which fire if g* = -1, and their negatives; the other neurons zero."""
    count, dimension = directions.shape
    length = dimension // 2
    if neurons < 2 * count:
        raise BadInput(f"this solution needs at least {2 * count} neurons, not {neurons}")
    factor = (neurons * length**0.5) ** 0.5 * length**0.5
    value, output = torch.zeros(neurons, dimension).double(), torch.zeros(neurons).double()
    value[: 2 * count] = factor * torch.cat([directions, -directions])
    output[:count], output[count : 2 * count] = -neurons * length / factor, neurons * length / factor
    return _evenly_attending(value, output)


def _evenly_attending(value: Float[Tensor, "m d"], output: Float[Tensor, " m"]) -> OneLayerTransformer:
    zero = torch.zeros(SCORE_SIZE, value.shape[1], dtype=torch.float64)
    return OneLayerTransformer(zero, zero, value, output)


def random_weights(strings: BracketStrings, neurons: int, generator: torch.Generator) -> OneLayerTransformer:
    """Gaussian Q, K, V and u, brought to zero loss by `fitted` (see there).

    Entries have standard deviations 0.3 (Q, K), √T (V, as in G.6) and √m / 10 (u, so that f starts small).
    """
    length, d = strings.length, 2 * strings.length

    def gaussian(size: float, *shape: int) -> Tensor:
        return size * torch.randn(*shape, generator=generator, dtype=torch.float64)

    query, key = gaussian(0.3, SCORE_SIZE, d), gaussian(0.3, SCORE_SIZE, d)
    value, output = gaussian(length**0.5, neurons, d), gaussian(neurons**0.5 / 10, neurons)
    return fitted(OneLayerTransformer(query, key, value, output), strings)


def fitted(model: OneLayerTransformer, strings: BracketStrings) -> OneLayerTransformer:
    """The weights brought to zero loss by Levenberg-Marquardt steps on all of them, in the descent's units.

    p (n + p) numbers in memory for p parameters. Raises IsolossError if 200 steps do not suffice.
    """
    units, damping = units_of_weights(model), 1.0
    misses = model.outputs(strings.tokens) - strings.target
    for _ in range(FITTING_STEPS):
        if float(misses.abs().max()) <= MISS:
            return model
        jacobian = output_gradients(model, strings.tokens) * units
        moved = model.with_flat(model.flat() - units * least_change(jacobian, misses, damping))
        tried = moved.outputs(strings.tokens) - strings.target
        if float(tried.norm()) < float(misses.norm()):
            model, misses, damping = moved, tried, max(damping / 3, RIDGE)
        else:
            damping *= 3
    raise IsolossError(
        f"{model.neurons} neuron(s) did not fit {len(strings)} masked strings; give more, or another seed"
    )


def units_of_weights(model: OneLayerTransformer) -> Float[Tensor, " p"]:
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


class EqualityGaps(NamedTuple):
    """Each is 0 if its condition holds; fractions, without unit.

    `balance` (3): 1 - Σ 2ab / Σ (a² + b²), over neurons that fire, a = V_i h and b = |u_i| ‖h‖.
    `cancellation` (4): 1 - Σ |Σ_i u_i σ(V_i h)| / Σ Σ_i |u_i| σ(V_i h).
    `attention` (5): the largest |T a_j - 1|.
    """

    balance: float
    cancellation: float
    attention: float


def equality_gaps(model: OneLayerTransformer, strings: BracketStrings) -> EqualityGaps:
    """The sizes of the gaps of conditions (3), (4) and (5) over all strings, equally weighted."""
    attention, attended = model.attention(strings.tokens), model.attended(strings.tokens)
    features = model.preactivations(attended).relu()
    heights = (features > 0) * model.output.abs() * attended.norm(dim=1, keepdim=True)
    products, squares = 2 * features * heights, features.square() + heights.square()
    terms = features * model.output
    return EqualityGaps(
        balance=abs(float(1 - products.sum() / squares.sum())),
        cancellation=abs(float(1 - terms.sum(1).abs().sum() / terms.abs().sum())),
        attention=float((attention * strings.length - 1).abs().max()),
    )


def unevenness(model: OneLayerTransformer) -> float:
    """How far the neurons are from c 1_T on brackets, their form according to Lemma G.3: 0 for all of them.

    The sine of the angle between 1_T and V_i's first T coordinates, averaged with weights |u_i| ‖V_i‖, a
    neuron's share in the output: one that contributes almost nothing may point anywhere. (Coordinates that
    read the mask are not used by downstream strings.)

    >>> unevenness(two_neurons(6)) < 1e-7, round(unevenness(split_neurons(6)), 3)
    (True, 0.35)
    """
    brackets = model.value[:, : model.value.shape[1] // 2]
    shares = model.output.abs() * model.value.norm(dim=1)
    apart = (brackets - brackets.mean(1, keepdim=True)).norm(dim=1)
    sines = torch.where(shares > 0, apart / brackets.norm(dim=1), 0.0)
    return float(shares @ sines / shares.sum())
