"""The language of a teacher that is trained on the spot, as an experiment plans it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from isoloss.experiments.gutenberg import DIGEST, default_cache, gutenberg_books
from isoloss.experiments.teacher import Teacher, finished_language, pretrained_language, prose_windows
from isoloss.languages.causal_lm import CausalLM
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
    """A `LanguagePlan`: the language of `teacher`, trained on `prose` once into `output`'s teachers/."""

    teacher: Teacher
    prose: Prose

    @property
    def digest(self) -> str:
        """See `LanguagePlan`."""
        settings = json.dumps([settings_as_json(self.teacher), self.prose.digest], sort_keys=True)
        return hashlib.sha256(settings.encode()).hexdigest()

    @property
    def words(self) -> int:
        """See `LanguagePlan`: as many as the teacher asks for; a short text may have fewer."""
        return self.teacher.words

    @property
    def maximum_length(self) -> int:
        """See `LanguagePlan`."""
        return self.teacher.length

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`; raises IsolossError where the text cannot be had."""
        folder = output / "teachers" / self.digest[:16]
        if finished := finished_language(self.teacher, folder):
            return finished
        teacher, books = self.teacher, self.prose.books(progress)
        text = prose_windows(books, teacher.words, teacher.length)
        return pretrained_language(teacher, text, folder, progress)
