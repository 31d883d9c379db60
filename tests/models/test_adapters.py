"""Adapters of peft: their weights alone are measured, through their base model, against the dense trace."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from adapters_on_disk import is_trained, moved, saved
from peft import AdaLoraConfig, LoraConfig, VeraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch.func import functional_call

from isoloss.curvature.per_sentence.traces import sentence_fisher_traces
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import head_of, load_predicting
from isoloss.measurements.task_heads import TextClasses
from isoloss.models.adapters import merge_adapter
from isoloss.models.loading import load_any_language_model, what_is_predicted
from isoloss.models.tokenizer import load_tokenizer, word_tokenizer
from isoloss.models.transformers import GPT2Transformer, PostLayerNormTransformer, Shape
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, masked_batch, next_token_batch

KINDS = {
    "gpt2": (GPT2Transformer, ["c_attn", "c_fc"], True),
    "bert": (PostLayerNormTransformer, ["query", "value", "dense"], False),
}
DRAWS = 400
SENTENCES = [[3, 4, 5, 6], [7, 8]] * DRAWS
"""Two, so many times: each has signs of its own."""
BATCHES = {
    "gpt2": (PretrainedCausal(), next_token_batch(SENTENCES, pad=0)),
    "bert": (PretrainedMasked(), masked_batch(SENTENCES, [[0, 2], [1]] * DRAWS, mask=2, pad=0)),
}


def adapted_base(architecture, settings, folder):
    """A tiny model with an adapter; the model alone is saved in `folder`/base."""
    model = architecture(Shape(8, 2, 1, 8)).build(8, 8, 0)
    model.save_pretrained(folder / "base")
    return get_peft_model(model, settings)


@pytest.fixture(scope="module", params=KINDS)
def adapter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an adapter, whose base model and tokenizer lie beside it."""
    folder = tmp_path_factory.mktemp(request.param)
    architecture, modules, transposed = KINDS[request.param]
    settings = LoraConfig(r=2, target_modules=modules, fan_in_fan_out=transposed)
    adapted = adapted_base(architecture, settings, folder)
    word_tokenizer(list("abcdefgh"), 8).save_pretrained(folder / "base")
    generator = torch.Generator().manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:  # peft draws the others without a seed
            torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return saved(adapted, folder)


def dense_trace(model, objective, batch, sentence):
    """tr Σ_j Jⱼᵀ (diag p - p pᵀ) Jⱼ / M, with the Jacobian of all scores by the adapter's weights."""
    weights = {name: each for name, each in model.named_parameters() if each.requires_grad}
    part = batch.part(sentence, sentence + 1)

    class Held(torch.nn.Module):
        config = model.config

        def forward(self, **inputs):
            return functional_call(model, self.weights, (), inputs)

    held = Held()

    def scores(*values):
        held.weights = dict(zip(weights, values, strict=True))
        every = held(input_ids=part.input_ids, attention_mask=part.attention_mask).logits
        return every[part.rows, part.positions]

    jacobians = torch.autograd.functional.jacobian(scores, tuple(weights.values()))
    p = scores(*weights.values()).softmax(dim=1)
    fisher = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    total = torch.zeros(())
    for jacobian in jacobians:
        flat = jacobian.flatten(2)
        total = total + torch.einsum("mvd,mvw,mwd->", flat, fisher, flat).detach()
    return float(total) / len(p)


def assert_the_trace_is_the_dense_one(model, **settings):
    objective, batch = PretrainedCausal(), next_token_batch([[3, 4, 5, 6]] * DRAWS, pad=0)
    values = sum(sentence_fisher_traces(model, objective, batch, seed=0, **settings).groups.values())
    exact = dense_trace(model, objective, batch, 0)
    assert abs(float(values.mean()) - exact) < 4 * float(values.std()) / len(values) ** 0.5 < 0.5 * exact


def test_the_trace_of_an_adapter_is_that_of_the_dense_fisher(adapter):
    model, prediction = load_any_language_model(str(adapter), dtype=torch.float64)
    objective, batch = BATCHES["gpt2" if prediction == "causal" else "bert"]
    named = [name for name, each in model.named_parameters() if each.requires_grad]
    assert named
    assert all("lora_" in name for name in named)
    traces = sentence_fisher_traces(model, objective, batch, seed=0, compare=False)
    draws = sum(traces.groups.values()).reshape(DRAWS, 2)
    for sentence in range(2):
        values = draws[:, sentence]
        exact = dense_trace(model, objective, batch, sentence)
        assert abs(float(values.mean()) - exact) < 4 * float(values.std()) / len(values) ** 0.5
        assert float(values.std()) / len(values) ** 0.5 < 0.1 * exact


