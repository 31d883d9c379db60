import pytest
import torch

from isoloss.errors import BadInput
from isoloss.models.shapes import Shape
from isoloss.models.transformers import Architecture, GPT2Transformer, LlamaTransformer, parameter_count
from isoloss.objectives.tokens import CLS

SHAPE = Shape(64, 4, 3, 96)


@pytest.mark.parametrize("architecture", [GPT2Transformer(SHAPE), LlamaTransformer(SHAPE)])
def test_a_model_has_its_shape_and_is_a_function_of_its_seed(architecture):
    assert isinstance(architecture, Architecture)
    state = torch.get_rng_state()
    model, again, other = (architecture.build(50, 12, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    weights = dict(model.named_parameters())
    assert all(torch.equal(weights[name], p) for name, p in again.named_parameters())
    assert any(not torch.equal(weights[name], p) for name, p in other.named_parameters())
    config = model.config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (64, 3, 4)
    assert (config.vocab_size, config.max_position_embeddings) == (53, 13)
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (CLS, CLS, None)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert parameter_count(architecture, 50, 12) == sum(p.numel() for p in model.parameters())
    assert any(96 in p.shape for p in model.parameters())


@pytest.mark.parametrize("architecture", [GPT2Transformer, LlamaTransformer])
def test_weights_start_as_documented(architecture):
    model = architecture(Shape(256, 4, 2, 1024)).build(400, 12, seed=0)
    into_the_stream = 0.01 if architecture is GPT2Transformer else 0.02
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            assert not weight.any(), name
        elif weight.ndim == 1:
            assert (weight == 1).all(), name
        elif "wpe" not in name:
            deviation = into_the_stream if "c_proj" in name else 0.02
            weight = weight.detach()
            rows = weight[3:] if "wte" in name or "embed" in name else weight
            assert float(rows.std()) == pytest.approx(deviation, rel=0.03), name
            assert abs(float(rows.mean())) < 0.001, name


def test_dropout_acts_in_training_only_where_it_is_asked_for():
    tokens = torch.tensor([[1, 5, 6, 7]])
    for dropout, same in ((0.0, True), (0.3, False)):
        model = GPT2Transformer(SHAPE, dropout).build(50, 12, 0).train()
        assert torch.equal(model(input_ids=tokens).logits, model(input_ids=tokens).logits) == same
    with pytest.raises(BadInput, match="dropout must be"):
        GPT2Transformer(SHAPE, dropout=1.0)
