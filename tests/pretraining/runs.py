"""Small runs that several test files train."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from markov_language import MarkovLanguage

from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, Task
from isoloss.models.shapes import Shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.specification import PretrainingSpecification, log_spaced_steps
from isoloss.results.checkpoint import checkpoint_folders

LANGUAGE = MarkovLanguage()


def small(steps: int = 40, seed: int = 0, **changes: object) -> PretrainingSpecification:
    """A run of a few milliseconds per step."""
    specification = PretrainingSpecification(
        architecture=PreLayerNormTransformer(Shape(8, 2, 1, 16)),
        update_rule=AdamW(learning_rate=1e-2, warm_up_steps=10),
        language_digest=LANGUAGE.digest,
        steps=steps,
        batch_size=16,
        seed=seed,
        checkpoint_steps=log_spaced_steps(5, steps, per_doubling=2),
    )
    return replace(specification, **changes)


def outcome(folder: Path) -> dict[str, tuple[str, str]]:
    """Digests of every checkpoint's weights and of the record beside them."""

    def sha256(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    return {
        checkpoint.name: (sha256(checkpoint / "model.safetensors"), sha256(checkpoint / "checkpoint.json"))
        for checkpoint in checkpoint_folders(folder)
    }


@dataclass(frozen=True)
class FailingLanguage(MarkovLanguage):
    """Raises `error` at its `good`-th draw and after."""

    good: int = 0
    error: type[Exception] = ValueError

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        if self.good == 0:
            raise self.error("the language cannot be sampled")
        object.__setattr__(self, "good", self.good - 1)
        return super().sample(n, generator)


@dataclass(frozen=True)
class FirstWord:
    """Which word a sentence of the language starts with."""

    language: "TaskedLanguage"
    name: str = "first-word"
    classes: tuple[str, ...] = ("heads", "tails")

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        sentences = self.language.sample(n, generator)
        labels = sentences.ids[:, 0]
        return LabelledSentences(sentences, labels, torch.nn.functional.one_hot(labels, 2).double())


@dataclass(frozen=True)
class TaskedLanguage(MarkovLanguage):
    """The same with tasks, for rules that train on them."""

    def tasks(self) -> tuple[Task, ...]:
        return (FirstWord(self), FirstWord(self, "first-word-again"))
