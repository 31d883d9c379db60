"""What a configuration foretells, beside what is counted when the same model is measured."""

import gc
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    FalconConfig,
    FalconForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    ModernBertConfig,
    MPNetConfig,
    MPNetForMaskedLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from isoloss.curvature.per_sentence.traces import sentence_fisher_traces
from isoloss.errors import BadInput
from isoloss.measurements import foreseen_cost as timing
from isoloss.measurements.counted_passes import (
    Configured,
    Counted,
    LiveMemory,
    count_passes,
    counted_passes,
    give_indices_values,
    without_storage,
)
from isoloss.measurements.foreseen_cost import _give_freed_memory_back, foreseen_cost, of_layers
from isoloss.measurements.inspected_model import random_batch
from isoloss.measurements.prediction import MaskedTokens, NextToken
from isoloss.measurements.task_heads import TargetText, TextClasses, TextLabels, TokenClasses
from isoloss.objectives.evaluation import bytes_kept_for_backward, refuse_without_gradient, sentences_at_once
from thorough_cases import others_thorough

FORESEEN = "isoloss.measurements.foreseen_cost"
SIZE = {"vocab_size": 600, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
BERT = BertConfig(**SIZE, intermediate_size=96, pad_token_id=0, num_labels=3)
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True}
DEBERTA = DebertaV2Config(**SIZE | {"num_hidden_layers": 1} | RELATIVE, intermediate_size=96)
T5 = T5Config(
    vocab_size=600, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0
)
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "bert": (BertForMaskedLM, BERT, MaskedTokens()),
    "mpnet": (MPNetForMaskedLM, MPNetConfig(**SIZE, intermediate_size=96), MaskedTokens()),
    "deberta": (DebertaV2ForMaskedLM, DEBERTA, MaskedTokens()),
    "gpt2": (GPT2LMHeadModel, GPT2Config(vocab_size=600, n_embd=48, n_layer=2, n_head=4), NextToken()),
    "falcon": (FalconForCausalLM, FalconConfig(**SIZE), NextToken()),
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZE, intermediate_size=96), NextToken()),
    "classes": (BertForSequenceClassification, BERT, TextClasses()),
    "labels": (BertForSequenceClassification, BERT, TextLabels()),
    "tokens": (BertForTokenClassification, BERT, TokenClasses()),
    "t5": (T5ForConditionalGeneration, T5, TargetText()),
}
QUICK = ("gpt2", "bert", "deberta")


def counted_in_use(model: PreTrainedModel, prediction: Any, length: int, at_once: int) -> tuple[int, int]:
    """The most that is alive in the first pass and in the others, of a model that is measured."""
    objective, batch = prediction, random_batch(model, prediction, (length,) * at_once)
    of_model = [*model.parameters(), *model.buffers()]
    gc.collect()
    with LiveMemory(of_model) as of_gradients:
        refuse_without_gradient(model, objective, batch)
    with LiveMemory(of_model) as of_pass:
        sentence_fisher_traces(model, objective, batch, seed=0, memory_bytes=1 << 40)
    return of_gradients.peak, of_pass.peak


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in sorted(MODELS.keys() - {"tokens", *QUICK})]


@pytest.mark.parametrize("name", [*others_thorough(QUICK), *OTHERS])
@pytest.mark.parametrize(
    ("length", "at_once", "dtype"),
    [
        (40, 3, torch.float32),
        pytest.param(12, 1, torch.float32, marks=pytest.mark.slow),
        pytest.param(9, 9, torch.bfloat16, marks=pytest.mark.slow),
    ],
)
def test_what_is_foreseen_is_what_is_alive_when_it_is_measured(
    name: str, length: int, at_once: int, dtype: torch.dtype
) -> None:
    kind, config, prediction = MODELS[name]
    with torch.random.fork_rng():
        measured = kind._from_config(deepcopy(config), dtype=dtype).eval()
    of_gradients, of_pass = counted_in_use(measured, prediction, length, at_once)
    with FakeTensorMode(allow_non_fake_inputs=True):
        foreseen = kind._from_config(deepcopy(config), dtype=dtype).eval()
    give_indices_values(foreseen)
    objective, batch = prediction, random_batch(foreseen, prediction, (length,) * at_once)
    counted = count_passes(foreseen, objective, batch, 1 << 40)
    assert counted.at_once == at_once
    assert counted.bytes_of_gradients == pytest.approx(of_gradients, rel=0.02)
    assert counted.bytes_of_pass == pytest.approx(of_pass, rel=0.02)
    assert counted.peak_bytes > counted.bytes_of_weights
    assert 0 <= counted.bytes_kept < counted.peak_bytes


