import pytest
import ragged_batches
import torch
from dense_norms import dense_squared_norms
from torch import nn

from isoloss.curvature.per_sentence_norms import per_sentence_squared_norms
from isoloss.curvature.sentence_batches import sentences_of
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    return tiny_model(request.param, ragged_batches.WORDS, ragged_batches.LENGTH)


@pytest.fixture
def several_masks():
    return ragged_batches.several_masks()


def directions(batch, tokens=5):
    generator = torch.Generator().manual_seed(4)
    return torch.randn(len(batch.rows), tokens, generator=generator, dtype=torch.float64)


def check(model, objective, batch, tokens=5, memory_bytes=1 << 30):
    """Against dense gradients, in evaluation mode; gives what was found."""
    cotangents = directions(batch, tokens)
    found = per_sentence_squared_norms(
        model, objective, batch, lambda _: cotangents, memory_bytes=memory_bytes
    )
    model.eval()
    expected = dense_squared_norms(model, objective.logits(model, batch), batch.rows, cotangents)
    assert found.groups.keys() == expected.keys()
    for group in expected:
        torch.testing.assert_close(found.groups[group], expected[group], rtol=1e-9, atol=1e-13)
    assert found.ways.keys() == {name for name, p in model.named_parameters() if p.requires_grad}
    return found


@pytest.mark.parametrize("memory_bytes", [1, 1 << 30])
@pytest.mark.parametrize("masks", ["one_mask", "several_masks"])
def test_ragged_sentences_with_any_number_of_masks(model, masks, memory_bytes):
    found = check(model, OBJECTIVE, getattr(ragged_batches, masks)(), memory_bytes=memory_bytes)
    assert {"embeddings", "head", "layer 2 norms", "layer 1 MLP", "layer 1 attention"} <= found.groups.keys()
    assert set(found.ways.values()) == {"linear", "bias", "layer norm", "embedding", "tied embedding"}


def test_a_sentence_alone_has_the_same_norms(model, several_masks):
    cotangents = directions(several_masks)
    together = per_sentence_squared_norms(model, OBJECTIVE, several_masks, lambda _: cotangents)
    for sentence in range(len(several_masks)):
        alone = sentences_of(several_masks, torch.tensor([sentence]))
        own = cotangents[several_masks.rows == sentence]
        norms = per_sentence_squared_norms(model, OBJECTIVE, alone, lambda _, own=own: own)
        for group, values in norms.groups.items():
            torch.testing.assert_close(values, together.groups[group][sentence : sentence + 1])


def test_directions_are_asked_for_once_with_the_scores_of_the_predictions(model, several_masks):
    seen = []

    def cotangents(logits):
        seen.append(logits)
        return logits

    per_sentence_squared_norms(model, OBJECTIVE, several_masks, cotangents)
    assert len(seen) == 1
    assert not seen[0].requires_grad
    torch.testing.assert_close(seen[0], OBJECTIVE.logits(model.eval(), several_masks))


@pytest.mark.parametrize("kept", ["embeddings", "encoder", "lm_head|cls"])
def test_frozen_parameters_are_left_out_and_change_nothing(model, several_masks, kept):
    whole = check(model, OBJECTIVE, several_masks)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(part in name for part in kept.split("|")))
    part = check(model, OBJECTIVE, several_masks)
    assert "per-sentence gradients" not in part.ways.values()
    for group in part.groups.keys() - {"embeddings", "head"}:
        torch.testing.assert_close(part.groups[group], whole.groups[group])
    assert len(part.groups) < len(whole.groups)
    model.requires_grad_(False)
    with pytest.raises(BadInput, match="no parameter that requires a gradient"):
        per_sentence_squared_norms(model, OBJECTIVE, several_masks, lambda logits: logits)


def test_half_precision_is_multiplied_out_in_single(model, several_masks):
    cotangents = directions(several_masks)
    double = per_sentence_squared_norms(model, OBJECTIVE, several_masks, lambda _: cotangents)
    half = per_sentence_squared_norms(
        model.bfloat16(), OBJECTIVE, several_masks, lambda _: cotangents.bfloat16()
    )
    for group, values in half.groups.items():
        assert values.dtype == torch.float64
        torch.testing.assert_close(values.sum(), double.groups[group].sum(), rtol=0.15, atol=0)


