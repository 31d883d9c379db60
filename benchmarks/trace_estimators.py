"""Ways to estimate the trace of a masked model's curvature, as units of work that give unbiased values.

All read sentences with one mask each, and give values whose mean is the trace over sentences: of the Fisher
information, which is that of the exact Gauss-Newton matrix, or of the loss's own Hessian.
"""

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.per_sentence.traces import sentence_fisher_traces
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective

OBJECTIVE = MaskedObjective()


@dataclass(frozen=True)
class Estimator:
    """`unit` turns a fresh batch of `sentences` into independent values, one or as many as there are."""

    name: str
    sentences: int
    unit: Callable[[Batch], Tensor]


class Scores(nn.Module):
    """The model's scores as a function of one tensor, as libraries of curvature want it.

    That is the ids and then the place of the mask; there is no padding.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of the masked words."""
        ids, positions = inputs[:, :-1], inputs[:, -1]
        rows = torch.arange(len(ids))
        present = torch.ones(ids.shape, dtype=torch.bool)
        return OBJECTIVE.logits(self.model, Batch(ids, present, rows, positions, positions))


def inputs_of(batch: Batch) -> Tensor:
    return torch.cat([batch.input_ids, batch.positions[:, None]], dim=1)


def estimators(model: nn.Module) -> list[Estimator]:
    """The library's, those usually written by hand, and other libraries' where they are installed."""
    seeds = itertools.count()
    found = [
        Estimator("isoloss", 64, lambda batch: factored(model, batch, next(seeds))),
        Estimator("labels one at a time", 1, lambda batch: one_label(model, batch)),
        Estimator("vmap of per-sample gradients", 32, lambda batch: mapped_labels(model, batch)),
        Estimator("Hutchinson, Hessian-vector products", 64, lambda batch: hessian_probe(model, batch)),
        *(
            Estimator(
                f"Hutchinson, Gauss-Newton by jvp, {n} a probe", n, lambda batch: jvp_probe(model, batch)
            )
            for n in (8, 64)
        ),
    ]
    return found + list(other_libraries(model, seeds))


def factored(model: nn.Module, batch: Batch, seed: int) -> Tensor:
    """The library's own; in a long measurement few batches are the first."""
    traces = sentence_fisher_traces(model, OBJECTIVE, batch, seed=seed, first_sentence=1)
    return sum(traces.groups.values())


def one_label(model: nn.Module, batch: Batch) -> Tensor:
    """B.1 as it is usually coded: a label from the model, a backward pass, the squared gradient."""
    log_p = OBJECTIVE.logits(model, batch).log_softmax(dim=1)
    label = torch.multinomial(log_p.detach().exp(), 1)
    gradients = torch.autograd.grad(log_p[0, label[0, 0]], list(model.parameters()), allow_unused=True)
    return sum(g.square().sum() for g in gradients if g is not None)[None]


def mapped_labels(model: nn.Module, batch: Batch) -> Tensor:
    """The same for all sentences of a batch at once; they must be equally long."""
    scores = Scores(model)
    parameters = {name: p.detach() for name, p in scores.named_parameters()}

    def log_probability(values: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return functional_call(scores, values, (row[None],)).log_softmax(dim=1)[0].gather(0, label)[0]

    inputs = inputs_of(batch)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        labels = torch.multinomial(scores(inputs).softmax(dim=1), 1)
        gradients = vmap(grad(log_probability), in_dims=(None, 0, 0))(parameters, inputs, labels)
    return sum(g.flatten(1).square().sum(dim=1) for g in gradients.values())


def hessian_probe(model: nn.Module, batch: Batch) -> Tensor:
    """vᵀ H v, v of ±1, H of the loss at the true labels (PyHessian)."""
    parameters = list(model.parameters())
    with sdpa_kernel(SDPBackend.MATH):
        loss = nn.functional.cross_entropy(OBJECTIVE.logits(model, batch), batch.targets)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        probe = [signs_like(p) for p in parameters]
        along = sum((g * v).sum() for g, v in zip(gradients, probe, strict=True))
        products = torch.autograd.grad(along, parameters, materialize_grads=True)
    return sum((h * v).sum() for h, v in zip(products, probe, strict=True))[None]


def jvp_probe(model: nn.Module, batch: Batch) -> Tensor:
    """vᵀ Jᵀ (diag p - p pᵀ) J v, v of ±1: one product with the Jacobian, and no backward pass."""
    scores, inputs = Scores(model), inputs_of(batch)
    parameters = {name: p.detach() for name, p in scores.named_parameters()}
    probe = {name: signs_like(p) for name, p in parameters.items()}
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        logits, along = jvp(
            lambda values: functional_call(scores, values, (inputs,)), (parameters,), (probe,)
        )
    p = logits.softmax(dim=1)
    return ((p * along.square()).sum(dim=1) - (p * along).sum(dim=1).square()).mean()[None]


def signs_like(tensor: Tensor) -> Tensor:
    return torch.randint_like(tensor, 0, 2).mul_(2).sub_(1)


def other_libraries(model: nn.Module, seeds: Iterator[int]) -> Iterator[Estimator]:
    """One matrix-vector product a batch, by the libraries' own operators and traces."""
    if importlib.util.find_spec("curvlinops"):
        yield Estimator("curvlinops, Hessian", 64, lambda batch: curvlinops_probe(model, batch, "Hessian"))
        yield Estimator("curvlinops, Gauss-Newton", 64, lambda batch: curvlinops_probe(model, batch, "GGN"))
    if importlib.util.find_spec("hessian_eigenthings"):
        yield Estimator(
            "hessian-eigenthings, Hessian", 64, lambda batch: eigenthings_probe(model, batch, next(seeds))
        )


def curvlinops_probe(model: nn.Module, batch: Batch, matrix: str) -> Tensor:
    import curvlinops

    scores, data = Scores(model), [(inputs_of(batch), batch.targets)]
    parameters = [p for p in scores.parameters() if p.requires_grad]
    kind = getattr(curvlinops, f"{matrix}LinearOperator")
    with sdpa_kernel(SDPBackend.MATH):
        operator = kind(scores, nn.CrossEntropyLoss(), parameters, data, check_deterministic=False)
        return curvlinops.hutchinson_trace(operator, num_matvecs=1)[None]


def eigenthings_probe(model: nn.Module, batch: Batch, seed: int) -> Tensor:
    from hessian_eigenthings import HessianOperator, hutchinson

    def loss(scores: nn.Module, part: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(scores(part[0]), part[1])

    with sdpa_kernel(SDPBackend.MATH):
        operator = HessianOperator(Scores(model), [(inputs_of(batch), batch.targets)], loss)
        return hutchinson(operator, num_samples=1, seed=seed).samples
