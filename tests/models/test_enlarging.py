import re
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import BertConfig

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.models.enlarged_checkpoint import enlarge_checkpoint
from isoloss.models.enlarging import (
    Enlargement,
    EnlargingPlan,
    Recipe,
    enlarged,
    enlargement_between,
    exact_form,
    paper_form,
)
from isoloss.models.transformers import TABLE_4, PostLayerNormTransformer, PreLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from thorough_cases import others_thorough
from tiny_models import ARCHITECTURES, far_from_the_start, tiny_model

WORDS, LENGTH = 12, 8


def test_what_the_guide_shows_runs():
    guide = (Path(__file__).parents[2] / "docs" / "enlarging.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    names = {}
    exec(block, names)
    assert farthest(names["large"].double().eval(), names["small"].double().eval()) < 1e-12


def sixteenth(shape: Shape) -> Shape:
    """Heads of 4 instead of 64, the rest of Table 4 in proportion; as many heads and layers as there."""
    return Shape(shape.width // 16, shape.heads, shape.layers, shape.inner_width // 16)


PAIRS = [
    (small, large)
    for small in TABLE_4
    for large in TABLE_4
    if small.width < large.width and large.width % small.width == 0
]


def tiny(architecture):
    return tiny_model(architecture, WORDS, LENGTH).eval()


def with_epsilon(model, epsilon):
    model.config.layer_norm_eps = epsilon
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = epsilon
    return model


def tokens(n=4, length=LENGTH + 1):
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(3, WORDS + 3, (n, length), generator=generator)
    ids[:, 0] = 1
    return ids


@torch.no_grad()
def scores(model):
    return model(input_ids=tokens()).logits


def farthest(model, other):
    return float((scores(model) - scores(other)).abs().max())


def test_the_pairs_of_table_4_are_all_there():
    assert len(PAIRS) == 12
    factors = [enlargement_between(small, large).width for small, large in PAIRS if large == TABLE_4[-1]]
    assert factors == [15, 10, 6, 5, 3, 2]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("small", "large"),
    [
        pytest.param(*pair, marks=[pytest.mark.slow] * (n % 4 > 0) or [pytest.mark.thorough] * (n > 0))
        for n, pair in enumerate(PAIRS)
    ],
    ids=lambda shape: f"{shape.width}x{shape.layers}",
)
def test_every_pair_of_table_4_computes_the_same(architecture, small, large):
    by = enlargement_between(small, large)
    model = far_from_the_start(architecture(sixteenth(small)).build(WORDS, LENGTH, seed=0).double()).eval()
    wide = enlarged(model, by)
    assert farthest(wide, model) < 1e-10
    config = wide.config
    assert (config.hidden_size, config.num_attention_heads) == (large.width // 16, large.heads)
    assert config.num_hidden_layers == large.layers == len(wide.base_model.encoder.layer)
    assert config.intermediate_size == by.width * small.inner_width // 16


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("small", "large"), PAIRS, ids=lambda shape: f"{shape.width}x{shape.layers}")
def test_every_pair_of_table_4_at_its_own_size(architecture, small, large):
    """Up to 1,100 million parameters in float64: 9 GB, and most of an hour on two cores for all."""
    model = architecture(small).build(WORDS, LENGTH, seed=0).double().eval()
    assert farthest(enlarged(model, enlargement_between(small, large)), model) < 1e-10


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_papers_halved_embeddings_meet_an_epsilon_that_is_k_squared_times_as_large(architecture):
    model = with_epsilon(tiny(architecture), 1e-3)
    by = Enlargement(width=3)
    to_the_letter = enlarged(model, by, paper_form)
    assert farthest(to_the_letter, model) > 1e-3
    assert farthest(enlarged(model, by), model) < 1e-12
    model.base_model.embeddings.LayerNorm.eps = 9e-3
    assert farthest(to_the_letter, model) < 1e-12


def test_the_papers_added_blocks_normalise_once_more_after_post_layer_norm():
    model = tiny(PostLayerNormTransformer)
    to_the_letter = enlarged(model, Enlargement(layers=2), paper_form)
    assert farthest(to_the_letter, model) > 0.1
    assert farthest(enlarged(model, Enlargement(layers=2)), model) < 1e-10
    with torch.no_grad():
        hidden = model.base_model(input_ids=tokens()).last_hidden_state
        for _ in range(4):
            hidden = nn.functional.layer_norm(hidden, (8,), eps=1e-12)
        expected = model.cls(hidden)
    torch.testing.assert_close(scores(to_the_letter), expected, rtol=0, atol=1e-12)


def test_what_epsilon_leaves_of_added_post_layer_norm_blocks_is_as_documented():
    """Relative deviation epsilon (1 - v) / 2v of each vector, v the variance that the last norm meets."""
    epsilon = 1e-7
    model = with_epsilon(tiny(PostLayerNormTransformer), epsilon)
    last = model.base_model.encoder.layer[-1].output.LayerNorm
    met = []
    last.register_forward_hook(lambda _module, inputs, _output: met.append(inputs[0].detach()))
    with torch.no_grad():
        before = model.base_model(input_ids=tokens()).last_hidden_state - last.bias
        after = enlarged(model, Enlargement(layers=3)).base_model(input_ids=tokens()).last_hidden_state
    v = met[0].var(-1, correction=0)
    found = (((after - last.bias) / before) - 1).mean(-1)
    torch.testing.assert_close(found, epsilon * (1 - v) / (2 * v), rtol=1e-3, atol=1e-12)


def squared_gradients(model, ids, cotangents):
    """||∂/∂p Σ cotangents · scores||² of every parameter."""
    parameters = dict(model.named_parameters())
    inner = (model(input_ids=ids).logits * cotangents).sum()
    found = torch.autograd.grad(inner, list(parameters.values()), materialize_grads=True)
    return {name: float(g.square().sum()) for name, g in zip(parameters, found, strict=True)}


def trace_factor(name, k, form):
    """As in docs/enlarging.md, with tied embeddings: the large trace over the small one."""
    if "embeddings." in name and "LayerNorm" not in name:
        return k if form is paper_form else 1 / k
    if name.startswith(("cls.predictions.transform.LayerNorm", "lm_head.layer_norm")):
        return 1 / k if form is paper_form else k
    if name in {"cls.predictions.bias", "lm_head.bias"}:
        return 1
    return 1 if name.endswith("weight") and "orm" not in name.split(".")[-2] else 1 / k


@pytest.mark.parametrize(
    ("form", "tied"),
    others_thorough(
        [(exact_form, True), (paper_form, False), (exact_form, False), (paper_form, True)], quick=2
    ),
)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_traces_change_by_the_documented_factors(architecture, form, tied):
    """An output layer of its own has another factor, and so has the norm before it."""
    model, k, ids = tiny(architecture), 3, tokens()
    last = ("cls.predictions.transform.LayerNorm", "lm_head.layer_norm")
    if not tied:
        config = deepcopy(model.config)
        config.tie_word_embeddings = False
        model = far_from_the_start(type(model)(config).double().eval(), seed=4)
    cotangents = torch.randn(scores(model).shape, generator=torch.Generator().manual_seed(3)).double()
    before = squared_gradients(model, ids, cotangents)
    after = squared_gradients(enlarged(model, Enlargement(width=k), form), ids, cotangents)
    assert before.keys() == after.keys()
    for name, value in before.items():
        factor = trace_factor(name.replace("decoder.", ""), k, form)
        if not tied and (name.endswith("decoder.weight") or name.startswith(last)):
            factor = k if name.endswith("decoder.weight") else 1 / k
        assert after[name] == pytest.approx(factor * value, rel=1e-6, abs=1e-12), name


@pytest.mark.parametrize(
    "architecture",
    [PostLayerNormTransformer, pytest.param(PreLayerNormTransformer, marks=pytest.mark.thorough)],
)
def test_the_trace_by_group_before_and_after(architecture):
    """Widened, norms have 1/k of the trace; of added blocks only biases, gains and output biases have any."""
    model = tiny(architecture)
    sentences = Sentences(tokens()[:, 1:] - 3, torch.full((4,), LENGTH))
    batch = MaskedObjective().mask_one(sentences, torch.Generator().manual_seed(0))
    before = fisher_trace(model, [batch], MaskedObjective(), seed=0).groups
    wide = fisher_trace(enlarged(model, Enlargement(width=2)), [batch], MaskedObjective(), seed=0).groups
    torch.testing.assert_close(wide["layer 1 norms"], before["layer 1 norms"] / 2, rtol=1e-8, atol=0)
    deep_model = enlarged(model, Enlargement(layers=1))
    deep = fisher_trace(deep_model, [batch], MaskedObjective(), seed=0).groups
    for name in ("embeddings", "layer 1 attention", "layer 2 MLP", "head"):
        torch.testing.assert_close(deep[name], before[name], rtol=1e-8, atol=0)
    added = squared_gradients(deep_model, tokens(), torch.ones(4, LENGTH + 1, WORDS + 3).double().cumsum(-1))
    moving = {name for name, value in added.items() if ".layer.2." in name and value > 1e-20}
    assert all(name.endswith(("output.dense.bias", "LayerNorm.weight", "LayerNorm.bias")) for name in moving)
    assert {name.split(".layer.2.")[1] for name in moving} >= {"output.dense.bias"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_untied_embeddings_stay_untied(architecture):
    tied = tiny(architecture)
    tied.config.tie_word_embeddings = False
    model = far_from_the_start(type(tied)(tied.config).double()).eval()
    assert model.get_output_embeddings().weight is not model.get_input_embeddings().weight
    wide = enlarged(model, Enlargement(width=2, layers=1))
    assert farthest(wide, model) < 1e-10
    assert wide.config.tie_word_embeddings is False
    assert wide.get_output_embeddings().weight is not wide.get_input_embeddings().weight


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_large_model_is_an_ordinary_one_of_its_own(architecture):
    model = tiny_model(architecture, WORDS, LENGTH)
    wide = enlarged(model, Enlargement(layers=1))
    assert type(wide) is type(model)
    assert wide.training
    assert wide.config.tie_word_embeddings
    assert wide.get_output_embeddings().weight is wide.get_input_embeddings().weight
    assert all(parameter.requires_grad for parameter in wide.parameters())
    held = {parameter.data_ptr() for parameter in model.parameters()}
    assert not held & {parameter.data_ptr() for parameter in wide.parameters()}
    assert wide.eval()(input_ids=tokens()[:1, :1]).logits.shape == (1, 1, WORDS + 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_precision_is_kept(dtype):
    model = PostLayerNormTransformer(Shape(8, 2, 1, 16)).build(WORDS, LENGTH, seed=0).to(dtype).eval()
    wide = enlarged(model, Enlargement(width=4))
    assert {parameter.dtype for parameter in wide.parameters()} == {dtype}
    # Powers of two divide without rounding; what remains is the rounding of the sums.
    assert farthest(wide, model) <= 4 * torch.finfo(dtype).eps * float(scores(model).abs().max())


@pytest.mark.parametrize("numbers", [(0, 1), (-1, 0), (1.5, 0), (2.0, 0), (True, 0), (2, -1), (2, 0.5)])
def test_factors_that_are_no_integers_are_refused(numbers):
    with pytest.raises((BadInput, TypeError), match=r"integer|float|type"):
        Enlargement(*numbers)


@pytest.mark.parametrize("large", [TABLE_4[1], Shape(256, 4, 3, 512), Shape(256, 8, 4, 512)])
def test_shapes_that_do_not_fit_are_refused(large):
    with pytest.raises(BadInput, match="cannot be tiled"):
        enlargement_between(TABLE_4[0], large)


def test_other_architectures_are_refused():
    with pytest.raises(BadInput, match="BertModel cannot be enlarged"):
        enlarged(tiny(PostLayerNormTransformer).bert, Enlargement(width=2))


def test_a_checkpoint_is_enlarged_to_the_number_of_parameters_that_is_asked_for(tmp_path, monkeypatch):
    """The number that a refusal names; and the change told is the largest, up or down."""
    by = Enlargement(width=2, layers=2)
    small = PostLayerNormTransformer(Shape(8, 2, 1, 16)).build(WORDS, LENGTH, seed=0)
    small.save_pretrained(tmp_path / "small")
    needed = sum(each.numel() for each in enlarged(small, by).parameters())
    with pytest.raises(BadInput, match=f"or take them with --most-parameters {needed}"):
        enlarge_checkpoint(tmp_path / "small", tmp_path / "none", by, most_parameters=needed - 1)
    scores = iter([torch.tensor([0.0, 1.0]), torch.tensor([0.5, -2.0])])
    monkeypatch.setattr("isoloss.models.enlarged_checkpoint._scores", lambda _: next(scores))
    told = enlarge_checkpoint(tmp_path / "small", tmp_path / "large", by, most_parameters=needed)
    assert (told.difference, told.largest_score) == (3.0, 1.0)
    assert told.large_parameters == needed


def test_a_vector_is_copied_and_an_unchanged_matrix_is_not():
    before = {"vector": torch.ones(3), "matrix": torch.ones(3, 2)}
    recipes = {name: (tuple(tensor.shape), Recipe(name)) for name, tensor in before.items()}
    left = dict(before)
    made = EnlargingPlan(BertConfig(), torch.float32, recipes).made(left)
    assert left == {}
    assert [name for name in made if made[name].data_ptr() == before[name].data_ptr()] == ["matrix"]
