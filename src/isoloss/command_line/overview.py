"""What `isoloss` prints of itself: the commands, a line each, by what they are for."""

import shutil
import textwrap

from isoloss.command_line.commands import COMMANDS, GROUPS

WIDEST = 100
END = """`isoloss COMMAND --help` tells a command's options, with an example.
`isoloss --tyro-print-completion bash` (or zsh, tcsh) prints completions for a shell."""


def overview() -> str:
    """The help of `isoloss`, as wide as the terminal, up to WIDEST columns."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    column = max(map(len, COMMANDS)) + 4
    lines = ["usage: isoloss COMMAND ...", ""]
    lines += ["Why language models with the same pre-training loss differ downstream.", ""]
    for title, commands in GROUPS.items():
        lines.append(title)
        for command in commands:
            start = f"  {command.name}".ljust(column)
            lines += textwrap.wrap(start + command.summary, width, subsequent_indent=" " * column)
        lines.append("")
    return "\n".join([*lines, END])
