import json
from dataclasses import replace

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from isoloss.errors import BadInput
from isoloss.inference.causal_model import TokenRestriction, expected_frequencies
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
from tiny_causal_models import BOS, MODELS, TOKENS, tiny_causal_model, tiny_checkpoint, tiny_tokenizer


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
