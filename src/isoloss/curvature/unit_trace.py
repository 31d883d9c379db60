"""Flatness that no reparametrisation can fake: relative to each unit's own weights, the Fisher information.

A network's function is the same after many changes of its weights: a head's values times any invertible
matrix and its output map times the inverse; a norm's gain absorbed into the map that reads it; a ReLU
neuron's incoming weights times a number and its outgoing ones divided by it. The trace, and every measure of
`fisher_trace`, changes. What does not is ⟨w, g⟩ for a gradient g and the weights w of a *unit*: a set of
weights on which the changes act by a matrix A, since g then changes by the transposed inverse of A.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, trainable_parameters
from isoloss.curvature.per_sentence.directions import drawn_directions, sign_bits
from isoloss.curvature.per_sentence.every_other_parameter import gradients_by_sentence
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.stopping import refuse_too_few
from isoloss.curvature.weight_changes import output_rows
from isoloss.objectives.batch import Batch, Objective, refuse_non_finite
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, mean_over_sentences, paired_difference

TASK = "trace relative to units"
_OUTPUT_OF_HEADS = re.compile(
    r"(?:attention\.output\.dense|attention\.dense|attention\.out_lin|attn\.c_proj|attn\.Wo|attn\.out_proj"
    r"|o_proj)\.weight$"
)
_GAIN = re.compile(r"(?:^|[._])(?:\w*norm|ln_\w+)\.weight$", re.IGNORECASE)
_TABLE = re.compile(r"(?:embed|wte|wpe)", re.IGNORECASE)


@dataclass(frozen=True)
class UnitTrace:
    """One unbiased value per sentence of Σ over units u of E_y ⟨w_u, ∇_u log f_y⟩², in nats, float64.

    σ²/2 times its mean is the rise of KL, to second order, when every unit's weights are multiplied by
    1 + σε, ε independent standard normal numbers. `units` counts them.
    """

    values: Float[Tensor, " n"]
    units: int

    @property
    def estimate(self) -> Estimate:
        """The mean over sentences, with its standard error."""
        return mean_over_sentences(self.values)

    def difference(self, reference: "UnitTrace") -> Estimate:
        """The difference from `reference` on the same sentences and seed, with its paired standard error."""
        return paired_difference(self.values, reference.values)


def unit_products(name: str, weight: Tensor, gradients: Float[Tensor, "k ..."]) -> Float[Tensor, "k u"]:
    """⟨w_u, g_u⟩ of a parameter's units, of k gradients; a matrix has the weights of one output in a row.

    - A matrix that maps: what reads one input number, a column. Invariant under any invertible matrix that
      acts on its outputs (rotations of heads), and under factors on its inputs (gains, neurons).
    - The output map of attention heads, and a table of embeddings: a row; the changes act on its inputs.
    - A norm's gain: each number. Any other vector, a bias: the whole of it.
    """
    products = weight.double() * gradients.double()
    if weight.ndim < 2:
        return products if _GAIN.search(name) else products.flatten(1).sum(1, keepdim=True)
    acts_on_inputs = _OUTPUT_OF_HEADS.search(name) or _TABLE.search(name)
    return products.sum(-1 if acts_on_inputs else -2).flatten(1)


def unit_trace(
    model: nn.Module,
    batches: Sequence[Batch],
    objective: Objective,
    *,
    seed: int = 0,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> UnitTrace:
    """Σ_u E_t E_{y ~ f} ⟨w_u, ∇_{w_u} log f_y⟩² over units u (`unit_products`), with `fisher_directions`.

    Unlike the trace, it is the same after rotations of heads (and any other invertible change of their
    values), absorbed norm scales, rescaled neurons of positively homogeneous layers, and permutations. Where
    queries and keys are not rotated by position, heads' queries and keys may be changed likewise. It is not
    the same if a constant is moved from a norm's bias into that of the map that reads it.

    Forms every sentence's gradients, k sentences at a time as `memory_bytes` allows. Sentence i's signs
    depend only on `seed` and i. Raises BadInput for fewer than two sentences, when no parameter needs a
    gradient, and where a logit is not finite.
    """
    n = sum(map(len, batches))
    refuse_too_few(n)
    MeasuredParameters.of(model)  # refuses a model without any
    parameters = trainable_parameters(model)
    weights = {each.name: each for each in output_rows(model)}
    found: list[Tensor] = []
    units: dict[str, int] = {}
    with evaluation_mode(model):
        for batch in (each.to(device_of(model)) for each in batches):
            first, counts = sum(map(len, found)), torch.bincount(batch.rows, minlength=len(batch))
            with torch.no_grad():
                logits = objective.logits(model, batch)
            refuse_non_finite(logits, batch, first)
            bits = sign_bits(first + torch.arange(len(batch)), counts.cpu(), logits.shape[1], seed)
            cotangents = drawn_directions(logits, bits).cotangents
            values = torch.zeros(len(batch), dtype=torch.float64, device=counts.device)
            for sentences, gradients in gradients_by_sentence(
                model, objective, batch, cotangents, parameters, memory_bytes
            ):
                for name, gradient in gradients.items():
                    weight = weights[name]
                    along = unit_products(name, weight.rows, weight.of(gradient))
                    units[name] = along.shape[1]
                    values[sentences] += along.square().sum(1)
            found.append((values / counts).cpu())
            progress(TASK, sum(map(len, found)), n)
    return UnitTrace(torch.cat(found), sum(units.values()))
