"""Words that a model flattens position by position: each row still counts towards its own sentence."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from unusual_models import Whole

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.objectives.pretrained import next_token_batch
from thorough_cases import others_thorough

WORDS, WIDTH = 20, 8


class Flattened(nn.Module):
    """Words flattened for a feed-forward part, with consecutive rows."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def of_rows(self, states):
        flat = self.norm(states.reshape(-1, WIDTH))
        flat = flat + self.narrow(nn.functional.gelu(self.wide(flat)))
        return self.head(flat).reshape(*states.shape[:2], WORDS)


class SentencesFirst(Flattened):
    def forward(self, ids):
        return self.of_rows(self.words(ids))


class PositionsFirst(Flattened):
    def forward(self, ids):
        return self.of_rows(self.words(ids).transpose(0, 1)).transpose(0, 1)


class TorchEncoder(nn.Module):
    """PyTorch's own: its attention flattens position by position, its interface has sentences first."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids):
        before = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.encoder(self.words(ids), mask=before, is_causal=True))


class SeesOthers(SentencesFirst):
    """A word's state includes that of the previous sentence in the batch."""

    share = 1.0

    def forward(self, ids):
        states = self.words(ids)
        return self.of_rows(states + self.share * states.roll(1, dims=0))


class SeesALittleOfOthers(SeesOthers):
    """So little that its scores change by no more than those of parts in single precision do."""

    share = 3e-5


def sentences(n):
    generator = torch.Generator().manual_seed(n)
    lengths = torch.randint(3, 9, (n,), generator=generator).sort(descending=True).values
    return [torch.randint(1, WORDS, (int(length),), generator=generator).tolist() for length in lengths]


def beside_others_and_alone(architecture, drawn, first=0):
    """Their traces, the `first` in a batch of their own, and those of each alone."""
    torch.manual_seed(0)
    model = architecture().double()
    alone = fisher_trace(model, [next_token_batch([each], 0) for each in drawn], Whole())
    parts = [part for part in (drawn[:first], drawn[first:]) if part]
    together = fisher_trace(model, [next_token_batch(part, 0) for part in parts], Whole())
    return together, alone


@pytest.mark.parametrize("first", [0, 1], ids=["at once", "one, then the others"])
@pytest.mark.parametrize(
    "architecture", others_thorough([PositionsFirst, SentencesFirst, TorchEncoder], quick=2)
)
def test_sentences_have_the_traces_that_they_have_alone(architecture, first):
    together, alone = beside_others_and_alone(architecture, sentences(11), first)
    assert torch.allclose(together.values, alone.values, rtol=1e-10)
    for name, values in together.groups.items():
        assert torch.allclose(values, alone.groups[name], rtol=1e-9, atol=1e-12)
    assert "per-sentence gradients" not in set(together.ways.values())


@pytest.mark.parametrize("kind", [SeesOthers, SeesALittleOfOthers])
def test_sentences_that_see_each_other_are_kept_apart_also_after_a_batch_of_one(kind):
    together, alone = beside_others_and_alone(kind, [[each, 3, 5, 7] for each in range(1, 8)], first=1)
    assert torch.allclose(together.values, alone.values, rtol=1e-10)


class Interleaved(SentencesFirst):
    """Its rows are in an order that no view describes."""

    def of_rows(self, states):
        flat = states.reshape(-1, WIDTH)
        order = torch.arange(len(flat)).view(states.shape[:2]).T.flatten()
        flat = self.norm(flat[order])
        return self.head(flat)[order.argsort()].view(*states.shape[:2], WORDS)


class Routed(SentencesFirst):
    """Words of one kind take another path, whose rows are selected and put back by index."""

    def of_rows(self, states):
        flat = self.norm(states.transpose(0, 1).reshape(-1, WIDTH))
        picked = (flat.detach()[:, 0] > 0).nonzero().flatten()
        flat = flat.index_add(0, picked, self.narrow(nn.functional.gelu(self.wide(flat[picked]))))
        return self.head(flat).view(states.shape[1], states.shape[0], WORDS).transpose(0, 1)


class Recomputed(SentencesFirst):
    """Its feed-forward part is recomputed in the backward pass."""

    def of_rows(self, states):
        return checkpoint(super().of_rows, states, use_reentrant=False)


@pytest.mark.parametrize(
    ("layout", "ways"),
    [
        (Interleaved, {"embedding", "linear", "layer norm", "bias", "not used"}),
        (Routed, {"embedding", "layer norm", "bias", "per-sentence gradients"}),
        (Recomputed, {"per-sentence gradients"}),
    ],
)
def test_layouts_that_are_not_understood_are_measured_all_the_same(layout, ways):
    together, alone = beside_others_and_alone(layout, sentences(9))
    assert torch.allclose(together.values, alone.values, rtol=1e-10)
    assert set(together.ways.values()) == ways