def test_an_adapter_computes_what_peft_merges(adapter):
    from peft import PeftModel

    ours, _ = load_any_language_model(str(adapter), dtype=torch.float64)
    base, _ = load_any_language_model(str(adapter.parent / "base"), dtype=torch.float64)
    merged = PeftModel.from_pretrained(base, str(adapter)).merge_and_unload()
    ids = torch.tensor([[3, 4, 5, 6]])
    assert torch.allclose(ours(input_ids=ids).logits, merged(input_ids=ids).logits, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_dora": True, "target_modules": ["query", "dense"]},
        {"use_rslora": True, "target_modules": ["word_embeddings", "query"]},
    ],
    ids=["magnitudes", "embeddings"],
)
def test_magnitudes_are_read_and_embeddings_stored_beside_what_was_trained_are_frozen(settings, tmp_path):
    adapted, trained = moved(adapted_base(PostLayerNormTransformer, LoraConfig(r=2, **settings), tmp_path))
    loaded, _ = load_any_language_model(str(saved(adapted, tmp_path)))
    ids = torch.tensor([[3, 4, 5, 6]])
    torch.testing.assert_close(loaded(input_ids=ids).logits, adapted.eval()(input_ids=ids).logits)
    named = {name: each for name, each in loaded.named_parameters() if each.requires_grad}
    assert all("lora_" in name for name in named)
    assert sum(each.numel() for each in named.values()) == sum(each.numel() for each in trained)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"trainable_token_indices": [3, 6]}, marks=pytest.mark.thorough),
        {"modules_to_save": ["wte"], "ensure_weight_tying": True},
        {"bias": "lora_only"},
    ],
    ids=["tokens", "whole embeddings", "biases"],
)
def test_what_is_trained_beside_the_matrices_is_measured_and_stays_shared(settings, tmp_path):
    asked = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, **settings)
    adapted, trained = moved(adapted_base(GPT2Transformer, asked, tmp_path))
    loaded, _ = load_any_language_model(str(saved(adapted, tmp_path)), dtype=torch.float64)
    ids = torch.tensor([[3, 4, 5, 6]])
    own = adapted.double().eval()(input_ids=ids).logits
    torch.testing.assert_close(loaded(input_ids=ids).logits, own)
    ours = list(filter(is_trained, loaded.parameters()))
    assert [tuple(each.shape) for each in ours] == [tuple(each.shape) for each in trained]
    assert_the_trace_is_the_dense_one(loaded)
    assert all(each is now for each, now in zip(ours, filter(is_trained, loaded.parameters()), strict=True))


@pytest.mark.parametrize("stored", [True, False], ids=["matrices-stored", "matrices-drawn-anew"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_trace_of_vera_is_over_what_scales_its_fixed_matrices(stored, dtype, tmp_path):
    settings = VeraConfig(r=3, target_modules=["c_attn"], fan_in_fan_out=True, save_projection=stored)
    adapted, _ = moved(adapted_base(GPT2Transformer, settings, tmp_path))
    loaded, _ = load_any_language_model(str(saved(adapted, tmp_path)), dtype=dtype)
    ids = torch.tensor([[3, 4, 5, 6]])
    own = adapted.to(dtype).eval()(input_ids=ids).logits
    torch.testing.assert_close(loaded(input_ids=ids).logits, own)
    assert_the_trace_is_the_dense_one(loaded, compare=False)
    named = {name for name, each in loaded.named_parameters() if each.requires_grad}
    assert {name.split(".")[-2] for name in named} == {"vera_lambda_b", "vera_lambda_d"}


def test_an_adapter_has_the_prediction_and_the_tokenizer_of_its_base(adapter):
    assert what_is_predicted(str(adapter)) == what_is_predicted(str(adapter.parent / "base"))
    assert len(load_tokenizer(str(adapter))) == 11


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("null", "names no base model"),
        ("[" * 100_000, "names no base model"),
        ('{"base_model_name_or_path": null}', "names no base model"),
        ('{"base_model_name_or_path": "../adapter"}', "itself an adapter"),
        ('{"base_model_name_or_path": "../nowhere"}', "there is no folder ../nowhere"),
        ('{"base_model_name_or_path": "../base", "peft_type": "NONE"}', "no adapter can be read"),
        ('{"base_model_name_or_path": "../base", "peft_type": "PREFIX_TUNING"}', "tokens of its own before"),
        ('{"base_model_name_or_path": "../base", "peft_type": "SHIRA"}', "of SHiRA, whose sparse weights"),
        ('{"base_model_name_or_path": "../base", "peft_type": "VBLORA"}', "of VB-LoRA, whose layers share"),
        ('["../base"]', "names no base model"),
    ],
)
def test_what_is_no_adapter_is_refused(adapter, tmp_path, content, says):
    shutil.copytree(adapter.parent, tmp_path / "all")
    (tmp_path / "all" / "adapter" / "adapter_config.json").write_text(content)
    with pytest.raises(BadInput, match=says):
        load_any_language_model(str(tmp_path / "all" / "adapter"))


