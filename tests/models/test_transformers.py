import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertForMaskedLM

from isoloss.errors import BadInput
from isoloss.models.loading import load_masked_language_model, what_is_predicted
from isoloss.models.lstm import LSTM
from isoloss.models.tokenizer import pad_token_of, refuse_further_tokens, word_tokenizer
from isoloss.models.transformers import (
    LAPTOP,
    TABLE_3,
    TABLE_4,
    Architecture,
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    Shape,
    laptop_shape,
    parameter_count,
)
from isoloss.objectives.tokens import CLS
from llama_transformer import LlamaTransformer
from thorough_cases import others_thorough

SMALL = laptop_shape(16)
BOTH = [PostLayerNormTransformer, PreLayerNormTransformer]
CAUSAL = [GPT2Transformer, LlamaTransformer]


def counted_by_hand(shape: Shape, words: int, positions: int) -> int:
    d, inner, tokens = shape.width, shape.inner_width, words + 3
    embeddings = (tokens + positions + 1) * d + 2 * d
    layer = 4 * (d * d + d) + (d * inner + inner) + (inner * d + d) + 4 * d
    head = d * d + d + 2 * d + tokens
    return embeddings + shape.layers * layer + head


@pytest.mark.parametrize("shape", [LAPTOP[0], TABLE_4[-1], *others_thorough([*TABLE_3, *LAPTOP[1:]])])
def test_parameter_counts(shape: Shape) -> None:
    assert parameter_count(PostLayerNormTransformer(shape), 200, 32) == counted_by_hand(shape, 200, 33)
    # Two more positions for padding, and the norm after the last layer.
    pre = counted_by_hand(shape, 200, 34) + 2 * shape.width
    assert parameter_count(PreLayerNormTransformer(shape), 200, 32) == pre


@pytest.mark.parametrize("architecture", [*(kind(SMALL) for kind in (*BOTH, *CAUSAL)), LSTM(8, 2)])
def test_weights_follow_the_seed_alone_and_the_global_state_is_kept(architecture: Architecture) -> None:
    assert isinstance(architecture, Architecture)
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = architecture.build(12, 8, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    again = architecture.build(12, 8, seed=5)
    other = architecture.build(12, 8, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.get_input_embeddings().weight, other.get_input_embeddings().weight)
    assert first.get_input_embeddings().weight is first.get_output_embeddings().weight
    assert parameter_count(architecture, 12, 8) == sum(p.numel() for p in first.parameters())


@pytest.mark.parametrize("architecture", CAUSAL)
def test_a_causal_model_has_its_shape_and_starts_as_documented(architecture: type) -> None:
    model = architecture(Shape(256, 4, 2, 1024)).build(400, 12, seed=0)
    config = model.config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (256, 2, 4)
    assert (config.vocab_size, config.max_position_embeddings) == (403, 13)
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (CLS, CLS, None)
    assert any(1024 in p.shape for p in model.parameters())
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


def test_weights_start_as_far_apart_as_is_asked() -> None:
    shape = Shape(64, 1, 1, 128)
    for deviation in (0.02, 0.3):
        model = PreLayerNormTransformer(shape, initial_deviation=deviation).build(50, 12, 0)
        dense = model.lm_head.dense.weight.detach()
        assert float(dense.std()) == pytest.approx(deviation, rel=0.05)


def test_a_padding_token_that_the_model_has_not_is_none_of_its_own() -> None:
    model = GPT2Transformer(SMALL).build(6, 4, 0)
    for named, used in ((None, 0), (8, 8), (9, 0), (-1, 0)):
        model.config.pad_token_id = named
        assert pad_token_of(model) == used


def test_a_tokenizer_numbers_no_more_than_the_models_tokens() -> None:
    tokenizer = word_tokenizer(["a", "b"], 4)  # 0 to 4
    refuse_further_tokens("mine", tokenizer, 5)
    with pytest.raises(BadInput, match="numbers its tokens up to 4, but the model has only 4, from 0"):
        refuse_further_tokens("mine", tokenizer, 4)


def test_a_model_that_sees_the_next_token_does_not_predict_it(tmp_path: Path) -> None:
    PostLayerNormTransformer(SMALL).build(6, 4, 0).save_pretrained(tmp_path)
    assert what_is_predicted(str(tmp_path)) == "masked"
    with pytest.raises(BadInput, match="reads sentences both ways and would see the next token; measure it"):
        what_is_predicted(str(tmp_path), "causal")


def test_dropout_acts_in_training_only_where_it_is_asked_for() -> None:
    tokens = torch.tensor([[1, 5, 6, 7]])
    for dropout, same in ((0.0, True), (0.3, False)):
        model = GPT2Transformer(SMALL, dropout).build(50, 12, 0).train()
        assert torch.equal(model(input_ids=tokens).logits, model(input_ids=tokens).logits) == same


@pytest.mark.parametrize("architecture", BOTH)
def test_the_initialisation_is_the_documented_one(architecture: type) -> None:
    model = architecture(laptop_shape(64)).build(200, 16, seed=0)
    assert not model.get_input_embeddings().weight[0].any()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and parameter.numel() > 2000:
            assert float(parameter.detach().std()) == pytest.approx(0.02, rel=0.1), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        elif "LayerNorm.weight" in name:
            assert bool((parameter == 1).all()), name


@pytest.mark.parametrize("architecture", BOTH)
def test_the_longest_sentence_fits_and_dropout_and_attention_are_as_set(architecture: type) -> None:
    model = architecture(SMALL, dropout=0.3, attention="eager").build(12, 8, seed=0)
    assert model(input_ids=torch.full((1, 9), 3)).logits.shape == (1, 9, 15)
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, 10), 3))
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.3}
    assert model.config._attn_implementation == "eager"


