"""Causal models whose sentences are a language: a small one pre-trained here, in minutes, or one of a hub."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from isoloss.corpora.fetched_package import BOOKS, gutenberg_books
from isoloss.errors import BadInput
from isoloss.inference.causal_model import TokenRestriction
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.sentences import TextWindows, text_windows
from isoloss.models.causal_language import (
    LENGTH,
    WORDS,
    ModelSource,
    load_causal_language,
    read_causal_language,
    restricted_language,
    write_causal_language,
)
from isoloss.models.loading import load_causal_language_model
from isoloss.models.tokenizer import load_tokenizer
from isoloss.models.transformers import GPT2Transformer, Shape
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.tokens import CLS, FIRST_WORD
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification, log_spaced_steps, settings_digest
from isoloss.progress import Progress, silent
from isoloss.results.checkpoint import STEPS_FOLDER, read_checkpoint

_BETWEEN_SENTENCES = r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)])) +(?=[\"'“‘(]?[A-Z])"
RULE = (
    "all words of a byte-level BPE vocabulary trained on the teacher's own text, in the order of its merges"
)


@dataclass(frozen=True)
class Teacher:
    """Everything that the laptop's teacher depends on besides the text.

    Its words are the pieces of a byte-level BPE vocabulary trained on the text, as for GPT-2 and OPT: no word
    is unknown, and none has to be dropped afterwards. Sentences are `length` pieces, starting where one of
    the text's sentences starts.
    """

    words: int = 2000
    length: int = 24
    architecture: GPT2Transformer = field(
        default_factory=lambda: GPT2Transformer(Shape(128, 4, 3, 512), dropout=0.0)
    )
    update_rule: AdamW = field(default_factory=lambda: AdamW(warm_up_steps=200))
    steps: int = 2000
    batch_size: int = 64
    seed: int = 0

    def specification(self, text: TextWindows) -> PretrainingSpecification:
        """The pre-training run; a short one is warm-up throughout."""
        warm_up_steps = min(self.update_rule.warm_up_steps, self.steps)
        return PretrainingSpecification(
            architecture=self.architecture,
            update_rule=replace(self.update_rule, warm_up_steps=warm_up_steps),
            language_digest=text.digest,
            steps=self.steps,
            batch_size=self.batch_size,
            seed=self.seed,
            checkpoint_steps=log_spaced_steps(min(500, self.steps), self.steps),
            objective=NextWordObjective(),
        )


def teacher_language(
    teacher: Teacher, books: Sequence[str], folder: Path, progress: Progress = silent
) -> CausalLM:
    """The language of the teacher, whose run is in `folder` and is trained to its end first if necessary.

    Raises as `pretrain` does.
    """
    text = prose_windows(books, teacher.words, teacher.length)
    report = pretrain(teacher.specification(text), text, folder, progress=progress)
    model = load_causal_language_model(str(report.last.folder))
    tokens = tuple(range(FIRST_WORD, FIRST_WORD + len(text.vocabulary)))
    return restricted_language(model, TokenRestriction(tokens, text.vocabulary, CLS, RULE), teacher.length)


def prose_windows(books: Sequence[str], words: int, length: int) -> TextWindows:
    """The books as windows of `length` BPE pieces, of at most `words` kinds, starting at each sentence.

    Raises BadInput for fewer words than the books have characters (bytes, if not ASCII).

    >>> windows = prose_windows(["Go on. Stop! He said: go."], words=40, length=5)
    >>> len(windows.starts), windows.vocabulary[windows.text[0]]
    (3, 'ĠGo')
    """
    sentences = [sentence for book in books for sentence in prose_sentences(book)]
    tokenizer = piece_tokenizer(sentences, words)
    numbers = tokenizer.get_vocab()
    vocabulary = tuple(sorted(numbers, key=numbers.__getitem__))
    if len(vocabulary) > words:
        raise BadInput(
            f"a text of {len(vocabulary)} different characters cannot be written with {words:,} word pieces; "
            f"give at least {len(vocabulary)}"
        )
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(sentences)]
    return text_windows(encoded, vocabulary, length)


def piece_tokenizer(sentences: Sequence[str], pieces: int) -> Tokenizer:
    """A byte-level BPE vocabulary of limited size, trained on the sentences."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(sentences, trainers.BpeTrainer(vocab_size=pieces, show_progress=False))
    return tokenizer