@pytest.mark.thorough
def test_the_budget_bounds_the_sentences_of_a_pass_as_it_does_when_they_are_measured() -> None:
    kind, config, prediction = MODELS["bert"]
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = kind(of_layers(config, 1)).eval()
    give_indices_values(model)
    objective, batch = prediction, random_batch(model, prediction, (20,) * 8)
    one = bytes_kept_for_backward(model, objective, batch.part(0, 1))
    assert count_passes(model, objective, batch, 3 * one).at_once == 3
    assert sentences_at_once(model, objective, batch, one // 2) == 1
    assert sentences_at_once(model, objective, batch, 100 * one) == 8


def test_what_was_kept_for_counting_is_freed_without_waiting_for_the_collector() -> None:
    kind, config, prediction = MODELS["bert"]
    model = kind(config).eval()
    objective, batch = prediction, random_batch(model, prediction, (20,) * 1)
    gc.disable()
    try:
        with LiveMemory([*model.parameters(), *model.buffers()]) as memory:
            before = memory.bytes
            bytes_kept_for_backward(model, objective, batch)
            assert memory.bytes - before < 20 * 8 * 10  # positions, which the model holds already
    finally:
        gc.enable()


def test_the_process_is_charged_for_what_stays_and_not_for_the_layers_that_were_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_libraries: list[torch.Tensor] = []

    def timed(*_: object) -> tuple[float, str]:
        of_libraries.append(torch.ones(16_000_000))
        layers = [torch.ones(1000) for _ in range(10_000)]
        return float(layers[-1][0]), ""

    monkeypatch.setattr(f"{FORESEEN}.counted_passes", lambda *_: Counted(1, 1, 1, 9, 5, 0, 1.0))
    monkeypatch.setattr(f"{FORESEEN}.timed_layers", timed)
    monkeypatch.setattr(f"{FORESEEN}._process_bytes", lambda: 7)
    config = of_layers(BERT, 1)
    config.architectures = ["BertForMaskedLM"]
    config.save_pretrained(tmp_path)
    _give_freed_memory_back()  # what earlier tests freed
    cost = foreseen_cost(str(tmp_path), None, None, "cpu", 1 << 40, 16, 1 << 24)
    assert 44e6 < cost.process_bytes - 7 < 84e6
    assert cost.peak_bytes == cost.process_bytes + 9


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["classes", "labels", "tokens", "t5"])
def test_the_configuration_names_the_head_of_a_task(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name != "tokens":  # one is timed
        monkeypatch.setattr(f"{FORESEEN}.timed_layers", lambda *_: (1.0, ""))
    kind, config, prediction = MODELS[name]
    config = of_layers(config, 1)
    config.architectures = [kind.__name__]
    if prediction == TextLabels():
        config.problem_type = "multi_label_classification"
    config.save_pretrained(tmp_path)
    cost = foreseen_cost(str(tmp_path), None, None, "cpu", 1 << 40, 16, 1 << 30)
    assert (cost.architecture, cost.prediction) == (kind.__name__, prediction.name)
    with torch.random.fork_rng():
        assert cost.counted.parameters == sum(each.numel() for each in kind(config).parameters())
    assert cost.seconds_a_sentence is not None, cost.untimed


def test_first_weights_that_are_drawn_by_what_some_numbers_are_are_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    special = {f"{name}_token_id": place for place, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}
    config = ModernBertConfig(**SIZE | {"num_hidden_layers": 1}, intermediate_size=96, **special)
    config.architectures = ["ModernBertForMaskedLM"]
    config.save_pretrained(tmp_path)
    monkeypatch.setattr(timing, "TOKENS_TIMED", 64)
    cost = foreseen_cost(str(tmp_path), None, None, "cpu", 1 << 40, 16, 1 << 30)
    assert cost.counted.operations > 0
    assert cost.seconds_a_sentence is not None, cost.untimed


LAYERS = 3
NUMBER_OF_LAYERS = {"bert": "num_hidden_layers", "gpt2": "n_layer", "t5": "num_layers"}
"""Settings of the models above that give them as many layers."""


def of_more_layers(name: str) -> Any:
    _, config, _ = MODELS[name]
    more = {NUMBER_OF_LAYERS[name]: LAYERS, **({"num_decoder_layers": LAYERS} if name == "t5" else {})}
    return type(config)(**{**config.to_dict(), **more})


@pytest.mark.parametrize("precision", others_thorough([torch.float32, torch.bfloat16]))
def test_of_experts_that_are_computed_one_after_another_nothing_is_foreseen(precision: torch.dtype) -> None:
    """As they are measured: torch's product over all of them takes another memory, and bfloat16 alone."""
    config = MixtralConfig(**SIZE, num_key_value_heads=2, intermediate_size=96, num_local_experts=2)
    asked = Configured("mixtral", config, NextToken(), precision, 8)
    with pytest.raises(BadInput, match="depends on the values of its weights"):
        counted_passes(asked, without_storage(asked), 2, 2**30)


def one_layer(length: int = 8) -> Configured:
    return Configured("one", of_layers(BERT, 1), MaskedTokens(), torch.float32, length)


@pytest.fixture
def _not_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing._Pass, "warm_up", lambda *_: None)