class Whole:
    """The objective of models that score every position of a batch's words by themselves."""

    def logits(self, model, batch):
        return model(batch.input_ids)[batch.rows, batch.positions]


def batch_of(n, width, predicted):
    """Each sentence's first `predicted` words are predicted; all are drawn from five, 0 among them."""
    ids = torch.randint(0, 5, (n, width), generator=torch.Generator().manual_seed(7))
    rows = torch.arange(n).repeat_interleave(predicted)
    positions = torch.arange(predicted).repeat(n)
    return Batch(ids, torch.ones(n, width, dtype=torch.bool), rows, positions, ids[rows, positions])


class Model(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(5, 4)
        self.output = nn.Linear(4, 5)
        for name, part in parts.items():
            setattr(self, name, part())
        self.double()

    def forward(self, ids):
        return self.output(self.inner(self.words(ids)))


class LookedAtElsewhere(Model):
    """A weight of one layer is used by hand as well, as a matrix and as an embedding."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 5))

    def forward(self, ids):
        hidden = self.layer(self.words(ids)).tanh() @ self.layer.weight
        return self.output(hidden + 0.3 * nn.functional.embedding(ids, self.layer.weight))


class UnknownUse(Model):
    """The same weight in a layer and in something that is no layer."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 4))

    def inner(self, x):
        return self.layer(x) * self.layer.weight.softmax(0).sum(1)


class LooseParameters(Model):
    """A number, a gain, a bias, a table of positions and a matrix that belong to no layer of torch."""

    def __init__(self):
        super().__init__(
            scale=lambda: nn.Parameter(torch.tensor(1.5)),
            gain=lambda: nn.Parameter(torch.randn(4)),
            bias=lambda: nn.Parameter(torch.randn(4)),
            table=lambda: nn.Parameter(torch.randn(3, 4)),
            matrix=lambda: nn.Parameter(torch.randn(4, 4)),
        )

    def inner(self, x):
        x = x + self.table[: x.shape[1]]
        return torch.einsum("nsd,de->nse", x * self.gain + self.bias, self.matrix).sin() * self.scale


class SharedTable(Model):
    """A layer reads a table that all sentences share, of as many rows as there are predictions, or words."""

    def __init__(self, rows):
        super().__init__(
            table=lambda: nn.Embedding(rows, 4), norm=lambda: nn.LayerNorm(4), layer=lambda: nn.Linear(4, 4)
        )

    def inner(self, x):
        return x + self.layer(self.norm(self.table.weight)).sin().sum(0)


class PositionsOfAll(Model):
    """Positions as GPT-2 has them, [1, S], or without the 1; added before or after they are scaled."""

    def __init__(self, dimensions, scale):
        super().__init__(places=lambda: nn.Embedding(6, 4, padding_idx=1))
        self.dimensions, self.scale = dimensions, scale

    def inner(self, x):
        places = torch.arange(x.shape[1]).view((1,) * (self.dimensions - 1) + (-1,))
        shared = self.places(places)
        return (x + (shared if self.scale == 1 else shared * self.scale)).sin()


class BiasOfPairs(Model):
    """A bias for each pair of positions from a table, [S, S], as T5 has it."""

    def __init__(self):
        super().__init__(pairs=lambda: nn.Embedding(9, 4))

    def inner(self, x):
        place = torch.arange(x.shape[1])
        bias = self.pairs(place[:, None] - place + 4)
        return torch.einsum("qkd,nkd->nqd", bias, x)


class PositionsFirst(Model):
    """The layout of recurrent networks: [S, n, d]."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 4), norm=lambda: nn.LayerNorm(4))

    def inner(self, x):
        return self.norm(self.layer(x.transpose(0, 1)).sin()).transpose(0, 1)


class Recurrent(Model):
    def __init__(self):
        super().__init__(lstm=lambda: nn.LSTM(4, 4, batch_first=True))

    def inner(self, x):
        return self.lstm(x)[0]


class InPlace(Model):
    """What embeddings and layers give out is overwritten."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 4))

    def inner(self, x):
        x *= 2.0
        y = self.layer(x)
        y += x
        return y.relu_()


class Normed(Model):
    def __init__(self, statistics=True):
        super().__init__(norm=lambda: nn.BatchNorm1d(4, track_running_stats=statistics))

    def inner(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


BATCHES = [batch_of(3, 4, 1), batch_of(4, 4, 2), batch_of(2, 3, 3), batch_of(1, 3, 2)]


@pytest.mark.parametrize("batch", BATCHES, ids=["3 x 4", "4 x 4", "2 x 3, all", "1 x 3"])
@pytest.mark.parametrize(
    ("build", "slow"),
    [
        (LookedAtElsewhere, set()),
        (UnknownUse, {"layer.weight"}),
        (InPlace, set()),
        (PositionsFirst, set()),
        (lambda: PositionsOfAll(2, 1), set()),
        (lambda: PositionsOfAll(1, 1), set()),
        (lambda: PositionsOfAll(2, 3), {"places.weight"}),
        (BiasOfPairs, {"pairs.weight"}),
        (Recurrent, {"lstm.weight_hh_l0", "lstm.bias_hh_l0"}),
        (Normed, {"norm.weight", "norm.bias"}),
        *((lambda rows=rows: SharedTable(rows), None) for rows in (3, 4, 6, 8, 12, 16)),
    ],
)
def test_models_of_other_kinds(build, slow, batch):
    """`slow` are those that take per-sentence gradients where there are several sentences."""
    model = build()
    found = check(model, Whole(), batch)
    taken = {name for name, way in found.ways.items() if way == "per-sentence gradients"}
    if slow is not None and len(batch) > 1:
        assert taken == slow


@pytest.mark.parametrize("batch", [batch_of(2, 3, 2), batch_of(3, 3, 1)])
def test_loose_parameters(batch):
    found = check(LooseParameters(), Whole(), batch)
    assert found.ways == {
        "words.weight": "embedding",
        "output.weight": "linear",
        "output.bias": "bias",
        "gain": "gain",
        "bias": "bias",
        "scale": "per-sentence gradients",
        "table": "per-sentence gradients",
        "matrix": "per-sentence gradients",
    }


def test_a_parameter_that_is_not_used_has_no_gradient():
    model = PositionsFirst()
    model.spare = nn.Linear(4, 4).double()
    found = check(model, Whole(), batch_of(2, 3, 1))
    assert found.ways["spare.weight"] == "not used"
    assert found.groups["spare"].tolist() == [0.0, 0.0]


def test_the_row_of_the_padding_is_not_learned_by_looking_it_up():
    """A padding id among the words that are read: a tied matrix still learns its row as an output."""
    model = InPlace()
    model.words = nn.Embedding(5, 4, padding_idx=0).double()
    model.output.weight = model.words.weight
    batch = batch_of(4, 3, 2)
    assert (batch.input_ids == 0).any()
    found = check(model, Whole(), batch)
    assert found.ways["words.weight"] == "tied embedding"


def test_statistics_of_the_batch_are_refused():
    with pytest.raises(BadInput, match="norm normalises over the batch"):
        per_sentence_squared_norms(Normed(statistics=False), Whole(), BATCHES[0], lambda logits: logits)


def state(model):
    return (
        [module.training for module in model.modules()],
        [parameter.requires_grad for parameter in model.parameters()],
        [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None],
        {name: value.clone() for name, value in model.state_dict().items()},
        [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()],
        torch.get_rng_state(),
    )


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_found(model, several_masks, fails):
    model.train()
    model.base_model.encoder.eval()
    model.base_model.embeddings.requires_grad_(False)
    OBJECTIVE.logits(model, several_masks).sum().backward()
    found = state(model)

    def cotangents(logits):
        if fails:
            raise ZeroDivisionError
        return logits

    try:
        per_sentence_squared_norms(model, OBJECTIVE, several_masks, cotangents)
    except ZeroDivisionError:
        assert fails
    torch.testing.assert_close(state(model), found, rtol=0, atol=0)
