"""The language that was saved with a model, read back from the model's folder."""

import re
from contextlib import suppress
from pathlib import Path

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.language_file import read_language

CARD_FILE = "README.md"


def saved_language(folder: Path) -> Language | None:
    """The language in a folder whose card names its digest, as `save` writes them; None without such a one.

    A grammar's file does not hold the longest sentence that the grammar was cut at, and the card does.

    >>> saved_language(Path("nowhere")) is None
    True
    """
    card = folder / CARD_FILE
    content = card.read_text("utf-8", "replace") if card.is_file() else ""
    longest = re.search(r"at most (\d+) words", content)
    if not longest:
        return None
    for file in sorted(folder.glob("language.*")):
        for maximum_length in (None, int(longest[1])):
            with suppress(BadInput):
                found = read_language(file, maximum_length)
                if found.digest in content:
                    return found
    return None
