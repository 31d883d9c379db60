"""The diagonal of the Fisher information against the dense matrix in float64, score by score."""

import pytest
import torch
from dense_derivatives import scores
from ragged_batches import equally_long as sentences

from isoloss.curvature.fisher_diagonal import fisher_diagonal
from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from thorough_cases import others_thorough
from tiny_models import ARCHITECTURES, tiny_model

MASKED = MaskedObjective()


def uneven() -> Batch:
    """The first of two sentences has two predictions, and the second has padding."""
    one = sentences(2)
    mask = one.attention_mask.clone()
    mask[1, -1] = False
    rows, positions = torch.tensor([0, 0, 1]), torch.tensor([0, 2, 1])
    return Batch(one.input_ids, mask, rows, positions, one.targets[[0, 0, 1]])


def dense_diagonal(model, batch: Batch) -> torch.Tensor:
    counts = torch.bincount(batch.rows)[batch.rows]
    of_each = [
        log_p.detach().exp() @ gradients.square() / predictions
        for (log_p, gradients), predictions in zip(scores(model, MASKED, batch), counts, strict=True)
    ]
    return sum(of_each) / len(batch)


@pytest.mark.parametrize("architecture", others_thorough(ARCHITECTURES))
@pytest.mark.parametrize("batch", [sentences(5), uneven()], ids=["one prediction", "uneven"])
def test_it_is_that_of_the_dense_matrix(architecture, batch: Batch) -> None:
    model = tiny_model(architecture, 2, 3).eval()
    found = fisher_diagonal(model, MASKED, batch)
    assert torch.allclose(found.values, dense_diagonal(model, batch), rtol=1e-9, atol=1e-14)
    assert found.root_sum.value == pytest.approx(float(found.values.sqrt().sum()))


@pytest.mark.thorough
def test_how_much_memory_there_is_changes_nothing() -> None:
    model = tiny_model(PreLayerNormTransformer, 2, 3)
    whole, piecemeal = (fisher_diagonal(model, MASKED, sentences(3), memory_bytes=m) for m in (1 << 30, 1))
    assert torch.allclose(whole.values, piecemeal.values, rtol=1e-12)
    assert model.training


@pytest.mark.thorough
def test_the_error_is_that_of_other_sentences() -> None:
    model = tiny_model(PreLayerNormTransformer, 2, 3).eval()
    batch = sentences(128)
    own = [fisher_diagonal(model, MASKED, batch.part(at, at + 16)).root_sum for at in range(0, 128, 16)]
    spread = torch.tensor([each.value for each in own]).std()
    typical = torch.tensor([each.standard_error for each in own]).mean()
    assert 0.5 < float(typical / spread) < 2


def test_what_has_no_error_or_no_parameter_is_refused() -> None:
    model = tiny_model(PreLayerNormTransformer, 2, 3)
    with pytest.raises(BadInput, match="at least 2"):
        fisher_diagonal(model, MASKED, sentences(1))
    with pytest.raises(BadInput, match="no parameter that requires a gradient"):
        fisher_diagonal(model.requires_grad_(False), MASKED, sentences(2))


@pytest.mark.parametrize("number", [16, 24, 47])
def test_equal_sentences_leave_no_error_whatever_the_blocks(number: int) -> None:
    model = tiny_model(PreLayerNormTransformer, 2, 3).eval()
    one = sentences(1)
    equal = MASKED.draw(Sentences(torch.zeros(number, 3).long(), torch.full((number,), 3)), torch.Generator())
    equal = Batch(
        one.input_ids.expand(number, -1),
        equal.attention_mask,
        equal.rows,
        one.positions.expand(number),
        one.targets.expand(number),
    )
    found = fisher_diagonal(model, MASKED, equal)
    assert found.root_sum.standard_error < 1e-12 * found.root_sum.value
    assert found.root_sum.n == len(found.sentences) == 16
    assert int(found.sentences.sum()) == number
