import warnings

import pytest
import ragged_batches
import torch
from dense_norms import checked_norms, directions, norms_of_cotangents
from model_state import state
from torch import nn
from transformers import FalconConfig, FalconForCausalLM
from unusual_models import (
    TRANSPOSITIONS,
    BiasOfPairs,
    Copied,
    InPlace,
    LookedAtElsewhere,
    LooseParameters,
    ModuleOfTwo,
    Normed,
    OneForAll,
    PositionsFirst,
    PositionsOfAll,
    Recurrent,
    SharedTable,
    ShiftedVectors,
    Transposed,
    TwiceShifted,
    UnknownUse,
    Whole,
    batch_of,
)

from isoloss.errors import BadInput
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.pretrained import PretrainedCausal, next_token_batch
from tiny_models import partly_frozen

OBJECTIVE = MaskedObjective()


@pytest.mark.parametrize("memory_bytes", [1, 1 << 30])
@pytest.mark.parametrize("masks", ["one_mask", "several_masks"])
def test_ragged_sentences_with_any_number_of_masks(model, masks, memory_bytes):
    found = checked_norms(model, OBJECTIVE, getattr(ragged_batches, masks)(), memory_bytes=memory_bytes)
    assert {"embeddings", "head", "layer 2 norms", "layer 1 MLP", "layer 1 attention"} <= found.groups.keys()
    assert set(found.ways.values()) == {"linear", "bias", "layer norm", "embedding", "tied embedding"}


def test_directions_are_asked_for_once_with_the_scores_of_the_predictions(model, several_masks):
    seen = []

    def cotangents(logits):
        seen.append(logits)
        return logits

    norms_of_cotangents(model, OBJECTIVE, several_masks, cotangents)
    assert len(seen) == 1
    assert not seen[0].requires_grad
    torch.testing.assert_close(seen[0], OBJECTIVE.logits(model.eval(), several_masks))


@pytest.mark.parametrize("kept", ["embeddings", "encoder", "lm_head|cls"])
def test_frozen_parameters_are_left_out_and_change_nothing(model, several_masks, kept):
    whole = checked_norms(model, OBJECTIVE, several_masks)
    partly_frozen(model, *kept.split("|"))
    part = checked_norms(model, OBJECTIVE, several_masks)
    assert "per-sentence gradients" not in part.ways.values()
    for group in part.groups.keys() - {"embeddings", "head"}:
        torch.testing.assert_close(part.groups[group], whole.groups[group])
    assert len(part.groups) < len(whole.groups)
    model.requires_grad_(False)
    with pytest.raises(BadInput, match="no parameter that requires a gradient"):
        norms_of_cotangents(model, OBJECTIVE, several_masks, lambda logits: logits)


def test_half_precision_is_multiplied_out_in_single(model, several_masks):
    cotangents = directions(several_masks)
    double = norms_of_cotangents(model, OBJECTIVE, several_masks, lambda _: cotangents)
    half = norms_of_cotangents(model.bfloat16(), OBJECTIVE, several_masks, lambda _: cotangents.bfloat16())
    for group, values in half.groups.items():
        assert values.dtype == torch.float64
        torch.testing.assert_close(values.sum(), double.groups[group].sum(), rtol=0.15, atol=0)


BATCHES = [batch_of(3, 4, 1), batch_of(4, 4, 2), batch_of(2, 3, 3), batch_of(1, 3, 2)]


@pytest.mark.parametrize("batch", BATCHES, ids=["3 x 4", "4 x 4", "2 x 3, all", "1 x 3"])
@pytest.mark.parametrize(
    ("build", "slow"),
    [
        (LookedAtElsewhere, set()),
        (Copied, {"turned.weight", "turned.bias"}),
        (UnknownUse, {"layer.weight"}),
        (ModuleOfTwo, {"first.weight"}),
        (InPlace, set()),
        (ShiftedVectors, set()),
        (TwiceShifted, {"gain"}),
        (OneForAll, {"gain"}),
        (PositionsFirst, set()),
        (lambda: PositionsOfAll(2, 1), set()),
        (lambda: PositionsOfAll(1, 1), set()),
        (lambda: PositionsOfAll(2, 3), {"places.weight"}),
        (BiasOfPairs, {"pairs.weight"}),
        (Recurrent, {"lstm.weight_hh_l0", "lstm.bias_hh_l0"}),
        (Normed, {"norm.weight", "norm.bias"}),
        *((lambda rows=rows: SharedTable(rows), None) for rows in (3, 4, 6, 8, 12, 16)),
    ],
)
def test_models_of_other_kinds(build, slow, batch):
    """`slow` are those that use per-sentence gradients if there are several sentences."""
    model = build()
    found = checked_norms(model, Whole(), batch)
    taken = {name for name, way in found.ways.items() if way == "per-sentence gradients"}
    if slow is not None and len(batch) > 1:
        assert taken == slow


