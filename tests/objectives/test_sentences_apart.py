"""Models in which padding, or other sentences, affect a sentence: the same numbers in any batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import FNetConfig, FNetForMaskedLM

from isoloss.curvature.fisher_trace import RunningFisherTrace
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretrained import (
    EqualLengths,
    PretrainedMasked,
    SentencesApart,
    kept_apart,
    masked_batch,
    next_token_batch,
    refuse_reading_ahead,
)

TOKENS, PAD, MASK = 11, 0, 1
SENTENCES = [[5, 6, 7, 8], [9, 2], [3, 4, 5], [6, 7], [8, 9, 10], [2, 3, 4, 5, 6], [7, 8]]


class Scored:
    """The objective of models that score every position themselves."""

    def logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        return model(batch.input_ids)[batch.rows, batch.positions]


class Words(nn.Module):
    """Reads each word by itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.output = nn.Embedding(TOKENS, 6), nn.Linear(6, TOKENS)
        self.double()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(self.mixed(self.words(ids)))

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


class Neighbours(Words):
    """Also reads a sentence's neighbouring words, including padding."""

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return (x + nn.functional.pad(x[:, 1:], (0, 0, 0, 1)) + x.mean(dim=1, keepdim=True)).sin()


class OtherSentences(Words):
    """Subtracts the batch's mean."""

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=(0, 1))).sin()


def batch_of(sentences: list[list[int]]) -> Batch:
    return masked_batch(sentences, [[len(each) - 1] for each in sentences], MASK, PAD)


def fnet() -> nn.Module:
    config = FNetConfig(
        vocab_size=TOKENS, hidden_size=8, num_hidden_layers=1, intermediate_size=8, max_position_embeddings=8
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = FNetForMaskedLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 10
    return model


@pytest.mark.parametrize(
    ("model", "way"),
    [
        (Words, None),
        (Neighbours, "equally long sentences at a time"),
        (OtherSentences, "one sentence at a time"),
    ],
)
def test_sentences_are_kept_apart_as_far_as_it_takes(model, way):
    apart = SentencesApart(model(), Scored())
    assert apart.way is None
    objective = apart.objective(batch_of(SENTENCES))
    assert apart.way == way
    assert (objective is apart.objective(batch_of(SENTENCES[:2]))) or way is None


def test_it_is_decided_again_where_lengths_first_differ():
    apart = SentencesApart(Neighbours(), Scored())
    apart.objective(batch_of([[5, 6], [7, 8]]))
    assert apart.way is None
    apart.objective(batch_of([[5, 6], [7, 8, 9]]))
    assert apart.way == "equally long sentences at a time"


@pytest.mark.parametrize("at_once", [None, 1])
def test_scores_are_those_of_each_sentence_alone_in_order(at_once):
    model, batch = Neighbours(), batch_of(SENTENCES)
    found = EqualLengths(Scored(), at_once).logits(model, batch)
    alone = torch.cat([Scored().logits(model, batch_of([each])) for each in SENTENCES])
    torch.testing.assert_close(found, alone)
    assert kept_apart(Words(), Scored(), batch).logits(Words(), batch).shape == found.shape


@pytest.mark.parametrize(
    ("model", "objective"),
    [(Neighbours(), Scored()), (OtherSentences(), Scored()), (fnet(), PretrainedMasked())],
    ids=["neighbours", "other sentences", "FNet"],
)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_the_trace_does_not_depend_on_how_sentences_are_batched(model, objective, data):
    cuts = data.draw(st.lists(st.integers(1, len(SENTENCES) - 1), unique=True).map(sorted))
    running = RunningFisherTrace(model, objective, seed=3)
    for start, stop in zip([0, *cuts], [*cuts, len(SENTENCES)], strict=True):
        running.add(batch_of(SENTENCES[start:stop]))
    alone = RunningFisherTrace(model, objective, seed=3)
    for sentence in SENTENCES:
        alone.add(batch_of([sentence]))
    torch.testing.assert_close(running.result("").values, alone.result("").values, rtol=1e-9, atol=0)


class Recurrent(nn.Module):
    def __init__(self, both_ways: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(TOKENS, 4)
        self.states = nn.GRU(4, 4, batch_first=True, bidirectional=both_ways)
        self.output = nn.LazyLinear(TOKENS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(self.states(self.words(ids))[0])


def test_what_sees_the_next_token_is_refused():
    batch = next_token_batch([[5, 6], [7, 8, 2, 3]], PAD)
    refuse_reading_ahead(Recurrent(both_ways=False), Scored(), batch)
    with pytest.raises(BadInput, match="Recurrent sees the token that it is to predict"):
        refuse_reading_ahead(Recurrent(both_ways=True), Scored(), batch)
