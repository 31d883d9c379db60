"""Small languages with all their contexts, and models of them small enough for dense derivatives."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev
from torch.nn.utils import parameters_to_vector

from isoloss.curvature.derivatives import trainable_parameters, unflattened
from isoloss.errors import BadInput
from isoloss.languages.hmm import HMM, hmm
from isoloss.languages.language import Language
from isoloss.languages.sentences import Sentences
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import FIRST_WORD

CONTEXTS_AT_MOST = 100_000
"""Languages are enumerated on one core and their derivatives are dense: beyond this neither is feasible."""


@dataclass(frozen=True)
class ContextDistributions:
    """C contexts (t, x_{-t}): the probability of each, and Pr(. | x_{-t}) over the V words; float64.

    `weight` and every row of `distribution` sum to 1. Expectations over fresh samples are sums over `joint`.
    """

    weight: Float[Tensor, " C"]
    distribution: Float[Tensor, "C V"]

    @property
    def joint(self) -> Float[Tensor, "C V"]:
        """The joint probability of context c and masked word y."""
        return self.weight[:, None] * self.distribution

    @property
    def codimension(self) -> int:
        """C (V - 1), the number of independent probabilities: Assumption 3.1's M if logits are free."""
        return self.distribution.shape[0] * (self.distribution.shape[1] - 1)

    def kl(self, logits: Float[Tensor, "C V"]) -> Float[Tensor, ""]:
        """E KL(distribution || softmax) in nats: the loss minus its minimum, the entropy of the distribution.

        Written as Σ q (e^s - 1 - s), s = log f - log q, whose terms are each of second order: the usual sum
        cancels first-order terms and is only rounding below 1e-16.
        """
        excess = logits.log_softmax(dim=1) - self.distribution.log()
        return (self.joint * (excess.expm1() - excess)).sum()


@dataclass(frozen=True)
class EnumeratedContexts:
    """A transformer's input in each context, [CLS] first, the position of its mask, and the distributions."""

    input_ids: Int[Tensor, "C S"]
    mask_positions: Int[Tensor, " C"]
    distributions: ContextDistributions


def enumerated_contexts(language: Language) -> EnumeratedContexts:
    """Every context of a language whose sentences all have `maximum_length` words, none of them impossible.

    C = T V^(T-1) contexts; memory O(V^T T). Raises BadInput for a language with other sentences, with an
    impossible word (its distribution has no minimiser with finite logits), or with too many contexts.

    >>> from isoloss.languages.random_hmm import random_hmm
    >>> small = random_hmm(words=3, states=2, blocks=1, length=2, seed=0)
    >>> contexts = enumerated_contexts(small)
    >>> contexts.input_ids.tolist()[:3], contexts.distributions.codimension
    ([[1, 2, 3], [1, 2, 4], [1, 2, 5]], 12)
    """
    words, length = len(language.vocabulary), language.maximum_length
    if length * words ** (length - 1) > CONTEXTS_AT_MOST:
        raise BadInput(
            f"{words} words in sentences of {length} make more than {CONTEXTS_AT_MOST:,} contexts; take a "
            "smaller language"
        )
    ids = torch.cartesian_prod(*[torch.arange(words)] * length).reshape(-1, length)
    sentences = Sentences(ids, torch.full((len(ids),), length))
    probability = language.log_probability(sentences).exp()
    if not (probability > 0).all() or abs(float(probability.sum()) - 1) > 1e-9:
        raise BadInput(
            f"the language is not made of all {words}^{length} sentences of {length} words, each possible; "
            "take a hidden Markov model without zeros"
        )
    masked = MaskedObjective().mask_every_position(sentences)
    distributions = language.masked_log_probabilities(sentences).exp().flatten(0, 1)
    inputs, number = torch.unique(masked.input_ids, dim=0, return_inverse=True)
    weight = torch.zeros(len(inputs), dtype=torch.float64)
    weight.index_add_(0, number, (probability / length).repeat_interleave(length))
    distribution = torch.empty(len(inputs), words, dtype=torch.float64)
    distribution[number] = distributions  # rows of the same context are equal
    positions = torch.empty(len(inputs), dtype=torch.int64)
    positions[number] = masked.positions
    return EnumeratedContexts(inputs, positions, ContextDistributions(weight, distribution))


Logits = Callable[[Float[Tensor, " P"]], Float[Tensor, "C V"]]
"""A model f_θ(context) = softmax of its logits, for all C contexts of a `ContextDistributions` at once.

Unnormalised log-probabilities of the V words in each context: a smooth pure function of the parameters that
torch can differentiate twice and map over many of them (`torch.func.vmap`).
"""


def scores(
    logits: Logits, parameters: Float[Tensor, " P"]
) -> tuple[Float[Tensor, "C V P"], Float[Tensor, "C V"]]:
    """∇_θ [-log f(context c)_y] = Σ_k f_k ∇z_k - ∇z_y, z the logits, and f. Memory: C V P numbers, twice."""

    def twice(at: Tensor) -> tuple[Tensor, Tensor]:
        found = logits(at)
        return found, found

    jacobian, found = jacrev(twice, has_aux=True)(parameters)
    probabilities = found.softmax(dim=1)
    return (probabilities[..., None] * jacobian).sum(dim=1, keepdim=True) - jacobian, probabilities


