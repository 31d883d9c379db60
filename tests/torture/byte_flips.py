"""Bytes of a results folder flipped one at a time: each is reported on reading, or changes nothing."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from isoloss.corpora.packed_corpus import read_packed_corpus
from isoloss.errors import IsolossError
from isoloss.results.checkpoint import read_checkpoint
from isoloss.results.measurement_store import Measurements, measurements_at
from isoloss.results.record import read_records
from isoloss.results.store import read_sealed
from isoloss.results.tensors import read_tensors
from isoloss.stored_runs.stored_run import stored_run
from isoloss.theory.suite import read_statement
from norm_experiments import LANGUAGE

KEPT = "of-loss"
"""The name of the one measurement that is kept as `compare` keeps them."""

Outcome = Literal["told", "harmless", "silently other", "traceback"]
Read = Callable[[], Any]
"""What a file's reader gives, which can be compared; it raises IsolossError where it tells."""


@dataclass(frozen=True)
class Flip:
    """One byte of one file, and the outcome."""

    file: str
    place: int
    outcome: Outcome


def reader_of(path: Path) -> Read | None:
    """What reads a file of a results folder or a cache, as the commands do; None for one that none reads."""
    for folder in path.parents:
        if folder.parent.name == "steps":
            return lambda: replace(read_checkpoint(folder), folder=folder)
        if (folder / "corpus.json").exists():
            return lambda: read_packed_corpus(folder)
        if folder.name == "kept":
            return lambda: _kept(folder)
        if folder.parent.name == "runs" and path.suffix in (".json", ".jsonl", ".npz", ".pcfg"):
            return lambda: _run(folder)
    match path.parent.name:
        case "measured-on":
            return lambda: read_tensors(path, path.stem)
        case "references":
            return lambda: read_records(path, path.stem)
        case "experiments":
            return lambda: read_sealed(path, path.stem)
        case "theory":
            return lambda: read_statement(path)
        case "portraits":
            return lambda: read_sealed(path, LANGUAGE.digest)
    return None


def _run(folder: Path) -> Any:
    found = stored_run(folder)
    if found.damage:
        raise IsolossError(found.damage[0])
    stored = [measurements_at(folder, found.run, checkpoint.step) for checkpoint in found.checkpoints]
    values = [{k: v.tolist() for k, v in at.values(name).items()} for at in stored for name in at.names()]
    return found, values


def _kept(folder: Path) -> Any:
    kept = Measurements(folder)
    return kept.records(KEPT), {name: each.tolist() for name, each in kept.values(KEPT).items()}


def flips(folder: Path, count: int, seed: int = 0, done: int = 0) -> Iterator[Flip]:
    """Flip bytes of the folder's files, some bits of each: all bytes, or `count` of them evenly.

    The first `done` of these are skipped.

    The folder is restored when this ends.
    """
    draw = random.Random(seed)
    readers = {path: reader_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    places = [
        (path, place)
        for path, read in readers.items()
        if read is not None
        for place in range(path.stat().st_size)
    ]
    whole = {path: read() for path, read in readers.items() if read is not None}
    for number, (path, place) in enumerate(draw.sample(places, min(count, len(places)))):
        read, mask = readers[path], draw.randrange(1, 256)
        assert read is not None
        if number < done:
            continue
        outcome = _flipped(path, place, mask, read, whole[path])
        yield Flip(path.relative_to(folder).as_posix(), place, outcome)


def _flipped(path: Path, place: int, mask: int, read: Read, wanted: Any) -> Outcome:
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
        found = read()
    except IsolossError:
        return "told"
    except Exception:
        return "traceback"
    finally:
        path.write_bytes(whole)
    return "harmless" if _equal(found, wanted) else "silently other"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and all(hasattr(value, "equal") for value in one.values()):
        return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)
    return bool(one == other)
