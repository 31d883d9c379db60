import pytest
import torch
from dense_norms import checked_norms
from torch import nn
from transformers import (
    GptOssConfig,
    GptOssForCausalLM,
    JetMoeConfig,
    JetMoeForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
)
from unusual_models import Whole, batch_of

from isoloss.curvature.per_sentence.factors import Lookups, OuterProducts, Sums, squared_norms
from isoloss.objectives.pretrained import PretrainedCausal, next_token_batch
from thorough_cases import others_thorough


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def dense(factors, n, shape):
    """The sentences' gradients themselves."""
    gradients = torch.zeros(n, *shape, dtype=torch.float64)
    for factor in factors:
        for i in range(n):
            if isinstance(factor, Sums):
                gradients[i] += factor.values[i]
            elif isinstance(factor, OuterProducts):
                gradients[i] += torch.einsum("sa,sb->ab", factor.left[i], factor.right[i])
            else:
                for s, word in enumerate(factor.ids[i].tolist()):
                    gradients[i, word] += factor.right[i, s]
    return gradients.flatten(1).square().sum(1)


def products(places, rows, columns):
    return OuterProducts(drawn(3, places, rows), drawn(3, places, columns))


def lookups(places, rows, columns):
    ids = torch.randint(rows, (3, places), generator=torch.Generator().manual_seed(places))
    return Lookups(ids, drawn(3, places, columns))


ROWS, COLUMNS = 6, 5
CASES = {
    "by a matrix of products": [products(4, ROWS, COLUMNS)],
    "by the products": [products(2, ROWS, COLUMNS)],
    "of two layers": [products(1, ROWS, COLUMNS), products(1, ROWS, COLUMNS)],
    "of two layers, by the products": [products(2, ROWS, COLUMNS), products(3, ROWS, COLUMNS)],
    "lookups": [lookups(7, ROWS, COLUMNS)],
    "two lookups": [lookups(7, ROWS, COLUMNS), lookups(3, ROWS, COLUMNS)],
    "tied": [products(2, ROWS, COLUMNS), lookups(7, ROWS, COLUMNS)],
    "tied, by the products": [lookups(7, ROWS, COLUMNS), products(5, ROWS, COLUMNS)],
    "tied, several": [
        lookups(3, ROWS, COLUMNS),
        lookups(1, ROWS, COLUMNS),
        products(1, ROWS, COLUMNS),
        products(1, ROWS, COLUMNS),
    ],
}


@pytest.mark.parametrize("memory_bytes", [1, 600, 1 << 20])
@pytest.mark.parametrize("case", CASES)
def test_norms_of_matrices(case, memory_bytes):
    factors = CASES[case]
    found = squared_norms(factors, (ROWS, COLUMNS), memory_bytes)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, dense(factors, 3, (ROWS, COLUMNS)), rtol=1e-12, atol=0)


def test_norms_of_vectors():
    factors = [Sums(drawn(3, 4)), Sums(drawn(3, 4) ** 2)]
    torch.testing.assert_close(squared_norms(factors, (4,), 1), dense(factors, 3, (4,)), rtol=1e-12, atol=0)


def test_half_precision_is_multiplied_in_single():
    """Three hundred ones are more than half precision can count."""
    ones = torch.ones(1, 300, 20, dtype=torch.bfloat16)
    assert squared_norms([OuterProducts(ones, ones)], (20, 20), 1 << 20).tolist() == [300.0**2 * 400]
    words = Lookups(torch.zeros(1, 300, dtype=torch.int64), ones)
    assert squared_norms([words], (20, 20), 1 << 20).tolist() == [300.0**2 * 20]


@pytest.mark.parametrize("memory_bytes", [1, 1 << 20])
@pytest.mark.parametrize("places", [1, 5])
def test_a_known_mean_takes_the_place_of_the_products_own_norm(places, memory_bytes):
    """Whether computed by products or by matrix; with words looked up, these and the cross term remain."""
    own, words = products(places, ROWS, COLUMNS), lookups(7, ROWS, COLUMNS)
    mean = torch.tensor([1.0, 2.0, 30.0], dtype=torch.float64)
    known = OuterProducts(own.left, own.right, mean)
    shape = (ROWS, COLUMNS)
    assert torch.equal(squared_norms([known], shape, memory_bytes), mean)
    found = squared_norms([words, known], shape, memory_bytes)
    expected = dense([own, words], 3, shape) - dense([own], 3, shape) + mean
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(squared_norms([Sums(drawn(3, 4), mean)], (4,), memory_bytes), mean)


