"""The command line that asks for the same again."""

import shlex
from dataclasses import fields
from typing import Any


def repeated_command(command: str, request: Any) -> str:
    """`isoloss` with that command and the options of a request that are not as they are by default.

    The request's first field holds the positional arguments. How the result is printed goes unsaid.

    >>> from isoloss.command_line.options.checkpoints import FlatnessOptions
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
