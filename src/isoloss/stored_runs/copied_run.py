"""The folders that hold copies of one run, taken together: each measurement once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from isoloss.errors import BadInput
from isoloss.results.measurement_store import Measurements
from isoloss.results.record import Record, Values
from isoloss.results.run_folder import Json
from isoloss.stored_runs.stored_run import StoredCheckpoint, StoredRun


@dataclass(frozen=True)
class CopiedRun:
    """Copies of one run in one or several folders, the one named after it first.

    Each may have been asked for other measurements. Raises BadInput if the copies' weights at a step differ:
    what was measured on both would not be of one run.
    """

    copies: tuple[StoredRun, ...]

    def __post_init__(self) -> None:
        for first, second in pairwise(self.copies):
            here, there = _weights(first), _weights(second)
            other = [step for step in here.keys() & there.keys() if here[step] != there[step]]
            if other:
                raise BadInput(
                    f"{first.folder} and {second.folder} are one run, and its weights differ from step "
                    f"{min(other):,} on, as where processors round differently; name a folder of results "
                    "with one of the two"
                )

    @property
    def first(self) -> StoredRun:
        """The copy that is named after the run, if one is."""
        return self.copies[0]

    @property
    def checkpoints(self) -> list[StoredCheckpoint]:
        """Those of any copy, by step; of a deleted one what a copy that has it says of it."""
        every = [each for copy in reversed(self.copies) for each in copy.checkpoints]
        found = {each.step: each for each in sorted(every, key=lambda each: "files" in each.content)}
        return [found[step] for step in sorted(found)]

    @property
    def plan(self) -> Json:
        """The first copy's plan, with the measurements planned for any of them."""
        if len(self.copies) == 1:
            return self.first.plan
        entries: dict[tuple[str, object], Json] = {}
        for each in (each for copy in self.copies for each in copy.plan.get("measured", [])):
            entry = each["measured_on"], each.get("weights")
            steps = {*entries.get(entry, {"steps": []})["steps"], *each["steps"]}
            entries[entry] = {**each, "steps": sorted(steps)}
        return {**self.first.plan, "measured": list(entries.values())}

    def measurements(self, step: int) -> Iterator[tuple[str, list[Record], Values]]:
        """The name, the records and the values of each measurement at a step.

        Raises BadInput if two copies of one measurement differ; values that only one has are no difference.
        """
        places = [copy.measurements(step) for copy in self.copies]
        for name in sorted({name for place in places for name in place.names()}):
            yield name, *_of_all(name, [place for place in places if place.file(name).exists()])


def copied_runs(runs: Sequence[StoredRun]) -> list[CopiedRun]:
    """The runs that the folders hold, in the order of their first folders."""
    found: dict[str, list[StoredRun]] = {}
    for run in runs:
        found.setdefault(run.run, []).append(run)
    return [
        CopiedRun(tuple(sorted(copies, key=lambda copy: copy.name != copy.run))) for copies in found.values()
    ]


def _weights(run: StoredRun) -> dict[int, dict[str, str]]:
    """The digests of the files of weights, by step."""
    return {
        each.step: {name: of for name, of in each.content["files"].items() if name.endswith(".safetensors")}
        for each in run.checkpoints
        if "files" in each.content
    }


def _of_all(name: str, places: Sequence[Measurements]) -> tuple[list[Record], Values]:
    first, *others = places
    records, values = first.records(name), first.values(name)
    for other in others:
        theirs = other.values(name)
        if other.records(name) != records or (values and theirs and not _same(values, theirs)):
            raise BadInput(
                f"{first.file(name)} and {other.file(name)} are one measurement of one run, and differ; name "
                "a folder of results with one of the two, or delete what is wrong"
            )
        values = values or theirs
    return records, values


def _same(values: Values, others: Values) -> bool:
    return values.keys() == others.keys() and all(
        np.array_equal(each, others[name], equal_nan=True) for name, each in values.items()
    )
