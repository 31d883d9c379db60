"""The models of the laboratory: trained here, read from folders, or handed over; and a folder's language."""

import copy
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, SupportsIndex, overload

from torch import nn
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from isoloss.errors import BadInput
from isoloss.lab.network import TorchModel, digest_of_network, digest_of_weights
from isoloss.languages.language import Language
from isoloss.languages.language_file import read_language
from isoloss.models.loading import load_any_language_model
from isoloss.models.tokenizer import load_tokenizer, longest_sentence, number_of_tokens
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.results.checkpoint import RAW_FOLDER, RECORD_FILE, seeds_of
from isoloss.results.store import read_sealed

LanguageObjective = MaskedObjective | NextWordObjective


@dataclass(frozen=True, repr=False)
class Model:
    """A language model with what is known of it.

    `language` is what it was trained on, None if unknown, `step` the step of its run, `seeds` are those of
    all runs that it went through, and `tokenizer` reads texts for it. `weights` is how many numbers it has.
    `run_digest` names the settings of the run that it is a step of, if any.
    """

    name: str
    module: PreTrainedModel
    language: Language | None = None
    step: int | None = None
    seeds: tuple[int, ...] = ()
    tokenizer: Any = field(default=None, compare=False)
    run_digest: str = ""

    @property
    def objective(self) -> LanguageObjective:
        """What it predicts of a language's sentences: the next word if it is causal, or a masked one."""
        return NextWordObjective() if is_causal(self.module) else MaskedObjective()

    @property
    def weights(self) -> int:
        """How many numbers it has; tied ones count once."""
        return sum(weight.numel() for weight in self.module.parameters())

    @property
    def digest(self) -> str:
        """A digest of its weights and of its network: models of one name may be different ones."""
        return f"{digest_of_weights(self.module)}-{digest_of_network(self.module)}"

    @property
    def label(self) -> str:
        """Its name and its step."""
        return self.name if self.step is None else f"{self.name}, step {self.step:,}"

    def __repr__(self) -> str:
        return f"{self.label}: {type(self.module).__name__} of {self.weights:,} weights"


