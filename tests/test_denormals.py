"""The effect of flushing denormal numbers to zero, and that the thread's arithmetic is restored."""

import pytest
import torch

from isoloss.device import denormals_flushed
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective


def denormal() -> float:
    return float(torch.tensor(1e-30) * 1e-10)


def test_what_was_is_put_back_also_after_an_error() -> None:
    with denormals_flushed():
        with denormals_flushed():
            pass
        assert denormal() == 0.0
    assert denormal() > 0.0
    with pytest.raises(KeyError), denormals_flushed():
        raise KeyError
    assert denormal() > 0.0


def test_gradients_of_sharp_attention_change_by_nothing_that_can_be_added() -> None:
    """Queries ten thousand times as large: their attention has denormal probabilities."""
    language, objective = pcfg(laptop_grammar(0)), MaskedObjective()
    architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    model = architecture.build(len(language.vocabulary), language.maximum_length, seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".query." in name:
                parameter.mul_(1e4)
    generator = torch.Generator().manual_seed(0)
    batch = objective.mask_one(language.sample(64, generator), generator)
    attention = model(input_ids=batch.input_ids, output_attentions=True).attentions[0]
    assert bool(((attention > 0) & (attention < torch.finfo(torch.float32).tiny)).any())

    def gradients() -> list[torch.Tensor]:
        loss = torch.nn.functional.cross_entropy(objective.logits(model, batch), batch.targets)
        return list(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))

    plain = [each for each in gradients() if each is not None]
    with denormals_flushed():
        flushed = [each for each in gradients() if each is not None]
    largest = max(float(each.abs().max()) for each in plain)
    for each, other in zip(plain, flushed, strict=True):
        assert float((each - other).abs().max()) <= 1e-30 * largest
