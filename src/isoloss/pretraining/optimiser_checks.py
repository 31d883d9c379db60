"""What every optimiser's settings must satisfy."""

import math

from isoloss.errors import BadInput


def check_learning_rate(learning_rate: float) -> None:
    """Raise BadInput unless it is positive and finite."""
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise BadInput(f"the learning rate must be a positive number, not {learning_rate}")


def check_warm_up_steps(warm_up_steps: int) -> None:
    """Raise BadInput for a negative number."""
    if warm_up_steps < 0:
        raise BadInput(f"the number of warm-up steps must be 0 or more, not {warm_up_steps}")


def check_betas(first_beta: float, second_beta: float) -> None:
    """Raise BadInput unless both moments' decay rates are in [0, 1)."""
    if not (0 <= first_beta < 1 and 0 <= second_beta < 1):
        raise BadInput(f"betas must be at least 0 and below 1, not {first_beta} and {second_beta}")


def check_epsilon(epsilon: float) -> None:
    """Raise BadInput unless it is positive and finite."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BadInput(f"epsilon must be a number above 0, not {epsilon}")


def check_weight_decay(weight_decay: float) -> None:
    """Raise BadInput unless it is finite and not negative."""
    if not (math.isfinite(weight_decay) and weight_decay >= 0):
        raise BadInput(f"weight decay must be a number of at least 0, not {weight_decay}")
