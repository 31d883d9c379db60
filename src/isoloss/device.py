"""The device that is computed on."""

import torch

from isoloss.errors import BadInput


def usable_device(device: str) -> torch.device:
    """The device of that name. Raises BadInput when this machine cannot use it."""
    try:
        number = torch.zeros(1, device=device)
        number.item()  # "meta" is a device too, but one that holds no numbers
        return number.device  # with its index, where there are several of a kind
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"the device '{device}' cannot be used ({reason}); choose cpu or cuda") from error
