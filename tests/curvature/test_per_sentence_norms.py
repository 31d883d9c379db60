from collections import defaultdict

import pytest
import ragged_batches
import torch
from torch import nn

from isoloss.curvature.parameter_groups import parameter_group
from isoloss.curvature.per_sentence_norms import equal_pieces, per_sentence_squared_norms
from isoloss.errors import BadInput
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import MASK
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    return tiny_model(request.param, ragged_batches.WORDS, ragged_batches.LENGTH)


@pytest.fixture
def one_mask():
    return ragged_batches.one_mask()


@pytest.fixture
def several_masks():
    return ragged_batches.several_masks()


def by_autograd(model, batch, cotangents):
    """One ordinary backward pass a sentence, with the whole padded batch in the forward pass."""
    logits = OBJECTIVE.logits(model, batch)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    norms = defaultdict(lambda: torch.zeros(len(batch), dtype=torch.float64))
    for sentence in range(len(batch)):
        of_sentence = (logits * cotangents)[batch.rows == sentence].sum()
        gradients = torch.autograd.grad(
            of_sentence, [p for _, p in named], retain_graph=True, allow_unused=True
        )
        for (name, _), gradient in zip(named, gradients, strict=True):
            norms[parameter_group(name)][sentence] += 0 if gradient is None else gradient.square().sum()
    return norms


def measured(model, batch, cotangents, memory_bytes):
    norms = defaultdict(lambda: torch.zeros(len(batch), dtype=torch.float64))
    covered = []
    for sentences, piece in equal_pieces(model, batch, memory_bytes):
        covered += sentences.tolist()
        own = cotangents[torch.isin(batch.rows, sentences)]
        for name, values in per_sentence_squared_norms(model, OBJECTIVE, piece, own).items():
            norms[name][sentences] = values
    assert sorted(covered) == list(range(len(batch)))
    return norms


@pytest.mark.parametrize("masks", ["one_mask", "several_masks"])
@pytest.mark.parametrize("memory_bytes", [1, 1 << 27])
def test_every_group_agrees_with_a_backward_pass_a_sentence(model, masks, memory_bytes, request):
    batch = request.getfixturevalue(masks)
    model.eval()
    generator = torch.Generator().manual_seed(4)
    cotangents = torch.randn(len(batch.targets), 5, generator=generator, dtype=torch.float64)
    expected = by_autograd(model, batch, cotangents)
    found = measured(model, batch, cotangents, memory_bytes)
    assert found.keys() == expected.keys()
    assert {"embeddings", "head", "layer 2 norms", "layer 1 MLP", "layer 1 attention"} <= found.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=1e-12)


def test_tied_weights_count_once_with_their_cross_term(model, one_mask):
    """The gradient of the shared matrix is the sum of its two uses', whose squared norm has a cross term."""
    model.eval()
    tied = model.get_input_embeddings().weight
    assert tied is model.get_output_embeddings().weight
    cotangents = torch.ones(len(one_mask), 5, dtype=torch.float64).cumsum(1)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter is tied)
        assert parameter is not tied or parameter_group(name) == "embeddings"
    found = measured(model, one_mask, cotangents, 1 << 27)

    untied = nn.Parameter(tied.detach().clone())
    model.get_output_embeddings().weight = untied
    logits = OBJECTIVE.logits(model, one_mask)
    for sentence in range(len(one_mask)):
        uses = torch.autograd.grad((logits * cotangents)[sentence].sum(), [tied, untied], retain_graph=True)
        apart = sum(float(use.square().sum()) for use in uses)
        together = float((uses[0] + uses[1]).square().sum())
        assert float(found["embeddings"][sentence]) == pytest.approx(together, rel=1e-9)
        assert abs(together - apart) > 1e-3 * together


def test_frozen_parameters_are_left_out(model, one_mask):
    model.eval()
    cotangents = torch.ones(len(one_mask), 5, dtype=torch.float64).cumsum(1)
    whole = measured(model, one_mask, cotangents, 1 << 27)
    model.get_input_embeddings().weight.requires_grad_(False)
    part = measured(model, one_mask, cotangents, 1 << 27)
    assert (part["embeddings"] < whole["embeddings"]).all()
    torch.testing.assert_close(part["layer 1 MLP"], whole["layer 1 MLP"])
    model.requires_grad_(False)
    with pytest.raises(BadInput, match="no parameter that requires a gradient"):
        per_sentence_squared_norms(model, OBJECTIVE, one_mask, cotangents)


def test_fused_and_plain_attention_agree(model, one_mask):
    model.eval()
    cotangents = torch.ones(len(one_mask), 5, dtype=torch.float64).cumsum(1)
    assert model.config._attn_implementation == "sdpa"
    fused = measured(model, one_mask, cotangents, 1 << 27)
    model.set_attn_implementation("eager")
    plain = measured(model, one_mask, cotangents, 1 << 27)
    for name in fused:
        torch.testing.assert_close(fused[name], plain[name], rtol=1e-9, atol=1e-12)


class WordByWord(nn.Module):
    """Each token is read from itself alone, through a scale that is a single number."""

    def __init__(self):
        super().__init__()
        self.input = nn.Embedding(5, 4)
        self.output = nn.Linear(4, 5)
        self.scale = nn.Parameter(torch.tensor(1.5))


class WordByWordObjective:
    def logits(self, model, batch):
        return model.scale * model.output(model.input(batch.input_ids))[batch.rows, batch.positions]


def test_a_model_that_is_no_transformer(one_mask):
    torch.manual_seed(0)
    model = WordByWord().double()
    cotangents = torch.ones(len(one_mask), 5, dtype=torch.float64).cumsum(1)
    backward, hidden = 1.5 * cotangents[0], model.input.weight[MASK]
    expected = {
        "scale": (cotangents[0] @ model.output(hidden)).square(),
        "output": backward.square().sum() * (1 + hidden.square().sum()),
        "input": (backward @ model.output.weight).square().sum(),
    }
    for sentences, piece in equal_pieces(model, one_mask):
        norms = per_sentence_squared_norms(model, WordByWordObjective(), piece, cotangents[sentences])
        assert norms.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(norms[name], value.detach().expand(len(piece)))
