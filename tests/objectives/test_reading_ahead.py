import pytest
import torch
from torch import nn

from isoloss.errors import BadInput
from isoloss.objectives.pretrained import next_token_batch
from isoloss.objectives.sentences_apart import refuse_reading_ahead


class Scored:
    def logits(self, model, batch):
        return model(batch.input_ids)[batch.rows, batch.positions]


class Recurrent(nn.Module):
    def __init__(self, both_ways):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(9, 4)
        self.states = nn.GRU(4, 4, batch_first=True, bidirectional=both_ways)
        self.output = nn.LazyLinear(9)

    def forward(self, ids):
        return self.output(self.states(self.words(ids))[0])


def test_what_sees_the_next_token_is_refused():
    batch = next_token_batch([[5, 6], [7, 8, 2, 3]], pad=0)
    refuse_reading_ahead(Recurrent(both_ways=False), Scored(), batch)
    with pytest.raises(BadInput, match="Recurrent sees the token that it is to predict"):
        refuse_reading_ahead(Recurrent(both_ways=True), Scored(), batch)
