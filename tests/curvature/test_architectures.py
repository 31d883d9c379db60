"""Every architecture against dense gradients of the whole model, with logits computed everywhere."""

from dataclasses import replace

import pytest
import torch
from dense_norms import dense_squared_norms, noise_of_the_output_layer, norms_of_cotangents

from isoloss.curvature.per_sentence.norms import Directions, norms_along
from isoloss.objectives.batch import Batch
from isoloss.objectives.predicted_logits import causal_logits, masked_logits
from tiny_language_models import CAUSAL, MASKED, PAD, TOKENS, tiny_language_model


class Masked:
    def logits(self, model, batch):
        return masked_logits(model, batch)


class Causal:
    def logits(self, model, batch):
        return causal_logits(model, batch)


OBJECTIVES = dict.fromkeys(MASKED, Masked()) | dict.fromkeys(CAUSAL, Causal())


def batch_of(lengths, predicted, width=5, left=False):
    """Sentence i has the first `predicted[i]` of its words predicted."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(2, TOKENS, (len(lengths), width), generator=generator)
    place = torch.arange(width).expand(len(lengths), -1)
    present = place < torch.tensor(lengths)[:, None]
    if left:
        present = present.flip(1)
    ids = ids.masked_fill(~present, PAD)
    rows = torch.arange(len(lengths)).repeat_interleave(torch.tensor(predicted))
    order = torch.cat([torch.arange(k) for k in predicted])
    first = present.long().argmax(1)
    positions = first[rows] + order
    return Batch(ids, present, rows, positions, ids[rows, positions])


BATCHES = {
    "unpadded": batch_of([5, 5, 5], [1, 1, 1]),
    "padded": batch_of([5, 2, 4], [3, 1, 2]),
    "padded, one prediction each": replace(batch_of([5, 2, 4], [1, 1, 1]), positions=torch.tensor([4, 0, 2])),
    "as many sentences as positions": batch_of([5, 3, 5, 5, 1], [1, 2, 1, 1, 1]),
}


def cotangents_of(batch):
    generator = torch.Generator().manual_seed(4)
    return torch.randn(len(batch.rows), TOKENS, generator=generator, dtype=torch.float64)


def everywhere(model, batch):
    whole = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    return whole[batch.rows, batch.positions]


def train(model, batch, steps=4):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(everywhere(model, batch), batch.targets).backward()
        optimizer.step()
    optimizer.zero_grad()


def marks(tied, weights, name):
    """The quick suite has random weights and unlike sentences, of several predictions each if untied."""
    if (weights, tied) != ("random", True) and name != "padded":
        return [pytest.mark.slow]
    return [pytest.mark.thorough] if weights == "trained" or name not in UNLIKE else []


UNLIKE = ("padded", "as many sentences as positions")
TIED_WEIGHTS_AND_BATCHES = [
    pytest.param(
        tied,
        weights,
        batch,
        id=f"{'tied' if tied else 'untied'}-{weights}-{name}",
        marks=marks(tied, weights, name),
    )
    for tied in (True, False)
    for weights in ("random", "trained")
    for name, batch in BATCHES.items()
]


@pytest.mark.parametrize(("tied", "weights", "batch"), TIED_WEIGHTS_AND_BATCHES)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_norms_are_those_of_dense_gradients(name, tied, weights, batch):
    model = tiny_language_model(name, tied)
    assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) == tied
    if weights == "trained":
        train(model, batch)
    cotangents = cotangents_of(batch)
    found = norms_of_cotangents(model, OBJECTIVES[name], batch, lambda _: cotangents)
    expected = dense_squared_norms(model, everywhere(model, batch), batch.rows, cotangents)
    assert found.groups.keys() == expected.keys()
    for group in expected:
        torch.testing.assert_close(found.groups[group], expected[group], rtol=1e-8, atol=1e-14)
    assert "per-sentence gradients" not in found.ways.values()
    assert ("tied embedding" in found.ways.values()) == tied


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(batch, id=name, marks=[pytest.mark.slow] if name != "padded" else [])
        for name, batch in BATCHES.items()
    ],
)
@pytest.mark.parametrize(
    ("name", "tied"),
    [
        pytest.param(name, tied, marks=[pytest.mark.thorough] * (tied == bool(place % 2)))
        for place, name in enumerate(OBJECTIVES)
        for tied in (True, False)
    ],
)
def test_the_output_layer_is_without_noise_along_drawn_directions(name, tied, batch):
    model = tiny_language_model(name, tied)
    directions = Directions(cotangents_of(batch), 1.0 + torch.arange(len(batch.rows), dtype=torch.float64))
    found = norms_along(model, OBJECTIVES[name], batch, lambda _: directions)
    dense = dense_squared_norms(model, everywhere(model, batch), batch.rows, directions.cotangents)
    noise = noise_of_the_output_layer(model, OBJECTIVES[name], batch, directions)
    torch.testing.assert_close(sum(found.groups.values()), sum(dense.values()) - noise, rtol=1e-8, atol=1e-10)
