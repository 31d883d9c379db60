"""The learning rate of each step."""

from isoloss.errors import BadInput


def check_warm_up(warm_up_steps: int, steps: int) -> None:
    """Raise BadInput when a run of `steps` would end before its warm-up does."""
    if warm_up_steps > steps:
        raise BadInput(
            f"the warm-up of {warm_up_steps} steps is longer than the run of {steps}; shorten the warm-up or "
            "lengthen the run"
        )


def warmed_up(learning_rate: float, warm_up_steps: int, step: int) -> float:
    """Rising linearly to `learning_rate` at step `warm_up_steps`, constant after (paper A.5).

    Constant, so that a run's checkpoints are comparable and training can go on from each.

    >>> [warmed_up(1e-3, 4, step) for step in (1, 2, 4, 9)]
    [0.00025, 0.0005, 0.001, 0.001]
    """
    return learning_rate * min(1.0, step / warm_up_steps) if warm_up_steps else learning_rate
