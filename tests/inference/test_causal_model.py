import pytest
import torch

from isoloss.errors import BadInput
from isoloss.inference.causal_model import (
    TokenRestriction,
    draw_sentences,
    expected_frequencies,
    written_words,
)
from isoloss.models.causal_language import RestrictedCausalModel
from thorough_cases import others_thorough
from tiny_causal_models import BOS, CHOSEN, MODELS, joint_log_probabilities, tiny_causal_model


@pytest.mark.parametrize(
    ("tokens", "words", "says"),
    [
        ((), (), "0 tokens cannot be 0 words"),
        ((1, 2), ("a",), "2 tokens cannot be 1 words"),
        ((1, 1), ("a", "b"), "the token 1 stands twice"),
        ((1, 2), ("a", "a"), "the word 'a' stands twice"),
        ((1, 2), ("a", "b c"), "the word 'b c' is empty or contains white space"),
        ((1, 2), ("a", ""), "the word '' is empty or contains white space"),
    ],
)
def test_a_restriction_that_makes_no_language_is_refused(tokens, words, says):
    with pytest.raises(BadInput, match=says):
        TokenRestriction(tokens, words, 0, "by hand")


def test_written_words_are_always_fit_to_be_words():
    pieces = ["a", "a", "a#2", " a", "\n", "", "", "\\x20", " "]
    words = written_words(pieces)
    assert words[0] == "a"
    assert TokenRestriction(tuple(range(len(pieces))), words, 0, "by hand").words == words


@pytest.mark.parametrize(
    ("kind", "memory_bytes"),
    [
        pytest.param("gpt2", 1 << 17, marks=pytest.mark.thorough),
        *others_thorough((kind, 1 << 26) for kind in MODELS),
    ],
)
def test_frequencies_are_the_mean_distribution_over_the_models_own_sentences(kind, memory_bytes):
    model = RestrictedCausalModel(tiny_causal_model(kind), torch.tensor(CHOSEN))
    tokens = torch.tensor(CHOSEN)
    found = expected_frequencies(model, BOS, tokens, 3, seed=5, memory_bytes=memory_bytes)
    uniforms = torch.rand(256, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    ids = draw_sentences(model, BOS, tokens, list(uniforms.T))
    expected = torch.zeros(7, dtype=torch.float64)
    for position in range(3):
        # The distribution of a position is the ratio of joint probabilities of its prefix and each word after
        # it.
        tried = torch.cat(
            [ids[:, None, :position].expand(-1, 7, -1), torch.arange(7).expand(256, 7)[..., None]], dim=2
        )
        joint = joint_log_probabilities(tiny_causal_model(kind), tried.flatten(0, 1)).view(256, 7)
        expected += joint.softmax(1).sum(0)
    torch.testing.assert_close(found, expected / (3 * 256), rtol=0, atol=1e-10)


def test_progress_reaches_its_total():
    told = []
    model = RestrictedCausalModel(tiny_causal_model("gpt2"), torch.tensor(CHOSEN))
    expected_frequencies(
        model, BOS, torch.tensor(CHOSEN), 2, seed=0, memory_bytes=1 << 20, progress=lambda *r: told.append(r)
    )
    assert told[-1][:3] == ("ranking tokens", 256, 256)
