"""The checkpoints of a comparison: what each is, and which of them are comparable in which quantity."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedModel

from isoloss.errors import BadInput, raised_as, reason_of
from isoloss.measurements.models_on_text import load_predicting, prediction_of
from isoloss.measurements.prediction import MaskedTokens, Prediction, SpecialTokens
from isoloss.measurements.quantity import LOWER, Measurement
from isoloss.measurements.verdicts import ACCURACIES, LOSS, OTHER_PARAMETERS
from isoloss.models.loading import LanguageObjective, refuse_bare_encoder
from isoloss.models.tokenizer import load_tokenizer, longest_sentence, number_of_tokens, refuse_further_tokens
from isoloss.progress import Progress, silent
from isoloss.results.tensors import tensors_digest


@dataclass(frozen=True)
class Checkpoint:
    """What is known about a checkpoint without measuring it; `weights` and `tokenizer` are digests.

    Checkpoints with the same `encoding` have the same tokens, however their tokenizers are stored. `shapes`
    are those of all parameters, by name; `longest` is the maximum number of input tokens, None if unknown.
    """

    name: str
    prediction: Prediction
    kind: str
    parameters: int
    longest: int | None
    weights: str
    tokenizer: str
    encoding: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    tokens: SpecialTokens

    def reads_as(self, other: "Checkpoint") -> bool:
        """Whether both predict the same tokens of a text, so that their losses are comparable."""
        this = (self.prediction, self.encoding, self.tokens.start)
        return this == (other.prediction, other.encoding, other.tokens.start)

    def built_as(self, other: "Checkpoint") -> bool:
        """Whether both have the same parameters, so that their traces are comparable."""
        return (self.kind, self.shapes) == (other.kind, other.shapes)


@dataclass
class Models:
    """Models by name, at most one of them in memory, and their tokenizers."""

    device: torch.device
    dtype: torch.dtype
    objective: LanguageObjective | None = None
    _held: tuple[str, PreTrainedModel, Prediction] | None = None
    _tokenizers: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> PreTrainedModel:
        return self.load(name)[0]

    def load(self, name: str) -> tuple[PreTrainedModel, Prediction]:
        """The model on its device, and what it predicts; the previous model is released first."""
        if self._held is None or self._held[0] != name:
            self._held = None
            prediction = prediction_of(name, self.objective)
            model = load_predicting(name, prediction, self.dtype).to(self.device)
            self._held = (name, model, prediction)
        return self._held[1], self._held[2]

    def tokenizer(self, name: str) -> Any:
        """The tokenizer beside the model."""
        if name not in self._tokenizers:
            self._tokenizers[name] = load_tokenizer(name)
        return self._tokenizers[name]


@dataclass(frozen=True)
class CheckpointMeasurement:
    """A measurement to be made of a checkpoint; `name` is shown while it runs.

    `key` holds, as JSON, everything its numbers depend on besides the model and its tokenizer. Cached
    measurements of an older `revision` are repeated. `smaller_is` is what a smaller value means.
    """

    name: str
    key: Mapping[str, Any]
    measure: Callable[[PreTrainedModel, Checkpoint, Progress], Measurement]
    revision: int = 1
    smaller_is: str = LOWER


Stage = Sequence[tuple[Checkpoint, CheckpointMeasurement]]
"""Measurements after which there is something new to compare."""


def read_checkpoints(
    names: Sequence[str], models: Models, texts: Sequence[str], progress: Progress = silent
) -> tuple[Checkpoint, ...]:
    """Load each checkpoint once and describe it; `texts` are all that tokenizers are to be told apart on.

    All configurations and tokenizers are read before any weights. Raises BadInput for two checkpoints with
    the same weights, what is no language model or has no matching tokenizer, and a masked one without a mask
    token.
    """
    for name in names:
        _check_configuration(name, models)
    found: list[Checkpoint] = []
    encodings: dict[str, str] = {}
    for done, name in enumerate(names):
        progress("reading checkpoints", done, len(names), name)
        checkpoint = _read(name, models, texts, encodings)
        for other in found:
            if other.weights == checkpoint.weights:
                raise BadInput(f"{other.name} and {name} hold the same weights; name each checkpoint once")
        found.append(checkpoint)
    progress("reading checkpoints", len(names), len(names))
    return tuple(found)


def families(checkpoints: Iterable[Checkpoint]) -> list[list[Checkpoint]]:
    """The checkpoints grouped by the tokens they predict, in the order of each group's first member."""
    groups: list[list[Checkpoint]] = []
    for checkpoint in checkpoints:
        family = next((group for group in groups if group[0].reads_as(checkpoint)), None)
        if family is None:
            groups.append([checkpoint])
        else:
            family.append(checkpoint)
    return groups


def not_comparable(name: str, first: Checkpoint, second: Checkpoint) -> str:
    """The reason why a measurement is not comparable between two checkpoints; empty if it is comparable.

    Accuracies on one task always are; losses, if both predict the same tokens; the trace and all else, which
    depends on what the parameters are, if both also have the same parameters.
    """
    if name in ACCURACIES:
        return ""
    if first.prediction != second.prediction:
        return f"{first.name} is {first.prediction.name} and {second.name} {second.prediction.name}"
    if first.encoding != second.encoding:
        return "their tokenizers differ"
    if not first.reads_as(second):
        return "their decoders begin with different tokens"
    if name != LOSS and not first.built_as(second):
        return OTHER_PARAMETERS
    return ""


