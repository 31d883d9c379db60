"""A pre-trained causal model restricted to some of its tokens, and its memory of what it has read."""

import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from isoloss.errors import BadInput
from isoloss.inference.causal_model import KeyValueCache


class GrowingCache:
    """A `KeyValueCache` with separate rows."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def shared_prefix(self, tokens: int) -> "SharedPrefix":
        return SharedPrefix(self.cache, tokens)


class SharedPrefix:
    """A `KeyValueCache` with a single row, the common prefix of all rows of a pass; never grows.

    It is the first `tokens` of another cache.
    """

    def __init__(self, cache: Cache, tokens: int) -> None:
        self.cache = Cache(
            layers=[
                _SharedLayer(layer.keys[:, :, :tokens], layer.values[:, :, :tokens]) for layer in cache.layers
            ]
        )

    def shared_prefix(self, tokens: int) -> "SharedPrefix":
        return SharedPrefix(self.cache, tokens)


class _SharedLayer(DynamicLayer):
    """One layer's prefix, returned along with a pass's keys and values, which are not stored.

    The prefix is thus expanded over rows for one layer at a time, never for all layers at once.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values

    def update(
        self, key_states: Tensor, value_states: Tensor, *_arguments: object, **_settings: object
    ) -> tuple[Tensor, Tensor]:
        """The keys and values for the pass's attention: the prefix, then its own."""
        rows = len(key_states)
        return (
            torch.cat([self.keys.expand(rows, -1, -1, -1), key_states], dim=2),
            torch.cat([self.values.expand(rows, -1, -1, -1), value_states], dim=2),
        )


class RestrictedCausalModel:
    """A `CausalModel` (inference.causal_model) over K of a model's tokens; shares its other weights.

    The output layer is restricted to the rows of `tokens`, so that scores of other tokens are never computed;
    any postprocessing of the scores by the model still happens. The model is switched to evaluation mode. One
    token is read to check that the model supports this. Raises BadInput if a token is not one of the model's,
    if its output layer is not linear or its scores depend on more than their own row of it, and if its memory
    is anything other than the keys and values of everything read (state-space models, sliding windows).
    """

    def __init__(self, model: PreTrainedModel, tokens: Int[Tensor, " K"]) -> None:
        name, head = type(model).__name__, model.get_output_embeddings()
        if not isinstance(head, nn.Linear):
            raise BadInput(f"{name} has no linear output layer; choose a causal language model")
        if int(tokens.min()) < 0 or int(tokens.max()) >= head.weight.shape[0]:
            raise BadInput(
                f"tokens {int(tokens.min())} to {int(tokens.max())} are not all among the "
                f"{head.weight.shape[0]} that {name} scores; choose the tokens for this model"
            )
        tokens = tokens.to(head.weight.device)
        self.model = _with_output_layer(model.eval(), _rows_of(head, tokens))
        _check_fits(model, self.model, tokens)
        config = model.config.get_text_config(decoder=True)
        self._layers, self._width = int(config.num_hidden_layers), int(config.hidden_size)
        self._element: int = head.weight.element_size()
        weights = [*_matrices(model.base_model), self.model.get_output_embeddings().weight]
        self._products: int = sum(weight.numel() for weight in weights)
        self._widest: int = max(max(weight.shape) for weight in weights)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.device
        return device

    @property
    def kind(self) -> str:
        """The model's class."""
        return type(self.model).__name__

    def facts(self) -> tuple[tuple[str, str], ...]:
        """What a page says of the model, by name."""
        parameters = sum(p.numel() for p in self.model.base_model.parameters())
        return (
            ("model", f"{self.kind} of {self.model.name_or_path or 'memory'}"),
            ("parameters", f"{parameters:,} without the output layer"),
            ("precision", str(self.model.dtype).removeprefix("torch.")),
        )

    @torch.no_grad()
    def __call__(
        self, tokens: Int[Tensor, "n s"], past: KeyValueCache | None = None
    ) -> tuple[Float[Tensor, "n s K"], KeyValueCache]:
        cache = past.cache if isinstance(past, GrowingCache | SharedPrefix) else None
        output = self.model(input_ids=tokens, past_key_values=cache, use_cache=True)
        if isinstance(past, SharedPrefix):
            return output.logits, past
        return output.logits, GrowingCache(output.past_key_values)

    def pass_bytes(self, past: int, tokens: int) -> int:
        """See `CausalModel.pass_bytes`: eight arrays of the widest layer, or of the K scores, per token."""
        keys_and_values = 4 * self._width * (past + tokens)
        return self._element * (8 * self._widest * tokens + keys_and_values)

    def cache_bytes(self, tokens: int) -> int:
        return self._element * 2 * self._layers * self._width * tokens

    def operations(self, past: int, tokens: int) -> float:
        """See `CausalModel.operations`: 2 per weight and token, and 4 d per layer and attended token."""
        attended = tokens * past + tokens * (tokens + 1) / 2
        return 2.0 * self._products * tokens + 4.0 * self._layers * self._width * attended


def _matrices(module: nn.Module) -> list[Tensor]:
    """The weights applied to every token: all matrices except the embeddings, which are looked up."""
    looked_up = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    return [p for p in module.parameters() if p.ndim == 2 and id(p) not in looked_up]


def _rows_of(head: nn.Linear, tokens: Int[Tensor, " K"]) -> nn.Linear:
    rows = nn.Linear(head.in_features, len(tokens), bias=head.bias is not None, device="meta")
    rows.weight = nn.Parameter(head.weight.detach()[tokens], requires_grad=False)
    if head.bias is not None:
        rows.bias = nn.Parameter(head.bias.detach()[tokens], requires_grad=False)
    return rows


def _with_output_layer(model: PreTrainedModel, head: nn.Linear) -> PreTrainedModel:
    """A second model that shares all parts but the output layer; the first is left unchanged."""
    second = copy.copy(model)
    second._modules = dict(model._modules)
    second.set_output_embeddings(head)
    return second


@torch.no_grad()
def _check_fits(model: PreTrainedModel, restricted: PreTrainedModel, tokens: Int[Tensor, " K"]) -> None:
    name, probe = type(model).__name__, tokens[:1, None]
    output = restricted(input_ids=probe, use_cache=True)
    layers = getattr(getattr(output, "past_key_values", None), "layers", [])
    if not layers or not all(type(layer) is DynamicLayer for layer in layers):
        raise BadInput(
            f"{name} does not remember just the keys and values of all it read, so sentences cannot share a "
            "prefix; choose a transformer with full attention, such as GPT-2, OPT or Llama"
        )
    whole = model(input_ids=probe).logits[..., tokens]
    if not torch.allclose(output.logits, whole, rtol=1e-3, atol=1e-4):
        raise BadInput(f"the scores of {name} depend on more than their own tokens; choose another model")
