"""The time of a whole model, told from the passes of few layers."""

from typing import Any

import pytest
import torch
from transformers import BertConfig, Gemma3TextConfig, GPT2Config, T5Config

from isoloss.measurements import timed_layers as timing
from isoloss.measurements.counted_passes import counted_passes, without_storage

SMALL = {"vocab_size": 60, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
LAYERS = 4
CONFIGURATIONS: dict[str, tuple[Any, Any]] = {
    "bert": (BertConfig(**SMALL, num_hidden_layers=LAYERS), "masked"),
    "gpt2": (GPT2Config(vocab_size=60, n_embd=32, n_head=4, n_layer=LAYERS), "causal"),
    "gemma3": (Gemma3TextConfig(**SMALL, num_hidden_layers=LAYERS, head_dim=8), "causal"),
    "t5": (
        T5Config(
            vocab_size=60,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_heads=4,
            num_layers=LAYERS,
            decoder_start_token_id=0,
        ),
        "target text",
    ),
}


@pytest.mark.parametrize(
    "name", ["bert", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "t5"))]
)
def test_what_every_pass_takes_is_not_multiplied_by_the_layers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, prediction = CONFIGURATIONS[name]
    model, length = without_storage(name, config, prediction, torch.float32, 24)
    whole = counted_passes(name, model, prediction, length, 5, 1 << 40)
    monkeypatch.setattr(
        timing._Pass, "seconds", lambda of_few, _: 7.0 + 0.25 * of_few.model.config.num_hidden_layers
    )
    seconds, why = timing.timed_layers(config, prediction, torch.float32, length, whole, "cpu", 1 << 30)
    assert why == ""
    assert seconds == pytest.approx((7.0 + 0.25 * LAYERS) / 5, rel=0.02)


def test_a_model_of_one_layer_takes_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = BertConfig(**SMALL, num_hidden_layers=1)
    model, length = without_storage("one", config, "masked", torch.float32, 24)
    whole = counted_passes("one", model, "masked", length, 4, 1 << 40)
    monkeypatch.setattr(timing._Pass, "seconds", lambda *_: 2.0)
    assert timing.timed_layers(config, "masked", torch.float32, length, whole, "cpu", 1 << 30) == (0.5, "")


def test_a_list_with_an_entry_for_each_layer_is_shortened_with_them() -> None:
    few = timing.of_layers(CONFIGURATIONS["gemma3"][0], 2)
    assert (few.num_hidden_layers, len(few.layer_types)) == (2, 2)
    few = timing.of_layers(CONFIGURATIONS["t5"][0], 2)
    assert (few.num_layers, few.num_decoder_layers) == (2, 2)
