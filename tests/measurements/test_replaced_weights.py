"""Which models' weights may stand in another's place."""

import json
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.weight_changes import differences
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import load_predicting
from isoloss.measurements.prediction import NextToken
from isoloss.measurements.replaced_weights import replacement_by
from isoloss.models.tokenizer import word_tokenizer


def saved(folder: Path, seed: int = 0, **settings: object) -> Path:
    torch.manual_seed(seed)
    shape = {"vocab_size": 11, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16} | settings
    GPT2LMHeadModel(GPT2Config(**shape)).save_pretrained(folder)
    return folder


def adapter(folder: Path, base: Path, alpha: int, bias: str = "none") -> Path:
    asked = LoraConfig(r=2, lora_alpha=alpha, target_modules=["c_attn"], fan_in_fan_out=True, bias=bias)
    adapted = get_peft_model(GPT2LMHeadModel.from_pretrained(base), asked)
    adapted.save_pretrained(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(
        json.dumps(settings | {"base_model_name_or_path": str(base), "task_type": "CAUSAL_LM"})
    )
    return folder


def loaded(folder: Path) -> PreTrainedModel:
    return load_predicting(str(folder), NextToken(), torch.float64)


def test_adapters_of_another_scaling_or_base_model_are_refused(tmp_path: Path) -> None:
    """Only what adapters add would be replaced, and not what they are added to, nor how much of it."""
    base, other_base = saved(tmp_path / "base"), saved(tmp_path / "other base", seed=1)
    here = adapter(tmp_path / "here", base, alpha=8)
    like = adapter(tmp_path / "like", base, alpha=8)
    found, doubts = replacement_by(str(like), str(here), loaded(here), "causal")
    assert found.source == str(like)
    assert doubts == []
    for other, named in (
        (adapter(tmp_path / "scaled", base, alpha=64), "the scaling of transformer.h.0.attn.c_attn"),
        (adapter(tmp_path / "elsewhere", other_base, alpha=8), "transformer.wte.weight"),
    ):
        with pytest.raises(BadInput, match=f"the adapter {here}: {named} is another one there.* merge both"):
            replacement_by(str(other), str(here), loaded(here), "causal")


@pytest.mark.thorough
def test_what_this_adapter_trains_is_replaced_whichever_the_other_trains(tmp_path: Path) -> None:
    base = saved(tmp_path / "base")
    biased, plain = (adapter(tmp_path / bias, base, 2, bias) for bias in ("all", "none"))
    model = loaded(biased)
    replacement, doubts = replacement_by(str(plain), str(biased), model, "causal")
    assert doubts == []
    assert set(replacement.weights) == set(trainable_parameters(model))
    assert set(differences(model, replacement)) <= set(replacement.weights)


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    here, other = saved(tmp_path / "here"), saved(tmp_path / "other", seed=1)
    damaged = GPT2LMHeadModel.from_pretrained(other)
    with torch.no_grad():
        damaged.transformer.wpe.weight[0, 0] = torch.nan
    damaged.save_pretrained(other)
    with pytest.raises(BadInput, match=f"transformer.wpe.weight of {other} holds numbers that are not"):
        replacement_by(str(other), str(here), loaded(here), "causal")


def test_another_configuration_is_told_and_another_vocabulary_refused(tmp_path: Path) -> None:
    here, other = saved(tmp_path / "here"), saved(tmp_path / "other", n_head=4, attn_pdrop=0.3)
    _, (doubt,) = replacement_by(str(other), str(here), loaded(here), "causal")
    assert doubt.startswith(f"the configurations of {other} and {here} differ in n_head; the weights are")
    for folder, words in ((here, "abcdefgh"), (other, "bacdefgh")):
        word_tokenizer(list(words), 16).save_pretrained(folder)
    with pytest.raises(BadInput, match="different vocabularies"):
        replacement_by(str(other), str(here), loaded(here), "causal")
