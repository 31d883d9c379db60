"""Tiny transformers in float64, for derivatives that are checked to many digits."""

import torch

from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, Shape

ARCHITECTURES = (PostLayerNormTransformer, PreLayerNormTransformer)


def tiny_model(architecture, words, maximum_length):
    """In training mode, with weights far from their small start: each part has a gradient to speak of."""
    model = architecture(Shape(8, 2, 2, 12)).build(words, maximum_length, seed=0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model.train()
