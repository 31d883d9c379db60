"""Labelled examples as a classifier reads them: real texts or pairs of texts, and sentences of a language."""

import inspect
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.errors import BadInput
from isoloss.languages.task import LabelledSentences, TaskSplits
from isoloss.models.tokenizer import longest_sentence, naming_the_text, number_of_tokens
from isoloss.objectives.pretrained import rectangle
from isoloss.objectives.tokens import FIRST_WORD, PAD, tokens_of_words

LONGEST = 128
"""Tokens after which an example is cut: the paper's length of real text (A.2), and GLUE's customary one."""

TEXTS_AT_ONCE = 1000
"""A tokenizer's answers are large beside the numbers kept of them."""

QUOTED = 60
"""Characters of a text that a message quotes."""


@dataclass(frozen=True)
class TextInputs:
    """n labelled examples padded on the right to S tokens.

    `parts[i, s]` says where token s of example i comes from: 0 for the text, or the first of a pair, 1 for
    the second, -1 for padding or a token added by the tokenizer. `types` are the token types of models that
    have several. `cut` counts the examples that were truncated.
    """

    ids: Int[Tensor, "n S"]
    lengths: Int[Tensor, " n"]
    parts: Int[Tensor, "n S"]
    labels: Int[Tensor, " n"]
    types: Int[Tensor, "n S"] | None = None
    cut: int = 0

    @property
    def tokens(self) -> int:
        """The number of tokens of the longest example."""
        return self.ids.shape[1]

    @property
    def ends(self) -> set[int]:
        """The tokens in which examples end."""
        return set(self.ids[torch.arange(len(self)), self.lengths - 1].tolist())

    def filled_up_with(self, padding: int) -> "TextInputs":
        """The same, padded with another token."""
        present = torch.arange(self.tokens) < self.lengths[:, None]
        return replace(self, ids=self.ids.where(present, padding))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Tensor | slice) -> "TextInputs":
        """These examples, without columns that are padding in all of them."""
        lengths = self.lengths[rows]
        width = int(lengths.max()) if len(lengths) else 0
        types = None if self.types is None else self.types[rows, :width]
        return TextInputs(
            self.ids[rows, :width], lengths, self.parts[rows, :width], self.labels[rows], types, self.cut
        )

    def arguments(self, device: torch.device) -> dict[str, Any]:
        """Those for calling a `transformers` model; the attention mask is left out when nothing is padded."""
        present = torch.arange(self.tokens) < self.lengths[:, None]
        arguments = {
            "input_ids": self.ids.long().to(device),
            # As numbers: XLNet subtracts its mask from one.
            "attention_mask": None if bool(present.all()) else present.long().to(device),
        }
        if self.types is not None:
            arguments["token_type_ids"] = self.types.long().to(device)
        return arguments


def text_inputs(
    model: PreTrainedModel, tokenizer: Any, texts: LabelledTexts, longest: int = LONGEST
) -> TextInputs:
    """Encode each example as the tokenizer encodes a text or a pair, truncated to `longest` tokens.

    If a pair is too long, its longer text is truncated. If the tokenizer puts nothing between the two, as for
    most causal models, they are separated by a line break. Takes n S 7 bytes. Raises BadInput for a text,
    quoting its beginning, of which the tokenizer makes no tokens, and for a tokenizer that does not say which
    text a token belongs to (those of the package `tokenizers` do).
    """
    if not getattr(tokenizer, "is_fast", False):
        raise BadInput(
            f"the tokenizer {type(tokenizer).__name__} does not say which text a token is from; save it as "
            "one of the package tokenizers, as AutoTokenizer makes of most"
        )
    seconds = texts.seconds
    added = tokenizer.num_special_tokens_to_add
    if seconds is not None and added(True) <= added(False):
        seconds = tuple("\n" + second for second in seconds)
    typed = "token_type_ids" in inspect.signature(model.base_model.forward).parameters
    typed = typed and getattr(model.config, "type_vocab_size", 0) > 1
    rows: list[_Row] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = slice(start, start + TEXTS_AT_ONCE)
        columns = [list(column[some]) for column in (texts.texts, seconds) if column is not None]
        rows += _encoded(tokenizer, columns, longest)
    return TextInputs(
        ids=rectangle([row.ids for row in rows], padding_token(tokenizer) or 0)[0].to(torch.int32),
        lengths=torch.tensor([len(row.ids) for row in rows], dtype=torch.int64),
        parts=rectangle([row.parts for row in rows], -1)[0].to(torch.int8),
        types=rectangle([row.types for row in rows], 0)[0].to(torch.int8) if typed else None,
        labels=torch.tensor(texts.labels, dtype=torch.int64),
        cut=sum(row.cut for row in rows),
    )


def padding_token(tokenizer: Any) -> int | None:
    """The padding token's id, or without one the end-of-text token's; None if the tokenizer names neither."""
    named = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((int(token) for token in named if token is not None), None)


