"""Adapters whose weights are far from those that change nothing, and that are saved as people hold them."""

import json

import torch


def is_trained(parameter):
    return parameter.requires_grad


def moved(adapted):
    """The same model, what is trained of it moved at random, and those parameters."""
    generator = torch.Generator().manual_seed(0)
    trained = list(filter(is_trained, adapted.parameters()))
    with torch.no_grad():
        for each in trained:
            each += 0.3 * torch.randn(each.shape, generator=generator)
    return adapted, trained


def saved(adapted, folder):
    """The adapter's own folder, which names the base model beside it."""
    adapted.save_pretrained(folder / "adapter")
    path = folder / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "../base"}))
    return folder / "adapter"