@pytest.mark.parametrize(
    "name", ["gpt2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bert", "t5"))]
)
@pytest.mark.usefixtures("_not_warmed_up")
def test_what_every_pass_takes_is_not_multiplied_by_the_layers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Configured(name, of_more_layers(name), MODELS[name][2], torch.float32, 24)
    whole = counted_passes(asked, without_storage(asked), 5, 1 << 40)
    monkeypatch.setattr(
        timing._Pass, "seconds", lambda of_few, _: 7.0 + 0.25 * of_few.model.config.num_hidden_layers
    )
    parts: list[float] = []
    seconds, why = timing.timed_layers(asked, whole, "cpu", 1 << 30, lambda _, done, *__: parts.append(done))
    assert (why, parts) == ("", [1, 2, 3])
    assert seconds == pytest.approx((7.0 + 0.25 * LAYERS) / 5, rel=0.02)


@pytest.mark.thorough
@pytest.mark.usefixtures("_not_warmed_up")
def test_a_model_of_one_layer_takes_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = one_layer(length=24)
    whole = counted_passes(asked, without_storage(asked), 4, 1 << 40)
    monkeypatch.setattr(timing._Pass, "seconds", lambda *_: 2.0)
    assert timing.timed_layers(asked, whole, "cpu", 1 << 30) == (0.5, "")


def test_a_list_with_an_entry_for_each_layer_is_shortened_with_them() -> None:
    few = timing.of_layers(Gemma3TextConfig(**{**SIZE, "num_hidden_layers": LAYERS}, head_dim=8), 2)
    assert (few.num_hidden_layers, len(few.layer_types)) == (2, 2)
    few = timing.of_layers(of_more_layers("t5"), 2)
    assert (few.num_layers, few.num_decoder_layers) == (2, 2)


def test_it_warms_up_on_one_sentence_on_all_and_on_what_a_batch_leaves_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed: list[int] = []
    monkeypatch.setattr(timing._Pass, "_pass", lambda _, batch, __: passed.append(len(batch)))
    for at_once in (6, 1):
        timing._Pass(one_layer(), at_once, "cpu").warm_up(1 << 30)
    assert passed == [1, 8 % 6, 64 % 6, 6, 1]


@pytest.mark.usefixtures("_not_warmed_up")
def test_long_passes_are_timed_once_and_short_ones_again(monkeypatch: pytest.MonkeyPatch) -> None:
    of_few = timing._Pass(one_layer(), 1, "cpu")
    for taken, least in (([3.0, 4.0], [3.0, 4.0]), ([0.3, 0.4, 0.2, 0.5, 0.6, 0.1], [0.2, 0.1])):
        monkeypatch.setattr(timing._Pass, "seconds", lambda *_, taken=taken: taken.pop(0))
        assert timing._fastest([of_few, of_few], 1 << 30) == least
        assert taken == []


def test_weights_to_time_are_drawn_once_and_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "TILE", 1000)
    model = timing._Pass(one_layer(), 1, "cpu").model
    words = model.get_input_embeddings().weight
    assert words is model.get_output_embeddings().weight
    drawn = words.detach().flatten()
    usual = BERT.initializer_range
    assert drawn[:1000].std() == pytest.approx(usual, rel=0.1)
    assert torch.equal(drawn[1100:2000], drawn[100:1000])  # the padding's first 48 are zeros
    assert model(torch.tensor([[1, 2, 3]])).logits.isfinite().all()