def text_splits(
    model: PreTrainedModel, tokenizer: Any, task: TextTask, longest: int = LONGEST
) -> "InputSplits":
    """The inputs of all three parts of a task, filled up with one token, by which heads find a text's last.

    It is the tokenizer's `padding_token`, or else the first token that ends no text. Raises BadInput if there
    is none, and as `text_inputs` does.
    """
    texts = (task.train, task.validation, task.test)
    parts = [text_inputs(model, tokenizer, part, longest) for part in texts]
    padding = padding_token(tokenizer)
    if padding is None:
        ends = {end for part in parts for end in part.ends}
        padding = next((token for token in range(number_of_tokens(model)) if token not in ends), None)
    if padding is None:
        raise BadInput(
            "the tokenizer names no padding token, and every token ends some text; set its pad_token and "
            "save it beside the model"
        )
    filled = (part.filled_up_with(padding) for part in parts)
    return InputSplits(*filled, classes=task.classes, padding=padding)


@dataclass(frozen=True)
class _Row:
    ids: list[int]
    parts: list[int]
    types: list[int]
    cut: bool


def _encoded(tokenizer: Any, columns: list[list[str]], longest: int) -> list[_Row]:
    def alone(number: int) -> None:
        tokenizer(*(column[number] for column in columns))

    places = [" and ".join(map(_quoted, texts)) for texts in zip(*columns, strict=True)]
    with naming_the_text(places, alone, "the model's", "write it in words that the tokenizer knows"):
        encodings = tokenizer(*columns, truncation=True, max_length=longest).encodings
    rows = []
    for place, encoding in zip(places, encodings, strict=True):
        if not encoding.ids:
            raise BadInput(f"{place}: the model's tokenizer has no tokens for the text; leave it out")
        parts = [-1 if part is None else part for part in encoding.sequence_ids]
        rows.append(_Row(encoding.ids, parts, encoding.type_ids, bool(encoding.overflowing)))
    return rows


def _quoted(text: str) -> str:
    """The beginning of a text, by which it is found in a file whose order hashes have changed."""
    text = text.strip()
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]} ...")


@dataclass(frozen=True)
class SentenceInputs:
    """A language's labelled sentences, each after a [CLS]."""

    examples: LabelledSentences

    @staticmethod
    def of(splits: TaskSplits, classes: tuple[str, ...]) -> "InputSplits":
        """The inputs of all three splits."""
        parts = map(SentenceInputs, (splits.train, splits.validation, splits.test))
        return InputSplits(*parts, classes=classes)

    @property
    def labels(self) -> Int[Tensor, " n"]:
        """The class of each sentence."""
        return self.examples.labels

    @property
    def tokens(self) -> int:
        """The number of tokens of the longest sentence."""
        return self.examples.sentences.ids.shape[1] + 1

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, rows: Tensor | slice) -> "SentenceInputs":
        return SentenceInputs(self.examples[rows])

    def arguments(self, device: torch.device) -> dict[str, Any]:
        """See `TextInputs.arguments`."""
        tokens = tokens_of_words(self.examples.sentences.ids).to(device)
        present = tokens != PAD
        return {"input_ids": tokens, "attention_mask": None if bool(present.all()) else present}


LabelledInputs = TextInputs | SentenceInputs
"""Examples with their labels, integers from 0, as a classifier reads them."""


@dataclass(frozen=True)
class InputSplits:
    """Train, validation and test examples of a task with these classes, padded with the token `padding`."""

    train: LabelledInputs
    validation: LabelledInputs
    test: LabelledInputs
    classes: tuple[str, ...] = field(kw_only=True)
    padding: int = field(default=PAD, kw_only=True)


def check_splits(splits: InputSplits) -> None:
    """Raise BadInput for splits on which nothing can be learnt or measured.

    That is: fewer than two classes, labels outside the classes, training examples of a single class, no
    validation examples, or fewer than two test examples.
    """
    classes = splits.classes
    if len(classes) < 2:
        raise BadInput(f"fine-tuning needs at least two classes, not {len(classes)}")
    # An error bar over test sentences needs two.
    least = {"train": 1, "validation": 1, "test": 2}
    for name in least:
        part: LabelledInputs = getattr(splits, name)
        if len(part) < least[name]:
            raise BadInput(f"the {name} split has {len(part)} examples; give at least {least[name]}")
        lowest, highest = int(part.labels.min()), int(part.labels.max())
        if lowest < 0 or highest >= len(classes):
            raise BadInput(
                f"labels of the {name} split lie between {lowest} and {highest}, but the {len(classes)} "
                "classes are numbered from 0"
            )
    if bool((splits.train.labels == splits.train.labels[0]).all()):
        raise BadInput(
            f"every training example is of the class '{classes[int(splits.train.labels[0])]}', so there is "
            "nothing to learn; draw more examples or choose another task"
        )


def check_fits(splits: TaskSplits, model: PreTrainedModel) -> None:
    """Raise BadInput for words or sentence lengths beyond what the model was built for."""
    for name in ("train", "validation", "test"):
        part: LabelledSentences = getattr(splits, name)
        word = int(part.sentences.ids.max())
        if word + FIRST_WORD >= model.config.vocab_size:
            raise BadInput(
                f"the {name} split has a word number {word}, but the model knows "
                f"{model.config.vocab_size - FIRST_WORD} words; fine-tune on a task of its own language"
            )
        words = int(part.sentences.lengths.max())
        if (positions := longest_sentence(model)) is not None and words + 1 > positions:
            raise BadInput(
                f"the {name} split has sentences of {words} words, but the model reads {positions - 1}; "
                "fine-tune on a task of its own language"
            )