@dataclass(frozen=True)
class BartlettMatrices:
    """Σ, ∇²L and F at one point (Lemma 3.2), and that point's distance from the distribution (nats).

    Off the exact fit, δ = f - distribution, both gaps are first order in δ and so in √KL (KL = ½ Σ w δ² /
    distribution + O(δ³)): Σ - F = -E_c Σ_y δ_y s_y s_yᵀ - ∇L ∇Lᵀ, s the scores, and ∇²L - F = E_c Σ_k δ_k
    ∇²z_k, z the logits, which is zero everywhere for logits that are linear in the parameters. Pinsker's
    inequality makes √KL a bound on both, up to a constant.
    """

    covariance: Float[Tensor, "P P"]
    hessian: Float[Tensor, "P P"]
    fisher: Float[Tensor, "P P"]
    kl: float

    @property
    def covariance_gap(self) -> float:
        """||Σ - F|| / ||F||, Frobenius norms."""
        return _gap(self.covariance, self.fisher)

    @property
    def hessian_gap(self) -> float:
        """||∇²L - F|| / ||F||."""
        return _gap(self.hessian, self.fisher)

    @property
    def lemma_gap(self) -> float:
        """||Σ - ∇²L|| / ||∇²L||, which is zero on Γ by Lemma 3.2."""
        return _gap(self.covariance, self.hessian)


def _gap(matrix: Float[Tensor, "P P"], reference: Float[Tensor, "P P"]) -> float:
    return float((matrix - reference).norm() / reference.norm())


def bartlett_matrices(
    logits: Logits, distributions: ContextDistributions, parameters: Float[Tensor, " P"]
) -> BartlettMatrices:
    """Expectations over all contexts and words; Σ and F from the scores, ∇²L by differentiating L twice.

    Memory: 3 P² + 2 C V P numbers, and P backward passes at once for the Hessian.

    >>> coin = ContextDistributions(torch.ones(1).double(), torch.full((1, 2), 0.5).double())
    >>> logits = lambda at: torch.stack([0 * at[0], at[0] * at[1]])[None]
    >>> exact = bartlett_matrices(logits, coin, torch.tensor([2.0, 0.0]).double())
    >>> exact.hessian.tolist(), exact.covariance.tolist()
    ([[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]])
    """

    def loss(at: Float[Tensor, " P"]) -> Float[Tensor, ""]:
        return -(distributions.joint * logits(at).log_softmax(dim=1)).sum()

    found, predicted = scores(logits, parameters)
    rows = found.flatten(0, 1)
    of_distribution = distributions.joint.flatten()
    of_model = (distributions.weight[:, None] * predicted).flatten()
    mean = of_distribution @ rows
    covariance = (rows.T * of_distribution) @ rows - torch.outer(mean, mean)
    hessian: Tensor = jacrev(grad(loss))(parameters)
    kl = float(distributions.kl(logits(parameters)))
    return BartlettMatrices(covariance, hessian, (rows.T * of_model) @ rows, kl)


def enumerated_transformer(model: nn.Module, contexts: EnumeratedContexts) -> Logits:
    """A masked language model in evaluation mode, of its parameters (tied ones once) concatenated.

    Its scores are normalised over the words only: the distribution gives the special tokens no probability,
    which finite logits cannot, so that over the whole vocabulary the loss would have no minimiser at all. The
    model's attention must be "eager", whose operations alone can be differentiated twice. It is left
    unchanged.
    """

    def logits(parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        ids, named = contexts.input_ids, unflattened(parameters, trainable_parameters(model))
        everywhere = functional_call(model, named, (ids,)).logits
        of_words: Tensor = everywhere[torch.arange(len(ids)), contexts.mask_positions, FIRST_WORD:]
        return of_words

    return logits


def parameter_vector(model: nn.Module) -> Float[Tensor, " P"]:
    """All trainable parameters, tied ones once, in float64.

    >>> parameter_vector(nn.Linear(2, 3)).shape
    torch.Size([9])
    """
    return parameters_to_vector(trainable_parameters(model).values()).detach().double()


def alike_pairs(words: int, stay: float = 0.9) -> HMM:
    """A hidden Markov model of sentences of two words, with one state per word.

    A state stays, and emits its own word, with probability `stay`; the rest is spread over all words. Word w
    starts a sentence with probability proportional to w, so that words differ in frequency. Small random
    models hardly distinguish contexts, and a model of word frequencies alone is 0.002 nats from their
    distribution.

    >>> alike_pairs(2, stay=0.5).transition.tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    rows = stay * torch.eye(words, dtype=torch.float64) + (1 - stay) / words
    initial = torch.arange(1, words + 1, dtype=torch.float64)
    names = [f"w{number}" for number in range(1, words + 1)]
    return hmm(names, initial / initial.sum(), rows, rows, 2, "pairs of words that tend to be alike")
