"""Numbers as shown to readers: with as many digits as their error justifies."""

import math

from isoloss.measurements.record import Record

ABSENT = "–"
"""Shown in place of a missing number."""


def shown(value: object, error: float | None = None) -> str:
    """A value of a table as text; a number with an error is rounded to the error's second digit.

    >>> shown(1.50123, 0.00034), shown(1.50123), shown(12000), shown(None), shown(True)
    ('1.50123 ± 0.00034', '1.501', '12,000', '–', 'yes')
    """
    match value:
        case None:
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}" if error is None else shown(float(value), error)
        case float() if not math.isfinite(value):
            return ABSENT if math.isnan(value) else str(value).replace("inf", "∞")
        case float():
            return _with_error(value, error)
        case _:
            return str(value)


def _with_error(value: float, error: float | None) -> str:
    if error is None or not math.isfinite(error):
        return f"{value:.4g}"
    if error <= 0:
        return f"{value:.4g} ± {error:g}"
    decimals = 1 - math.floor(math.log10(error))
    if 0 <= decimals <= 6:
        return f"{value:,.{decimals}f} ± {error:.{decimals}f}"
    return f"{value:.4g} ± {error:.2g}"


def record_title(record: Record) -> str:
    """What is measured, in words."""
    return record.quantity.replace("_", " ")


def record_shown(record: Record) -> str:
    """The number with its error, unit and n."""
    return f"{shown(record.value, record.standard_error)} {record.unit} (n = {record.n:,})"
