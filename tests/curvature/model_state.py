"""The state of a model and of the random numbers that measuring must leave unchanged."""

import torch


def state(model):
    return (
        [module.training for module in model.modules()],
        [parameter.requires_grad for parameter in model.parameters()],
        [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None],
        {name: value.clone() for name, value in model.state_dict().items()},
        [
            (len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks))
            for module in model.modules()
        ],
        torch.get_rng_state(),
    )
