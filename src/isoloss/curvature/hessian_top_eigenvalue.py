"""Sharpness: the largest eigenvalue of the Hessian of the loss on fixed sentences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.group_products import inner_products_by_group
from isoloss.curvature.hessian_trace import sign_probe
from isoloss.curvature.hessian_vector_products import hessian_vector_product
from isoloss.curvature.label_laws import LabelLaw, mean_loss
from isoloss.curvature.largest_eigenvalue import largest_eigenvalue
from isoloss.curvature.measured_parameters import MeasuredParameters, trainable_parameters
from isoloss.curvature.sentence_blocks import sentence_blocks
from isoloss.errors import BadInput
from isoloss.estimate import Estimate, mean_over_members
from isoloss.objectives.batch import Batch, Objective, split_sentences
from isoloss.objectives.evaluation_mode import device_of, evaluation_mode
from isoloss.progress import Progress, silent

TASK = "top eigenvalue"
AT_ONCE = 32
"""Sentences that are differentiated twice at once, while no error bar is needed."""
BASIS_BYTES = 1 << 30
"""Default budget for the vectors that the eigenvalue is sought with: 1 GiB."""


@dataclass(frozen=True)
class TopEigenvalue:
    """λ = v·Hv at the unit vector v found, whole and by group; in nats per squared parameter.

    `groups` holds v_g·(Hv)_g, each group's part, which add up to the whole. The standard error is that of
    v·H_b v over blocks of sentences with v held fixed: what λ would move by to first order were other
    sentences drawn. It does not cover that λ of few sentences is too large on average, v being chosen to
    suit them; nor is it the numerical error, which `residual` = ||Hv - λv|| bounds: some eigenvalue lies
    within it. `converged` says whether it is as small as was asked, `products` how many of the whole set's
    Hessian-vector products that took.
    """

    estimate: Estimate
    groups: dict[str, Estimate]
    residual: float
    converged: bool
    products: int
    sentences: int
    parameters: MeasuredParameters


@dataclass(frozen=True)
class _SetHessian:
    """The Hessian of the mean loss over parts of the sentences, as products with flat float64 vectors."""

    model: nn.Module
    objective: Objective
    parts: list[Batch]
    law: LabelLaw | None
    parameters: dict[str, Tensor]

    def of_part(self, number: int, vector: dict[str, Tensor]) -> dict[str, Tensor]:
        first = sum(map(len, self.parts[:number]))
        part = self.parts[number].to(device_of(self.model))
        return hessian_vector_product(
            lambda: mean_loss(self.model, self.objective, part, first, self.law), self.parameters, vector
        )

    def multiply(self, flat: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        vector, total = self.unflatten(flat), torch.zeros_like(flat)
        sentences = sum(map(len, self.parts))
        for number, part in enumerate(self.parts):
            product = self.of_part(number, vector)
            flattened = torch.cat([values.flatten().double() for values in product.values()])
            total += flattened * (len(part) / sentences)
        return total

    def unflatten(self, flat: Float[Tensor, " P"]) -> dict[str, Tensor]:
        pieces = torch.split(flat, [p.numel() for p in self.parameters.values()])
        return {
            name: piece.view(p.shape).to(p)
            for (name, p), piece in zip(self.parameters.items(), pieces, strict=True)
        }


def hessian_top_eigenvalue(
    model: nn.Module,
    batches: Sequence[Batch],
    objective: Objective,
    *,
    seed: int = 0,
    law: LabelLaw | None = None,
    tolerance: float = 1e-3,
    most_products: int = 200,
    basis_bytes: int = BASIS_BYTES,
    progress: Progress = silent,
) -> TopEigenvalue:
    """The algebraically largest eigenvalue of ∇²L of the sentence-averaged loss on all the sentences.

    By Lanczos from a start of ±1 drawn with `seed`, products by double backward passes summed in float64,
    until ||Hv - λv|| <= `tolerance` |λ| or after `most_products` products, a Hessian-vector product of the
    whole set each. Labels are the data's, or those of `law`. Needs a few vectors of the parameters' size in
    float64, at least 8 and as many as `basis_bytes` holds, beside the double backward pass of `AT_ONCE`
    sentences.

    The model is left as found. Raises BadInput for a tolerance not between 0 and 1, for fewer than two
    sentences, when no parameter needs a gradient, and where a logit is not finite.
    """
    if not 0 < tolerance < 1:
        raise BadInput(f"the eigenvalue's relative tolerance must be above 0 and below 1, not {tolerance}")
    parameters, measured = trainable_parameters(model), MeasuredParameters.of(model)
    blocks = _SetHessian(model, objective, sentence_blocks(batches), law, parameters)
    whole = [part for batch in batches for part in split_sentences(batch, -(-len(batch) // AT_ONCE))]
    hessian = _SetHessian(model, objective, whole, law, parameters)
    probe = sign_probe(parameters, f"{seed} start")
    start = torch.cat([values.flatten().double() for values in probe.values()])

    with evaluation_mode(model):
        pair = largest_eigenvalue(
            hessian.multiply,
            start,
            tolerance=tolerance,
            most_products=most_products,
            basis=min(64, basis_bytes // (16 * len(start))),
            report=partial(_report, progress, tolerance, most_products),
        )
        vector = hessian.unflatten(pair.vector)
        by_block = [
            inner_products_by_group(vector, blocks.of_part(number, vector))
            for number in range(len(blocks.parts))
        ]
    progress(TASK, most_products, most_products)
    sizes = torch.tensor([len(block) for block in blocks.parts])
    groups = {
        name: mean_over_members(torch.tensor([b[name] for b in by_block], dtype=torch.float64), sizes)
        for name in by_block[0]
    }
    forms = torch.tensor([sum(b.values()) for b in by_block], dtype=torch.float64)
    return TopEigenvalue(
        mean_over_members(forms, sizes),
        groups,
        pair.residual,
        pair.residual <= tolerance * abs(pair.value),
        pair.products,
        int(sizes.sum()),
        measured,
    )


def _report(
    progress: Progress, tolerance: float, most_products: int, products: int, value: float, residual: float
) -> None:
    # A residual falls geometrically, so its logarithm tells how far the work has come.
    share = math.log(max(residual, 1e-300) / max(abs(value), 1e-300)) / math.log(tolerance)
    done = most_products * min(max(share, products / most_products, 0.0), 0.99)
    progress(TASK, done, most_products, f"{value:.5g}, residual {residual:.2g}")
