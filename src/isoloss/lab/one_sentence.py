"""Errors in the laboratory as one sentence: what failed, the reason, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from isoloss.errors import BadInput, IsolossError, first_line, place_in_users_code


@contextmanager
def in_one_sentence(doing: str) -> Iterator[None]:
    """Turn torch's errors into one sentence, and those of the caller's own files, with the line, too.

    >>> with in_one_sentence("training"):
    ...     torch.ones(2) @ torch.ones(3)
    Traceback (most recent call last):
    isoloss.errors.BadInput: training failed: inconsistent tensor size, ...; give a model that reads such ...
    """
    try:
        yield
    except IsolossError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError, KeyError) as error:
        reason = first_line(error)
        if place := place_in_users_code(error):
            raise BadInput(f"{doing} failed in {place}: {type(error).__name__}: {reason}; mend it") from error
        memory = isinstance(error, torch.OutOfMemoryError) or "memory" in reason
        advice = "fewer sentences or a smaller batch" if memory else "a model that reads such sentences"
        raise BadInput(f"{doing} failed: {reason}; give {advice}") from None
