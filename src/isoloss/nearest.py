"""The known name that a mistyped one is nearest to, as a clause of a sentence."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that ends a sentence about an unknown name; empty where no known name is near.

    >>> did_you_mean("flatnes", ["flatness", "compare"])
    "; did you mean 'flatness'?"
    >>> did_you_mean("zebra", ["flatness", "compare"])
    ''
    """
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
