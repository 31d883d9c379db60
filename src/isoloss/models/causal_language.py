"""Languages defined by pre-trained causal models, restricted to some of their tokens: made, saved, loaded."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import Cache, DynamicLayer

from isoloss.errors import BadInput
from isoloss.files import read_text, write_atomically
from isoloss.inference.causal_model import (
    RANKING_SENTENCES,
    KeyValueCache,
    TokenRestriction,
    expected_frequencies,
    written_words,
)
from isoloss.languages.causal_lm import MEMORY_BYTES, CausalLM
from isoloss.models.loading import load_causal_language_model
from isoloss.models.tokenizer import load_tokenizer, longest_sentence
from isoloss.progress import Progress, silent
from isoloss.results.tensors import tensors_digest

WORDS, LENGTH = 2000, 24
"""The paper's: the 2,000 most frequent tokens, sentences of 24 (A.1)."""


@dataclass(frozen=True)
class ModelSource:
    """Where to find a causal language model: a folder or a name on a hub, and optionally a GGUF file in it.

    The paper's is `ModelSource("facebook/opt-125m")`, if a hub can be reached. Weights are loaded in
    `precision`, in which the distributions are computed, too.
    """

    name: str
    gguf_file: str | None = None
    precision: Literal["float32", "float64"] = "float32"

    def load(self) -> PreTrainedModel:
        """The model, in evaluation mode, on the CPU; see `load_causal_language_model`."""
        dtype = torch.float64 if self.precision == "float64" else torch.float32
        return load_causal_language_model(self.name, self.gguf_file, dtype=dtype)


def load_causal_language(
    source: ModelSource, words: int = WORDS, length: int = LENGTH, seed: int = 0, progress: Progress = silent
) -> CausalLM:
    """The language of a pre-trained model's `words` most frequent tokens; see `causal_language`."""
    model = source.load()
    tokenizer = load_tokenizer(source.name, source.gguf_file)
    return causal_language(model, tokenizer, words, length, seed, progress=progress)


def causal_language(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    words: int = WORDS,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = silent,
) -> CausalLM:
    """The language of the model's `words` most frequent tokens, in the model's precision.

    A token's frequency is its mean probability over the positions of 256 sentences of `length` tokens that
    the model generates after its bos token with `seed`, without special tokens (`expected_frequencies`).
    Words are numbered by rank and written as in the tokenizer, e.g. "Ġthe" for a "the" after a space. Raises
    BadInput if the model has no bos token or fewer tokens, and for a length beyond its positions.
    """
    _refuse_length(model, length)
    bos = _bos(model, tokenizer)
    special = set(tokenizer.all_special_ids) | {bos}
    ordinary = torch.tensor(sorted(set(tokenizer.get_vocab().values()) - special), device=model.device)
    if not 1 <= words <= len(ordinary):
        raise BadInput(
            f"the model has {len(ordinary):,} ordinary tokens, so the words can be 1 to as many, not {words}"
        )
    whole = RestrictedCausalModel(model, ordinary)
    frequencies = expected_frequencies(whole, bos, ordinary, length, seed, MEMORY_BYTES, progress)
    chosen = ordinary[frequencies.sort(descending=True, stable=True).indices[:words]]
    rule = (
        f"highest mean probability over {RANKING_SENTENCES} sentences of {length} tokens that the model "
        f"writes, seed {seed}"
    )
    words_as_written = written_words(tokenizer.convert_ids_to_tokens(chosen.tolist()))
    restriction = TokenRestriction(tuple(chosen.tolist()), words_as_written, bos, rule)
    return restricted_language(model, restriction, length)


def restricted_language(
    model: PreTrainedModel, restriction: TokenRestriction, length: int = LENGTH
) -> CausalLM:
    """The language of the model's tokens in `restriction`.

    Raises BadInput for tokens that the model does not know, and for a length beyond its positions.

    >>> from isoloss.models.transformers import GPT2Transformer, laptop_shape
    >>> model = GPT2Transformer(laptop_shape(16)).build(words=4, maximum_length=6, seed=0)
    >>> language = restricted_language(model, TokenRestriction((3, 4, 6), ("a", "b", "d"), 1, "by hand"), 5)
    >>> sentences = language.sample(2, torch.Generator().manual_seed(0))
    >>> language.masked_log_probabilities(sentences).exp().sum(2).round(decimals=6).tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    """
    _refuse_length(model, length)
    restricted = RestrictedCausalModel(model, torch.tensor(restriction.tokens))
    if not 0 <= restriction.bos < model.get_input_embeddings().weight.shape[0]:
        raise BadInput(f"the bos token {restriction.bos} is none of the model's; choose one that it knows")
    return CausalLM(restricted, restriction, length, tensors_digest(model.state_dict()))


