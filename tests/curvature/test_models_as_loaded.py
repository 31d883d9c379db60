"""Models as other libraries leave them: checkpointed, dispatched or offloaded, quantised to 8 and 4 bits."""

from functools import partial

import pytest
import torch
from dense_norms import dense_squared_norms, norms_of_cotangents
from transformers import (
    BigBirdConfig,
    BigBirdForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
)

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.predicted_kl import predicted_kl
from isoloss.curvature.weight_changes import Rounding, differences
from isoloss.errors import BadInput
from isoloss.measurements.on_sentences.pretraining_loss import RunningSentenceLosses
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, masked_batch, next_token_batch
from thorough_cases import others_thorough
from tiny_models import far_from_the_start

TOKENS = 11
BATCH = next_token_batch([[3, 4, 5, 6], [5, 6, 7], [8, 9, 3, 4], [4, 5, 6, 7, 8]], 0)
ENDS = {"bos_token_id": 1, "eos_token_id": 2}


def gpt2():
    size = {"n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 32}
    return GPT2LMHeadModel(GPT2Config(vocab_size=TOKENS, **size, **ENDS))


def llama():
    size = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=TOKENS, **size, **ENDS))


def built(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind().eval()


def trace(model):
    return fisher_trace(model, [BATCH], PretrainedCausal(), seed=0).estimate.value


@pytest.mark.parametrize("training", others_thorough([True, False]))
@pytest.mark.parametrize(
    ("kind", "reentrant"),
    others_thorough([(gpt2, False), (llama, True), (gpt2, True), (llama, False)], quick=2),
)
def test_gradient_checkpointing_changes_nothing(kind, training, reentrant):
    model = built(kind).train(training)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    assert trace(model) == trace(built(kind))
    assert model.training is training
    assert model.is_gradient_checkpointing


def phi_of_scaled_positions():
    """Positions are divided by other factors in batches that are wider than 8."""
    scaled = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 8,
        "short_factor": [1.0] * 4,
        "long_factor": [1.5, 3.0, 6.0, 9.0],
        "partial_rotary_factor": 1.0,
    }
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    longest = {"max_position_embeddings": 32, "original_max_position_embeddings": 8}
    return Phi3ForCausalLM(
        Phi3Config(vocab_size=TOKENS, rope_parameters=scaled, pad_token_id=0, **size, **longest, **ENDS)
    )


@pytest.mark.thorough
def test_positions_that_are_scaled_by_the_width_of_a_batch_are_noticed_when_one_is_wide():
    model = far_from_the_start(built(phi_of_scaled_positions)).double()
    narrow = [[3, 4, 5, 6, 7], [8, 9, 3], [4, 5, 6, 7, 8, 9, 10]]
    wide = [[5, 6, 7, 8], [3 + i % 8 for i in range(20)], [9, 8, 7, 6, 5, 4]]
    batches = [next_token_batch(each, 0) for each in (narrow, wide)]
    alone = [next_token_batch([each], 0) for each in narrow + wide]
    found, expected = (fisher_trace(model, each, PretrainedCausal()) for each in (batches, alone))
    torch.testing.assert_close(found.values, expected.values, rtol=1e-6, atol=0)


def big_bird():
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    blocks = {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}
    return BigBirdForMaskedLM(
        BigBirdConfig(vocab_size=TOKENS, max_position_embeddings=64, pad_token_id=0, **size, **blocks, **ENDS)
    )


def test_a_short_batch_does_not_change_the_attention_of_later_ones():
    """BigBird's own forward pass turns to full attention for good at the first sentence of a few blocks."""
    model = far_from_the_start(built(big_bird)).double()
    long = [[3 + (i * j) % 8 for i in range(20)] for j in (1, 3, 5)]
    batches = [masked_batch(each, [[1, 2]] * len(each), 1, 0) for each in ([[5, 6, 7, 8, 9]] * 2, long)]
    of_long = fisher_trace(model, batches[1:], PretrainedMasked()).values
    attention, kept = model.bert.encoder.layer[0].attention, dict(model.named_parameters())
    both = [RunningSentenceLosses(model, PretrainedMasked()) for _ in range(2)]
    for short_first, batch in ((True, batches[0]), (True, batches[1]), (False, batches[1])):
        both[short_first].add(batch)
    assert torch.equal(both[True].result().values[2:], both[False].result().values)
    assert torch.equal(fisher_trace(model, batches[1:], PretrainedMasked()).values, of_long)
    assert (model.bert.attention_type, attention.attention_type) == ("block_sparse", "block_sparse")
    assert not model.bert._forward_pre_hooks
    assert dict(model.named_parameters()).keys() == kept.keys()
    assert all(each is kept[name] for name, each in model.named_parameters())


@pytest.mark.parametrize("kind", others_thorough([gpt2, llama]))
def test_a_model_that_is_dispatched_is_measured_and_one_that_is_offloaded_refused(kind):
    accelerate = pytest.importorskip("accelerate")
    dispatched = accelerate.dispatch_model(built(kind), {"": "cpu"}, main_device="cpu", force_hooks=True)
    assert trace(dispatched) == trace(built(kind))
    offloaded = built(kind)
    accelerate.cpu_offload(offloaded, execution_device=torch.device("cpu"))
    with pytest.raises(BadInput, match="is offloaded to the processor or to disk by accelerate"):
        trace(offloaded)


