"""Numbers as they are shown: no more digits than their error bars allow."""


def value_with_error(value: float, error: float | None) -> str:
    """The value with as many digits as its error bar has two of; alone where it has none.

    >>> value_with_error(123.456, 0.0234), value_with_error(0.5, None)
    ('123.456 ± 0.023', '0.5')
    """
    if not error:
        return f"{value:.5g}"
    places = max(0, 1 - int(f"{error:e}".split("e")[1]))
    if places > 6 or abs(value) >= 1e7:
        return f"{value:.4g} ± {error:.2g}"
    return f"{value:,.{places}f} ± {error:,.{places}f}"