def _refuse_length(model: PreTrainedModel, length: int) -> None:
    """Raise BadInput unless there are positions for all tokens read: bos and all words but the last."""
    longest = longest_sentence(model)
    if length < 1 or (longest is not None and length > longest):
        most = "" if longest is None else f" and at most {longest:,}, which the model has positions for"
        raise BadInput(f"sentences of {length} words cannot be drawn; give a length of at least 1{most}")


def write_causal_language(language: CausalLM, source: ModelSource, path: Path) -> None:
    """Save the language to a JSON file, without the weights but with their location and digest."""
    content = {
        "causal_language_model": source.name,
        "gguf_file": source.gguf_file,
        "precision": source.precision,
        "weights": language.weights,
        "length": language.length,
    }
    content |= {name: getattr(language.restriction, name) for name in ("bos", "rule", "tokens", "words")}
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_causal_language(path: Path) -> CausalLM:
    """The language saved by `write_causal_language`, with its model loaded from the location in the file.

    Raises BadInput for a file that is not of this kind, and if the model's weights have changed since.
    """
    text = read_text(path, "a causal language")
    try:
        content = json.loads(text)
        source = ModelSource(content["causal_language_model"], content["gguf_file"], content["precision"])
        restriction = TokenRestriction(
            tuple(content["tokens"]), tuple(content["words"]), content["bos"], content["rule"]
        )
        length, weights = int(content["length"]), content["weights"]
        if "\0" in source.name:
            raise ValueError("the model's name has a NUL character")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise BadInput(
            f"{path} is no causal language: {reason}; write it again with write_causal_language"
        ) from error
    language = restricted_language(source.load(), restriction, length)
    if language.weights != weights:
        raise BadInput(
            f"{source.name} has other weights than the language in {path} was made of; make it anew"
        )
    return language


def _bos(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that starts sentences: the tokenizer's bos, else the model's, else the end-of-text token."""
    for token in (tokenizer.bos_token_id, model.config.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise BadInput(f"{type(model).__name__} names no bos token; choose a model that has one")


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
        self.model = _restricted(model.eval(), head, tokens)
        _check_fits(model, self.model, tokens)
        config = model.config.get_text_config(decoder=True)
        self._layers, self._width = int(config.num_hidden_layers), int(config.hidden_size)
        self._element: int = head.weight.element_size()
        body = model.base_model
        looked_up = {id(part.weight) for part in body.modules() if isinstance(part, nn.Embedding)}
        weights = [p for p in body.parameters() if p.ndim == 2 and id(p) not in looked_up]
        weights.append(self.model.get_output_embeddings().weight)
        self._products: int = sum(weight.numel() for weight in weights)
        self._widest: int = max(max(weight.shape) for weight in weights)

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @property
    def kind(self) -> str:
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
        cache = past.cache if isinstance(past, _KeysAndValues) else None
        output = self.model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return output.logits, past or _KeysAndValues(output.past_key_values)

    def pass_bytes(self, past: int, tokens: int) -> int:
        """See `CausalModel.pass_bytes`: eight arrays of the widest layer, or of the K scores, per token."""
        return self._element * (8 * self._widest * tokens + 4 * self._width * (past + tokens))

    def cache_bytes(self, tokens: int) -> int:
        return self._element * 2 * self._layers * self._width * tokens

    def operations(self, past: int, tokens: int) -> float:
        """See `CausalModel.operations`: 2 per weight and token, and 4 d per layer and attended token."""
        attended = tokens * past + tokens * (tokens + 1) / 2
        return 2.0 * self._products * tokens + 4.0 * self._layers * self._width * attended


def _restricted(model: PreTrainedModel, head: nn.Linear, tokens: Int[Tensor, " K"]) -> PreTrainedModel:
    """A second model that shares all parts but the output layer; the first is left unchanged."""
    rows = nn.Linear(head.in_features, len(tokens), bias=head.bias is not None, device="meta")
    for name, each in head.named_parameters():
        setattr(rows, name, nn.Parameter(each.detach()[tokens], requires_grad=False))
    second = copy.copy(model)
    second._modules = dict(model._modules)
    second.set_output_embeddings(rows)
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


@dataclass(frozen=True)
class _KeysAndValues:
    """A `KeyValueCache`, to which passes append in place, unless it is the prefix of all their rows."""

    cache: Cache

    def shared_prefix(self, tokens: int) -> "_KeysAndValues":
        known = [(layer.keys[:, :, :tokens], layer.values[:, :, :tokens]) for layer in self.cache.layers]
        return _KeysAndValues(Cache(layers=[_SharedLayer(*each) for each in known]))


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
        rows = len(key_states)
        return (
            torch.cat([self.keys.expand(rows, -1, -1, -1), key_states], dim=2),
            torch.cat([self.values.expand(rows, -1, -1, -1), value_states], dim=2),
        )
