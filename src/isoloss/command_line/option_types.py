"""Options that may be left out, named in `--help` by what they take; None stands for no such option."""

from pathlib import Path
from typing import Annotated

import tyro

from isoloss.measurements.on_sentences import quantity_names

File = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")]
Name = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
Number = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")]
Quantities = Annotated[
    tuple[str, ...], tyro.conf.arg(metavar=f"{{{','.join(quantity_names())},FILE.py}} [...]")
]
"""Names of quantities, or Python files that define one."""
