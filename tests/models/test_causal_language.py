import json
from dataclasses import replace

import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from isoloss.errors import BadInput
from isoloss.inference.causal_model import CausalModel, TokenRestriction, expected_frequencies
from isoloss.models.causal_language import (
    ModelSource,
    RestrictedCausalModel,
    causal_language,
    load_causal_language,
    read_causal_language,
    restricted_language,
    write_causal_language,
)
from isoloss.results.tensors import tensors_digest
from thorough_cases import others_thorough
from tiny_causal_models import BOS, CHOSEN, MODELS, TOKENS, tiny_causal_model, tiny_checkpoint, tiny_tokenizer


@pytest.fixture
def folder(tmp_path):
    return tiny_checkpoint("opt", tmp_path / "teacher")


@pytest.mark.parametrize("kind", MODELS)
def test_the_words_are_the_most_frequent_tokens_in_order(kind):
    model = tiny_causal_model(kind)
    language = causal_language(model, tiny_tokenizer(), words=9, length=5, seed=2)
    ordinary = torch.arange(2, TOKENS)
    frequencies = expected_frequencies(RestrictedCausalModel(model, ordinary), BOS, ordinary, 5, 2, 1 << 26)
    expected = sorted(range(2, TOKENS), key=lambda token: -float(frequencies[token - 2]))[:9]
    assert list(language.restriction.tokens) == expected
    assert language.vocabulary == tuple(f"Ġ{token}" for token in expected)
    assert "mean probability over 256 sentences of 5 tokens" in language.restriction.rule
    assert "seed 2" in language.restriction.rule
    again = causal_language(model, tiny_tokenizer(), words=9, length=5, seed=2)
    assert again.digest == language.digest


def test_special_tokens_are_never_words():
    language = causal_language(tiny_causal_model("gpt2"), tiny_tokenizer(), words=TOKENS - 2, length=3)
    assert sorted(language.restriction.tokens) == list(range(2, TOKENS))
    with pytest.raises(BadInput, match="has 38 ordinary tokens"):
        causal_language(tiny_causal_model("gpt2"), tiny_tokenizer(), words=TOKENS - 1)


def test_a_written_language_is_read_back_equal(folder, tmp_path):
    source = ModelSource(str(folder))
    language = load_causal_language(source, words=6, length=4, seed=1)
    path = tmp_path / "language.json"
    write_causal_language(language, source, path)
    again = read_causal_language(path)
    assert (again.digest, again.restriction) == (language.digest, language.restriction)
    sentences = language.sample(3, torch.Generator().manual_seed(0))
    assert torch.equal(again.sample(3, torch.Generator().manual_seed(0)).ids, sentences.ids)
    assert torch.equal(
        again.masked_log_probabilities(sentences), language.masked_log_probabilities(sentences)
    )


def test_a_file_that_is_no_language_is_refused(folder, tmp_path):
    path = tmp_path / "language.json"
    source = ModelSource(str(folder))
    language = load_causal_language(source, words=3, length=2)
    write_causal_language(language, source, path)
    whole = json.loads(path.read_text())
    for changed, says in (
        ({key: value for key, value in whole.items() if key != "tokens"}, "it has no 'tokens'"),
        (whole | {"words": ["a", "a", "b"]}, "the word 'a' stands twice"),
        (whole | {"length": "many"}, "is no causal language"),
        (whole | {"length": 0}, "sentences of 0 words"),
        (whole | {"tokens": [5, 6, 4000]}, "tokens 5 to 4000 are not all among the 40"),
        ([], "is no causal language"),
    ):
        path.write_text(json.dumps(changed))
        with pytest.raises(BadInput, match=says):
            read_causal_language(path)
    path.write_bytes(b"\xff\x00")
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        read_causal_language(path)
    with pytest.raises(BadInput, match="there is no file"):
        read_causal_language(tmp_path / "nowhere.json")


def test_other_weights_than_the_files_are_noticed(folder, tmp_path):
    path, source = tmp_path / "language.json", ModelSource(str(folder))
    language = load_causal_language(source, words=3, length=2)
    write_causal_language(replace(language, weights="0" * 64), source, path)
    with pytest.raises(BadInput, match="has other weights than the language"):
        read_causal_language(path)


