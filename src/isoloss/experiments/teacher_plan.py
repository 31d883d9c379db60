"""The language of a teacher that is trained on the spot, as an experiment plans it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.stand_ins import DIGEST, gutenberg_books
from isoloss.experiments.teacher import Teacher, pretrained_language, prose_windows
from isoloss.languages.causal_lm import CausalLM
from isoloss.models.causal_language import (
    LENGTH,
    WORDS,
    ModelSource,
    load_causal_language,
    read_causal_language,
    write_causal_language,
)
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

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`; raises BadInput where the model cannot be had."""
        path = output / "languages" / f"{self.digest[:16]}.json"
        if path.exists():
            return read_causal_language(path)
        language = load_causal_language(self.source, self.words, self.length, self.seed, progress)
        write_causal_language(language, self.source, path)
        return language
