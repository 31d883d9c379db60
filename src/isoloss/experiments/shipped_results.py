"""Compares a user's results with those shipped with the package: claims, and runs bit by bit."""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from isoloss.errors import BadInput
from isoloss.experiments.experiment_result import ExperimentResult

FORMAT = 1
TOLD = ("loss", "trace", "accuracy")
"""The columns whose largest difference is told of runs that are not the same to the last bit."""

TASK = "downstream task"
"""The setting by which experiments say what their probes are trained for."""

Row = dict[str, Any]


@dataclass(frozen=True)
class ShippedInterval:
    """A claim's statistic in the shipped runs, and its interval; a bound of nan means unbounded."""

    effect: float
    low: float
    high: float

    def holds(self, effect: float) -> bool:
        """Whether another effect lies in the interval.

        >>> ShippedInterval(effect=2.0, low=1.0, high=3.0).holds(2.5)
        True
        """
        return self.low <= effect <= self.high


@dataclass(frozen=True)
class ShippedResult:
    """One experiment's result at one scale: its settings, intervals by claim, and one row per checkpoint."""

    commit: str
    versions: Row
    settings: dict[str, str]
    claims: dict[str, ShippedInterval]
    rows: tuple[Row, ...]


def shipped_result(name: str, scale: str) -> ShippedResult | None:
    """The shipped result of that experiment; None if there is none at the scale.

    Raises BadInput for a file in another format, e.g. in a partially updated installation.

    >>> shipped_result("figure-1", "laptop").claims["later-is-better"].low > 0
    True
    """
    file = files("isoloss") / "reference" / f"{name}-{scale}.json.gz"
    if not file.is_file():
        return None
    kept = json.loads(gzip.decompress(file.read_bytes()))
    if kept["format"] != FORMAT:
        raise BadInput(f"the shipped result {file.name} has format {kept['format']}; install isoloss again")
    claims = {
        claim["name"]: ShippedInterval(*(_number(claim[name]) for name in ("effect", "low", "high")))
        for claim in kept["result"]["claims"]
    }
    result = kept["result"]
    rows = tuple(result["checkpoints"])
    return ShippedResult(kept["commit"], kept["versions"], result["settings"], claims, rows)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


@dataclass(frozen=True)
class BesideShipped:
    """A user's own result beside the shipped one.

    Runs are identified by their digests, which cover all their settings. Of the `shipped_runs`, `here` is the
    number that exist here, and `same` the number of these for which every number measured in both is
    bit-identical. `differences` are the largest ones of the others, by column; `versions` the differences in
    software and machine.
    """

    shipped: ShippedResult
    shipped_runs: int
    here: int
    same: int
    differences: tuple[tuple[str, float], ...]
    versions: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is to be said of the runs."""
        told = (
            f"Of {self.shipped_runs} runs whose results are shipped (commit {self.shipped.commit[:12]}) "
            f"{self.here} are here, {self.same} of them the same to the last bit"
        )
        if self.differences:
            furthest = ", ".join(f"{name} {value:.2g}" for name, value in self.differences)
            told += f"; the others differ by up to: {furthest}"
            unlike = ", ".join(self.versions) or "versions agree: another processor rounds otherwise"
            told += f" ({unlike})"
        return f"{told}."


def beside_shipped(result: ExperimentResult, scale: str) -> BesideShipped | None:
    """The result beside the shipped one; None where nothing is shipped of it, or no run of it is here.

    Hence results with the user's own language or settings, which have other runs, are not compared; nor is
    another task, which is not part of the runs' digests.
    """
    shipped = shipped_result(result.experiment.name, scale)
    if shipped is None or result.table.is_empty():
        return None
    task = dict(result.experiment.settings).get(TASK)
    if task is not None and task != shipped.settings.get(TASK, task):
        return None
    own = {_place(row): row for row in result.table.to_dicts() if row["step"] is not None}
    runs = {_run(row) for row in shipped.rows}
    if not runs <= {(run.name, run.digest[:16]) for run in result.experiment.runs}:
        return None
    pairs = [(row, own[_place(row)]) for row in shipped.rows if _place(row) in own]
    here = {_run(row) for row, _ in pairs}
    unlike = {_run(row) for row, mine in pairs if any(_unequal(row, mine))}
    differences = {
        name: max(gaps)
        for name in TOLD
        if (gaps := [abs(row[name] - mine[name]) for row, mine in pairs if name in _unequal(row, mine)])
    }
    if not here:
        return None
    counts = (len(runs), len(here), len(here - unlike))
    return BesideShipped(
        shipped, *counts, tuple(differences.items()), _other_versions(shipped.versions, result.versions)
    )


def _run(row: Row) -> tuple[str, str]:
    """A run by its name in the experiment and its digest."""
    return row["run"], row["folder"]


def _place(row: Row) -> tuple[str, str, int]:
    return *_run(row), row["step"]


def _unequal(shipped: Row, own: Row) -> Sequence[str]:
    """The columns of numbers that both have and that are not the same."""
    return [name for name in _numbers(shipped) if own.get(name) is not None and own[name] != shipped[name]]


def _numbers(row: Row) -> Iterator[str]:
    return (name for name, value in row.items() if isinstance(value, float))


def _other_versions(there: Row, here: Row) -> tuple[str, ...]:
    return tuple(
        f"{name} {value} there and {here[name]} here"
        for name, value in there.items()
        if name in here and here[name] != value
    )
