"""Texts of a table, each with what the model of a task is to say of it: classes, or another text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from isoloss.corpora.tables import COLUMNS, LABEL, read_table
from isoloss.corpora.token_sentences import (
    TABLES,
    TextCorpus,
    TokenSentence,
    is_filled,
    refuse_cells_of_no_text,
    texts_of_table,
)
from isoloss.errors import BadInput
from isoloss.objectives.pretrained import IGNORED

LABELS = (LABEL, "labels")
OF_WORDS = (("tokens", "words"), ("labels", "tags", "ner_tags", "pos_tags"))
"""Columns with lists: a text's words, and the class of each."""
OF_TARGETS = (
    *(("source", "target"), ("text", "target"), ("input", "output"), ("text", "summary")),
    *(("document", "summary"), ("article", "highlights"), ("question", "answer")),
)
"""Columns of a text and of the text that follows from it."""


@dataclass(frozen=True, eq=False)
class AnsweredCorpus:
    """Texts, or pairs of texts, each with what a model of a task is to say.

    An answer is the number of a class, a 1 or a 0 for every class, or another text.
    """

    texts: TextCorpus
    answers: Sequence[int | Sequence[int] | str]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def read_by_tokenizers(self) -> list[str]:
        """All that tokenizers read."""
        return [*self.texts.read_by_tokenizers, *(each for each in self.answers if isinstance(each, str))]

    @property
    def content(self) -> object:
        """All that is measured on, for a digest."""
        return [self.read_by_tokenizers, list(self.answers)]

    def read_by(self, tokenizer: Any, longest: int | None) -> "AnsweredCorpus":
        """The same, encoded by a tokenizer; texts and answers are truncated to `longest` tokens."""
        return replace(self, texts=self.texts.read_by(tokenizer, longest))

    def sentences(self, numbers: Sequence[int]) -> list[TokenSentence]:
        """See `Corpus.sentences`; one is cut too if its answer was longer."""
        answers = (self._in_numbers(self.answers[number]) for number in numbers)
        return [
            replace(sentence, answer=answer, cut=sentence.cut or cut)
            for sentence, (answer, cut) in zip(self.texts.sentences(numbers), answers, strict=True)
        ]

    def _in_numbers(self, answer: int | Sequence[int] | str) -> tuple[Sequence[int], bool]:
        """The answer in numbers, and whether it was longer."""
        if isinstance(answer, int):
            return (answer,), False
        if not isinstance(answer, str):
            return answer, False
        tokenizer, longest = self.texts.tokenizer, self.texts.longest
        whole: list[int] = tokenizer(text_target=answer, verbose=False)["input_ids"]
        if longest is None or len(whole) <= longest:
            return whole, False
        return tokenizer(text_target=answer, truncation=True, max_length=longest)["input_ids"], True


@dataclass(frozen=True, eq=False)
class TaggedCorpus:
    """Texts as lists of words, and the number of each word's class, which is that of its first token."""

    words: Sequence[list[str]]
    classes: Sequence[list[int]]
    lines: Sequence[int]
    tokenizer: Any = None
    longest: int | None = None

    def __len__(self) -> int:
        return len(self.words)

    @property
    def read_by_tokenizers(self) -> list[str]:
        """All that tokenizers read, as one text each."""
        return [" ".join(words) for words in self.words]

    @property
    def content(self) -> object:
        """All that is measured on, for a digest."""
        return [self.read_by_tokenizers, list(zip(self.words, self.classes, strict=True))]

    def read_by(self, tokenizer: Any, longest: int | None) -> "TaggedCorpus":
        """See `AnsweredCorpus`. Raises BadInput for a tokenizer that does not tell words from tokens."""
        if not tokenizer.is_fast:
            raise BadInput("the model's tokenizer does not tell which word a token is of; save a fast one")
        return replace(self, tokenizer=tokenizer, longest=longest)

    def sentences(self, numbers: Sequence[int]) -> list[TokenSentence]:
        encoded = self.tokenizer(
            [self.words[number] for number in numbers],
            is_split_into_words=True,
            truncation=self.longest is not None,
            max_length=self.longest,
        )
        found = []
        for place, number in enumerate(numbers):
            of_token, answer = encoded.word_ids(place), []
            for before, word in zip([None, *of_token], of_token, strict=False):
                first = word is not None and word != before
                answer.append(self.classes[number][word] if first else IGNORED)
            labelled = [position for position, each in enumerate(answer) if each != IGNORED]
            cut = len({word for word in of_token if word is not None}) < len(self.words[number])
            ids = encoded["input_ids"][place]
            found.append(TokenSentence(ids, labelled, self.lines[number], cut, answer=answer))
        return found


