"""The edge at which descent starts to diverge."""

from functools import partial

import pytest
import torch

import isoloss.curvature.hessian_top_eigenvalue as edge_module
from isoloss.curvature.hessian_top_eigenvalue import edge_of_stability_rate
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentence_averaged_loss


class Parabola(torch.nn.Module):
    """The loss log(1 + e^s), s = wᵀ diag(1, 3) w: around w = 0 its Hessian is diag(1, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1e-4, 1e-4], dtype=torch.float64))

    def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        curved = (torch.tensor([1.0, 3.0], dtype=torch.float64) * model.weight.square()).sum()
        return torch.stack([torch.zeros_like(curved), curved]).expand(len(batch.rows), 2)


def two_sentences(target: int) -> Batch:
    ids = torch.zeros(2, 1, dtype=torch.long)
    return Batch(ids, ids == 0, torch.arange(2), ids[:, 0], ids[:, 0] + target)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_descent_diverges_just_above_the_edge_and_not_below(momentum: float) -> None:
    batch, model = two_sentences(target=0), Parabola()
    edge = edge_of_stability_rate(model, [batch], model, momentum=momentum)
    assert edge == pytest.approx(2 * (1 + momentum) / 3, rel=1e-3)
    for factor, grows in ((0.95, False), (1.05, True)):
        trained = Parabola()
        optimiser = torch.optim.SGD(trained.parameters(), lr=factor * edge, momentum=momentum)
        for _ in range(60):
            optimiser.zero_grad()
            sentence_averaged_loss(trained.logits(trained, batch), batch).backward()
            optimiser.step()
        assert (float(trained.weight.detach().abs().max()) > 1e-4) == grows


def test_what_bounds_no_rate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, hill = Parabola(), two_sentences(target=1)  # log(1 + e^-s)
    with pytest.raises(BadInput, match="bounds no learning rate"):
        edge_of_stability_rate(model, [hill], model)
    with pytest.raises(BadInput, match="momentum"):
        edge_of_stability_rate(model, [hill], model, momentum=1.0)
    one_product = partial(edge_module.hessian_top_eigenvalue, most_products=1)
    monkeypatch.setattr(edge_module, "hessian_top_eigenvalue", one_product)
    with pytest.raises(BadInput, match="was not found in 1 products"):
        edge_of_stability_rate(model, [two_sentences(target=0)], model)
