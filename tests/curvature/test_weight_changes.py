"""Changes of weights against their definitions, number by number; bits, against every allocation of them."""

import itertools

import pytest
import torch
from torch import nn
from transformers import FunnelConfig, GptOssConfig, Llama4TextConfig, XLNetConfig
from transformers.models.convbert.modeling_convbert import GroupedLinearLayer
from transformers.models.dbrx.configuration_dbrx import DbrxFFNConfig
from transformers.models.dbrx.modeling_dbrx import DbrxExpertGLU
from transformers.models.funnel.modeling_funnel import FunnelRelMultiheadAttention
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
from transformers.models.llama4.modeling_llama4 import Llama4TextExperts
from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention
from transformers.pytorch_utils import Conv1D

from isoloss.curvature.output_rows import output_rows
from isoloss.curvature.weight_changes import (
    MixedRounding,
    Noise,
    Pruning,
    Replacement,
    Rounding,
    allocate_bits,
    differences,
    mean_squares,
    rounded_to,
)
from isoloss.errors import BadInput
from tiny_language_models import tiny_language_model


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_every_group_of_a_row_is_rounded_by_itself():
    weights = drawn(3, 10)
    found = rounded_to(weights, bits=4, group=4)
    for row in range(3):
        for start in (0, 4, 8):  # the last group has two numbers
            alone = rounded_to(weights[row : row + 1, start : start + 4], bits=4)
            assert torch.equal(found[row, start : start + 4], alone[0])
    assert torch.equal(rounded_to(weights, 4, group=64), rounded_to(weights, 4))
    assert rounded_to(drawn(0, 10), 4).shape == (0, 10)
    experts = drawn(2, 3, 10)
    assert torch.equal(rounded_to(experts, 5, 5)[1], rounded_to(experts[1], 5, 5))


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bits", [8, 12])
def test_the_spacing_of_small_weights_in_low_precision_is_exact(precision, bits):
    """In float16 a spacing of 1e-7 has a digit or none, and in bfloat16 number 127 would be 128."""
    weights = (1e-4 * drawn(20, 50)).to(precision)
    assert torch.equal(rounded_to(weights, bits), rounded_to(weights.float(), bits).to(precision))


def test_shares_that_differ_little_have_names_of_their_own():
    assert Noise(0.07).name == "7 % noise"
    assert Pruning(0.12345).name != Pruning(0.12346).name


def test_a_row_is_what_one_output_is_made_of_however_it_is_stored():
    linear, other = nn.Linear(6, 4), Conv1D(4, 6)
    with torch.no_grad():
        other.weight.copy_(linear.weight.T)
    model = nn.ModuleDict({"linear": linear, "other": other})
    found = differences(model, Rounding(3))
    assert found.keys() == {"linear.weight", "other.weight"}
    assert torch.equal(found["linear.weight"], found["other.weight"].T)
    assert torch.equal(found["linear.weight"], rounded_to(linear.weight.detach(), 3) - linear.weight.detach())


def one_output_of(module, name, inputs, number):
    """The gradient of one output number, laid out in rows."""
    module(*inputs).flatten()[number].backward()
    (laid_out,) = [each for each in output_rows(module) if each.name == name]
    return laid_out.of(getattr(module, name).grad)


def expert_inputs(width):
    states, experts = drawn(1, width).float(), torch.zeros(1, 1, dtype=torch.int64)
    return states, experts, torch.ones(1, 1)


def gpt_oss_experts():
    config = GptOssConfig(hidden_size=6, intermediate_size=5, num_local_experts=2, num_experts_per_tok=1)
    config._experts_implementation = "eager"
    return GptOssExperts(config), "down_proj", expert_inputs(6)


def dbrx_experts():
    experts = DbrxExpertGLU(DbrxFFNConfig(hidden_size=6, ffn_hidden_size=5, moe_num_experts=2))
    first = [each.view(2, 5, 6)[0] for each in (experts.w1, experts.v1, experts.w2)]
    return experts, "w2", (drawn(1, 6).float(), *first)


