"""A setting of the paper beside a scale's, and which experiments depend on it."""

from collections.abc import Callable
from dataclasses import dataclass

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.shared.language_runs import AnyRuns
from isoloss.measurements.accuracy import AccuracyQuantity, Head

SAME = "as the paper says"


@dataclass(frozen=True)
class PaperSetting:
    """One setting: what the paper says, what a scale does, and why."""

    name: str
    paper: str
    ours: str
    why: str = SAME


@dataclass(frozen=True)
class SettingsGroup:
    """Settings of one subject, computed on demand, and which experiments depend on them."""

    title: str
    concerns: Callable[[Experiment], bool]
    settings: Callable[[], tuple[PaperSetting, ...]]


def trained_on(*runs: AnyRuns) -> Callable[[Experiment], bool]:
    """Whether an experiment has runs on one of these languages."""
    digests = {each.language.digest for each in runs}
    return lambda experiment: any(run.language.digest in digests for run in experiment.runs)


def trained_by(rule: type) -> Callable[[Experiment], bool]:
    """Whether an experiment has runs with an update rule of this class."""
    return lambda experiment: any(isinstance(run.update_rule, rule) for run in experiment.runs)


def measuring(*kinds: type) -> Callable[[Experiment], bool]:
    """Whether an experiment measures a quantity of one of these classes."""
    return lambda experiment: any(
        isinstance(measured.quantity, kinds) for run in experiment.runs for measured in run.measured
    )


def with_head(head: type[Head]) -> Callable[[Experiment], bool]:
    """Whether an experiment measures an accuracy of this kind of head."""
    return lambda experiment: any(
        isinstance(measured.quantity, AccuracyQuantity) and isinstance(measured.quantity.head, head)
        for run in experiment.runs
        for measured in run.measured
    )


def named(*names: str) -> Callable[[Experiment], bool]:
    """Whether an experiment has one of these names."""
    return lambda experiment: experiment.name in names
