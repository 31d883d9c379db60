"""Arrays that are as long as a batch's predictions or sentences by coincidence: theirs are other rows."""

import pytest
import torch
from dense_norms import built, checked_norms
from torch import nn
from transformers import LongT5Config, LongT5ForConditionalGeneration
from unusual_models import Model, Whole, predicting

from isoloss.objectives.task_heads import TargetToken, target_batch

WIDTH = 4


class Latents(Model):
    """Three vectors of each sentence, as many in a batch of 3 as there are predictions."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(WIDTH, WIDTH), query=lambda: nn.Linear(WIDTH, 3))

    def inner(self, x):
        latents = self.query(x).softmax(1).mT @ x
        return x + self.layer(latents).tanh().sum(1, keepdim=True)


class HeadsFirst(Model):
    """A layer on heads before sentences, [2, n, S, 2], in a batch of 2."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(2, 2))

    def inner(self, x):
        heads = self.layer(x.unflatten(2, (2, 2)).permute(2, 0, 1, 3)).tanh()
        return heads.permute(1, 2, 0, 3).flatten(2)


class PickedByMask(Model):
    """Words of which a mask picks as many as are predicted, others though."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(WIDTH, WIDTH))

    def forward(self, ids):
        x = self.words(ids)
        picked = (ids % 2 == 0)[..., None].expand_as(x)
        rows = self.layer(x[ids % 2 == 0]).tanh()
        return self.output(x + torch.zeros_like(x).masked_scatter(picked, rows).sum(1, keepdim=True))


THREE = [[1, 2, 3, 4, 0, 2], [3, 3, 1, 0, 2, 1], [4, 1, 1, 2, 0, 3]]


@pytest.mark.parametrize(
    ("kind", "words", "counts"),
    [
        (Latents, THREE, [2, 1, 6]),
        (Latents, THREE, [3, 3, 3]),
        (HeadsFirst, THREE[:2], [2, 3]),
        (PickedByMask, THREE, [4, 1, 4]),
    ],
)
def test_they_are_not_taken_for_the_rows_of_predictions_or_of_sentences(
    kind: type[Model], words: list[list[int]], counts: list[int]
) -> None:
    picked = int((torch.tensor(words) % 2 == 0).sum())
    assert kind is not PickedByMask or picked == sum(counts)
    checked_norms(kind(), Whole(), predicting(words, counts))


@pytest.mark.parametrize("lengths", [(8, 2, 14), (8, 8, 8), (8, 7, 10)])
def test_global_tokens_of_an_encoder_are_not_taken_for_a_decoders_predictions(
    lengths: tuple[int, ...],
) -> None:
    """LongT5 has a global token for every four words here: 8 for 32."""
    config = LongT5Config(
        **{"vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_decoder_layers": 1},
        **{"num_heads": 2, "encoder_attention_type": "transient-global", "global_block_size": 4},
        **{"local_radius": 3, "decoder_start_token_id": 0, "pad_token_id": 0},
    )
    generator = torch.Generator().manual_seed(3)
    read = torch.randint(2, 20, (3, 32), generator=generator).tolist()
    targets = [torch.randint(2, 20, (length,), generator=generator).tolist() for length in lengths]
    batch = target_batch(read, targets, 0, pad=0)
    checked_norms(built(LongT5ForConditionalGeneration, config), TargetToken(), batch, tokens=20)