def llama_4_experts():
    config = Llama4TextConfig(hidden_size=6, intermediate_size=5, num_local_experts=2)
    return Llama4TextExperts(config), "down_proj", (drawn(2, 6).float(),)


OF_OTHER_LAYOUTS = {
    "a convolution": lambda: (nn.Conv1d(6, 4, kernel_size=3), "weight", (drawn(1, 6, 3).float(),)),
    "a convolution of single words": lambda: (
        nn.Conv1d(6, 4, kernel_size=1),
        "weight",
        (drawn(1, 6, 1).float(),),
    ),
    "ConvBERT's groups": lambda: (GroupedLinearLayer(6, 10, 2), "weight", (drawn(1, 1, 6).float(),)),
    "GPT-OSS's experts": gpt_oss_experts,
    "Llama 4's experts": llama_4_experts,
    "DBRX's experts": dbrx_experts,
}


@pytest.mark.parametrize("layout", OF_OTHER_LAYOUTS)
def test_one_output_number_moves_with_one_row_alone(layout):
    module, name, inputs = OF_OTHER_LAYOUTS[layout]()
    for weight in module.parameters():
        nn.init.normal_(weight)
    gradient = one_output_of(module, name, inputs, 1)
    of_rows = gradient.flatten(0, -2).abs().sum(-1)
    assert int((of_rows > 0).sum()) == 1
    assert bool((gradient.flatten(0, -2)[of_rows.argmax()] != 0).all())
    found = differences(module, Rounding(4))[name]
    laid_out = {each.name: each for each in output_rows(module)}[name]
    assert torch.equal(laid_out.of(found), rounded_to(laid_out.rows, 4) - laid_out.rows)
    assert bool((found.abs() > 0).any())


def test_matrices_with_a_dimension_for_heads_have_a_row_for_each_output_too():
    attention = XLNetRelativeAttention(XLNetConfig(d_model=6, n_head=3, d_inner=4))
    for weight in attention.parameters():
        nn.init.normal_(weight)
    rows, words = {each.name: each.rows for each in output_rows(attention)}, drawn(4, 6).float()
    queries = torch.einsum("ih,hnd->ind", words, attention.q)
    torch.testing.assert_close(words @ rows["q"].mT, queries.flatten(1))
    torch.testing.assert_close(
        queries.flatten(1) @ rows["o"].mT, torch.einsum("ind,hnd->ih", queries, attention.o)
    )
    assert {name: tuple(each.shape) for name, each in rows.items() if name in "kvr"} == dict.fromkeys(
        "kvr", (6, 6)
    )
    funnel = FunnelRelMultiheadAttention(FunnelConfig(d_model=6, n_head=2, d_head=2, block_sizes=[1]), 0)
    (kernel,) = (each for each in output_rows(funnel) if each.name == "r_kernel")
    assert torch.equal(kernel.rows, funnel.r_kernel.flatten(1).mT)
    assert torch.equal(kernel.stored(kernel.rows), funnel.r_kernel)


def test_biases_of_experts_and_vectors_stored_as_matrices_are_not_rounded():
    experts, _, _ = gpt_oss_experts()
    assert differences(experts, Rounding(4)).keys() == {"gate_up_proj", "down_proj"}
    vector = nn.Module()
    vector.time_mix_key = nn.Parameter(drawn(1, 1, 5))  # as RWKV has it
    assert not differences(vector, Rounding(4))


def test_pruning_removes_the_smallest():
    model = nn.Linear(7, 5)
    found = differences(model, Pruning(0.4))
    kept = (model.weight + found["weight"]).detach()
    assert int((kept == 0).sum()) == 14
    assert kept[kept != 0].abs().min() >= model.weight[kept == 0].abs().max()
    assert torch.equal(kept[kept != 0], model.weight[kept != 0])
    assert not differences(model, Pruning(0.01))
    of_a_quarter = model.weight + differences(model, Pruning(0.25))["weight"]
    assert int((of_a_quarter == 0).sum()) == 9  # of 8.75


