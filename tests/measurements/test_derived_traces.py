"""The rate at which SGD in small batches is stable, on a quadratic loss that is solved in closed form."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import isoloss.measurements.derived_traces as derived_traces
from isoloss.errors import BadInput
from isoloss.measurements.derived_traces import TraceDescentQuantity, stable_rate
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.quantity import Subject
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from isoloss.results.estimate import Estimate


def exact(value: float) -> Estimate:
    return Estimate(value, 0.0, 100)


@pytest.mark.parametrize("batch", [1, 4, 64])
def test_second_moments_shrink_below_it_and_grow_above_along_a_single_direction(batch: int) -> None:
    """Of E[(1 - ηh_B)²] with h the mean of B squares of normal numbers of variance λ = Tr."""
    curvature = 3.0
    edge = stable_rate(exact(curvature), exact(curvature), batch).value
    squares = curvature * np.random.default_rng(0).chisquare(batch, 10**6) / batch
    below, above = (np.mean((1 - share * edge * squares) ** 2) for share in (0.95, 1.05))
    assert below < 1 < above


def test_for_large_batches_it_is_the_edge_of_descent() -> None:
    assert stable_rate(exact(4.0), exact(12.0), 10**9).value == pytest.approx(0.5)


def test_its_error_is_that_of_the_curvatures() -> None:
    found = stable_rate(Estimate(4.0, 0.1, 100), Estimate(12.0, 0.4, 100), 4)
    slope = 2 / 8.0**2
    assert found.standard_error == pytest.approx(slope * np.hypot(1.25 * 0.1, 0.1))


def test_where_the_loss_curves_downwards_no_rate_is_stable() -> None:
    with pytest.raises(BadInput, match="bounds no learning rate"):
        stable_rate(exact(-1.0), exact(-2.0), 4)


def test_a_distance_in_steps_of_the_checkpoints_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    distances = []

    def rate(model: object, objective: object, batch: object, distance: float, **_: object) -> Estimate:
        distances.append(distance)
        return exact(1.0)

    monkeypatch.setattr(derived_traces, "trace_descent_rate", rate)
    checkpoint = SimpleNamespace(readings={"rate": 0.5})
    monkeypatch.setattr(derived_traces, "read_checkpoint", lambda folder: checkpoint)
    ids = torch.zeros(2, 1, dtype=torch.long)
    drawn = FixedSentences((Batch(ids, ids == 0, torch.arange(2), ids[:, 0], ids[:, 0]),))
    subject = Subject("", MaskedObjective(), {}, None)
    for reading in (None, "rate"):
        quantity = TraceDescentQuantity(2, 3.0, seed=0, rate_reading=reading)
        quantity.measure(torch.nn.Linear(1, 1), drawn, subject, silent)
    assert distances == [3.0, 1.5]