def test_the_digest_of_weights_sees_every_number_and_type():
    model = tiny_causal_model("llama")
    before = tensors_digest(model.state_dict())
    assert before == tensors_digest(tiny_causal_model("llama").state_dict())
    assert before != tensors_digest(tiny_causal_model("llama", torch.float32).state_dict())
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1e-9
    assert before != tensors_digest(model.state_dict())


def test_models_that_cannot_be_loaded_are_refused(tmp_path):
    with pytest.raises(BadInput, match="no causal language model can be read from"):
        load_causal_language(ModelSource(str(tmp_path)))
    tiny_causal_model("gpt2").save_pretrained(tmp_path / "alone")
    with pytest.raises(BadInput, match="no tokenizer can be read from"):
        load_causal_language(ModelSource(str(tmp_path / "alone")))


def test_a_bos_token_that_is_not_there_is_refused():
    restriction = TokenRestriction((3, 4), ("a", "b"), TOKENS, "by hand")
    with pytest.raises(BadInput, match="the bos token 40 is none of the model's"):
        restricted_language(tiny_causal_model("gpt2"), restriction)


def test_lengths_that_the_model_has_no_positions_for_are_refused(tmp_path):
    model, restriction = gpt2_of_seven_positions(), TokenRestriction((3, 4), ("a", "b"), BOS, "by hand")
    for length, says in ((8, "at most 7"), (0, "at least 1"), (-1, "at least 1")):
        for language in (
            lambda length=length: causal_language(model, tiny_tokenizer(), words=3, length=length),
            lambda length=length: restricted_language(model, restriction, length),
        ):
            with pytest.raises(BadInput, match=f"sentences of {length} words cannot be drawn; .*{says}"):
                language()


def test_the_last_position_is_used():
    """Seven are the bos token's and those of all words but the last, which is never read."""
    language = causal_language(gpt2_of_seven_positions(), tiny_tokenizer(), words=3, length=7)
    sentences = language.sample(2, torch.Generator().manual_seed(0))
    ones = language.masked_log_probabilities(sentences).exp().sum(2)
    assert torch.allclose(ones, torch.ones(2, 7, dtype=torch.float64), atol=1e-5)
    assert torch.allclose(language.next_log_probabilities(sentences).exp().sum(2)[:, :-1], ones[:, :1])


def gpt2_of_seven_positions():
    size = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": TOKENS, "bos_token_id": BOS}
    return GPT2LMHeadModel(GPT2Config(n_positions=7, **size)).eval()


WORDS = torch.tensor(CHOSEN)
EXACT = {"rtol": 0, "atol": 1e-12}
# In plain attention, `transformers` computes the softmax of OPT and Llama in single precision.
CLOSE = {"sdpa": EXACT, "eager": {"rtol": 1e-5, "atol": 1e-5}}