def test_noise_has_the_deviation_that_it_says():
    model = nn.Linear(200, 200)
    found, squares = differences(model, Noise(0.03, seed=1)), mean_squares(model, Noise(0.03))
    assert found.keys() == squares.keys() == {"weight", "bias"}
    assert squares["weight"] == pytest.approx(0.03**2 * float(model.weight.detach().double().square().mean()))
    assert float(found["weight"].square().mean()) == pytest.approx(squares["weight"], rel=0.05)
    again, otherwise = differences(model, Noise(0.03, seed=1)), differences(model, Noise(0.03, seed=2))
    assert torch.equal(found["weight"], again["weight"])
    assert not torch.equal(found["weight"], otherwise["weight"])


def test_after_a_replacement_the_model_is_the_other_one():
    model, other = tiny_language_model("gpt2"), tiny_language_model("gpt2")
    with torch.no_grad():
        other.transformer.h[1].mlp.c_fc.weight *= 1.5
    found = differences(model, Replacement.by(other, "other"))
    assert list(found) == ["transformer.h.1.mlp.c_fc.weight"]
    own, its = model.transformer.h[1].mlp.c_fc.weight, other.transformer.h[1].mlp.c_fc.weight
    torch.testing.assert_close(own + found["transformer.h.1.mlp.c_fc.weight"], its)


def test_mixed_bits_are_each_tensors_own():
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    found = differences(model, MixedRounding({"0.weight": 3}))
    assert list(found) == ["0.weight"]
    assert torch.equal(found["0.weight"], differences(model, Rounding(3))["0.weight"])
    assert mean_squares(model, MixedRounding({"0.weight": 3}))["1.weight"] == 0.0


def every_allocation(costs, sizes, mean_bits):
    """The least sum of costs, by trying all."""
    best = float("inf")
    for chosen in itertools.product(*costs.values()):
        bits = dict(zip(costs, chosen, strict=True))
        if sum(sizes[part] * bits[part] for part in bits) <= mean_bits * sum(sizes.values()):
            best = min(best, sum(costs[part][bits[part]] for part in bits))
    return best


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]
)
def test_no_allocation_is_better(seed):
    generator = torch.Generator().manual_seed(seed)
    names = [f"part {number}" for number in range(6)]
    sizes = {name: int(torch.randint(1, 40, (1,), generator=generator)) for name in names}
    # Not convex in the bits: the lower hull alone would miss some of the best.
    costs = {
        name: {bits: float(torch.rand(1, generator=generator)) * 4.0**-bits for bits in (3, 4, 6, 8)}
        for name in names
    }
    for mean_bits in (3.0, 4.25, 5.5, 8.0):
        found = allocate_bits(costs, sizes, mean_bits)
        assert found.predicted == pytest.approx(every_allocation(costs, sizes, mean_bits), rel=1e-12)
        assert found.predicted == pytest.approx(sum(costs[part][found.bits[part]] for part in names))
        numbers = sum(sizes.values())
        spent = sum(sizes[part] * found.bits[part] for part in names) / numbers
        assert found.mean_bits == pytest.approx(spent)
        assert spent <= mean_bits
        assert list(found.bits) == names


def test_a_mean_below_the_fewest_bits_is_refused():
    with pytest.raises(BadInput, match=r"a mean of 2.5 bits is below the 3 of the fewest"):
        allocate_bits({"a": {3: 1.0, 4: 0.5}}, {"a": 7}, 2.5)


def test_a_mean_that_can_be_met_exactly_is():
    """4.35 times 100 is a little less than 435 in floating point."""
    costs = {name: {4: 1.0, 5: 0.0} for name in ("a", "b")}
    found = allocate_bits(costs, {"a": 65, "b": 35}, 4.35)
    assert (found.bits, found.mean_bits) == ({"a": 4, "b": 5}, 4.35)
