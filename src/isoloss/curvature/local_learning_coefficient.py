"""The local learning coefficient: how fast the volume of nearly as good weights shrinks, by sampling."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, generator_of, gradient, trainable_parameters
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.loss import BatchLoss, in_parts, losses_of
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, NonFiniteScores, Objective
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, part_of, silent
from isoloss.results.estimate import Estimate, sample_mean

TASK = "local learning coefficient"
CHAINS, BURN_IN, DRAWS = 5, 100, 100
LOCALISATION = 100.0
"""γ of the pull back to the weights, as in devinterp's introduction (`localization`)."""
STEP_SHARE = 0.2
"""ε times the largest curvature of the sampled density; at 4 a chain diverges, at 0.2 that direction's
variance is 5 % too large."""


@dataclass(frozen=True)
class LocalLearningCoefficient:
    """λ̂ = nβ (E[L(w)] - L(w*)), without unit; `by_chain` has each chain's, whose mean and error it is.

    The error is over chains and does not cover the choice of sentences. `drift` is the second half of the
    draws less the first: of chains that have settled, zero within its error. `inverse_temperature` is nβ,
    `step` ε, `localisation` γ.
    """

    by_chain: Float[Tensor, " c"]
    drifts: Float[Tensor, " c"]
    inverse_temperature: float
    step: float
    localisation: float
    sentences: int
    parameters: MeasuredParameters

    @property
    def estimate(self) -> Estimate:
        """Mean and standard error over chains."""
        return sample_mean(self.by_chain)

    @property
    def drift(self) -> Estimate:
        """Mean and standard error over chains of the second half's estimate less the first half's."""
        return sample_mean(self.drifts)

    @property
    def warning(self) -> str | None:
        """Why the number should not be trusted, in a sentence; None if nothing speaks against it."""
        found, drift = self.estimate, self.drift
        if found.value < 0:
            return (
                "the local learning coefficient is negative, which it cannot be at a minimum: the chains "
                "found lower losses nearby, so that the model is still far from having converged"
            )
        if found.value - 3 * found.standard_error > 1.1 * self.parameters.count / 2:
            return (
                f"the local learning coefficient is above half the {self.parameters.count:,} parameters, "
                "which none is: the chains have run away"
            )
        if abs(drift.value) > max(3 * drift.standard_error, 0.1 * found.value):
            return (
                f"the chains have not settled: from the first to the second half of their draws the local "
                f"learning coefficient changed by {drift.value:.3g}"
            )
        return None


