"""The seeds that commands take."""

from isoloss.errors import BadInput


def usable_seed(seed: int) -> int:
    """The seed, where torch can take it. Raises BadInput where it cannot."""
    if not 0 <= seed < 2**63:
        raise BadInput(f"--seed must be from 0 to {2**63 - 1}, not {seed}")
    return seed
