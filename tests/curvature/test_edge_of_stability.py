"""The top eigenvalue against the dense Hessian, and the edge where descent begins to diverge."""

import copy

import pytest
import torch

from isoloss.curvature.edge_of_stability import edge_of_stability_rate, lanczos_top_eigenvalue
from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.objectives.masked import MaskedObjective
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()
BATCH = OBJECTIVE.mask_every_position(Sentences.from_lists([[0, 3, 1], [2, 2, 0], [1, 3, 3]]))


def dense_top(model: torch.nn.Module) -> float:
    """Largest eigenvalue of the dense Hessian of the loss in evaluation mode."""
    model = copy.deepcopy(model).eval()
    parameters = list(model.parameters())
    loss = sentence_averaged_loss(OBJECTIVE.logits(model, BATCH), BATCH)
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    every = torch.eye(len(flat), dtype=torch.float64)
    rows = torch.autograd.grad(flat, parameters, every, is_grads_batched=True, materialize_grads=True)
    matrix = torch.cat([part.reshape(len(flat), -1) for part in rows], dim=1)
    return float(torch.linalg.eigvalsh(matrix)[-1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_lanczos_finds_the_dense_hessians_top(architecture: type) -> None:
    model = tiny_model(architecture, 4, 3)
    model.config._attn_implementation = "eager"
    expected = dense_top(model)
    model.config._attn_implementation = "sdpa"  # as models come
    assert lanczos_top_eigenvalue(model, OBJECTIVE, BATCH, tolerance=1e-8) == pytest.approx(
        expected, rel=1e-7
    )
    single = copy.deepcopy(model).float()
    assert lanczos_top_eigenvalue(single, OBJECTIVE, BATCH) == pytest.approx(expected, rel=1e-3)
    assert model.training
    assert all(weight.grad is None for weight in model.parameters())


class Parabola(torch.nn.Module):
    """The loss log(1 + e^s), s = wᵀ diag(1, 3) w: around w = 0 its Hessian is diag(1, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1e-4, 1e-4], dtype=torch.float64))

    def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        curved = (torch.tensor([1.0, 3.0], dtype=torch.float64) * model.weight.square()).sum()
        return torch.stack([torch.zeros_like(curved), curved]).expand(len(batch.rows), 2)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_descent_diverges_just_above_the_edge_and_not_below(momentum: float) -> None:
    ids = torch.zeros(1, 1, dtype=torch.long)
    batch = Batch(ids, ids == 0, ids[0], ids[0], ids[0])
    model = Parabola()
    edge = edge_of_stability_rate(model, model, batch, momentum=momentum)
    assert edge == pytest.approx(2 * (1 + momentum) / 3, rel=1e-3)
    for factor, grows in ((0.95, False), (1.05, True)):
        trained = Parabola()
        optimiser = torch.optim.SGD(trained.parameters(), lr=factor * edge, momentum=momentum)
        for _ in range(60):
            optimiser.zero_grad()
            sentence_averaged_loss(trained.logits(trained, batch), batch).backward()
            optimiser.step()
        assert (float(trained.weight.detach().abs().max()) > 1e-4) == grows


def test_what_bounds_no_rate_is_refused() -> None:
    model = Parabola()
    ids = torch.zeros(1, 1, dtype=torch.long)
    hill = Batch(ids, ids == 0, ids[0], ids[0], ids[0] + 1)  # the other target: log(1 + e^-s)
    with pytest.raises(BadInput, match="bounds no learning rate"):
        edge_of_stability_rate(model, model, hill)
    with pytest.raises(BadInput, match="momentum"):
        edge_of_stability_rate(model, model, hill, momentum=1.0)
    with pytest.raises(BadInput, match="in 1 steps"):
        lanczos_top_eigenvalue(tiny_model(ARCHITECTURES[0], 4, 3), OBJECTIVE, BATCH, most_steps=1)
    assert edge_of_stability_rate(model, model, hill, top_eigenvalue=lambda *_: 4.0) == 0.5