def test_post_layer_norm_and_pre_layer_norm_differ_where_they_should() -> None:
    """With zero output projections in each block, pre-LN is its last norm alone; post-LN still normalises."""
    ids = torch.tensor([[1, 3, 4, 5]])
    pre = PreLayerNormTransformer(SMALL, dropout=0.0).build(12, 8, seed=0).eval()
    for name, parameter in pre.named_parameters():
        if "output.dense" in name:
            torch.nn.init.zeros_(parameter)
    backbone = pre.base_model
    torch.testing.assert_close(
        backbone(input_ids=ids).last_hidden_state, backbone.LayerNorm(backbone.embeddings(input_ids=ids))
    )
    post = PostLayerNormTransformer(SMALL, dropout=0.0).build(12, 8, seed=0).eval()
    hidden = post.base_model(input_ids=ids).last_hidden_state
    torch.testing.assert_close(hidden.mean(-1), torch.zeros(1, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(hidden.var(-1, correction=0), torch.ones(1, 4), atol=1e-4, rtol=0)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, math.nan])
def test_impossible_dropout_is_refused(dropout: float) -> None:
    for architecture in (*BOTH, GPT2Transformer):
        with pytest.raises(BadInput, match="dropout"):
            architecture(SMALL, dropout=dropout)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("architecture", [*(kind(SMALL) for kind in BOTH), LSTM(8, 2)])
def test_a_saved_model_is_loaded_whole(
    architecture: Architecture, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = architecture.build(12, 8, seed=0).to(dtype).eval()
    model.save_pretrained(tmp_path)
    loaded = load_masked_language_model(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.config._attn_implementation == "sdpa"
    assert not loaded.training
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
    ids = torch.tensor([[1, 3, 4, 2], [1, 5, 0, 0]])
    given = {"input_ids": ids, "attention_mask": ids != 0}
    torch.testing.assert_close(loaded(**given).logits, model(**given).logits)


def test_what_holds_no_masked_language_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no config\.json"):
        load_masked_language_model(tmp_path / "missing")
    (tmp_path / "config.json").write_text("no json")
    with pytest.raises(BadInput, match="is not a JSON object"):
        load_masked_language_model(tmp_path)
    model = PostLayerNormTransformer(SMALL).build(12, 8, seed=0)
    model.bert.save_pretrained(tmp_path / "headless")
    with pytest.raises(BadInput, match="lacks cls"):
        load_masked_language_model(tmp_path / "headless")
    model.save_pretrained(tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(BadInput, match="no masked language model"):
        load_masked_language_model(tmp_path / "cut")


def test_the_tokenizer_gives_the_objectives_tokens_and_survives_a_folder(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(12)]
    tokenizer = word_tokenizer(words, maximum_length=8)
    tokenizer.save_pretrained(tmp_path)
    PostLayerNormTransformer(SMALL).build(12, 8, seed=0).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == len(loaded) == 15
    for each in (tokenizer, loaded):
        batch = each(["w0 [MASK] w11", "w3"], padding=True, return_tensors="pt")
        assert batch["input_ids"].tolist() == [[1, 3, 2, 14], [1, 6, 0, 0]]
        assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
        assert each.model_max_length == 9
        with pytest.raises(Exception, match="UNK"):
            each("w0 unknown")
    assert isinstance(AutoModelForMaskedLM.from_pretrained(tmp_path), BertForMaskedLM)
    assert loaded(["w0 [MASK]"], return_tensors="pt").keys() <= {
        "input_ids",
        "attention_mask",
        "token_type_ids",
    }


@pytest.mark.parametrize("words", [["a", "[MASK]"], ["a", "b", "a"]])
def test_words_that_cannot_be_told_apart_are_refused(words: list[str]) -> None:
    with pytest.raises(BadInput, match=words[-1].strip("[]")):
        word_tokenizer(words, 8)


def test_the_papers_shapes_have_heads_of_64_and_rise() -> None:
    for table in (TABLE_3, TABLE_4):
        assert {shape.head_size for shape in table} == {64}
        assert [shape.width for shape in table] == sorted({shape.width for shape in table})
        assert {shape.inner_width / shape.width for shape in table} == {4}
    # B.3: the largest width is a common multiple of the smaller ones.
    assert all(TABLE_4[-1].width % shape.width == 0 for shape in TABLE_4)


def test_laptop_shapes() -> None:
    for shape in LAPTOP:
        assert (shape.layers, shape.head_size, shape.inner_width) == (2, 16, 4 * shape.width)


@pytest.mark.parametrize("numbers", [(0, 1, 1, 1), (8, 3, 1, 32), (8, 2, -1, 32), (8, 0, 1, 32)])
def test_impossible_shapes_are_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(BadInput, match="Shape"):
        Shape(*numbers)


@pytest.mark.parametrize("width", [0, 8, 40])
def test_a_laptop_shape_has_whole_heads(width: int) -> None:
    with pytest.raises(BadInput, match=f"not {width}"):
        laptop_shape(width)
