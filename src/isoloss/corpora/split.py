"""Which documents are one, and which part of a corpus a document belongs to: its text alone decides."""

import hashlib


def text_hash(text: str) -> bytes:
    r"""16 bytes that name a text but for its white space and capitals.

    >>> text_hash("The cat\n sat. ") == text_hash("the cat sat.") != text_hash("the cat sat")
    True
    """
    return hashlib.blake2b(" ".join(text.split()).casefold().encode(), digest_size=16).digest()


def is_held_out(hashed: bytes, share: float) -> bool:
    """Whether a document of this hash is among the `share` that validates, whatever the others are.

    >>> sum(is_held_out(text_hash(str(number)), 0.1) for number in range(1000))
    100
    """
    return int.from_bytes(hashed[:8]) < share * 2**64
