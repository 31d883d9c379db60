"""Whole numbers that a notebook gives: Python's, numpy's, or whatever else counts as one."""

from operator import index
from typing import SupportsIndex

from isoloss.errors import BadInput


def whole_number(what: str, given: SupportsIndex) -> int:
    """What is given as `what`, as Python's. Raises BadInput for what is no whole number, such as True or 3.0.

    >>> import numpy
    >>> whole_number("the number of steps", numpy.int64(3))
    3
    """
    number = _whole(given)
    if number is None:
        raise BadInput(f"{what} is a whole number, not {given!r}")
    return number


def usable_seed(seed: SupportsIndex) -> int:
    """The seed as Python's number. Raises BadInput unless it is one that torch takes."""
    number = _whole(seed)
    if number is None or not 0 <= number < 2**63:
        raise BadInput(f"a seed is a whole number from 0 to {2**63 - 1}, not {seed!r}")
    return number


def _whole(given: SupportsIndex) -> int | None:
    try:
        return None if isinstance(given, bool) else index(given)
    except TypeError:
        return None
