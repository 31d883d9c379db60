"""Numbers as shown to readers: with as many digits as their error justifies."""

import math

ABSENT = "–"
"""Shown in place of a missing number."""


def as_text(value: object, error: float | None = None) -> str:
    """A value of a table as text; a number with an error is rounded to the error's second digit.

    >>> as_text(1.50123, 0.00034), as_text(1.50123), as_text(12000), as_text(None), as_text(True)
    ('1.50123 ± 0.00034', '1.501', '12,000', '–', 'yes')
    >>> as_text(16000.0), as_text(16023.0, 154.0), as_text(1.6e12)
    ('16,000', '16,020 ± 150', '1.6e+12')
    """
    match value:
        case None:
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}" if error is None else as_text(float(value), error)
        case float() if not math.isfinite(value):
            return ABSENT if math.isnan(value) else str(value).replace("inf", "∞")
        case float():
            return _with_error(value, error)
        case _:
            return str(value)


def _with_error(value: float, error: float | None) -> str:
    if error is None or not math.isfinite(error):
        return _four_digits(value)
    if error <= 0:
        return f"{_four_digits(value)} ± {error:g}"
    decimals = 1 - math.floor(math.log10(error))
    if -6 <= decimals <= 6:
        places = max(decimals, 0)
        return f"{round(value, decimals):,.{places}f} ± {round(error, decimals):,.{places}f}"
    return f"{value:.4g} ± {error:.2g}"


def _four_digits(value: float) -> str:
    """At least four digits, without an exponent where those before the point are few enough to read."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
