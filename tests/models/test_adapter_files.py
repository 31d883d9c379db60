"""What an adapter's file of weights has to hold, and the model that it is merged into."""

import json
from pathlib import Path

import pytest
import torch
from adapters_on_disk import saved
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from isoloss.errors import BadInput
from isoloss.models.adapters import merge_adapter
from isoloss.models.loading import load_any_language_model
from isoloss.models.transformers import PostLayerNormTransformer, Shape


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    model = PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(8, 8, 0)
    model.save_pretrained(folder / "base")
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["value"], init_lora_weights=False))
    return saved(adapted, folder)


def test_a_weight_that_is_not_stored_is_named(adapter: Path, tmp_path: Path) -> None:
    weights = load_file(adapter / "adapter_model.safetensors")
    (left_out,) = [name for name in weights if "lora_B" in name]
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / name).write_bytes((adapter / name).read_bytes())
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    base = {"base_model_name_or_path": str(adapter.parent / "base")}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings | base))
    load_any_language_model(str(tmp_path))
    save_file({n: w for n, w in weights.items() if n != left_out}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(
        BadInput, match=r"lacks bert\.encoder.*value\.lora_B.*; fetch or copy its folder again"
    ):
        load_any_language_model(str(tmp_path))


def test_of_a_merged_model_all_weights_are_its_own(adapter: Path) -> None:
    base, _ = load_any_language_model(str(adapter.parent / "base"))
    merged, _ = load_any_language_model(str(adapter))
    ids = torch.tensor([[1, 5, 2, 7]])
    before = merged(input_ids=ids).logits
    merge_adapter(merged)
    assert torch.allclose(merged(input_ids=ids).logits, before, atol=1e-6)
    assert not torch.allclose(base(input_ids=ids).logits, before, atol=1e-5)
    shapes = {name: each.shape for name, each in base.named_parameters()}
    assert {name: each.shape for name, each in merged.named_parameters() if each.requires_grad} == shapes
