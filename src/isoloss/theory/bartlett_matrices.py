"""The matrices of Lemma 3.2, dense: at one point, on the way to an exact fit, and along training runs."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jacrev
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.languages.hmm import HMM, hmm
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.progress import Progress, silent
from isoloss.results.checkpoint import Checkpoint
from isoloss.results.estimate import Estimate, jackknifed
from isoloss.theory.minimisers import Minimisers
from isoloss.theory.softmax_model import enumerated_contexts, enumerated_transformer, parameter_vector, scores


@dataclass(frozen=True)
class BartlettMatrices:
    """Σ, ∇²L and F at one point, and that point's distance from the distribution (nats).

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
        return float((self.covariance - self.fisher).norm() / self.fisher.norm())

    @property
    def hessian_gap(self) -> float:
        """||∇²L - F|| / ||F||, Frobenius norms."""
        return float((self.hessian - self.fisher).norm() / self.fisher.norm())

    @property
    def lemma_gap(self) -> float:
        """||Σ - ∇²L|| / ||∇²L||, Frobenius norms, which is zero on Γ by Lemma 3.2."""
        return float((self.covariance - self.hessian).norm() / self.hessian.norm())

    @property
    def largest_gap(self) -> float:
        """The largest entry of |Σ - ∇²L| over the largest of |∇²L|."""
        return float((self.covariance - self.hessian).abs().max() / self.hessian.abs().max())


def bartlett_matrices(minimisers: Minimisers, parameters: Float[Tensor, " P"]) -> BartlettMatrices:
    """Expectations over all contexts and words; Σ and F from the scores, ∇²L by differentiating L twice.

    Memory: 3 P² + 2 C V P numbers, and P backward passes at once for the Hessian.

    >>> from isoloss.theory.minimisers import BiasedCoin, coin_logits
    >>> fair = Minimisers(coin_logits, BiasedCoin(0.5).distributions)
    >>> exact = bartlett_matrices(fair, torch.tensor([2.0, 0.0]).double())
    >>> exact.hessian.tolist(), exact.covariance.tolist()
    ([[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]])
    """
    logits, distributions = minimisers.logits, minimisers.distributions

    def loss(at: Tensor) -> Tensor:
        return -(distributions.joint * logits(at).log_softmax(dim=1)).sum()

    found, predicted = scores(logits, parameters)
    rows = found.flatten(0, 1)
    of_distribution = distributions.joint.flatten()
    of_model = (distributions.weight[:, None] * predicted).flatten()
    mean = of_distribution @ rows
    covariance = (rows.T * of_distribution) @ rows - torch.outer(mean, mean)
    hessian: Tensor = jacrev(grad(loss))(parameters)
    return BartlettMatrices(covariance, hessian, (rows.T * of_model) @ rows, minimisers.kl(parameters))


def approaches(
    minimisers: Minimisers,
    minimiser: Float[Tensor, " P"],
    distances: Sequence[float],
    directions: int,
    seed: int,
    progress: Progress = silent,
) -> list[list[BartlettMatrices]]:
    """The three matrices at `minimiser` + distance · direction: one row per random unit direction.

    For short distances, KL is quadratic and both gaps are linear in the distance (`BartlettMatrices`).
    """
    drawn = torch.randn(
        directions, len(minimiser), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    found: list[list[BartlettMatrices]] = []
    for number, direction in enumerate(torch.nn.functional.normalize(drawn), start=1):
        found.append([bartlett_matrices(minimisers, minimiser + d * direction) for d in distances])
        progress("Lemma 3.2 near the distribution", number, directions)
    return found


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
        small = Minimisers(enumerated_transformer(double, contexts), contexts.distributions)

        def measure(
            _: Checkpoint, model: PreTrainedModel, seed: int = seed, small: Minimisers = small
        ) -> None:
            found[seed].append(bartlett_matrices(small, parameter_vector(model)))
            done, every = sum(map(len, found.values())), len(found) * len(runs.checkpoint_steps)
            progress("Lemma 3.2 along runs", done, every)

        with tempfile.TemporaryDirectory() as folder:
            pretrain(specification, language, Path(folder), at_checkpoint=measure)
    return found


def gap_exponent(paths: Sequence[Sequence[tuple[float, float]]]) -> Estimate:
    """The slope of log y against log x through all points (x, y) of all paths, by least squares.

    The standard error is the jackknife's over paths, since points of a path are dependent: each path is left
    out in turn. nan if a number is not positive. Raises BadInput for fewer than two paths, or fewer than two
    points once one is left out.

    >>> estimate = gap_exponent([[(1e-2, 1e-1), (1e-4, 1e-2)], [(1e-2, 3e-1), (1e-4, 3e-2)]])
    >>> round(estimate.value, 6), estimate.n
    (0.5, 2)
    """
    n = len(paths)
    others = [[point for path in paths if path is not out for point in path] for out in paths]
    if n < 2 or min(len({x for x, _ in points}) for points in others) < 2:
        raise BadInput(
            f"{n} paths of {[len(path) for path in paths]} points settle no exponent; take more of either"
        )
    without = torch.tensor([_slope(points) for points in others], dtype=torch.float64)
    return jackknifed(_slope([point for path in paths for point in path]), without)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    x, y = np.array(points).T
    if min(x.min(), y.min()) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


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