def texts_with_classes(path: Path, numbers: Mapping[str, int]) -> AnsweredCorpus:
    """Rows of a text, or of two, and a `label`, the name or the number of a class of the model.

    Raises BadInput if there are no such columns, and for a row without a label that the model has, with a
    list of them, or with a label alone.
    """
    texts, cells = _texts_and_labels(path)
    for row in texts.lines:
        if isinstance(cells[row - 1], list):
            raise BadInput(
                f"{path}, row {row}: labels are a list, and the model has one class a text; if it has more, "
                "set problem_type to multi_label_classification in its config.json (or its base's)"
            )
    return AnsweredCorpus(texts, [_class(cells[row - 1], numbers, path, row) for row in texts.lines])


def texts_with_labels(path: Path, numbers: Mapping[str, int]) -> AnsweredCorpus:
    """Rows of a text, or of two, and a list of `labels`: the classes, or a 1 or a 0 for every class.

    Where a row numbers its classes, as [1] does, all rows do: of two classes, [0, 1] is then both, and
    elsewhere the second alone. Raises BadInput as `texts_with_classes` does, for labels that are no lists,
    and for a class that a row names twice.
    """
    texts, cells = _texts_and_labels(path)
    classes = 1 + max(numbers.values())
    lists = {row: cells[row - 1] for row in texts.lines}
    for row, cell in lists.items():
        if not isinstance(cell, list):
            raise BadInput(f"{path}, row {row}: the labels are no list; give the list of a text's classes")
    binary = {
        row: len(cell) == classes and all(each in (0, 1) for each in cell) for row, cell in lists.items()
    }
    numbered = any(isinstance(each, int) for row, cell in lists.items() if not binary[row] for each in cell)
    answers = []
    for row, cell in lists.items():
        if binary[row] and not numbered:
            answers.append([int(each) for each in cell])
            continue
        labels = [_class(each, numbers, path, row) for each in cell]
        if len(set(labels)) < len(labels):
            raise BadInput(
                f"{path}, row {row}: a class is there twice; name the classes of each text, or give all "
                f"{classes} a 1 or a 0 in every row"
            )
        answers.append([int(number in labels) for number in range(classes)])
    return AnsweredCorpus(texts, answers)


def _texts_and_labels(path: Path) -> tuple[TextCorpus, list[Any]]:
    """The texts of a table, or its pairs of texts, and the labels of all rows.

    Raises BadInput for a row with a label alone; a row with neither is a blank line.
    """
    table = _table(path, f"a column 'text' and one '{LABEL}'")
    named = next((name for name in LABELS if name in table.columns), None)
    if named is None:
        raise BadInput(f"{path} has no column '{LABEL}', but {_listed(table)}; the loss is that of labels")
    labels = table[named].to_list()
    pair = next((names for names in COLUMNS if len(names) == 2 and set(names) <= set(table.columns)), None)
    if pair is None:
        numbered = dict(texts_of_table(path))
        for row, cell in enumerate(labels, start=1):
            if row not in numbered and is_filled(cell):
                raise BadInput(f"{path}, row {row}: the text is missing; give one, or drop the row")
        texts = TextCorpus(list(numbered.values()), list(numbered))
    else:
        texts = _pairs(path, pair, _rows(path, table, pair))
    return texts, labels


