"""Section 5's model, one attention layer read at the first token and an MLP, and the strings that it reads.

Strings of brackets are vectors with a distribution and a target; the model's derivatives are in closed form.
"""

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck

LONGEST_MASKED, LONGEST_ENUMERATED = 12, 14
"""22,176 masked strings of 12 brackets, as vectors, are 51 MB; 16,384 strings of 14 are as many."""


@dataclass(frozen=True)
class BracketStrings:
    """Strings x_1..x_T in R^2T (Section 5), float64: x_t = e_t for ⟨, -e_t for ⟩, ±e_{t+T} for a mask.

    `target` is g* = #⟩ - #⟨ among the visible brackets (equation 2), `probability` each string's.
    """

    tokens: Float[Tensor, "n T d"]
    target: Float[Tensor, " n"]
    probability: Float[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.target)

    @property
    def length(self) -> int:
        """T."""
        return self.tokens.shape[1]

    def mean(self, values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
        """Expectation of a function given by its value on each string."""
        return self.probability @ values


def masked_strings(length: int) -> BracketStrings:
    """The whole distribution of pre-training: every balanced string, each bracket masked, with both masks.

    2 T C(T, T/2) strings, equally likely; the target is 1 if a ⟨ is masked and -1 if a ⟩ is. Raises BadInput
    for an odd length, one below 2, and one above 12.

    >>> strings = masked_strings(4)
    >>> len(strings), strings.tokens.sum(1)[0].tolist(), float(strings.target[0])
    (48, [0.0, 1.0, -1.0, -1.0, 1.0, 0.0, 0.0, 0.0], 1.0)
    """
    dyck(length)  # rejects odd lengths
    if length > LONGEST_MASKED:
        raise BadInput(
            f"the masked strings of {length} brackets are too many to take all of them; "
            f"give a length of at most {LONGEST_MASKED}"
        )
    lefts = torch.tensor(list(itertools.combinations(range(length), length // 2)))
    signs = -torch.ones(len(lefts), length, dtype=torch.float64)
    signs.scatter_(1, lefts, 1.0)
    # One row for each string, masked position and mask, in this order.
    tokens = _unmasked(signs).repeat_interleave(2 * length, 0)
    n = len(tokens)
    position = torch.arange(length).repeat_interleave(2).repeat(len(signs))
    tokens[torch.arange(n), position] = 0.0
    tokens[torch.arange(n), position, position + length] = torch.tensor([1.0, -1.0]).repeat(n // 2).double()
    target = signs.repeat_interleave(2, 1).flatten()
    return BracketStrings(tokens, target, torch.full((n,), 1 / n, dtype=torch.float64))


def all_strings(length: int) -> BracketStrings:
    """The whole downstream distribution: the 2^T strings, equally likely. Raises BadInput above T = 14.

    >>> all_strings(2).target.tolist()
    [-2.0, 0.0, 0.0, 2.0]
    """
    if not 1 <= length <= LONGEST_ENUMERATED:
        raise BadInput(
            f"the strings of {length} brackets cannot all be taken; give a length from 1 to "
            f"{LONGEST_ENUMERATED}"
        )
    signs = torch.tensor(list(itertools.product([1.0, -1.0], repeat=length)), dtype=torch.float64)
    probability = torch.full((2**length,), 0.5**length, dtype=torch.float64)
    return BracketStrings(_unmasked(signs), 0.0 - signs.sum(1), probability)


def string_classes(length: int) -> BracketStrings:
    """The downstream distribution for models that ignore the order of all brackets but the first.

    One string for each first bracket and each number j of ⟨ among the others, placed before the ⟩, with
    probability C(T-1, j) / 2^T: 2 T strings instead of 2^T. Raises BadInput for a length below 1.

    >>> classes = string_classes(20)
    >>> len(classes), round(float(classes.probability.sum()), 12)
    (40, 1.0)
    """
    if length < 1:
        raise BadInput(f"strings of {length} brackets hold nothing to count; give a length of at least 1")
    others = 2.0 * torch.ones(length, length - 1, dtype=torch.float64).tril(-1) - 1
    signs = torch.cat([torch.nn.functional.pad(others, (1, 0), value=first) for first in (1.0, -1.0)])
    # Python's integers divide without overflow, however long the strings.
    shares = [math.comb(length - 1, lefts) / 2**length for lefts in range(length)]
    return BracketStrings(_unmasked(signs), -signs.sum(1), torch.tensor(2 * shares, dtype=torch.float64))


def _unmasked(signs: Float[Tensor, "n T"]) -> Float[Tensor, "n T d"]:
    return torch.nn.functional.pad(torch.diag_embed(signs), (0, signs.shape[1]))


@dataclass(frozen=True)
class OneLayerTransformer:
    """f(x) = (1/m) uᵀ σ(V h), h = Σ_j a_j x_j, a = softmax_j ⟨Q x_1, K x_j⟩ (Section 5), in float64.

    σ is the ReLU, with derivative 0 at 0. `query` and `key` are Q and K, `value` is V, `output` is u.
    """

    query: Float[Tensor, "k d"]
    key: Float[Tensor, "k d"]
    value: Float[Tensor, "m d"]
    output: Float[Tensor, " m"]

    @property
    def neurons(self) -> int:
        """m."""
        return len(self.output)

    def parameters(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Q, K, V, u: the order in which derivatives are stacked."""
        return self.query, self.key, self.value, self.output

    def flat(self) -> Float[Tensor, " p"]:
        """All parameters in one vector."""
        return torch.cat([parameter.flatten() for parameter in self.parameters()])

    def with_flat(self, flat: Float[Tensor, " p"]) -> "OneLayerTransformer":
        """A model of the same shape with these parameters."""
        parts = torch.split(flat, [parameter.numel() for parameter in self.parameters()])
        shaped = [part.view(old.shape) for part, old in zip(parts, self.parameters(), strict=True)]
        return OneLayerTransformer(*shaped)

    def attention(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, "n T"]:
        """The attention a of the first token."""
        queries = tokens[:, 0] @ self.query.T
        return torch.einsum("nk,kd,ntd->nt", queries, self.key, tokens).softmax(1)

    def attended(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, "n d"]:
        """h."""
        return torch.einsum("nt,ntd->nd", self.attention(tokens), tokens)

    def features(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, "n m"]:
        """σ(V h): what the output layer reads."""
        return self.preactivations(self.attended(tokens)).relu()

    def preactivations(self, attended: Float[Tensor, "n d"]) -> Float[Tensor, "n m"]:
        """V h, set to 0 if only rounding may tell it from 0: |V| |h| d epsilon bounds a product's error.

        So a neuron at its kink stays there regardless of the processor's order of summation.
        """
        products = attended @ self.value.T
        with torch.no_grad():
            rounding = attended.shape[1] * torch.finfo(products.dtype).eps
            at_kink = products.abs() <= rounding * (attended.abs() @ self.value.abs().T)
        return products.masked_fill(at_kink, 0.0)

    def outputs(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, " n"]:
        """f(x)."""
        return self.features(tokens) @ self.output / self.neurons


def squared_loss(model: OneLayerTransformer, strings: BracketStrings) -> Float[Tensor, ""]:
    """L = E (f(x) - g*(x))²."""
    return strings.mean((model.outputs(strings.tokens) - strings.target).square())


def farthest_output(model: OneLayerTransformer, strings: BracketStrings) -> float:
    """The largest |f(x) - g*(x)| of any string."""
    return float((model.outputs(strings.tokens) - strings.target).abs().max())


SECOND_DERIVATIVE = 2.0
"""ℓ'' of the squared loss (f - y)². The paper's proof of Lemma G.4 halves it by mistake."""


@dataclass(frozen=True)
class _Pass:
    """The factors of all derivatives of f, one row per string."""

    attention: Float[Tensor, "n T"]
    attended: Float[Tensor, "n d"]
    features: Float[Tensor, "n m"]
    slopes: Float[Tensor, "n m"]
    """∂f/∂(V h) = u σ'(V h) / m."""
    projected: Float[Tensor, "n T"]
    """c_j = x_j · ∂f/∂h."""

    @property
    def centred(self) -> Float[Tensor, "n T"]:
        """∂f/∂s_j = a_j (c_j - Σ a c), s the scores before the softmax."""
        return self.attention * (self.projected - (self.attention * self.projected).sum(1, keepdim=True))


def output_gradients(model: OneLayerTransformer, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, "n p"]:
    """∇f(x) of every string, Q, K, V and u stacked; p numbers per string in memory. Differentiable again."""
    made = _pass(model, tokens)
    attended_scores = torch.einsum("nt,ntd->nd", made.centred, tokens)
    blocks = [
        torch.einsum("nk,nd->nkd", attended_scores @ model.key.T, tokens[:, 0]),
        torch.einsum("nk,nd->nkd", tokens[:, 0] @ model.query.T, attended_scores),
        torch.einsum("nm,nd->nmd", made.slopes, made.attended),
        made.features / model.neurons,
    ]
    return torch.cat([block.flatten(1) for block in blocks], 1)


def squared_gradient_norms(model: OneLayerTransformer, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, " n"]:
    """‖∇f(x)‖² of every string from its factors: n (m + T d) numbers in memory, whatever p."""
    made = _pass(model, tokens)
    attended_scores = torch.einsum("nt,ntd->nd", made.centred, tokens)
    query = (attended_scores @ model.key.T).square().sum(1) * tokens[:, 0].square().sum(1)
    key = (tokens[:, 0] @ model.query.T).square().sum(1) * attended_scores.square().sum(1)
    value = made.slopes.square().sum(1) * made.attended.square().sum(1)
    return query + key + value + (made.features / model.neurons).square().sum(1)


def hessian_trace(model: OneLayerTransformer, strings: BracketStrings) -> Float[Tensor, ""]:
    """Tr ∇²L over Q, K, V and u at any weights that put no string at a kink of the ReLU.

    Tr ∇²L = E[ℓ'' ‖∇f‖² + ℓ' Tr ∇²f], ℓ' = 2 (f - g*). f is linear in u and, between kinks, in V. In the
    scores s it has the Hessian diag(b) - a bᵀ - b aᵀ, b = ∂f/∂s, and s is linear in Q and in K, so that
    Tr ∇²f = Σ_jj' (∂²f/∂s_j∂s_j') (K x_j · K x_j' ‖x_1‖² + x_j · x_j' ‖Q x_1‖²).
    """
    tokens = strings.tokens
    made = _pass(model, tokens)
    a, b = made.attention, made.centred
    second = torch.diag_embed(b) - a[:, :, None] * b[:, None, :] - b[:, :, None] * a[:, None, :]
    keys, queries = tokens @ model.key.T, tokens[:, 0] @ model.query.T
    products = keys @ keys.mT * tokens[:, 0].square().sum(1)[:, None, None]
    products = products + tokens @ tokens.mT * queries.square().sum(1)[:, None, None]
    curvature = (second * products).sum((1, 2))
    misses = made.features @ model.output / model.neurons - strings.target
    gradients = squared_gradient_norms(model, tokens)
    return strings.mean(SECOND_DERIVATIVE * gradients + 2 * misses * curvature)


def zero_loss_trace(model: OneLayerTransformer, strings: BracketStrings) -> Float[Tensor, ""]:
    """Tr ∇²L at zero loss: ℓ'' E ‖∇f‖² (Lemma G.4)."""
    return SECOND_DERIVATIVE * strings.mean(squared_gradient_norms(model, strings.tokens))


def _pass(model: OneLayerTransformer, tokens: Float[Tensor, "n T d"]) -> _Pass:
    attention = model.attention(tokens)
    attended = torch.einsum("nt,ntd->nd", attention, tokens)
    before = model.preactivations(attended)
    slopes = torch.where(before > 0, model.output / model.neurons, 0.0)
    projected = torch.einsum("ntd,nd->nt", tokens, slopes @ model.value)
    return _Pass(attention, attended, before.relu(), slopes, projected)
