"""How far weights are from the conditions under which Lemma G.1's bound is met, and from Lemma G.3's form."""

from dataclasses import dataclass

import torch

from isoloss.theory.bracket_strings import BracketStrings
from isoloss.theory.one_layer_transformer import OneLayerTransformer


@dataclass(frozen=True)
class EqualityGaps:
    """Each 0 where its condition holds; shares, without unit.

    `balance` (3): 1 - Σ 2ab / Σ (a² + b²), over neurons that fire, a = V_i h and b = |u_i| ‖h‖.
    `cancellation` (4): 1 - Σ |Σ_i u_i σ(V_i h)| / Σ Σ_i |u_i| σ(V_i h).
    `attention` (5): the largest |T a_j - 1|.
    """

    balance: float
    cancellation: float
    attention: float


def equality_gaps(model: OneLayerTransformer, strings: BracketStrings) -> EqualityGaps:
    """The gaps of conditions (3), (4) and (5) over all strings, equally weighted."""
    attention, attended = model.attention(strings.tokens), model.attended(strings.tokens)
    features = model.preactivations(attended).relu()
    heights = (features > 0) * model.output.abs() * attended.norm(dim=1, keepdim=True)
    products, squares = 2 * features * heights, features.square() + heights.square()
    terms = features * model.output
    return EqualityGaps(
        balance=float(1 - products.sum() / squares.sum()),
        cancellation=float(1 - terms.sum(1).abs().sum() / terms.abs().sum()),
        attention=float((attention * strings.length - 1).abs().max()),
    )


def unevenness(model: OneLayerTransformer) -> float:
    """How far the neurons are from c 1_T on brackets, what Lemma G.3 says they are: 0 for all of them.

    The sine of the angle between 1_T and V_i's first T coordinates, averaged with weights |u_i| ‖V_i‖, a
    neuron's share in the output: one that does next to nothing may point anywhere. (Coordinates that read
    the mask are not on downstream strings.)

    >>> from isoloss.theory.zero_loss_solutions import two_neurons, split_neurons
    >>> unevenness(two_neurons(6)) < 1e-7, round(unevenness(split_neurons(6)), 3)
    (True, 0.35)
    """
    brackets = model.value[:, : model.value.shape[1] // 2]
    shares = model.output.abs() * model.value.norm(dim=1)
    apart = (brackets - brackets.mean(1, keepdim=True)).norm(dim=1)
    sines = torch.where(shares > 0, apart / brackets.norm(dim=1), 0.0)
    return float(shares @ sines / shares.sum())
