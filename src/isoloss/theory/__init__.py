"""Numerical tests of each lemma and theorem, which can fail; what they are called, without importing them."""

from isoloss.errors import BadInput, did_you_mean

STATEMENTS = (
    "lemma-3.2",
    "theorem-3.3-coin",
    "theorem-3.3-factors",
    "theorem-3.3-transformer",
    "lemma-g.4",
    "lemma-g.1",
    "fact-g.2",
    "lemma-g.3",
    "lemma-g.7",
    "theorem-g.6",
    "flattest-solution",
    "hidden-units",
    "theorem-5.1",
    "downstream-error",
    "nested-minimisers",
    "appendix-b.4",
    "adamw-coin",
    "adamw-factors",
)
"""In the order in which they are shown. Each has a module named after it, whose `ENTRY` computes it."""


def statements_named(name: str) -> tuple[str, ...]:
    """The statement of this name, or all parts of it. Raises BadInput if there is none.

    No program is imported: who mistypes a name need not wait for torch to be told so.

    >>> statements_named("theorem-3.3")
    ('theorem-3.3-coin', 'theorem-3.3-factors', 'theorem-3.3-transformer')
    """
    found = tuple(each for each in STATEMENTS if each == name or each.startswith(f"{name}-"))
    if not found:
        # Names that differ by a number alone are as alike as 0.82, and are no misspellings of each other.
        near = did_you_mean(name, STATEMENTS, alike=0.85)
        near = near or f"; choose among {', '.join(STATEMENTS)}, or the beginning of several: theorem-3.3"
        raise BadInput(f"no statement is called {name!r}{near}")
    return found