def some_tokens(rows, width, seed=0):
    return torch.randint(2, TOKENS, (rows, width), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", MODELS)
def test_scores_are_the_whole_models_with_and_without_a_past(kind, attention):
    whole = tiny_causal_model(kind, attention=attention)
    model = RestrictedCausalModel(tiny_causal_model(kind, attention=attention), WORDS)
    assert isinstance(model, CausalModel)
    tokens = some_tokens(3, 7)
    with torch.no_grad():
        expected = whole(input_ids=tokens).logits[..., CHOSEN]
    scores, _ = model(tokens)
    torch.testing.assert_close(scores, expected, **EXACT)
    past = None
    for place in range(7):
        scores, past = model(tokens[:, place : place + 1], past)
        torch.testing.assert_close(scores[:, 0], expected[:, place], **EXACT)


@pytest.mark.parametrize("attention", others_thorough(["sdpa", "eager"]))
@pytest.mark.parametrize("kind", MODELS)
def test_a_shared_prefix_serves_any_rows_and_is_never_changed(kind, attention):
    whole = tiny_causal_model(kind, attention=attention)
    model = RestrictedCausalModel(tiny_causal_model(kind, attention=attention), WORDS)
    prefix = some_tokens(1, 6)
    _, cache = model(prefix)
    for known in (6, 1, 4):
        past = cache.shared_prefix(known)
        for rows, width in ((5, 3), (2, 1), (5, 3)):
            tokens = some_tokens(rows, width, seed=known)
            with torch.no_grad():
                read = torch.cat([prefix[:, :known].expand(rows, -1), tokens], dim=1)
                expected = whole(input_ids=read).logits[:, known:, CHOSEN]
            scores, after = model(tokens, past)
            torch.testing.assert_close(scores, expected, **CLOSE[attention])
            assert after is past
        nested = past.shared_prefix(1)
        with torch.no_grad():
            expected = whole(input_ids=torch.cat([prefix[:, :1], tokens[:1]], dim=1)).logits[:, 1:, CHOSEN]
        torch.testing.assert_close(model(tokens[:1], nested)[0], expected, **CLOSE[attention])


@pytest.mark.parametrize("kind", MODELS)
def test_the_model_it_is_made_of_is_left_as_it_is(kind):
    model = tiny_causal_model(kind)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    restricted = RestrictedCausalModel(model, WORDS)
    restricted(some_tokens(2, 3))
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert model(input_ids=some_tokens(1, 2)).logits.shape[2] == TOKENS


def test_models_without_keys_and_values_of_all_they_read_are_refused():
    size = {"vocab_size": 40, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    mamba = MambaForCausalLM(MambaConfig(**size, state_size=4, bos_token_id=1))
    sliding = MistralForCausalLM(MistralConfig(**size, **heads, sliding_window=4))
    for model in (mamba, sliding):
        with pytest.raises(BadInput, match="does not remember just the keys and values"):
            RestrictedCausalModel(model, WORDS)


def test_other_families_work_too():
    torch.manual_seed(0)
    bloom = (
        BloomForCausalLM(BloomConfig(vocab_size=TOKENS, hidden_size=8, n_layer=1, n_head=2)).double().eval()
    )
    model = RestrictedCausalModel(bloom, WORDS)
    prefix, tokens = some_tokens(1, 3), some_tokens(4, 2)
    with torch.no_grad():
        expected = bloom(input_ids=torch.cat([prefix.expand(4, -1), tokens], 1)).logits[:, 3:, CHOSEN]
    _, cache = model(prefix)
    torch.testing.assert_close(model(tokens, cache.shared_prefix(3))[0], expected, **EXACT)


def test_a_bias_of_the_output_layer_is_restricted_with_it():
    model = tiny_causal_model("gpt2")
    model.lm_head = torch.nn.Linear(16, TOKENS, dtype=torch.float64)
    tokens = some_tokens(2, 3)
    with torch.no_grad():
        expected = model(input_ids=tokens).logits[..., CHOSEN]
    torch.testing.assert_close(RestrictedCausalModel(model, WORDS)(tokens)[0], expected, **EXACT)


class Normalised(GPT2LMHeadModel):
    """Each of its scores depends on those of all tokens."""

    def forward(self, **inputs):
        output = super().forward(**inputs)
        output.logits = output.logits.log_softmax(-1)
        return output


def test_scores_that_depend_on_other_tokens_are_refused():
    model = Normalised(tiny_causal_model("gpt2").config).double().eval()
    with pytest.raises(BadInput, match="the scores of Normalised depend on more than their own tokens"):
        RestrictedCausalModel(model, WORDS)


def test_sentences_begin_as_the_tokenizer_says():
    """If it says nothing, as the model does."""
    model, tokenizer = tiny_causal_model("gpt2"), tiny_tokenizer()
    model.config.bos_token_id = 7
    assert causal_language(model, tokenizer, words=3, length=2).restriction.bos == BOS
    tokenizer.bos_token = None
    assert causal_language(model, tokenizer, words=3, length=2).restriction.bos == 7


def test_tokens_that_the_model_does_not_have_are_refused():
    for tokens in ([2, 40], [-1, 2]):
        with pytest.raises(BadInput, match="are not all among the 40"):
            RestrictedCausalModel(tiny_causal_model("gpt2"), torch.tensor(tokens))


def test_memory_counts():
    model = RestrictedCausalModel(tiny_causal_model("llama", torch.float32), WORDS)
    assert model.pass_bytes(3, 4) > model.pass_bytes(3, 3) > model.pass_bytes(2, 3) > 0
    # Keys and values of 2 layers, 16 wide, in single precision; Llama's shared heads need half of it.
    assert model.cache_bytes(5) == 2 * 2 * 16 * 4 * 5
