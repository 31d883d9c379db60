"""Compares a user's results with those shipped with the package: claims, and runs bit by bit."""

import dataclasses
import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from isoloss.errors import Damaged
from isoloss.experiments.claims import Judgement
from isoloss.experiments.experiment import TASK, facts_of
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.results.verdict import Verdict

FORMAT = 2
MOST_SHOWN = 3
"""Columns whose largest difference is shown of runs that are not the same to the last bit: those that differ
most, for their size, errors last."""

ERRORS = ("_error", "_deviation")

Row = dict[str, Any]


@dataclass(frozen=True)
class ShippedInterval:
    """A claim's statistic in the shipped runs, its interval and verdict; bounds are nan if there is none."""

    effect: float
    low: float
    high: float
    verdict: Verdict

    def holds(self, effect: float) -> bool:
        """Whether another effect lies in the interval.

        >>> ShippedInterval(2.0, low=1.0, high=3.0, verdict=Verdict.SUPPORTED).holds(2.5)
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

    Raises what `shipped_results` raises.

    >>> interval = shipped_result("figure-1", "laptop").claims["later-is-better"]
    >>> interval.low < interval.effect < interval.high
    True
    """
    shipped = shipped_results(scale).get(name)
    if shipped is None:
        return None
    result = shipped["result"]
    claims = {
        claim["name"]: ShippedInterval(
            _number(claim["effect"]), _number(claim["low"]), _number(claim["high"]), Verdict(claim["verdict"])
        )
        for claim in result["claims"]
    }
    rows = tuple(result["checkpoints"])
    return ShippedResult(shipped["commit"], shipped["versions"], result["settings"], claims, rows)


@cache
def shipped_results(scale: str) -> dict[str, Row]:
    """Of each experiment with a result at that scale, where it is from, and as `result` what its page offers.

    Read once in a process. Raises Damaged for a damaged file, or one of another format, as in a partially
    updated installation.
    """
    file = files("isoloss") / "reference" / f"{scale}.json.gz"
    if not file.is_file():
        return {}
    try:
        content = json.loads(gzip.decompress(file.read_bytes()))  # gzip's checksum shows damage
        whole = (content["format"], content["scale"]) == (FORMAT, scale)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"the shipped results {file} are damaged; install isoloss again") from error
    if not whole:
        raise Damaged(f"the shipped results {file} are of another scale or format; install isoloss again")
    found: dict[str, Row] = content["results"]
    return found


def packed_results(scale: str, results: Mapping[str, Row]) -> bytes:
    """The file that `shipped_results` reads, the same bytes for the same results."""
    content = {"format": FORMAT, "scale": scale, "results": dict(sorted(results.items()))}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(f"{text}\n".encode(), mtime=0)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


