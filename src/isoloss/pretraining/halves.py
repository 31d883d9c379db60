"""The two halves of a batch, of which some rules make different use."""

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """The first ⌊n/2⌋ sentences, and the others."""
    middle = len(batch) // 2
    return batch.part(0, middle), batch.part(middle, len(batch))


def check_halves(rule: str, batch_size: int) -> None:
    """Raise BadInput unless each half has a sentence."""
    if batch_size < 2:
        raise BadInput(f"{rule} splits each batch in two; give batches of at least 2 sentences")
