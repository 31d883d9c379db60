"""What the pages assume to exist, under the names that they use: small models, texts and a grammar."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import isoloss.experiments.teacher  # noqa: F401  (before `Teacher` is replaced: it is a type there)
from isoloss.command_line.reproduce import ReproduceOptions
from isoloss.command_line.reproduction import choice, executor
from isoloss.experiments.teacher import Teacher
from isoloss.measurements import comparison_plan
from isoloss.measurements.fine_tuning import FineTuningSettings
from isoloss.measurements.on_sentences import hessian, local_learning_coefficient
from isoloss.measurements.on_sentences.hessian import SpectralDensityQuantity
from isoloss.measurements.on_sentences.local_learning_coefficient import LocalLearningCoefficientQuantity
from isoloss.measurements.room_and_price import RoomSettings
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import GPT2Transformer, PostLayerNormTransformer, Shape
from tiny_causal_models import tiny_checkpoint
from tiny_text_models import WORDS as TEXT_WORDS
from tiny_text_models import text_model, text_tokenizer

WORDS = list("abcdefgh")
GRAMMAR = """\
S -> STATEMENT [0.7] | QUESTION [0.3]
STATEMENT -> NP VP [1.0]
QUESTION -> 'does' NP VP [1.0]
NP -> 'the' N [1.0]
VP -> V NP [0.8] | 'sleeps' [0.2]
N -> 'dog' [0.5] | 'cat' [0.5]
V -> 'sees' [0.6] | 'hears' [0.4]
"""
BOOK = " ".join(["The cats purr. The dogs bark. He said so."] * 40)


def understood(request: ReproduceOptions) -> int:
    """What `isoloss reproduce` checks before it starts: the place of the runs, and which runs."""
    executor(request)
    print(*(run.name for run in choice(request).runs))
    return 0


def material(folder: Path) -> None:
    """Put everything into `folder`."""
    (folder / "grammar.pcfg").write_text(GRAMMAR)
    for seed, name in enumerate(("my-bert", "my-other-bert", "runs/bert")):
        _untrained(folder / name, seed)
    tiny_checkpoint("opt", folder / "MODEL")
    chosen = random.Random(0)
    sentences = [chosen.choices(WORDS, k=7) for _ in range(150)]
    (folder / "sentences.txt").write_text("".join(" ".join(words) + "\n" for words in sentences))
    rows = [f"{' '.join(words)},{int('a' in words)}\n" for words in sentences]
    (folder / "reviews.csv").write_text("text,label\n" + "".join(rows))
    ids = [[WORDS.index(word) + 3 for word in words] for words in sentences]
    (folder / "ids.jsonl").write_text("".join(json.dumps(each) + "\n" for each in ids))


def lay_out(made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy what `material` made into `folder`, shorten commands that would take hours, and go there."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    monkeypatch.setattr("isoloss.corpora.fetched_package.gutenberg_books", lambda *_: (BOOK,))
    tiny = partial(Teacher, architecture=GPT2Transformer(Shape(16, 2, 1, 32), dropout=0.0), batch_size=8)
    monkeypatch.setattr("isoloss.experiments.teacher.Teacher", tiny)
    fewer = partial(LocalLearningCoefficientQuantity, burn_in=4, draws=8)
    monkeypatch.setattr(local_learning_coefficient, "LocalLearningCoefficientQuantity", fewer)
    short = partial(SpectralDensityQuantity, probes=2, steps=8)
    monkeypatch.setattr(hessian, "spectral_density_on_sentences", short)
    little = partial(RoomSettings, train=300, test=400)
    monkeypatch.setattr("isoloss.measurements.room_and_price.RoomSettings", little)
    monkeypatch.setattr("isoloss.command_line.reproduction.reproduce_experiments", understood)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)


def _untrained(folder: Path, seed: int) -> None:
    PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, seed).save_pretrained(folder)
    word_tokenizer(WORDS, 8).save_pretrained(folder)


def the_second_flatter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two models in reverse order."""
    for seed, name in enumerate(("my-other-bert", "my-bert")):
        _untrained(folder / name, seed)


def checkpoints_and_labelled_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that reads texts, texts, and tasks in two forms; fine-tuning shortened."""
    settings = comparison_plan.fine_tuning_settings

    def short(examples: int) -> FineTuningSettings:
        return replace(settings(examples), seeds=(0, 1), epochs=2)

    monkeypatch.setattr(comparison_plan, "fine_tuning_settings", short)
    text_model().save_pretrained(folder / "my-bert")
    text_tokenizer().save_pretrained(folder / "my-bert")
    chosen = random.Random(900)

    def text(words: tuple[str, ...]) -> str:
        return " ".join(chosen.choices(words, k=chosen.randint(3, 8)))

    for name in ("train", "held-out"):
        (folder / f"{name}.txt").write_text("".join(text(TEXT_WORDS) + "\n" for _ in range(120)))
    halves = TEXT_WORDS[4:], TEXT_WORDS[:4]
    reviews = [{"text": text(halves[row % 2]), "label": row % 2} for row in range(200)]
    (folder / "reviews.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reviews))
    pairs = [f"{text(TEXT_WORDS)},{text(halves[row % 2])},{row % 2}\n" for row in range(300)]
    (folder / "pairs.csv").write_text("claim,evidence,verdict\n" + "".join(pairs))


def articles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of real text's length; what is prepared of them stays in the folder."""
    chosen = random.Random(901)
    rows = [{"text": " ".join(chosen.choices(TEXT_WORDS, k=chosen.randint(20, 60)))} for _ in range(200)]
    (folder / "articles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))


MORE: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {
    "README.md": the_second_flatter,
    "compare-checkpoints.md": checkpoints_and_labelled_texts,
    "real-text.md": articles,
}
"""What individual pages assume in addition."""
