"""What `isoloss inspect` takes."""

from dataclasses import dataclass
from typing import Literal

import tyro


@dataclass(frozen=True)
class InspectOptions:
    """Tell what a language model's folder holds, and how its flatness would be measured.

    Type, objective, parameters, tied weights, tokenizer and longest input; and of a trial on a few random
    sentences by which ways, and how much memory and time a sentence takes.

    Example: isoloss inspect my-bert
    """

    models: tyro.conf.Positional[tuple[str, ...]]
    """Folders of models, or names on a hub."""
    objective: Literal["masked", "causal"] | None = None
    """What the models predict; read from their configurations when not given."""
    device: str = "cpu"
    """Where the trial is made: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    """The models' precision."""
