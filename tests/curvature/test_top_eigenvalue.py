from functools import partial

import pytest
import ragged_batches
import torch
from dense_derivatives import decomposed, group_indices, partly_trained
from functions_of_weights import Function, sentences

import isoloss.curvature.hessian_top_eigenvalue as edge_module
from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.hessian_top_eigenvalue import (
    edge_of_stability_rate,
    hessian_top_eigenvalue,
    largest_eigenvalue,
)
from isoloss.errors import BadInput
from isoloss.objectives.batch import sentence_averaged_loss
from isoloss.objectives.masked import MaskedObjective
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()


def symmetric(size, generator):
    a = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return a + a.T


def unheard(*_):
    pass


@pytest.mark.parametrize("basis", [3, 8, 64])
def test_random_matrices_against_a_dense_solver(basis):
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        a = symmetric(60, generator)
        start = torch.randn(60, generator=generator, dtype=torch.float64)
        pair = largest_eigenvalue(a.mv, start, tolerance=1e-9, most_products=400, basis=basis, report=unheard)
        assert pair.value == pytest.approx(float(torch.linalg.eigvalsh(a)[-1]), rel=1e-9)
        assert pair.residual == pytest.approx(
            float((a @ pair.vector - pair.value * pair.vector).norm()), abs=1e-8
        )
        assert pair.residual <= 1e-9 * pair.value
        assert float(pair.vector.norm()) == pytest.approx(1)


def test_a_large_negative_eigenvalue_does_not_mislead():
    a = torch.diag(torch.tensor([-100.0, 1.0, 2.0, 3.0], dtype=torch.float64))
    pair = largest_eigenvalue(
        a.mv, torch.ones(4).double(), tolerance=1e-9, most_products=50, basis=3, report=unheard
    )
    assert pair.value == pytest.approx(3)


def test_it_stops_at_the_products_allowed_and_has_their_residual():
    generator = torch.Generator().manual_seed(0)
    a = symmetric(60, generator)
    start = torch.randn(60, generator=generator, dtype=torch.float64)
    pair = largest_eigenvalue(a.mv, start, tolerance=1e-12, most_products=5, basis=3, report=unheard)
    assert pair.products == 5
    eigenvalues = torch.linalg.eigvalsh(a)
    assert float((eigenvalues - pair.value).abs().min()) <= pair.residual


def test_an_eigenvector_to_start_from():
    a, start = torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64)), torch.tensor([0.0, 3.0]).double()
    pair = largest_eigenvalue(a.mv, start, tolerance=1e-9, most_products=9, basis=3, report=unheard)
    assert (pair.value, pair.products) == (2, 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("architecture", "basis_bytes"), [*zip(ARCHITECTURES, (1, 1 << 30), strict=True)])
def test_the_models_hessian_against_a_dense_one(architecture, basis_bytes):
    model, batch = partly_trained(architecture), ragged_batches.several_masks()
    found = hessian_top_eigenvalue(model, [batch], OBJECTIVE, tolerance=1e-7, basis_bytes=basis_bytes)
    values, vectors, by_sentence = decomposed(architecture)
    value, v = float(values[-1]), vectors[:, -1]
    assert found.converged
    assert found.estimate.value == pytest.approx(value, rel=1e-8)
    assert found.residual <= 1e-7 * found.estimate.value
    assert sum(e.value for e in found.groups.values()) == pytest.approx(found.estimate.value, rel=1e-9)
    for name, places in group_indices(trainable_parameters(model)).items():
        assert found.groups[name].value == pytest.approx(float(value * v[places].square().sum()), rel=1e-4)
    assert found.parameters.frozen
    assert found.estimate.standard_error == pytest.approx(
        float((by_sentence @ v @ v).std() / 6**0.5), rel=1e-4
    )


@pytest.mark.parametrize(("share", "converged"), [(0.5, False), (2.0, True)])
def test_it_has_converged_where_the_residual_is_within_the_tolerance(share, converged):
    measure = partial(
        hessian_top_eigenvalue,
        *(partly_trained(ARCHITECTURES[0]), [ragged_batches.several_masks()], OBJECTIVE),
        most_products=4,
    )
    few = measure(tolerance=1e-9)
    found = measure(tolerance=share * few.residual / few.estimate.value)
    assert (found.residual, found.converged) == (few.residual, converged)


def test_tolerances_that_make_no_sense_are_refused():
    model = tiny_model(ARCHITECTURES[0], ragged_batches.WORDS, ragged_batches.LENGTH)
    with pytest.raises(BadInput, match="tolerance must be above 0 and below 1, not 0"):
        hessian_top_eigenvalue(model, [ragged_batches.one_mask()], OBJECTIVE, tolerance=0.0)


def parabola(w: torch.Tensor) -> torch.Tensor:
    """Its Hessian is diag(1, 3)."""
    return 0.5 * (torch.tensor([1.0, 3.0], dtype=torch.float64) * w.square()).sum()


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_descent_diverges_just_above_the_edge_and_not_below(momentum: float) -> None:
    batch, model = sentences(2), Function(parabola, [1e-4, 1e-4])
    edge = edge_of_stability_rate(model, [batch], model, momentum=momentum)
    assert edge == pytest.approx(2 * (1 + momentum) / 3, rel=1e-3)
    for factor, grows in ((0.95, False), (1.05, True)):
        trained = Function(parabola, [1e-4, 1e-4])
        optimiser = torch.optim.SGD(trained.parameters(), lr=factor * edge, momentum=momentum)
        for _ in range(20):
            optimiser.zero_grad()
            sentence_averaged_loss(trained.logits(trained, batch), batch).backward()
            optimiser.step()
        assert (float(trained.weight.detach().abs().max()) > 1e-4) == grows


def test_what_bounds_no_rate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, hill = (Function(of, [1e-4, 1e-4]) for of in (parabola, lambda w: -parabola(w)))
    with pytest.raises(BadInput, match="bounds no learning rate"):
        edge_of_stability_rate(hill, [sentences(2)], hill)
    with pytest.raises(BadInput, match="momentum"):
        edge_of_stability_rate(model, [sentences(2)], model, momentum=1.0)
    one_product = partial(edge_module.hessian_top_eigenvalue, most_products=1)
    monkeypatch.setattr(edge_module, "hessian_top_eigenvalue", one_product)
    with pytest.raises(BadInput, match="was not found in 1 products"):
        edge_of_stability_rate(model, [sentences(2)], model)
