"""Which lengths and shares of balanced strings make a Dyck language, checked without torch."""

from isoloss.errors import BadInput


def refuse_unbalanced(length: int, balanced_share: float) -> None:
    """Raise BadInput for a length that is odd or below 2, and for a share outside (0, 1].

    >>> refuse_unbalanced(7, 1.0)
    Traceback (most recent call last):
    isoloss.errors.BadInput: no string of 7 brackets is balanced; give an even length of at least 2
    """
    if length < 2 or length % 2:
        raise BadInput(f"no string of {length} brackets is balanced; give an even length of at least 2")
    if not 0 < balanced_share <= 1:
        raise BadInput(
            f"a share of {balanced_share} balanced strings makes no language; give above 0, at most 1"
        )
