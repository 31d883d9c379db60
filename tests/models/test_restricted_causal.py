import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from isoloss.errors import BadInput
from isoloss.inference.causal_model import CausalModel
from isoloss.models.causal_language import RestrictedCausalModel
from tiny_causal_models import CHOSEN, MODELS, TOKENS, tiny_causal_model

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


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
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
    mamba = MambaForCausalLM(
        MambaConfig(vocab_size=40, hidden_size=8, num_hidden_layers=1, state_size=4, bos_token_id=1)
    )
    sliding = MistralForCausalLM(
        MistralConfig(
            vocab_size=40,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            sliding_window=4,
        )
    )
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


def test_tokens_that_the_model_does_not_have_are_refused():
    for tokens in ([2, 40], [-1, 2]):
        with pytest.raises(BadInput, match="are not all among the 40"):
            RestrictedCausalModel(tiny_causal_model("gpt2"), torch.tensor(tokens))


def test_memory_counts():
    model = RestrictedCausalModel(tiny_causal_model("llama", torch.float32), WORDS)
    assert model.pass_bytes(3, 4) > model.pass_bytes(3, 3) > model.pass_bytes(2, 3) > 0
    # Keys and values of 2 layers, 16 wide, in single precision; Llama's shared heads need half of it.
    assert model.cache_bytes(5) == 2 * 2 * 16 * 4 * 5