@dataclass(frozen=True)
class BesideShipped:
    """A user's result beside the shipped one.

    Runs are identified by their digests, which cover all their settings. Of the `shipped_runs`, `here` is the
    number of which something exists here, `same` the number of these with every shipped number to the last
    bit, and `partial` those that lack some. `differences` are the largest ones, by column; `versions` the
    differences in software and machine.
    """

    shipped: ShippedResult
    shipped_runs: int
    here: int
    same: int
    partial: int
    differences: tuple[tuple[str, float], ...]
    versions: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is to be said of the runs."""
        sentence = (
            f"Of {self.shipped_runs} runs whose results are shipped (commit {self.shipped.commit[:12]}) "
            f"{self.here} are here, {self.same} of them the same to the last bit"
        )
        if self.partial:
            sentence += f"; {self.partial} lack numbers that are shipped"
        if self.differences:
            furthest = ", ".join(f"{name} {value:.2g}" for name, value in self.differences)
            sentence += f"; the others differ by up to: {furthest}"
            unlike = ", ".join(self.versions) or "versions agree: another processor rounds otherwise"
            sentence += f" ({unlike})"
        return f"{sentence}."


def beside_shipped(result: ExperimentResult, scale: str) -> BesideShipped | None:
    """The result beside the shipped one; None where nothing is shipped of it, or no run of it is here.

    Hence results with the user's language or settings, which have other runs, are not compared; nor is
    another task, which is not part of the runs' digests.
    """
    shipped = shipped_result(result.experiment.name, scale)
    if shipped is None or result.table.is_empty():
        return None
    task = dict(facts_of(result.experiment)).get(TASK)
    if task is not None and task != shipped.settings.get(TASK, task):
        return None
    mine = {_place(row): row for row in result.table.to_dicts() if row["step"] is not None}
    runs = {_run(row) for row in shipped.rows}
    if not runs <= {(run.name, run.digest[:16]) for run in result.experiment.runs}:
        return None
    pairs = [(row, mine.get(_place(row), {})) for row in shipped.rows]
    here = {_run(row) for row, mine in pairs if mine}
    if not here:
        return None
    partial = here & {
        _run(row) for row, mine in pairs if any(mine.get(name) is None for name in _numbers(row))
    }
    unlike = {_run(row) for row, mine in pairs if any(_unequal(row, mine))}
    counts = (len(runs), len(here), len(here - unlike - partial), len(partial))
    versions = _other_versions(shipped.versions, result.versions)
    return BesideShipped(shipped, *counts, _largest_differences(pairs), versions)


def _largest_differences(pairs: Sequence[tuple[Row, Row]]) -> tuple[tuple[str, float], ...]:
    """By column, of the few that differ most beside the shipped number."""
    largest: dict[str, float] = {}
    beside: dict[str, float] = {}
    for row, mine in pairs:
        for name in _unequal(row, mine):
            gap = abs(row[name] - mine[name])
            largest[name] = max(gap, largest.get(name, 0.0))
            beside[name] = max(gap / abs(row[name] or mine[name]), beside.get(name, 0.0))
    most = sorted(beside, key=lambda name: (name.endswith(ERRORS), -beside[name]))[:MOST_SHOWN]
    return tuple((name, largest[name]) for name in most)


def _run(row: Row) -> tuple[str, str]:
    """A run by its name in the experiment and its digest."""
    return row["run"], row["folder"]


def _place(row: Row) -> tuple[str, str, int]:
    return *_run(row), row["step"]


def _unequal(shipped: Row, mine: Row) -> Sequence[str]:
    """The columns of numbers that both have and that are not the same."""
    return [name for name in _numbers(shipped) if mine.get(name) is not None and mine[name] != shipped[name]]


def _numbers(row: Row) -> Iterator[str]:
    return (name for name, value in row.items() if type(value) in (int, float))


def _other_versions(there: Row, here: Row) -> tuple[str, ...]:
    return tuple(
        f"{name} {value} there and {here[name]} here"
        for name, value in there.items()
        if name in here and here[name] != value
    )


JUDGED = ("effect", "low", "high", "confidence", "runs", "seeds", "p_value", "verdict", "seeds_needed")
"""What the JSON of a claim has of its judgement."""


def result_as_json(result: ExperimentResult) -> dict[str, Any]:
    """Claims, checkpoints, references, failures and notices; anything that is not a finite number is null."""
    experiment, table = result.experiment, result.table
    of_runs = pl.col("step").is_not_null()
    return {
        "name": experiment.name,
        "title": experiment.title,
        "claims": [judgement_as_json(judged) for judged in result.judgements],
        "checkpoints": _rows(table.filter(of_runs)) if not table.is_empty() else [],
        "references": _rows(table.filter(~of_runs)) if not table.is_empty() else [],
        "paper": by_name(experiment.paper_numbers),
        "settings": by_name(facts_of(experiment)),
        "seeds_left_out": list(result.left_out),
        "failures": [dataclasses.asdict(failure) for failure in result.outcome.failures],
        "notices": [dataclasses.asdict(notice) for notice in result.outcome.notices],
    }


def by_name(facts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Several facts of the same name, such as the values of a varied setting, are listed in order.

    >>> by_name([("momentum", "0.5"), ("momentum", "0.9"), ("steps", "100")])
    {'momentum': '0.5; 0.9', 'steps': '100'}
    """
    values_of: dict[str, list[str]] = {}
    for name, value in facts:
        values_of.setdefault(name, []).append(value)
    return {name: "; ".join(values) for name, values in values_of.items()}


def judgement_as_json(judged: Judgement) -> dict[str, Any]:
    """What the claim states, and as `JUDGED` what was found of it; a number that is not finite is null."""
    claim = judged.claim
    stated = {field.name: getattr(claim, field.name) for field in dataclasses.fields(claim)}
    found = {name: getattr(judged, name) for name in JUDGED}
    del stated["statistic"]
    stated["claimed"] = {"above": _plain(claim.claimed.low), "below": _plain(claim.claimed.high)}
    return {name: _plain(value) for name, value in (stated | found).items()}


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """A row without the columns that only other runs' rows have."""
    return [
        {name: _plain(value) for name, value in row.items() if value is not None} for row in table.to_dicts()
    ]


def _plain(value: object) -> object:
    """JSON has no nan and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
