"""The exact diagonal of the Fisher information, its root sum, and flatness that no rescaling can fake.

A network's function is the same after many changes of its weights: a head's values times any invertible
matrix and its output map times the inverse; a norm's gain absorbed into the map that reads it; a ReLU
neuron's incoming weights times a number and its outgoing ones divided by it. The trace, and every measure of
`fisher_trace`, changes. What does not is ⟨w, g⟩ for a gradient g and the weights w of a *unit*: a set of
weights on which the changes act by a matrix A, since g then changes by the transposed inverse of A.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, trainable_parameters
from isoloss.curvature.loss import sentence_weights
from isoloss.curvature.output_rows import unit_products, units_of
from isoloss.curvature.per_sentence.every_other_parameter import gradients_by_sentence
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.per_sentence.traces import drawn_directions, sign_bits
from isoloss.curvature.stopping import refuse_too_few
from isoloss.objectives.batch import Batch, Objective, refuse_non_finite
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, mean_over_members, sample_mean

BLOCKS = 16
"""Clusters of sentences for the error: it is then itself known to 18 %."""


@dataclass(frozen=True)
class FisherDiagonal:
    """F_ii of every parameter, in nats per squared parameter, as a mean over blocks of sentences.

    `blocks` maps a parameter's name to a [K, P_name] float64 tensor: the diagonal of each of K blocks, whose
    sizes differ by at most one sentence, scaled so that the mean over blocks is the mean over all sentences.
    `sentences` gives the size of each block.
    """

    blocks: dict[str, Float[Tensor, "K P"]]
    sentences: Int[Tensor, " K"]

    @property
    def values(self) -> Float[Tensor, " P"]:
        """F_ii of all parameters, end to end."""
        return torch.cat([each.mean(dim=0).to(self.sentences.device) for each in self.blocks.values()])

    @property
    def root_sum(self) -> Estimate:
        """Σ_i √F_ii, with its first-order standard error over blocks, that of Σ_i F_ii / 2√F_ii.

        The value over all sentences of the language is larger, because the root is concave, by about Σ_i
        Var(F_ii) / 8 F_ii^(3/2). `n` counts blocks.
        """
        sizes, along, value = self.sentences, torch.zeros_like(self.sentences, dtype=torch.float64), 0.0
        for blocks in self.blocks.values():
            roots = blocks.mean(dim=0).sqrt()
            along += (blocks @ torch.where(roots > 0, 0.5 / roots, 0.0)).to(along.device)
            value += float(roots.sum())
        linear = mean_over_members(along * sizes.double().mean() / sizes, sizes)
        return replace(linear, value=value)


def fisher_diagonal(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    *,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> FisherDiagonal:
    """F_ii = E_{t, x_{-t}} Σ_y f_y (∂ log f_y / ∂θ_i)², f = f(x_{-t}) the model's distribution.

    Computed for the parameters that require a gradient. Exact on the batch: no label is sampled. For each
    label y, the gradient of √f_y log f_y, with the root held constant, is computed separately for every
    prediction, squared elementwise, and summed; every sentence has equal weight, whatever its number of
    predictions, as in `fisher_trace`, whose expectation is the sum over i. The gradient of a tied weight
    includes all its uses. Cost: one forward and one backward pass per label. Memory: twice `memory_bytes`,
    plus `BLOCKS` numbers per parameter. Dropout is off; the model is left as found.

    Raises BadInput for fewer than two sentences, when no parameter needs a gradient, or when a logit is not
    finite, naming the sentence.

    >>> from transformers import BertConfig, BertForMaskedLM
    >>> from isoloss.objectives.pretrained import PretrainedMasked
    >>> size = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> model = BertForMaskedLM(BertConfig(vocab_size=9, **size))
    >>> ids = torch.tensor([[3, 4, 2, 6], [5, 2, 7, 8]])
    >>> inputs = {"input_ids": ids, "labels": torch.tensor([[5, 6, 7, 8]] * 2).where(ids == 2, -100)}
    >>> diagonal = fisher_diagonal(model, PretrainedMasked(), PretrainedMasked().batch(inputs))
    >>> diagonal.values.shape[0] == sum(p.numel() for p in model.parameters())
    True
    """
    refuse_too_few(len(batch))
    MeasuredParameters.of(model)  # refuses a model without any
    parameters = trainable_parameters(model)
    batch = batch.to(device_of(model))
    # One copy of the sentence for each of its predictions, with that prediction only.
    copies, places = batch.per_sentence(lambda array: array[batch.rows]), torch.arange(len(batch.rows))
    apart = replace(batch, **copies, rows=places.to(batch.rows.device))
    count = min(BLOCKS, len(batch))
    block_of_sentence = torch.arange(len(batch), device=batch.rows.device) * count // len(batch)
    block_of = block_of_sentence[batch.rows]
    blocks = {name: p.new_zeros(count, p.numel(), dtype=torch.float64) for name, p in parameters.items()}
    with evaluation_mode(model):
        with torch.no_grad():
            logits = objective.logits(model, batch)
        refuse_non_finite(logits, batch, 0)
        distribution = logits.double().softmax(dim=1)
        # For each prediction; the factor K turns it into the mean over blocks.
        roots = (sentence_weights(batch)[:, None] * distribution * count).sqrt()
        for label in range(distribution.shape[1]):
            progress("diagonal of the Fisher information", label, distribution.shape[1])
            surprise = -distribution
            surprise[:, label] += 1
            cotangents = (roots[:, label, None] * surprise).to(logits.dtype)
            for predictions, gradients in gradients_by_sentence(
                model, objective, apart, cotangents, parameters, memory_bytes
            ):
                for name, gradient in gradients.items():
                    squares = gradient.detach().reshape(len(gradient), -1).double().square()
                    blocks[name].index_add_(0, block_of[predictions].to(squares.device), squares)
    return FisherDiagonal(blocks, block_of_sentence.bincount())


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
        return sample_mean(self.values)


def unit_trace(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    seed: int = 0,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> UnitTrace:
    """Σ_u E_t E_{y ~ f} ⟨w_u, ∇_{w_u} log f_y⟩² over units u (`units_of`), with `fisher_directions`.

    Unlike the trace, it is the same after rotations of heads (and any other invertible change of their
    values), absorbed norm scales, rescaled neurons of positively homogeneous layers, and permutations. Where
    queries and keys are not rotated by position, heads' queries and keys may be changed likewise. It is not
    the same if a constant is moved from a norm's bias into that of the map that reads it.

    Forms every sentence's gradients, k sentences at a time as `memory_bytes` allows. Sentence i's signs
    depend only on `seed` and i. Raises BadInput for fewer than two sentences, when no parameter needs a
    gradient, where a logit is not finite, and as `units_of` does.
    """
    batches = list(filter(len, batches))
    n = sum(map(len, batches))
    refuse_too_few(n)
    MeasuredParameters.of(model)  # refuses a model without any
    parameters = trainable_parameters(model)
    found: list[Tensor] = []
    units: dict[str, int] = {}
    with evaluation_mode(model):
        sentence = batches[0].part(0, 1).to(device_of(model))
        weights = {each.name: each for each in units_of(model, lambda: objective.logits(model, sentence))}
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
                    along = unit_products(weights[name], gradient)
                    units[name] = along.shape[1]
                    values[sentences] += along.square().sum(1).to(values.device)
            found.append((values / counts).cpu())
            progress("trace relative to units", sum(map(len, found)), n)
    return UnitTrace(torch.cat(found), sum(units.values()))
