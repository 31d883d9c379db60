"""Tiny transformers in float64, for derivatives that are checked to many digits."""

import torch

from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, Shape

ARCHITECTURES = (PostLayerNormTransformer, PreLayerNormTransformer)


def tiny_model(architecture, words, maximum_length):
    """In training mode, with weights far from their small start."""
    model = architecture(Shape(8, 2, 2, 12)).build(words, maximum_length, seed=0).double()
    return far_from_the_start(model).train()


def far_from_the_start(model, by=0.3, seed=1):
    """The model itself, its weights moved at random: each part then has a gradient to speak of."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += by * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return model


def partly_frozen(model, *trained):
    """The model itself, its gradients only of the parameters whose names have one of these parts."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(part in name for part in trained))
    return model
