"""What a configuration cannot ask for, told without importing torch."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput

MOST_LAYERS = 10_000
"""Many times as many as any published model has; a module takes about a millisecond to make."""
_COUNT_OF_MODULES = re.compile(r"(^|_)(layers?|blocks|experts)$")


def refuse_beyond_use(content: Mapping[str, Any], path: Path) -> None:
    """Raise BadInput for what is not a number, and for more layers or experts than a model is made of.

    >>> refuse_beyond_use({"text_config": {"num_hidden_layers": 10**7}}, Path("config.json"))
    Traceback (most recent call last):
    isoloss.errors.BadInput: config.json asks for a model with 10,000,000 as num_hidden_layers, which is ...
    """
    for name, value in content.items():
        if isinstance(value, dict):
            refuse_beyond_use(value, path)
        elif isinstance(value, float) and math.isnan(value):
            raise BadInput(f"{name} in {path} is not a number (NaN); mend it")
        elif _COUNT_OF_MODULES.search(name) and isinstance(value, int) and value > MOST_LAYERS:
            raise BadInput(
                f"{path} asks for a model with {value:,} as {name}, which is more than any published model "
                "has; mend it"
            )
