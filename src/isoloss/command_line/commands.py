"""The commands of `isoloss`, by what they are for: what each takes, and where its work is done."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from isoloss.command_line.options.compare import CompareOptions
from isoloss.command_line.options.compare_runs import CompareRunsOptions
from isoloss.command_line.options.corpus import CorpusOptions
from isoloss.command_line.options.describe import DescribeOptions
from isoloss.command_line.options.enlarge import EnlargeOptions
from isoloss.command_line.options.entropy import EntropyOptions
from isoloss.command_line.options.flatness import FlatnessOptions
from isoloss.command_line.options.inspect import InspectOptions
from isoloss.command_line.options.language import LanguageOptions
from isoloss.command_line.options.probabilities import ProbabilitiesOptions
from isoloss.command_line.options.records import RecordsOptions
from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.command_line.options.runs import RunsOptions
from isoloss.command_line.options.sample import SampleOptions
from isoloss.command_line.options.show import ShowOptions
from isoloss.command_line.options.task import TaskOptions
from isoloss.command_line.options.theory import TheoryOptions


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