def copied(adapter, tmp_path, **settings):
    """The same folders, of which the adapter's has these settings."""
    folder = Path(shutil.copytree(adapter.parent, tmp_path / "all")) / adapter.name
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return folder


def test_an_adapter_is_for_the_task_that_it_names(adapter, tmp_path):
    assert head_of(str(adapter)) is None
    classes = str(copied(adapter, tmp_path, task_type="SEQ_CLS"))
    assert head_of(classes) == TextClasses()
    with pytest.raises(
        BadInput, match=r"neither the adapter .* nor its base model .* has .*, which its head"
    ):
        load_predicting(classes, TextClasses())


def test_an_adapter_that_answers_questions_is_refused(adapter, tmp_path):
    with pytest.raises(BadInput, match=r"answers questions \(QUESTION_ANS\), whose head is not measured"):
        head_of(str(copied(adapter, tmp_path, task_type="QUESTION_ANS")))


@pytest.mark.parametrize("wrong", [{"r": 10**7}, {"rank_pattern": {"query": 10**7}}])
def test_a_rank_that_no_weight_has_is_refused_before_anything_of_it_is_made(wrong, adapter, tmp_path):
    with pytest.raises(BadInput, match=r"a rank of 10,000,000, which none of the adapter's weights has"):
        load_any_language_model(str(copied(adapter, tmp_path, **wrong)))


def test_an_adapter_without_its_weights_is_refused(adapter, tmp_path):
    folder = copied(adapter, tmp_path)
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(
        BadInput, match=r"adapter holds no adapter_model\.safetensors; fetch or copy that file"
    ):
        load_any_language_model(str(folder))


def test_a_weight_that_is_not_stored_is_named(adapter, tmp_path):
    folder = copied(adapter, tmp_path)
    weights = load_file(folder / "adapter_model.safetensors")
    left_out = next(name for name in weights if "lora_B" in name)
    del weights[left_out]
    save_file(weights, folder / "adapter_model.safetensors")
    named = re.escape(left_out.removeprefix("base_model.model.").partition(".lora_B")[0])
    with pytest.raises(BadInput, match=rf"lacks {named}\.lora_B.*; fetch or copy its folder again"):
        load_any_language_model(str(folder))


def test_of_a_merged_model_all_weights_are_its_own(adapter):
    base, _ = load_any_language_model(str(adapter.parent / "base"))
    merged, _ = load_any_language_model(str(adapter))
    ids = torch.tensor([[1, 5, 2, 7]])
    before = merged(input_ids=ids).logits
    merge_adapter(merged)
    assert torch.allclose(merged(input_ids=ids).logits, before, atol=1e-6)
    assert not torch.allclose(base(input_ids=ids).logits, before, atol=1e-5)
    shapes = {name: each.shape for name, each in base.named_parameters()}
    assert {name: each.shape for name, each in merged.named_parameters() if each.requires_grad} == shapes


def test_without_peft_the_extra_is_named(adapter, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(BadInput, match="needs the package peft: pip install 'isoloss"):
        load_any_language_model(str(adapter))


def test_an_adapter_that_does_not_store_its_ranks_is_refused(tmp_path: Path) -> None:
    architecture, modules, transposed = KINDS["gpt2"]
    settings = AdaLoraConfig(target_modules=modules, fan_in_fan_out=transposed, total_step=10)
    folder = saved(adapted_base(architecture, settings, tmp_path), tmp_path)
    with pytest.raises(BadInput, match="of AdaLoRA, which does not store how many ranks are left; merge it"):
        load_any_language_model(str(folder))