def local_learning_coefficient(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    chains: int = CHAINS,
    burn_in: int = BURN_IN,
    draws: int = DRAWS,
    localisation: float = LOCALISATION,
    step: float | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> LocalLearningCoefficient:
    """λ̂ at the model's weights w*, from n sentences, with β = 1 / log n (Lau et al. 2023, arXiv 2308.12108).

    E is over weights of density ∝ exp(-nβ L(w) - γ/2 |w - w*|²), sampled by stochastic gradient Langevin
    dynamics from w*, as devinterp has it: w ← w - ε/2 (nβ ∇L_B(w) + γ (w - w*)) + N(0, ε), L_B the loss of
    a batch, one of those that the sentences are divided into, drawn anew for each step. Each of `chains`
    makes `burn_in` steps that are not counted and `draws` that are. What is averaged is L_B(w) - L_B(w*),
    which has the mean of L(w) - L(w*) and far less noise. ε is `step`, or `STEP_SHARE` over nβ λ_max + γ,
    with the largest eigenvalue of the Hessian.

    Near a minimum with Hessian eigenvalues λ_i it is ½ Σ nβλ_i / (nβλ_i + γ): half the number of parameters
    that the data hold more firmly than γ does; as γ → 0, d/2 at a regular minimum, less at a singular one.

    Makes chains · (burn_in + draws) forward and backward passes of up to 32 sentences, and the products of
    `hessian_top_eigenvalue`. Memory: four vectors of the parameters' size, and what `hessian_top_eigenvalue`
    needs.

    The model is left as found. Raises BadInput for fewer than three sentences, two chains or two draws, for a
    localisation or step that is not positive, if a chain runs away to scores that are not finite, and when no
    parameter needs a gradient.
    """
    batches = list(batches)
    n, measured = sum(map(len, batches)), MeasuredParameters.of(model)
    if n < 3 or chains < 2 or draws < 2 or burn_in < 0:
        raise BadInput(
            f"{chains} chains of {draws} draws on {n} sentences have no error bar; take at least 2, 2 and 3"
        )
    if not localisation > 0 or not (step is None or step > 0):
        raise BadInput(f"localisation and step must be positive, not {localisation} and {step}")
    cold = n / math.log(n)
    if step is None:
        top = hessian_top_eigenvalue(model, batches, objective, seed=seed, tolerance=0.1, progress=progress)
        step = STEP_SHARE / (cold * max(top.estimate.value, 0.0) + localisation)
    found = []
    with evaluation_mode(model):
        losses = losses_of(model, in_parts(batches), objective)
        with torch.no_grad():
            at_rest = [float(loss.mean()) for loss in losses]
        posterior = _Posterior(losses, at_rest, cold, localisation)
        for chain in range(chains):
            rises = posterior.chain(
                f"{seed} chain {chain}", burn_in + draws, step, part_of(progress, chain, chains)
            )
            found.append(rises[burn_in:])
    progress(TASK, chains, chains)
    rises = cold * torch.stack(found)
    halves = rises.tensor_split(2, dim=1)
    drifts = halves[1].mean(dim=1) - halves[0].mean(dim=1)
    return LocalLearningCoefficient(rises.mean(dim=1), drifts, cold, step, localisation, n, measured)


@dataclass(frozen=True)
class _Posterior:
    """The density ∝ exp(-nβ L(w) - γ/2 |w - w*|²) around a model's weights w*, by parts of the sentences.

    `at_rest` is L_B(w*) of each part.
    """

    losses: Sequence[BatchLoss]
    at_rest: Sequence[float]
    inverse_temperature: float
    localisation: float

    def chain(self, key: str, steps: int, step: float, progress: Progress) -> Float[Tensor, " s"]:
        """L_B(w) - L_B(w*) before each of the steps; the weights are put back, even after an exception."""
        parameters = trainable_parameters(self.losses[0].model)
        weights = list(parameters.values())
        centre, generator = [weight.detach().clone() for weight in weights], generator_of(key)
        sizes, rises = torch.tensor([float(len(loss.batch)) for loss in self.losses]), []
        try:
            for done in range(steps):
                progress(TASK, done, steps)
                number = int(torch.multinomial(sizes, 1, generator=generator))
                rise, gradients = self._rise_and_gradient(number, parameters)
                rises.append(rise)
                with torch.no_grad():
                    for weight, middle, of_loss in zip(weights, centre, gradients.values(), strict=True):
                        noise = torch.randn(weight.shape, generator=generator).to(weight)
                        pull = self.inverse_temperature * of_loss + self.localisation * (weight - middle)
                        weight += noise * step**0.5 - pull * (step / 2)
        except NonFiniteScores as error:
            raise BadInput(
                f"a chain of the local learning coefficient ran away after {len(rises)} steps of {step:.2g}: "
                "its scores are not finite; take a smaller step, a larger localisation, or float32"
            ) from error
        finally:
            with torch.no_grad():
                torch._foreach_copy_(weights, centre)
        return torch.tensor(rises, dtype=torch.float64)

    def _rise_and_gradient(
        self, number: int, parameters: dict[str, Tensor]
    ) -> tuple[float, dict[str, Tensor]]:
        losses: list[Tensor] = []

        def loss() -> Tensor:
            losses.append(self.losses[number].mean())
            return losses[0]

        gradients = gradient(loss, parameters)
        return float(losses[0].detach()) - self.at_rest[number], gradients
