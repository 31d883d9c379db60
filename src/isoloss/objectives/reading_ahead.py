"""A causal model is one whose scores do not change with what follows."""

from dataclasses import replace

import torch
from torch import nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.batch_parts import sentences_of
from isoloss.objectives.evaluation_mode import evaluation_mode


def refuse_reading_ahead(model: nn.Module, objective: Objective, batch: Batch) -> None:
    """Raise BadInput where the scores of a sentence's tokens change with its last token, which they predict.

    Tried on the batch's longest sentence, with another last token. Classes do not tell: XLNet and XLM are
    called language models with a head whichever way they read.
    """
    lengths = batch.attention_mask.sum(dim=1)
    sentence = sentences_of(batch, lengths.argmax()[None])
    other = sentence.input_ids.clone()
    other[0, -1] = (sentence.input_ids[0, -1] + 1) % (sentence.input_ids.max() + 1)
    with evaluation_mode(model), torch.no_grad():
        scores = objective.logits(model, sentence)
        after_another = objective.logits(model, replace(sentence, input_ids=other))
    precision = max(torch.finfo(scores.dtype).eps, torch.finfo(torch.float32).eps)
    spread = (scores - scores.mean(dim=1, keepdim=True)).abs().max()
    if bool((scores - after_another).abs().max() > precision**0.5 * spread):
        raise BadInput(
            f"{type(model).__name__} sees the token that it is to predict: its scores change with what "
            "follows; measure it as masked, or save it with a configuration that looks back only"
        )