SHARED = {
    **{"vocab_size": 11, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "num_local_experts": 3},
}
SENTENCES = [[3, 4, 5, 6, 7], [8, 9], [10, 3, 3, 5], [4, 4, 4, 4, 4]]


def mixtral(at_once):
    return MixtralForCausalLM(MixtralConfig(**SHARED, num_experts_per_tok=at_once))


def gpt_oss(at_once):
    return GptOssForCausalLM(GptOssConfig(**SHARED, num_experts_per_tok=at_once))


def qwen2_moe(at_once):
    sizes = {"moe_intermediate_size": 6, "shared_expert_intermediate_size": 5, "num_experts": 3}
    return Qwen2MoeForCausalLM(Qwen2MoeConfig(**SHARED, **sizes, num_experts_per_tok=at_once))


# With 3 at once, every expert reads all words, not in their order.
@pytest.mark.parametrize(
    ("build", "at_once"),
    others_thorough(
        [
            *((mixtral, 1), (gpt_oss, 2), (qwen2_moe, 3), (mixtral, 3), (gpt_oss, 3)),
            *((mixtral, 2), (gpt_oss, 1), (qwen2_moe, 1), (qwen2_moe, 2)),
        ],
        quick=5,
    ),
)
def test_experts_are_measured_by_the_factors_of_their_products(build, at_once):
    torch.manual_seed(1)
    model = build(at_once)
    model.set_experts_implementation("eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    batch = next_token_batch(SENTENCES, pad=0)
    found = checked_norms(model.double(), PretrainedCausal(), batch, SHARED["vocab_size"])
    experts = {way for name, way in found.ways.items() if ".experts." in name}
    assert experts <= {"linear", "bias"}


@pytest.mark.parametrize("sentences", [4, 1])
def test_an_expert_that_no_word_is_sent_to_has_no_gradient(sentences):
    """JetMoE multiplies also where there is nothing to multiply."""
    sizes = {"num_local_experts": 14, "kv_channels": 4}
    torch.manual_seed(1)
    model = JetMoeForCausalLM(JetMoeConfig(**SHARED | sizes, num_experts_per_tok=1)).double()
    checked_norms(model, PretrainedCausal(), next_token_batch(SENTENCES[:sentences], pad=0), 11)


class Shuffled(nn.Module):
    """Words in another order or only some of them, through torch layers, split in two."""

    def __init__(self, picked):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.output = nn.Embedding(5, 4), nn.Linear(4, 5)
        self.first, self.second, self.norm = nn.Linear(4, 6), nn.Linear(3, 4), nn.LayerNorm(4)
        self.picked = picked

    def forward(self, ids):
        words = self.words(ids).tanh().flatten(0, 1)
        gate, up = self.first(words[self.picked(len(words))]).chunk(2, dim=-1)
        inner = self.norm(self.second(gate.sigmoid() * up))
        changed = torch.zeros_like(words).index_add(0, self.numbers(len(words)), inner)
        return self.output((words + changed).view(*ids.shape, -1))

    def numbers(self, words):
        picked = self.picked(words)
        return picked.nonzero().flatten() if picked.dtype == torch.bool else picked


def backwards(words):
    return torch.arange(words).flip(0)


def every_third(words):
    return torch.arange(words) % 3 == 0


@pytest.mark.parametrize("picked", [backwards, every_third])
def test_words_are_told_by_where_they_were_picked(picked):
    found = checked_norms(Shuffled(picked).double(), Whole(), batch_of(3, 4, 2), tokens=5)
    assert "per-sentence gradients" not in found.ways.values()


class Stacked(nn.Module):
    """A parameter that is read both as a whole and in part."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.output = nn.Embedding(5, 4), nn.Linear(4, 5)
        self.stack = nn.Parameter(torch.randn(2, 4))

    def forward(self, ids):
        hidden = self.words(ids).tanh()
        return self.output(hidden + self.stack[-1] + hidden @ self.stack.T @ self.stack)


def test_a_stack_that_is_also_read_whole_takes_a_gradient_a_sentence():
    found = checked_norms(Stacked().double(), Whole(), batch_of(3, 4, 2), tokens=5)
    assert found.ways["stack"] == "per-sentence gradients"
