"""The commands of `isoloss`, by what they are for: what each takes, and where its work is done."""

import inspect
import shutil
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from isoloss.command_line.options.checkpoints import (
    CompareOptions,
    EnlargeOptions,
    FlatnessOptions,
    InspectOptions,
)
from isoloss.command_line.options.corpus import CorpusOptions, TaskOptions
from isoloss.command_line.options.language import LanguageOptions
from isoloss.command_line.options.language_file import (
    DescribeOptions,
    EntropyOptions,
    ProbabilitiesOptions,
    SampleOptions,
)
from isoloss.command_line.options.reproduce import ReproduceOptions, TheoryOptions
from isoloss.command_line.options.results import CompareRunsOptions, RecordsOptions, RunsOptions, ShowOptions

WIDEST = 100
END = """`isoloss COMMAND --help` tells a command's options, with an example.
`isoloss --tyro-print-completion bash` (or zsh, tcsh) prints completions for a shell."""


@dataclass(frozen=True)
class Command:
    """A command: its name, the dataclass of its options, and the function that does it.

    The function is named as `module:function` below `isoloss.command_line`, and imported only when it is
    called for: most take seconds to import, which neither help nor a mistyped option need wait for.
    """

    name: str
    options: type[Any]
    work: str

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (inspect.getdoc(self.options) or "").splitlines()[0]

    def load(self) -> Callable[[Any], int | None]:
        """The function that takes the options and does the work; its result is the exit code, None for 0."""
        module, _, function = self.work.partition(":")
        work: Callable[[Any], int | None] = getattr(import_module(f"isoloss.command_line.{module}"), function)
        return work


GROUPS: dict[str, tuple[Command, ...]] = {
    "measure a checkpoint": (
        Command("inspect", InspectOptions, "inspection:inspect_models"),
        Command("flatness", FlatnessOptions, "flatness_request:measure_flatness"),
        Command("compare", CompareOptions, "comparison_request:measure_comparison"),
        Command("enlarge", EnlargeOptions, "enlarge:enlarge"),
    ),
    "languages": (
        Command("language", LanguageOptions, "language:language"),
        Command("probabilities", ProbabilitiesOptions, "probabilities:probabilities"),
        Command("entropy", EntropyOptions, "entropy:entropy"),
        Command("sample", SampleOptions, "sample:sample"),
        Command("describe", DescribeOptions, "describe:describe"),
    ),
    "reproduce": (
        Command("reproduce", ReproduceOptions, "reproduction:reproduce_experiments"),
        Command("theory", TheoryOptions, "theory_request:run_theory"),
    ),
    "results": (
        Command("runs", RunsOptions, "runs:runs"),
        Command("show", ShowOptions, "show:show"),
        Command("compare-runs", CompareRunsOptions, "compare_runs:compare_runs"),
        Command("records", RecordsOptions, "records:records"),
    ),
    "data": (
        Command("corpus", CorpusOptions, "corpus:corpus"),
        Command("task", TaskOptions, "task:task"),
    ),
}

COMMANDS = {command.name: command for group in GROUPS.values() for command in group}

FORMER_NAMES = {"law": "probabilities", "compare-checkpoints": "compare"}
"""Names that go on working, and that no help lists."""


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
