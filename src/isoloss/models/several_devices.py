"""A model's layers on several devices, as `transformers` puts them there for `device_map="auto"`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from isoloss.device import free_memory
from isoloss.errors import BadInput


def spread_over_devices(model: nn.Module, devices: Sequence[torch.device]) -> None:
    """Put the model's layers on these devices, in order, about equally many bytes on each.

    Hooks of accelerate bring what a layer reads to its device, and scores to the first, where inputs are to
    be. Raises BadInput without that package, for a model that does not say which of its layers must stay
    whole, and where the free memory of the devices does not hold it.

    >>> layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> spread_over_devices(layers, [torch.device("cpu"), torch.device("cpu")])
    Traceback (most recent call last):
    isoloss.errors.BadInput: Sequential does not say which of its layers must stay whole: measure it on ...
    """
    try:
        from accelerate import dispatch_model, infer_auto_device_map
        from accelerate.utils import get_balanced_memory
    except ImportError as error:
        raise BadInput(
            "a model on several devices needs the package accelerate; pip install 'isoloss[accelerate]'"
        ) from error
    known: Any = model
    kept_whole = list(getattr(known, "_no_split_modules", None) or ())
    if not kept_whole:
        raise BadInput(
            f"{type(model).__name__} does not say which of its layers must stay whole: measure it on one "
            "device, with --offload if that does not hold it"
        )
    free = {number: free_memory(device) for number, device in enumerate(devices)}
    shares = get_balanced_memory(known, max_memory=free, no_split_module_classes=kept_whole)
    places = infer_auto_device_map(known, max_memory=shares, no_split_module_classes=kept_whole)
    if not set(places.values()) <= set(free):
        gigabytes = sum(parameter.nbytes for parameter in model.parameters()) / 1e9
        raise BadInput(
            f"{', '.join(map(str, devices))} do not hold the weights of {type(model).__name__}, which take "
            f"{gigabytes:.1f} GB: name more devices, or one with --offload"
        )
    device_map = {name: devices[number] for name, number in places.items()}
    dispatch_model(known, device_map, main_device=devices[0], force_hooks=True)
