"""At which steps a run leaves checkpoints."""

from isoloss.errors import BadInput


def log_spaced_steps(first: int, last: int, per_doubling: int = 1) -> tuple[int, ...]:
    """Steps first * 2^(i / per_doubling), rounded, below `last`; then `last` itself.

    Raises BadInput unless 1 <= first <= last and per_doubling is positive.

    >>> log_spaced_steps(100, 1000, per_doubling=2)
    (100, 141, 200, 283, 400, 566, 800, 1000)
    """
    if not 1 <= first <= last:
        raise BadInput(f"checkpoints need 1 <= first step <= last step, not {first} and {last}")
    if per_doubling < 1:
        raise BadInput(f"checkpoints per doubling must be at least 1, not {per_doubling}")
    steps = {last}
    number = 0
    while (step := round(first * 2 ** (number / per_doubling))) < last:
        steps.add(step)
        number += 1
    return tuple(sorted(steps))
