"""The values behind records that are means over sentences, kept so that runs are compared pair by pair."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.files import write_atomically
from isoloss.measurements.record import Record

Values = dict[str, np.ndarray]
"""By `value_name` one float64 value a sentence, whose mean is the record's value and s / √n its error."""


def value_name(record: Record) -> str:
    """What a record's values are kept under: its quantity, and the part of the model that it is of.

    >>> value_name(Record("fisher_trace_of_group", 1.0, "", 0.1, 9, settings={"group": "embeddings"}))
    'fisher_trace_of_group embeddings'
    """
    group = record.settings.get("group")
    return record.quantity if group is None else f"{record.quantity} {group}"


def write_sentence_values(path: Path, values: Mapping[str, Tensor]) -> None:
    """Write a compressed NumPy archive, complete or absent."""
    content = io.BytesIO()
    arrays: dict[str, Any] = {name: each.detach().double().cpu().numpy() for name, each in values.items()}
    np.savez_compressed(content, **arrays)
    write_atomically(path, content.getvalue())


def read_sentence_values(path: Path) -> Values:
    """What `write_sentence_values` wrote; nothing where there is no file.

    Raises BadInput where it is damaged.

    >>> read_sentence_values(Path("none.npz"))
    {}
    """
    if not path.exists():
        return {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(
            f"{path} is damaged ({error}); delete it, and the records beside it to measure again"
        ) from error
