"""Which of a model's parameters are differentiated, and which are frozen and left out."""

from dataclasses import dataclass

from torch import Tensor, nn

from isoloss.errors import BadInput


@dataclass(frozen=True)
class MeasuredParameters:
    """`count` numbers are differentiated, each once however many modules share it; `frozen` names others."""

    count: int
    frozen: tuple[str, ...]

    @staticmethod
    def of(model: nn.Module) -> "MeasuredParameters":
        """Those of `model`: what requires a gradient is differentiated. Raises BadInput when nothing does.

        >>> layer = nn.Linear(2, 3)
        >>> _ = layer.bias.requires_grad_(False)
        >>> MeasuredParameters.of(layer)
        MeasuredParameters(count=6, frozen=('bias',))
        """
        count = sum(p.numel() for p in trainable_parameters(model).values())
        if not count:
            raise BadInput("the model has no parameter that requires a gradient; unfreeze those to measure")
        frozen = tuple(name for name, p in model.named_parameters() if not p.requires_grad)
        return MeasuredParameters(count, frozen)


def trainable_parameters(model: nn.Module) -> dict[str, Tensor]:
    """What requires a gradient, by name, each tensor once under the first of its names."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}
