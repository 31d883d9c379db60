"""A transformer over an enumerated language, as a pure function of one vector of parameters."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from isoloss.curvature.measured_parameters import trainable_parameters
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.theory.context_laws import EnumeratedContexts


class EnumeratedTransformer:
    """A masked language model in evaluation mode, its parameters (tied ones once) end to end in float64.

    Its scores are normalised over the words alone: the law gives the special tokens nothing, which no finite
    logit does, so that over the whole vocabulary the loss would have no minimiser at all. The model's
    attention must be "eager", whose operations alone can be differentiated twice. It is left as found.
    """

    def __init__(self, model: nn.Module, contexts: EnumeratedContexts) -> None:
        self._model, self._contexts = model, contexts
        named = trainable_parameters(model)
        self._names, self._shapes = list(named), [p.shape for p in named.values()]
        self._sizes = [p.numel() for p in named.values()]
        self._rows = torch.arange(len(contexts.input_ids))

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """See `SoftmaxModel.logits`."""
        pieces = zip(torch.split(parameters, self._sizes), self._shapes, strict=True)
        named = dict(zip(self._names, (piece.view(shape) for piece, shape in pieces), strict=True))
        everywhere = functional_call(self._model, named, (self._contexts.input_ids,)).logits
        scores: Tensor = everywhere[self._rows, self._contexts.mask_positions, FIRST_WORD:]
        return scores


def parameter_vector(model: nn.Module) -> Float[Tensor, " P"]:
    """All that the model learns, tied parameters once, in float64.

    >>> parameter_vector(nn.Linear(2, 3)).shape
    torch.Size([9])
    """
    parts = [p.detach().double().flatten() for p in trainable_parameters(model).values()]
    return torch.cat(parts)