@pytest.mark.parametrize("adapted", others_thorough([False, True]))
@pytest.mark.parametrize(
    ("kind", "bits"), others_thorough([(gpt2, 4), (llama, 8), (gpt2, 8), (llama, 4)], quick=2)
)
def test_of_a_quantised_model_all_that_has_gradients_is_measured(kind, bits, adapted, tmp_path):
    model = quantised(kind, tmp_path, load_in_4bit=bits == 4, load_in_8bit=bits == 8)
    if adapted:
        peft = pytest.importorskip("peft")
        named = ["c_attn"] if kind is gpt2 else ["q_proj"]
        settings = peft.LoraConfig(r=2, target_modules=named, init_lora_weights=False)
        model = peft.get_peft_model(model, settings)
    measured = {name for name, p in model.named_parameters() if p.requires_grad}
    assert norms_as_of(model.eval(), model, rtol=2e-3, atol=1e-6).ways.keys() == measured
    assert all("lora" in name for name in measured) is adapted


def norms_as_of(model, twin, **tolerance):
    """The model's norms, after comparing them with the twin's dense gradients."""
    objective = PretrainedCausal()
    cotangents = torch.randn(len(BATCH.rows), TOKENS, generator=torch.Generator().manual_seed(4))
    found = norms_of_cotangents(model, objective, BATCH, lambda _: cotangents)
    with evaluation_mode(twin):
        scores = objective.logits(twin, BATCH)
        expected = dense_squared_norms(twin, scores, BATCH.rows, cotangents.to(scores.dtype))
    for group, norms in expected.items():
        torch.testing.assert_close(found.groups[group], norms, **tolerance)
    return found


def assert_one_score(model, twin, tolerance):
    with evaluation_mode(model):
        scores = [PretrainedCausal().logits(each, BATCH).double() for each in (model, twin)]
    torch.testing.assert_close(*scores, rtol=tolerance, atol=tolerance)


def quantised(kind, folder, **settings):
    """The model, stored in the folder and loaded with bitsandbytes' settings."""
    pytest.importorskip("bitsandbytes")
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    built(kind).save_pretrained(folder)
    config = BitsAndBytesConfig(**settings)
    return AutoModelForCausalLM.from_pretrained(folder, quantization_config=config, device_map="cpu")


def adapted(kind, folder, **settings):
    """An adapter on a quantised model, and one of the same form on the model in double precision."""
    peft = pytest.importorskip("peft")
    base = quantised(kind, folder, **settings)
    named = ["c_attn", "c_proj"] if kind is gpt2 else ["q_proj", "down_proj"]
    adapter = peft.LoraConfig(r=2, target_modules=named, init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = peft.get_peft_model(base, adapter).eval()
    return model, peft.get_peft_model(built(kind), adapter).double().eval()


@pytest.mark.parametrize("doubly", others_thorough([True, False]))
@pytest.mark.parametrize("numbers", others_thorough(["nf4", "fp4"]))
@pytest.mark.parametrize("kind", [gpt2, llama])
def test_an_adapter_of_a_4_bit_model_is_measured_as_beside_its_weights_in_double_precision(
    kind, numbers, doubly, tmp_path
):
    model, twin = adapted(
        kind, tmp_path, load_in_4bit=True, bnb_4bit_quant_type=numbers, bnb_4bit_use_double_quant=doubly
    )
    read_back_into(twin, model)
    assert_one_score(model, twin, 1e-5)
    norms_as_of(model, twin, rtol=1e-4, atol=1e-8)
    predicted = [
        predicted_kl(each, PretrainedCausal(), [BATCH], differences(each, Rounding(4))).quadratic
        for each in (model, twin)
    ]
    torch.testing.assert_close(*predicted, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("kind", [gpt2, llama])
def test_an_adapter_of_an_8_bit_model_is_measured_as_beside_its_weights_in_double_precision(kind, tmp_path):
    model, twin = adapted(kind, tmp_path, load_in_8bit=True)
    reads_8_bits_as(twin, model)
    # An input half way between two numbers may be rounded to either: a step is 1 / 127 of the largest.
    assert_one_score(model, twin, 1e-2)
    norms_as_of(model, twin, rtol=3e-2, atol=1e-8)


def reads_8_bits_as(twin, model):
    """Copy the model's weights; where those have 8 bits, inputs are rounded too, and gradients pass."""
    import bitsandbytes

    def forward(x, *, weight, bias):
        half = x.detach().half()
        largest = half.abs().amax(-1, keepdim=True).float()
        rounded = (half * (127 / largest)).round().double() * (largest.double() / 127)
        read = x + (rounded - x).detach()
        return torch.nn.functional.linear(read, weight, bias)

    there = dict(model.named_modules())
    with torch.no_grad():
        for name, part in twin.named_modules():
            if isinstance(there[name], bitsandbytes.nn.Linear8bitLt):
                weight = there[name].weight
                numbers = weight.data.double() * weight.SCB.double()[:, None] / 127
                bias = there[name].bias
                part.forward = partial(forward, weight=numbers, bias=None if bias is None else bias.double())
            else:
                for own, parameter in part.named_parameters(recurse=False):
                    parameter.copy_(getattr(there[name], own))


def read_back_into(twin, model):
    """Copy the model's weights, those of 4 bits as the numbers that they stand for."""
    import bitsandbytes
    from transformers.pytorch_utils import Conv1D

    transposed = {f"{name}.weight" for name, part in twin.named_modules() if isinstance(part, Conv1D)}
    there = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            read = there[name]
            if isinstance(read, bitsandbytes.nn.Params4bit):
                read = bitsandbytes.functional.dequantize_4bit(read.data, read.quant_state)
                read = read.T if name in transposed else read
            weight.copy_(read)
