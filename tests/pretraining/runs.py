"""Small runs that several test files train."""

import hashlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from markov_language import MarkovLanguage

from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, Task
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import PreLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.checkpoint_writing import write_checkpoint
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification, log_spaced_steps
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRule
from isoloss.results.checkpoint import Checkpoint, checkpoint_folders

LANGUAGE = MarkovLanguage()
FORK = multiprocessing.get_context("fork")


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
    """Digests of every checkpoint's weights, and of the record beside them with those of all its files."""

    def sha256(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    return {
        checkpoint.name: (sha256(checkpoint / "model.safetensors"), sha256(checkpoint / "checkpoint.json"))
        for checkpoint in checkpoint_folders(folder)
    }


def optimiser_state(folder: Path) -> list[torch.Tensor]:
    """All tensors of the last checkpoint's training state."""
    state = torch.load(checkpoint_folders(folder)[-1] / TRAINING_STATE, weights_only=True)

    def tensors(nested: object) -> list[torch.Tensor]:
        if isinstance(nested, torch.Tensor):
            return [nested]
        inner = nested.values() if isinstance(nested, dict) else nested if isinstance(nested, list) else ()
        return [tensor for each in inner for tensor in tensors(each)]

    return tensors(state)


def interrupted_at(step: int) -> Callable[..., None]:
    """Progress that is Ctrl-C at a step."""

    def progress(task: str, completed: float, total: float, message: str = "") -> None:
        if completed == step:
            raise KeyboardInterrupt

    return progress


def assert_resumes_to_the_bit(
    specification: PretrainingSpecification, language: MarkovLanguage, folder: Path, step: int, **how: Any
) -> None:
    """Interrupted when `step` is reported, a run ends with the bits of an undisturbed one."""
    pretrain(specification, language, folder / "undisturbed", **how)
    with pytest.raises(KeyboardInterrupt):
        pretrain(specification, language, folder / "resumed", progress=interrupted_at(step), **how)
    before = max(each for each in specification.checkpoint_steps if each < step)
    assert pretrain(specification, language, folder / "resumed", **how).resumed_from == before
    assert outcome(folder / "resumed") == outcome(folder / "undisturbed")


def kill_at_random_moments(train: Callable[[Path], None], folder: Path, times: int, seed: int) -> None:
    """Train in processes of their own, all but the last of which are killed."""
    generator = torch.Generator().manual_seed(seed)
    for killed in (*[True] * times, False):
        before = len(checkpoint_folders(folder))
        process = FORK.Process(target=train, args=(folder,))
        process.start()
        # A random moment after the next checkpoint: the run makes progress, however slow the machine.
        while killed and len(checkpoint_folders(folder)) == before and process.is_alive():
            time.sleep(0.001)
        process.join(timeout=0.1 * float(torch.rand((), generator=generator)) if killed else None)
        process.kill()
        process.join()
        assert process.exitcode == (-signal.SIGKILL if killed else 0)


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
class DiesInAWorker(MarkovLanguage):
    """Kills every process but `parent` that samples sentences."""

    parent: int = 0
    digest: str = "dies"

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        if os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
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


SPECIFICATION = small()
TOKENIZER = word_tokenizer(LANGUAGE.vocabulary, LANGUAGE.maximum_length)
TRAINING_STATE = "training_state.pt"


def trained(steps: int, architecture: type = PreLayerNormTransformer) -> tuple[torch.nn.Module, UpdateRule]:
    """A model of `SPECIFICATION` after some steps, and its update rule."""
    model = architecture(Shape(8, 2, 1, 16), dropout=0.0).build(2, LANGUAGE.maximum_length, seed=0).train()
    rule = SPECIFICATION.update_rule.build(
        Training(model, MaskedObjective(), LANGUAGE, 0, SPECIFICATION.steps, SPECIFICATION.batch_size)
    )
    stream = Stream(LANGUAGE, MaskedObjective(), 16, 0)
    for step in range(1, steps + 1):
        rule.step(stream.batch(step - 1), step)
    return model, rule


def write(
    run: Path, step: int, loss: float = 0.5, architecture: type = PreLayerNormTransformer
) -> Checkpoint:
    """A checkpoint of a model trained for two steps, said to be of `step`."""
    model, rule = trained(2, architecture)
    return write_checkpoint(run, step, loss, SPECIFICATION, model, TOKENIZER, rule)