def _rows(path: Path, table: pl.DataFrame, names: Sequence[str]) -> Iterable[tuple[object, ...]]:
    """The columns of texts of these names, row by row. Raises BadInput for a list in place of a text."""
    columns = [table[name].to_list() for name in names]
    for name, cells in zip(names, columns, strict=True):
        refuse_cells_of_no_text(path, name, cells)
    return zip(*columns, strict=True)


def _pairs(path: Path, names: Sequence[str], rows: Iterable[tuple[object, ...]]) -> TextCorpus:
    """Raises BadInput for a row that lacks one of the two texts."""
    firsts, seconds = [], []
    for row, pair in enumerate(rows, start=1):
        if not all(map(is_filled, pair)):
            raise BadInput(
                f"{path}, row {row}: {names[0]} or {names[1]} is missing; give both, or drop the row"
            )
        firsts.append(str(pair[0]))
        seconds.append(str(pair[1]))
    return TextCorpus(firsts, range(1, len(firsts) + 1), seconds=seconds)


def texts_with_targets(path: Path) -> AnsweredCorpus:
    """Rows of a text and of the text that follows from it.

    Raises BadInput if there are no such columns, and for a row with one of the two alone.
    """
    table = _table(path, "columns 'source' and 'target'")
    named = next((names for names in OF_TARGETS if set(names) <= set(table.columns)), None)
    if named is None:
        raise BadInput(f"{path} has no columns 'source' and 'target', but {_listed(table)}; name two so")
    both = _rows(path, table, named)
    rows = []
    for row, (source, target) in enumerate(both, start=1):
        if is_filled(source) != is_filled(target):
            missing = named[1] if is_filled(source) else named[0]
            raise BadInput(f"{path}, row {row}: {missing} is missing; give both, or drop the row")
        if is_filled(source):
            rows.append((row, str(source), str(target)))
    if not rows:
        raise BadInput(f"{path} has no row with both {named[0]} and {named[1]}; give some")
    lines, sources, targets = zip(*rows, strict=True)
    return AnsweredCorpus(TextCorpus(sources, lines, None, None), targets)


def words_with_classes(path: Path, numbers: Mapping[str, int]) -> TaggedCorpus:
    """Rows of a list of words and a list of their classes, by name or number; of JSON or Parquet.

    Raises BadInput if there are no such columns, for lists of other lengths, and for unknown classes.
    """
    table = _table(path, "lists in columns 'tokens' and 'labels'")
    named = [next((name for name in names if name in table.columns), None) for names in OF_WORDS]
    if None in named:
        raise BadInput(
            f"{path} has no columns 'tokens' and 'labels', but {_listed(table)}; give lists of words and of "
            "their classes, in lines of JSON"
        )
    words, classes = (table[str(name)].to_list() for name in named)
    rows = []
    for row, (row_words, labels) in enumerate(zip(words, classes, strict=True), start=1):
        if not isinstance(row_words, list) or not isinstance(labels, list) or len(row_words) != len(labels):
            raise BadInput(f"{path}, row {row}: {named[0]} and {named[1]} must be lists of one length")
        if row_words:
            answers = [_class(label, numbers, path, row) for label in labels]
            rows.append((list(map(str, row_words)), answers, row))
    if not rows:
        raise BadInput(f"{path} has no words; give some")
    return TaggedCorpus([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def _table(path: Path, needed: str) -> Any:
    if path.suffix.lower() not in TABLES:
        raise BadInput(
            f"{path} is no table; a model with the head of a task is measured on one with {needed}, such "
            "as a .csv or .jsonl"
        )
    return read_table(path, f"rows with {needed}")


def _listed(table: Any) -> str:
    return ", ".join(table.columns) or "none"


def _class(cell: object, numbers: Mapping[str, int], path: Path, row: int) -> int:
    named = str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).strip()
    if cell is None or named not in numbers:
        known = ", ".join(list(numbers)[:20])
        wrong = f"the label is missing; the model's classes are {known}"
        if named and cell is not None:
            wrong = f"the model has no class '{named}', but {known}"
        raise BadInput(f"{path}, row {row}: {wrong}; mend the label")
    return numbers[named]
