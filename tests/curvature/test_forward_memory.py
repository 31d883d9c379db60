import pytest
import torch
from torch import nn
from unusual_models import Whole

from isoloss.curvature.per_sentence import every_other_parameter
from isoloss.errors import BadInput
from isoloss.objectives.evaluation import refuse_without_gradient
from isoloss.objectives.pretrained import next_token_batch


class Table(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.words, self.step = nn.Embedding(9, 9), step

    def forward(self, ids):
        return self.step(self.words(ids))


def fails(scores):
    raise AssertionError("train me first\nand more")


def runs_out(scores):
    raise torch.OutOfMemoryError("no more")


BATCH = next_token_batch([[5, 6, 7], [7, 8]], pad=0)


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (fails, "on a sentence of 2 tokens: train me first; this is the model's own code"),
        (lambda scores: scores.detach(), "depend on none of the parameters"),
        (lambda scores: (scores - scores).sqrt(), "its scores are; this is the model's own code"),
    ],
)
def test_a_model_that_cannot_be_differentiated_is_refused_in_a_sentence(step, sentence):
    with pytest.raises(BadInput, match=sentence):
        refuse_without_gradient(Table(step), Whole(), BATCH)


def test_any_other_model_and_want_of_memory_pass():
    refuse_without_gradient(Table(torch.sin), Whole(), BATCH)
    with pytest.raises(torch.OutOfMemoryError):
        refuse_without_gradient(Table(runs_out), Whole(), BATCH)


def test_want_of_memory_while_gradients_are_mapped_is_told_to_who_takes_fewer_sentences(monkeypatch):
    def runs_out_of_memory(*arguments):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(every_other_parameter, "_mapped_over_sentences", runs_out_of_memory)
    model = Table(torch.sin)
    cotangents = torch.ones(len(BATCH.rows), model(BATCH.input_ids).shape[-1])
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        next(
            every_other_parameter.gradients_by_sentence(
                model, Whole(), BATCH, cotangents, dict(model.named_parameters()), 1 << 20
            )
        )