def _check_configuration(name: str, models: Models) -> None:
    is_masked = isinstance(prediction_of(name, models.objective), MaskedTokens)
    if is_masked:
        refuse_bare_encoder(name)
    if models.tokenizer(name).mask_token_id is None and is_masked:
        raise BadInput(
            f"the tokenizer of {name} has no mask token, which a masked language model is measured with; set "
            "its mask_token and save it beside the model"
        )


def _read(name: str, models: Models, texts: Sequence[str], encodings: dict[str, str]) -> Checkpoint:
    model, prediction = models.load(name)
    tokenizer = models.tokenizer(name)
    refuse_further_tokens(name, tokenizer, number_of_tokens(model))
    digest, encoding = _digests(tokenizer, texts, encodings, name)
    return Checkpoint(
        name=name,
        prediction=prediction,
        kind=type(model).__name__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        longest=longest_sentence(model),
        weights=weights_digest(model),
        tokenizer=digest,
        encoding=encoding,
        shapes=tuple((each, tuple(parameter.shape)) for each, parameter in model.named_parameters()),
        tokens=prediction.special_tokens(model, name),
    )


def _digests(tokenizer: Any, texts: Sequence[str], encodings: dict[str, str], name: str) -> tuple[str, str]:
    """Of a tokenizer, and of how it encodes the texts: all that tells what one written in Python does."""
    digest = tokenizer_digest(tokenizer)
    if not getattr(tokenizer, "is_fast", False):
        encoding = _encoding_digest(tokenizer, texts, name)
        return hashlib.sha256(f"{digest} {encoding}".encode()).hexdigest(), encoding
    if digest not in encodings:  # once for all checkpoints with equal tokenizers
        encodings[digest] = _encoding_digest(tokenizer, texts, name)
    return digest, encodings[digest]


def _encoding_digest(tokenizer: Any, texts: Sequence[str], name: str) -> str:
    def cannot(error: BaseException) -> BadInput:
        why = f"the tokenizer of {name} cannot encode the text ({reason_of(error)})"
        return BadInput(f"{why}; write it in words that it knows")

    with raised_as(cannot):  # tokenizers raise all kinds of exceptions
        return encoding_digest(tokenizer, texts)


TOGETHER = 1000
"""Texts that are encoded at a time to tell tokenizers apart."""

_NOT_THE_MODEL = {"_name_or_path", "transformers_version", "dtype", "torch_dtype"}
_NOT_THE_ADAPTER = {"base_model_name_or_path", "revision", "peft_version"}
"""What a configuration says of where a model or an adapter is from, and not of what it computes."""


def weights_digest(model: PreTrainedModel) -> str:
    """SHA-256 of the architecture, of every weight and of the settings of adapters, wherever they lie.

    >>> from isoloss.models.transformers import laptop_shape, PostLayerNormTransformer
    >>> build = PostLayerNormTransformer(laptop_shape(16)).build
    >>> weights_digest(build(12, 8, seed=0)) == weights_digest(build(12, 8, seed=0))
    True
    >>> weights_digest(build(12, 8, seed=0)) == weights_digest(build(12, 8, seed=1))
    False
    """
    settings = {name: value for name, value in model.config.to_dict().items() if name not in _NOT_THE_MODEL}
    content = json.dumps([type(model).__name__, settings, *_adapters(model)], sort_keys=True, default=str)
    return tensors_digest(model.state_dict(), content)


def _adapters(model: PreTrainedModel) -> list[dict[str, Any]]:
    """What peft multiplies an adapter's weights with, and how, is in neither the weights nor `config`."""
    return [
        {
            name: sorted(map(str, value)) if isinstance(value, set) else value  # sets have no fixed order
            for name, value in adapter.to_dict().items()
            if name not in _NOT_THE_ADAPTER
        }
        for adapter in getattr(model, "peft_config", {}).values()
    ]


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 of everything a tokenizer does except padding and truncation, which each call specifies.

    For a tokenizer that is not from the package `tokenizers`: of its vocabulary and special tokens.
    """
    known: dict[str, Any] = {"vocabulary": tokenizer.get_vocab(), "special": tokenizer.special_tokens_map}
    if getattr(tokenizer, "is_fast", False):
        steps = json.loads(tokenizer.backend_tokenizer.to_str())
        known = {**steps, "truncation": None, "padding": None, "special": tokenizer.special_tokens_map}
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()


def encoding_digest(tokenizer: Any, texts: Sequence[str]) -> str:
    """SHA-256 of the vocabulary, the special tokens, and how these texts are encoded.

    Tokenizers that are defined differently may encode alike, and those of one vocabulary differently.
    """
    special = [tokenizer.mask_token_id, *sorted(tokenizer.all_special_ids)]
    digest = hashlib.sha256(json.dumps([sorted(tokenizer.get_vocab().items()), special]).encode())
    for start in range(0, len(texts), TOGETHER):
        encoded = tokenizer(list(texts[start : start + TOGETHER]), verbose=False)["input_ids"]
        digest.update(json.dumps(encoded).encode())
    return digest.hexdigest()
