"""What a computation says of a sentence that it could have contradicted."""

from enum import StrEnum


class Verdict(StrEnum):
    """Supported, contradicted, or neither."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    INCONCLUSIVE = "inconclusive"