def prose_sentences(book: str) -> Iterator[str]:
    r"""A book's sentences, white space made plain: split after . ! ? and a closing quote, before a capital.

    >>> list(prose_sentences("He came.  “Why?” she\nasked. “I am 5.2 years.” No."))
    ['He came.', '“Why?” she asked.', '“I am 5.2 years.”', 'No.']
    """
    plain = " ".join(book.split())
    yield from filter(None, re.split(_BETWEEN_SENTENCES, plain))


@dataclass(frozen=True)
class GutenbergBooks:
    """The 18 books of `gutenberg_books`, fetched once into the user's cache."""

    @property
    def digest(self) -> str:
        """Names the text."""
        return BOOKS.digest

    def books(self, progress: Progress) -> tuple[str, ...]:
        """The text; raises IsolossError where it cannot be had."""
        return gutenberg_books(None, progress)


@dataclass(frozen=True)
class GivenProse:
    """A text that is there already."""

    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def books(self, _progress: Progress) -> tuple[str, ...]:
        """The text, in one piece."""
        return (self.text,)


Prose = GutenbergBooks | GivenProse
"""Where a teacher's text comes from."""


@dataclass(frozen=True)
class PiecesOfProse:
    """The tokenizer of a `Teacher`, retrained on its text, which takes about as long as reading it."""

    prose: Prose
    pieces: int

    def tokenizer(self, progress: Progress) -> Tokenizer:
        books = self.prose.books(progress)
        return piece_tokenizer(
            [sentence for book in books for sentence in prose_sentences(book)], self.pieces
        )


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
        return hashlib.sha256(f"{self._trained_digest} {self.words}".encode()).hexdigest()

    @property
    def maximum_length(self) -> int:
        return self.teacher.length

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`.

        Raises IsolossError where the text cannot be had or the teacher is damaged, BadInput where it has
        fewer words.
        """
        folder = output / "teachers" / self._trained_digest[:16]
        last = folder / STEPS_FOLDER / f"{self.teacher.steps:06d}"
        if not last.is_dir():
            teacher_language(self.teacher, self.prose.books(progress), folder, progress)
        source = ModelSource(str(read_checkpoint(last).folder))
        return load_causal_language(source, self.words, self.teacher.length, progress=progress)

    @property
    def whole_tokenizer(self) -> PiecesOfProse:
        """All of the model's tokens."""
        return PiecesOfProse(self.prose, self.teacher.words)

    @property
    def _trained_digest(self) -> str:
        """Names the teacher, however many of its words the language has."""
        return settings_digest((self.teacher, self.prose.digest))


@dataclass(frozen=True)
class HubPlan:
    """A `LanguagePlan`: the model's most frequent tokens, chosen once and stored in `output`'s languages/."""

    source: ModelSource
    words: int = WORDS
    length: int = LENGTH
    seed: int = 0

    @property
    def digest(self) -> str:
        """See `LanguagePlan`: names what is asked for; the file then holds the weights to what they were."""
        return settings_digest(self)

    @property
    def maximum_length(self) -> int:
        return self.length

    @property
    def whole_tokenizer(self) -> ModelsTokenizer:
        """All of the model's tokens."""
        return ModelsTokenizer(self.source)

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`; raises BadInput where the model cannot be had."""
        path = output / "languages" / f"{self.digest[:16]}.json"
        if path.exists():
            return read_causal_language(path)
        language = load_causal_language(self.source, self.words, self.length, self.seed, progress)
        write_causal_language(language, self.source, path)
        return language


TeachersLanguage = TeacherPlan | HubPlan
"""A `LanguagePlan` whose sentences are generated by a causal model restricted to some of its tokens."""
