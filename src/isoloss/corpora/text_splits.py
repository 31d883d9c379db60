"""Examples divided into parts by a hash of their texts, so that no two parts share a text."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LabelledExample:
    """A text, or a pair of texts, and its label."""

    text: str
    second: str | None
    label: str

    @property
    def texts(self) -> tuple[str, ...]:
        """The one or the two."""
        return (self.text,) if self.second is None else (self.text, self.second)


def divided(
    examples: Sequence[LabelledExample], shares: Mapping[str, float], rest: str
) -> dict[str, list[LabelledExample]]:
    """The examples by part, about `shares` of them in those named and the others in `rest`.

    A text's hash decides, so that a text is in one part whatever else there is; pairs that share one of
    their texts, directly or by others, are in one part.

    >>> pairs = [LabelledExample(str(n // 2), f"of {n}", "x") for n in range(1000)]
    >>> parts = divided(pairs, {"test": 0.2}, rest="train")
    >>> {name: len(part) for name, part in parts.items()}
    {'test': 226, 'train': 774}
    """
    parts: dict[str, list[LabelledExample]] = {name: [] for name in (*shares, rest)}
    places = _joined_places(examples)
    for example in examples:
        left = places[example.text]
        for name, share in shares.items():
            if left < share:
                parts[name].append(example)
                break
            left -= share
        else:
            parts[rest].append(example)
    return parts


def place(text: str) -> float:
    """A number in [0, 1), a function of the text alone.

    >>> place("a text") == place("a text") != place("another")
    True
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2.0**48


def _joined_places(examples: Sequence[LabelledExample]) -> dict[str, float]:
    """Each text's place, or one for all texts that pairs join: that of the one whose own is the least."""
    above: dict[str, str] = {}

    def root(text: str) -> str:
        while (parent := above.setdefault(text, text)) != text:
            above[text] = above[parent]  # halves the way up for the next
            text = parent
        return text

    for example in examples:
        roots = {root(text) for text in example.texts}
        above.update(dict.fromkeys(roots, min(roots, key=place)))
    # Hashed anew: the least of several places is no longer as likely to be anywhere.
    return {text: place(f"joined {root(text)}") for text in list(above)}
