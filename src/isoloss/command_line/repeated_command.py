"""The command line that repeats a request."""

import shlex
from dataclasses import fields
from typing import Any


def repeated_command(command: str, request: Any) -> str:
    """`isoloss` with that command and those options of a request that differ from their defaults.

    The request's first field contains the positional arguments. Options for printing the result are omitted.

    >>> from isoloss.command_line.flatness import FlatnessOptions
    >>> repeated_command("flatness", FlatnessOptions(("my model", "b"), one_mask=True, seed=3))
    "isoloss flatness 'my model' b --one-mask --seed 3"
    """
    positional, *options = fields(request)
    words = ["isoloss", command, *map(shlex.quote, map(str, getattr(request, positional.name)))]
    for field in options:
        value, name = getattr(request, field.name), field.name.replace("_", "-")
        if value == field.default or name == "json":
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            each = value if isinstance(value, tuple) else (value,)
            words += [f"--{name}", *map(shlex.quote, map(str, each))]
    return " ".join(words)
