"""Which texts are one and the same, and which of them are held out."""

import hashlib
import sys
import unicodedata
from functools import cache


def text_hash(text: str) -> bytes:
    r"""16 bytes that identify a text up to white space, capitals, and how Unicode writes the same characters.

    Its format characters, such as a byte order mark within a text, make no difference.

    >>> text_hash("The cat\n sat. ") == text_hash("the cat sat.") != text_hash("the cat sat")
    True
    >>> text_hash("caf\u00e9") == text_hash("\ufeffcafe\u0301")
    True
    """
    if not text.isascii():
        text = unicodedata.normalize("NFD", text.translate(_format_characters()))
    folded = " ".join(text.split()).casefold()
    return hashlib.blake2b(unicodedata.normalize("NFC", folded).encode(), digest_size=16).digest()


@cache
def _format_characters() -> dict[int, None]:
    """Most have no width; BERT's tokenizer drops all."""
    return {code: None for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"}


def is_held_out(hashed: bytes, share: float) -> bool:
    """Whether a document with this hash is in the validation `share`, whatever the other documents are.

    >>> sum(is_held_out(text_hash(str(number)), 0.1) for number in range(1000))
    100
    """
    return int.from_bytes(hashed[:8]) < share * 2**64
