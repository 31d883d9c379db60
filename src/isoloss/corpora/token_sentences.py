"""Sentences as a model's token numbers, from a text, a file of numbers, or a data set."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol, runtime_checkable

from isoloss.errors import BadInput, is_failure
from isoloss.files import read_text
from isoloss.models.tokenizer import naming_the_text


@dataclass(frozen=True)
class TokenSentence:
    """`maskable` are the positions in `ids` that may be masked; `cut` is true if the sentence was longer.

    `line` is its line in the input, counted from 1; `unknown` counts the unknown-token placeholders. `answer`
    is what the model of a task is to say: the number of a class, one for each token, or other tokens.
    `types`, of a pair of texts, says which of the two each token is of; empty if the tokenizer does not.
    """

    ids: list[int]
    maskable: list[int]
    line: int
    cut: bool = False
    unknown: int = 0
    answer: Sequence[int] = ()
    types: Sequence[int] = ()

    @property
    def of_text(self) -> int:
        """How many tokens stand for the text: all but those that the tokenizer adds, such as [CLS]."""
        return len(self.maskable) + self.unknown


CHARACTERS_A_TOKEN = 64
"""Many times what a token has on average."""


@runtime_checkable
class Corpus(Protocol):
    """Sentences by index; a sentence is one independent unit of the error bars."""

    def __len__(self) -> int:
        """How many sentences there are."""

    def sentences(self, numbers: Sequence[int]) -> list[TokenSentence]:
        """The sentences with these indices, from 0, in this order."""


@dataclass(frozen=True, eq=False)
class TextCorpus:
    """Texts that a Hugging Face tokenizer encodes on demand; its special tokens are never masked.

    A text is truncated to `longest` tokens (None: never). `lines` are the texts' line numbers. With
    `seconds`, of as many texts, each text is the first of a pair, and the longer of the two is truncated.
    """

    texts: Sequence[str]
    lines: Sequence[int]
    tokenizer: Any = None
    longest: int | None = None
    seconds: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def read_by_tokenizers(self) -> list[str]:
        """All that tokenizers read."""
        return [*self.texts, *(self.seconds or ())]

    @property
    def content(self) -> object:
        """All that is measured on, for a digest."""
        return self.read_by_tokenizers

    def read_by(self, tokenizer: Any, longest: int | None) -> "TextCorpus":
        """The same texts, encoded by a tokenizer and truncated to `longest` tokens."""
        return replace(self, tokenizer=tokenizer, longest=longest)

    def sentences(self, numbers: Sequence[int]) -> list[TokenSentence]:
        """See `Corpus.sentences`. Raises BadInput for a text for which the tokenizer has no tokens."""
        wanted = [[self._beginning(column[number]) for number in numbers] for column in self._columns]
        places = [f"line {self.lines[number]}" for number in numbers]
        advice = "write it in words that the tokenizer knows, or give token numbers"

        def alone(place: int) -> None:
            self.tokenizer(*(column[numbers[place]] for column in self._columns), verbose=False)

        with naming_the_text(places, alone, "the model's", advice):
            encoded = self.tokenizer(*wanted, verbose=False)
        fitted, whole = encoded, encoded["input_ids"]
        if self.longest is not None and any(len(ids) > self.longest for ids in whole):
            # The tokenizer truncates before it adds an end-of-sentence token.
            fitted = self.tokenizer(*wanted, truncation=True, max_length=self.longest)
        types = fitted.get("token_type_ids") if self.seconds is not None else None
        special, unknown = set(self.tokenizer.all_special_ids), self.tokenizer.unk_token_id
        # GPT-2 uses one token for all three, and knows all bytes.
        if unknown in {self.tokenizer.bos_token_id, self.tokenizer.eos_token_id}:
            unknown = None
        return [
            TokenSentence(
                ids,
                [place for place, token in enumerate(ids) if token not in special],
                self.lines[number],
                cut=len(ids) < len(all_ids),
                unknown=0 if unknown is None else ids.count(unknown),
                types=() if types is None else types[place],
            )
            for place, (number, ids, all_ids) in enumerate(
                zip(numbers, fitted["input_ids"], whole, strict=True)
            )
        ]

    def _beginning(self, text: str) -> str:
        """As much of a very long text as has more than enough tokens: the rest would be cut off."""
        if self.longest is None or len(text) <= CHARACTERS_A_TOKEN * self.longest:
            return text
        beginning = text[: CHARACTERS_A_TOKEN * self.longest]
        try:
            has_enough = len(self.tokenizer(beginning, verbose=False)["input_ids"]) > 2 * self.longest
        except BaseException as error:
            if not is_failure(error):
                raise
            return text  # refused as a whole
        return beginning if has_enough else text

    @property
    def _columns(self) -> list[Sequence[str]]:
        return [self.texts] if self.seconds is None else [self.texts, self.seconds]


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """Sentences that are token numbers already; any of their positions may be masked."""

    ids: list[list[int]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def sentences(self, numbers: Sequence[int]) -> list[TokenSentence]:
        return [
            TokenSentence(self.ids[number], list(range(len(self.ids[number]))), self.lines[number])
            for number in numbers
        ]


TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
"""Suffixes of files that hold texts among other things."""


def read_text_corpus(path: Path) -> TextCorpus:
    """The lines of a UTF-8 file that are not blank, one sentence each; of a table, the texts of its rows.

    Raises BadInput if none is left, and as `texts_of_table` does.
    """
    if path.suffix.lower() in TABLES:
        numbered = texts_of_table(path)
    else:
        numbered = _filled_lines(read_text(path, "a text, a sentence or a document a line"))
    if not numbered:
        raise BadInput(f"{path} is empty; give a text, a sentence or a document a line")
    return TextCorpus([text for _, text in numbered], [line for line, _ in numbered])


MOST_WORDS_OF_A_NAME = 3
"""A column called by more is taken for a table without names, whose first text would go unread."""


def texts_of_table(path: Path) -> list[tuple[int, str]]:
    r"""Each row's number, from 1, and its text, without rows whose text is blank.

    They are in a column 'text' or 'sentence', or in the only one that holds text. Raises BadInput if there is
    no such column, or several, if its name is a sentence, if the file is no table, and for a list in place of
    a text.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> _ = path.write_text('stars,review\n3,"good, mostly"\n1,bad\n')
    >>> texts_of_table(path)
    [(1, 'good, mostly'), (2, 'bad')]
    """
    from isoloss.corpora.tables import COLUMNS, read_table  # plain texts need none of it

    table = read_table(path, "rows with a column 'text'")
    cells = {name: table[name].to_list() for name in table.columns}
    named = [name for name, *more in COLUMNS if not more and name in cells]
    named = named[:1] or [name for name, column in cells.items() if any(map(_is_text, column))]
    if len(named) != 1:
        there = ", ".join(cells) or "none"
        raise BadInput(
            f"{path} has no column 'text' or 'sentence', but {there}; rename the one to measure on"
        )
    if path.suffix.lower() in (".csv", ".tsv") and len(named[0].split()) > MOST_WORDS_OF_A_NAME:
        raise BadInput(
            f"the first row of {path} is to name its columns, and calls the only one that holds text "
            f"'{shorten(named[0], 60, placeholder=' ...')}'; write 'text' instead, or above if it is a text"
        )
    refuse_cells_of_no_text(path, named[0], cells[named[0]])
    return [(row, str(cell)) for row, cell in enumerate(cells[named[0]], start=1) if is_filled(cell)]


def _is_text(cell: object) -> bool:
    if not isinstance(cell, str):
        return False
    try:
        float(cell)
    except ValueError:
        return bool(cell.strip())
    return False


def is_filled(cell: object) -> bool:
    """Whether a cell of a table has something to read; NaN is how tables say that it has not."""
    return cell is not None and cell == cell and bool(str(cell).strip())


def refuse_cells_of_no_text(path: Path, column: str, cells: Iterable[object]) -> None:
    """Raise BadInput for a list, an object or bytes where a column should hold a text."""
    for row, cell in enumerate(cells, start=1):
        if isinstance(cell, bytes):
            raise BadInput(f"{path}, row {row}: '{column}' holds bytes; save it as a column of text")
        if isinstance(cell, list | dict):
            kind = "a list" if isinstance(cell, list) else "an object"
            raise BadInput(f"{path}, row {row}: {kind} is under '{column}'; write a row for each text")


def read_token_corpus(path: Path, vocabulary: int, longest: int | None) -> TokenCorpus:
    r"""A file with one JSON list of token numbers per line; blank lines are left out.

    Raises BadInput, naming the line, for anything else, for a number outside the model's `vocabulary`, for a
    sentence longer than `longest`, and for a file without sentences.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ids.jsonl"
    >>> _ = path.write_text("[5, 6]\n\n[7, 99]\n")
    >>> read_token_corpus(path, vocabulary=100, longest=8).ids
    [[5, 6], [7, 99]]
    """
    kind = "a JSON list of token numbers a line, such as [101, 7, 102]"
    numbered = _filled_lines(read_text(path, kind))
    if not numbered:
        raise BadInput(f"{path} is empty; give {kind}")
    sentences = []
    for line, text in numbered:
        try:
            ids = json.loads(text)
        except (ValueError, RecursionError):
            ids = None
        # JSON's true and false are integers to Python.
        if not isinstance(ids, list) or not all(type(token) is int for token in ids):
            raise BadInput(f"{path}, line {line}: this is not a list of whole numbers; give {kind}")
        if not ids:
            raise BadInput(f"{path}, line {line}: the sentence is empty; remove the line")
        outside = [token for token in ids if not 0 <= token < vocabulary]
        if outside:
            raise BadInput(
                f"{path}, line {line}: there is no token {outside[0]}; the model's {vocabulary} tokens are "
                f"0 to {vocabulary - 1}"
            )
        if longest is not None and len(ids) > longest:
            raise BadInput(
                f"{path}, line {line}: the sentence has {len(ids)} tokens, but the model reads {longest} at "
                "most; cut it"
            )
        sentences.append(ids)
    return TokenCorpus(sentences, [line for line, _ in numbered])


def _filled_lines(text: str) -> list[tuple[int, str]]:
    """The lines that are not blank with their numbers, from 1, without line ends of any platform."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [(line, each) for line, each in enumerate(lines, start=1) if each.strip()]