@pytest.mark.parametrize("batch", [batch_of(2, 3, 2), batch_of(3, 3, 1)])
def test_loose_parameters(batch):
    found = checked_norms(LooseParameters(), Whole(), batch)
    assert found.ways == {
        "words.weight": "embedding",
        "output.weight": "linear",
        "output.bias": "bias",
        "gain": "gain",
        "bias": "bias",
        "scale": "per-sentence gradients",
        "table": "per-sentence gradients",
        "matrix": "per-sentence gradients",
    }


def test_a_parameter_that_is_not_used_has_no_gradient():
    model = PositionsFirst()
    model.spare = nn.Linear(4, 4).double()
    found = checked_norms(model, Whole(), batch_of(2, 3, 1))
    assert found.ways["spare.weight"] == "not used"
    assert found.groups["spare"].tolist() == [0.0, 0.0]


def test_the_row_of_the_padding_is_not_learned_by_looking_it_up():
    """A padding id among the words that are read: a tied matrix still trains its row as an output."""
    model = InPlace()
    model.words = nn.Embedding(5, 4, padding_idx=0).double()
    model.output.weight = model.words.weight
    batch = batch_of(4, 3, 2)
    assert (batch.input_ids == 0).any()
    found = checked_norms(model, Whole(), batch)
    assert found.ways["words.weight"] == "tied embedding"


def test_models_without_gradients_are_refused():
    with torch.inference_mode():
        loaded = InPlace()
    with pytest.raises(BadInput, match=r"loaded under torch\.inference_mode"):
        checked_norms(loaded, Whole(), batch_of(4, 3, 2))
    with warnings.catch_warnings(action="ignore"):
        quantized = torch.ao.quantization.quantize_dynamic(InPlace().float(), {nn.Linear})
    with pytest.raises(BadInput, match=r"output is quantized \(Linear\)"):
        checked_norms(quantized, Whole(), batch_of(4, 3, 2))


def test_statistics_of_the_batch_are_refused():
    with pytest.raises(BadInput, match="norm normalises over the batch"):
        norms_of_cotangents(Normed(statistics=False), Whole(), BATCHES[0], lambda logits: logits)


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_found(model, several_masks, fails):
    model.train()
    model.base_model.encoder.eval()
    model.base_model.embeddings.requires_grad_(False)
    OBJECTIVE.logits(model, several_masks).sum().backward()
    found = state(model)

    def cotangents(logits):
        if fails:
            raise ZeroDivisionError
        return logits

    try:
        norms_of_cotangents(model, OBJECTIVE, several_masks, cotangents)
    except ZeroDivisionError:
        assert fails
    torch.testing.assert_close(state(model), found, rtol=0, atol=0)


@pytest.mark.parametrize("way", TRANSPOSITIONS)
def test_a_matrix_that_is_transposed_before_it_is_multiplied_with(way):
    found = checked_norms(Transposed(way), Whole(), batch_of(3, 4, 4))
    assert found.ways["layer.weight"] == "linear"


def test_falcon_is_measured_in_batch():
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 11}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = FalconForCausalLM(FalconConfig(**sizes, bos_token_id=0, eos_token_id=0)).double()
    batch = next_token_batch([[3, 4, 5, 6], [7, 8], [9, 3, 4]], pad=0)
    found = checked_norms(model, PretrainedCausal(), batch, tokens=11)
    assert "per-sentence gradients" not in found.ways.values()