@dataclass(frozen=True, repr=False)
class Run:
    """The models at a run's checkpoints, by step."""

    name: str
    models: tuple[Model, ...]

    @property
    def last(self) -> Model:
        """The model at the last step."""
        return self.models[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of its models."""
        return tuple(model.step or 0 for model in self.models)

    def at(self, step: int) -> Model:
        """The model at that step. Raises BadInput if there is none."""
        for model in self.models:
            if model.step == step:
                return model
        raise BadInput(f"{self.name} has no model at step {step}; it has {_listed(self.steps)}")

    @overload
    def __getitem__(self, place: SupportsIndex) -> Model: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Model, ...]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Model | tuple[Model, ...]:
        """Its models by their places, not their steps: run[-1] is the last, run[-3:] are the last three."""
        return self.models[place]

    def __iter__(self) -> Iterator[Model]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def __repr__(self) -> str:
        seeds = ", then ".join(map(str, self.last.seeds))
        return f"{self.name}: {len(self)} models, steps {_listed(self.steps)}; trained with seed {seeds}"


OneModel = Model | nn.Module | str | Path
Models = OneModel | Run | Sequence[OneModel | Run]


def model(
    given: OneModel, *, name: str | None = None, language: Language | None = None, tokenizer: Any = None
) -> Model:
    """A model of the laboratory from a folder, a hub's name, a Hugging Face model or a torch module.

    A torch module takes token numbers [n, S], and an `attention_mask` if it has such a parameter, and gives
    scores [n, S, v] of what stands at each place; of a language, word w is token w + 3 after the padding, the
    beginning of a sentence and the mask (0, 1, 2). A folder that `save` wrote tells its language and
    its seeds. Of a model of the laboratory, what is given takes the place of what it had. Raises BadInput if
    there is no such model, or if it cannot read the language.

    >>> one = model(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)), name="bag")
    >>> one
    bag: TorchModel of 81 weights
    """
    if isinstance(given, Model):
        found = replace(
            given,
            name=name or given.name,
            language=language or given.language,
            tokenizer=tokenizer or given.tokenizer,
        )
    elif isinstance(given, str | Path):
        module, _ = load_any_language_model(str(given))
        try:
            tokenizer = tokenizer or load_tokenizer(str(given))
        except BadInput:  # a model of token numbers, which reads no text
            tokenizer = None
        folder = Path(given)
        known = language or saved_language(folder)
        found = Model(name or folder.name, module, known, None, saved_seeds(folder), tokenizer)
    elif isinstance(given, PreTrainedModel):
        found = Model(name or type(given).__name__, given, language, tokenizer=tokenizer)
    elif isinstance(given, nn.Module):
        found = Model(name or type(given).__name__, TorchModel(given), language, tokenizer=tokenizer)
    else:
        raise _no_model(given)
    if language is not None:
        refuse_no_language(language)
        return reader_of(found, language)
    return found


def models_of(given: Models) -> list[Model]:
    """All models of what was handed over, in order. Raises BadInput if there is none."""
    if isinstance(given, Run):
        return list(given)
    if isinstance(given, Model | nn.Module | str | Path):
        return [model(given)]
    try:
        every = [found for each in given for found in models_of(each)]
    except TypeError:
        raise _no_model(given) from None
    if not every:
        raise BadInput("there is no model in the list; give at least one")
    return every


def _no_model(given: object) -> BadInput:
    if isinstance(given, Run):
        return BadInput(f"{given.name} is a run of {len(given)} models; give one of them, such as run.last")
    return BadInput(
        f"{given!r:.60} is no model; give one of a run, a model's folder, its name on a hub, or a "
        "torch module"
    )


def reader_of(found: Model, language: Language) -> Model:
    """The model as one that reads the language: of more tokens, it knows which of them are the words.

    It has the same weights; the module that was given is left as it is. Raises BadInput if it cannot read the
    language.
    """
    _refuse_misfit(found, language)
    words = len(language.vocabulary)
    if isinstance(found.module, TorchModel):
        return found
    if words == getattr(found.module.config, "language_words", number_of_tokens(found.module) - FIRST_WORD):
        return found
    module = copy.copy(found.module)
    module.config = copy.deepcopy(module.config)
    module.config.language_words = words
    return replace(found, module=module)


def _refuse_misfit(found: Model, language: Language) -> None:
    """Raise BadInput if the model cannot read the sentences of the language."""
    tokens, longest = len(language.vocabulary) + FIRST_WORD, language.maximum_length
    if isinstance(found.module, TorchModel):
        found.module.refuse_misfit(tokens, longest)
        return
    if (known := number_of_tokens(found.module)) < tokens:
        raise BadInput(
            f"{found.label} has {known} tokens, but the language's words and {FIRST_WORD} special tokens are "
            f"{tokens}; give a model with as many"
        )
    positions = longest_sentence(found.module)
    if positions is not None and positions < longest + 1:
        raise BadInput(
            f"{found.label} reads {positions} tokens at most, but sentences have {longest} words after a "
            "beginning; give a model with more positions"
        )


def refuse_no_language(language: object) -> None:
    """Raise BadInput for what is not a language."""
    if not isinstance(language, Language):
        raise BadInput(
            f"{language!r:.60} is no language; give one, such as isoloss.headline_grammar() or "
            "isoloss.read_pcfg(file)"
        )


def is_causal(module: nn.Module) -> bool:
    """Whether its class predicts the next token; a torch module fills in masked ones."""
    name = type(module).__name__
    masked = name in MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()
    return name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() and not masked


def _listed(steps: Sequence[int]) -> str:
    shown = [f"{step:,}" for step in steps]
    return ", ".join(shown if len(shown) < 9 else [*shown[:3], "...", *shown[-3:]])


CARD_FILE = "README.md"


def saved_language(folder: Path) -> Language | None:
    """The language in a folder whose card names its digest, as `save` writes them; None without such a one.

    A grammar's file does not hold the longest sentence that the grammar was cut at, and the card does.
    """
    content = _card(folder)
    longest = re.search(r"at most (\d+) words", content)
    if not longest:
        return None
    for file in sorted(folder.glob("language.*")):
        for maximum_length in (None, int(longest[1])):
            with suppress(BadInput):
                found = read_language(file, maximum_length)
                if found.digest in content:
                    return found
    return None


def saved_seeds(folder: Path) -> tuple[int, ...]:
    """The seeds of a model's runs: by a checkpoint's record, or by the card that `save` writes; else none."""
    checkpoint = folder.parent if folder.name == RAW_FOLDER else folder
    if (checkpoint / RECORD_FILE).is_file():
        return seeds_of(read_sealed(checkpoint / RECORD_FILE, RECORD_FILE))
    seeds = re.search(r"seeds of its runs: (\d{1,19}(?:, then \d{1,19})*)\)", _card(folder))
    return tuple(map(int, seeds[1].split(", then "))) if seeds else ()


def _card(folder: Path) -> str:
    card = folder / CARD_FILE
    return card.read_text("utf-8", "replace") if card.is_file() else ""
