"""The Hessian's spectrum: its largest eigenvalues, and how all of them are distributed."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, sign_probe
from isoloss.curvature.hessian_top_eigenvalue import BASIS_BYTES
from isoloss.curvature.loss import LossHessian, flattened
from isoloss.curvature.stopping import refuse_too_few
from isoloss.errors import BadInput, reason_of
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, jackknifed, sample_mean

EIGENVALUES, TOLERANCE, MOST_PRODUCTS = 5, 1e-3, 1000
PROBES, STEPS, FEWEST_STEPS = 8, 40, 8


@dataclass(frozen=True)
class TopEigenvalues:
    """The k algebraically largest eigenvalues λ_i = v_i·Hv_i, largest first; in nats per squared parameter.

    Standard errors are over sentences with v_i held fixed: to first order, how much λ_i would change with
    others. They say nothing of the bias of the largest on few sentences. Some eigenvalue lies within
    `residuals[i]` = ||Hv_i - λ_i v_i|| of λ_i. `products` counts Hessian-vector products with the whole set,
    without the last for each eigenvalue's error and residual.
    """

    estimates: tuple[Estimate, ...]
    residuals: tuple[float, ...]
    products: int
    sentences: int
    parameters: MeasuredParameters


def top_eigenvalues(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    count: int = EIGENVALUES,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    progress: Progress = silent,
) -> TopEigenvalues:
    """The `count` largest eigenvalues of ∇²L for the sentence-averaged loss on all sentences.

    By ARPACK's implicitly restarted Lanczos method as `scipy.sparse.linalg.eigsh` has it (Lehoucq, Sorensen
    and Yang 1998), from a random ±1 vector drawn with `seed`, to `tolerance` relative to each eigenvalue, in
    at most about `MOST_PRODUCTS` products. Of an eigenvalue that several eigenvectors share, as of a model
    with an exact symmetry, some copies may be missed, since the method sees one of them. Memory: the larger
    of 20 and 3 `count` + 1 float64 vectors of the parameters' size in main memory, beside the double backward
    pass of 32 sentences.

    The model is left as found. Raises BadInput for fewer than two sentences, for a `count` that is not
    between 1 and the number of parameters less one, if not all are found, when no parameter needs a gradient,
    and where a logit is not finite.
    """
    measured = MeasuredParameters.of(model)
    if not 1 <= count < measured.count:
        raise BadInput(
            f"{count} of {measured.count} eigenvalues cannot be found; ask for at least 1, not all"
        )
    hessian = LossHessian.at_once(model, batches, objective)
    refuse_too_few(hessian.sentences)
    start = flattened(sign_probe(hessian.parameters, f"{seed} start"))
    products = 0

    def multiply(vector: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        nonlocal products
        products += 1
        progress("top eigenvalues", min(products, MOST_PRODUCTS - 1), MOST_PRODUCTS)
        return hessian.multiply(vector)

    estimates, residuals = [], []
    with evaluation_mode(model):
        vectors = list(_top_eigenvectors(multiply, start, count, tolerance))
        for vector, (product, forms) in zip(vectors, hessian.quadratic_forms(vectors), strict=True):
            estimates.append(sample_mean(forms))
            residuals.append(float((product - estimates[-1].value * vector).norm()))
    progress("top eigenvalues", MOST_PRODUCTS, MOST_PRODUCTS)
    return TopEigenvalues(tuple(estimates), tuple(residuals), products, hessian.sentences, measured)


def _top_eigenvectors(
    multiply: Callable[[Float[Tensor, " P"]], Float[Tensor, " P"]],
    start: Float[Tensor, " P"],
    count: int,
    tolerance: float,
) -> Iterator[Float[Tensor, " P"]]:
    """The unit eigenvectors of the `count` largest eigenvalues, largest first."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh  # few measurements need it

    basis = min(max(2 * count + 1, 20), len(start))

    def product(vector: np.ndarray) -> np.ndarray:
        flat = torch.from_numpy(np.array(vector, dtype=np.float64)).flatten().to(start.device)
        return multiply(flat).numpy(force=True)

    try:
        values, vectors = eigsh(
            LinearOperator((len(start), len(start)), matvec=product, dtype=np.float64),
            k=count,
            which="LA",
            v0=start.numpy(force=True),
            ncv=basis,
            tol=tolerance,
            maxiter=max(1, MOST_PRODUCTS // max(1, basis - count)),
        )
    except ArpackError as error:
        raise BadInput(
            f"the {count} largest eigenvalues were not found ({reason_of(error)}); ask for fewer, or measure "
            "on fewer sentences or another checkpoint"
        ) from error
    for place in values.argsort()[::-1]:
        yield torch.from_numpy(vectors[:, place].copy()).to(start.device)


@dataclass(frozen=True)
class SpectralDensity:
    """Gauss quadratures of the distribution of the Hessian's eigenvalues, one for each random probe.

    Probe r stands for a distribution with weight `weights[r, k]` at `nodes[r, k]`; its weights add up to 1.
    The mean over probes of any smooth function's mean is that over all eigenvalues. |λ| is not smooth at 0,
    where nearly all eigenvalues of a network are, so that means of it change with the number of steps.
    Standard errors are over probes: they do not cover the choice of sentences. Fewer nodes than the others
    have are filled up with weights of zero. `products` counts Hessian-vector products with the whole set.
    """

    nodes: Float[Tensor, "r m"]
    weights: Float[Tensor, "r m"]
    products: int
    sentences: int
    parameters: MeasuredParameters

    def mean_of(self, function: Callable[[Tensor], Tensor]) -> Float[Tensor, " r"]:
        """The mean of `function` over all eigenvalues, as each probe has it."""
        return (self.weights * function(self.nodes)).sum(dim=1)

    def density(self, at: float, width: float) -> Estimate:
        """The share of eigenvalues per unit at a point, smoothed with a Gaussian of deviation `width`."""
        scale = width * (2 * torch.pi) ** 0.5
        return sample_mean(self.mean_of(lambda nodes: (-0.5 * ((nodes - at) / width).square()).exp() / scale))

    @property
    def negative_curvature(self) -> Estimate:
        """Σ |λ| over negative eigenvalues, of Σ |λ| over all: 0 at a minimum, 1 at a maximum.

        The error includes, in quadrature, the larger change of the last two steps.
        """
        return self._with_change_of_last_steps(_negative_curvature)

    @property
    def effective_rank(self) -> Estimate:
        """(Σ |λ|)² / Σ λ², the participation ratio: how many eigenvalues share the curvature.

        The error includes, in quadrature, the larger change of the last two steps, which may be half of the
        value with 40 steps; compare only values of equal steps, of models of one size.
        """
        return self._with_change_of_last_steps(_effective_rank)

    @property
    def one_step_fewer(self) -> "SpectralDensity":
        """What one step fewer of every probe finds, without a further product.

        Lanczos' method on the nodes of a quadrature, from the roots of their weights, gives its tridiagonal
        matrix again. As many steps as there are eigenvalues make a quadrature exact, and it stays as it is.
        """
        steps = self.nodes.shape[1]
        if steps in (1, self.parameters.count):
            return self
        nodes, weights = torch.zeros(2, len(self.nodes), steps - 1, dtype=torch.float64)
        for probe, (found, shares) in enumerate(zip(self.nodes, self.weights, strict=True)):
            values, parts = quadrature(found.mul, shares.sqrt(), steps - 1)
            nodes[probe, : len(values)], weights[probe, : len(values)] = values, parts
        return replace(self, nodes=nodes, weights=weights)

    def _with_change_of_last_steps(
        self, statistic: Callable[["SpectralDensity", Tensor], Tensor]
    ) -> Estimate:
        """A smooth function of the probes kept with its error, and the change by which steps are too few.

        A quadrature with a node near 0 gives too small a mean of |λ| and one with 0 between two nodes too
        large a one, and these take turns as steps are added: the true mean is about between the last two.
        Two may agree by chance, hence the larger change of two steps.
        """
        n = len(self.nodes)
        kept, without = torch.ones(n).bool(), torch.eye(n).logical_not()
        found = jackknifed(statistic(self, kept), torch.stack([statistic(self, each) for each in without]))
        fewer = self.one_step_fewer
        one, two = (float(statistic(each, kept)) for each in (fewer, fewer.one_step_fewer))
        change = max(abs(found.value - one), abs(one - two))
        return replace(found, standard_error=math.hypot(found.standard_error, change))


def _negative_curvature(found: SpectralDensity, kept: Tensor) -> Tensor:
    negative = found.mean_of(lambda nodes: (-nodes).clamp(min=0))[kept].mean()
    return negative / found.mean_of(torch.abs)[kept].mean()


def _effective_rank(found: SpectralDensity, kept: Tensor) -> Tensor:
    square = found.mean_of(torch.abs)[kept].mean().square()
    return square / found.mean_of(torch.square)[kept].mean() * found.parameters.count


def spectral_density(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    probes: int = PROBES,
    steps: int = STEPS,
    seed: int = 0,
    basis_bytes: int = BASIS_BYTES,
    progress: Progress = silent,
) -> SpectralDensity:
    """The distribution of the eigenvalues of ∇²L, by stochastic Lanczos quadrature (Ubaru, Chen, Saad 2017).

    Each of `probes` random ±1 vectors starts a Lanczos process of `steps` products, every new vector being
    orthogonalised against all before it, twice. The eigenvalues of its tridiagonal matrix are the nodes and
    the squared first components of its eigenvectors the weights, exact for polynomials of degree below twice
    the steps, and so for Tr H and Tr H² (Ghorbani, Krishnan, Xiao 2019, for networks). Memory: `steps`
    float64 vectors of the parameters' size, or as many as `basis_bytes` holds, at least `FEWEST_STEPS`, and
    seven more, beside the double backward pass of 32 sentences.

    The model is left as found. Raises BadInput for fewer than two sentences, probes or steps, when no
    parameter needs a gradient, and where a logit is not finite.
    """
    if probes < 2 or steps < 2:
        raise BadInput(f"{probes} probes of {steps} steps have no error bar; take at least 2 of 2")
    measured = MeasuredParameters.of(model)
    hessian = LossHessian.at_once(model, batches, objective)
    if hessian.sentences < 2:
        raise BadInput("a single sentence says little of a loss; measure on at least 2")
    affordable = max(FEWEST_STEPS, basis_bytes // (8 * measured.count))
    steps = min(steps, affordable, measured.count)
    done = 0

    def multiply(vector: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        nonlocal done
        done += 1
        progress("spectral density", min(done, probes * steps), probes * steps)
        return hessian.multiply(vector)

    nodes, weights = torch.zeros(2, probes, steps, dtype=torch.float64)
    with evaluation_mode(model):
        for probe in range(probes):
            start = flattened(sign_probe(hessian.parameters, f"{seed} spectrum {probe}"))
            values, shares = quadrature(multiply, start, steps)
            nodes[probe, : len(values)], weights[probe, : len(values)] = values, shares
    return SpectralDensity(nodes, weights, done, hessian.sentences, measured)


def quadrature(
    multiply: Callable[[Float[Tensor, " P"]], Float[Tensor, " P"]], start: Float[Tensor, " P"], steps: int
) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """Nodes and weights of the Gauss quadrature of startᵀ f(A) start / |start|², from m <= `steps` products.

    m is smaller where the vectors span an invariant subspace: then the quadrature is exact.
    """
    values, vectors, _ = lanczos(multiply, start, steps)
    return values, vectors[0].square()


def lanczos(
    multiply: Callable[[Float[Tensor, " P"]], Float[Tensor, " P"]], start: Float[Tensor, " P"], steps: int
) -> tuple[Float[Tensor, " m"], Float[Tensor, "m m"], Float[Tensor, "m P"]]:
    """A symmetric A within a Krylov space from m <= `steps` products, and the space's basis (Lanczos 1950).

    Within it, A is its eigenvalues and eigenvectors in the basis, float64 on the CPU. Every new vector is
    orthogonalised twice against all previous ones; m is smaller where they span an invariant subspace.
    """
    basis = start.new_zeros(steps, len(start))
    diagonal, beside = list[float](), list[float]()
    vector = start / start.norm()
    for held in range(1, steps + 1):
        basis[held - 1] = vector
        image = multiply(vector)
        diagonal.append(float(vector @ image))
        size = float(image.norm())
        for _ in range(2):
            image = image - basis[:held].T @ (basis[:held] @ image)
        remaining = float(image.norm())
        if held == steps or remaining <= 1e-12 * size:
            break
        beside.append(remaining)
        vector = image / remaining
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        off = torch.diag(torch.tensor(beside, dtype=torch.float64), 1)
        matrix += off + off.T
    values, vectors = torch.linalg.eigh(matrix)
    return values, vectors, basis[: len(diagonal)]
