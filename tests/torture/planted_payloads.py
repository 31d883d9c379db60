"""Files of a results folder replaced by code that would leave a trace; then commands read the folder."""

import io
import json
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch
from kill_points import in_child
from scenarios import goes_on, kept_again, prepare, reproduce, statements


class Payload:
    """Makes a folder of this name when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[object, ...]:
        return os.makedirs, (self.marker,)


def payloads(marker: Path) -> dict[str, bytes]:
    """The code in forms that a reader may fall for: a pickle, torch's, NumPy's, and JSON that names it."""
    zipped, numpy = io.BytesIO(), io.BytesIO()
    torch.save(Payload(marker), zipped)
    np.savez(numpy, loss=np.array([Payload(marker)], dtype=object), allow_pickle=True)
    named = {
        "model_type": "evil",
        "auto_map": {"AutoConfig": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]},
    }
    return {
        "pickle": pickle.dumps(Payload(marker)),
        "torch": zipped.getvalue(),
        "numpy": numpy.getvalue(),
        "json": json.dumps(named).encode(),
    }


Read = Callable[[], object]
"""Something that reads a file: a command, or what one does that would take too long whole."""


def readers_of(file: Path, everything: Path, apart: Path) -> list[Read]:
    """What reads a file of `a_folder_of_everything`: every command that would, or the part of it that does.

    What is written goes into the folder `apart`.
    """
    results = everything / "results"
    if not file.is_relative_to(results):
        unpack = _command("records", "unpack", everything / "packed.parquet", apart / "unpacked")
        kept = partial(kept_again, everything)  # which `compare` does, and `corpus` the last
        return {"packed.parquet": [unpack], "kept": [kept]}.get(
            file.relative_to(everything).parts[0], [partial(prepare, everything)]
        )
    first, second = sorted((results / "runs").iterdir())
    found = [
        _command("runs", results),
        _command("show", first),
        _command("compare-runs", first, second),
        _command("records", "pack", results, apart / "packed.parquet"),
        partial(reproduce, everything),
        partial(statements, results),
    ]
    if file.name == "language.json":
        given = {"sample": (), "describe": ("--sentences", 20), "entropy": ("--sentences", 20)}
        found += [_command(name, file, *options) for name, options in given.items()]
        found.append(_command("probabilities", file, "--sentence", "< < > >"))
    if file.parent.parent.name == "steps":
        found += _on_a_checkpoint(file.parent, apart)
    return found


def _on_a_checkpoint(checkpoint: Path, apart: Path) -> list[Read]:
    (apart / "ids.jsonl").write_text("[3, 4, 3, 4]\n" * 3)
    (apart / "words.txt").write_text("< > < >\n" * 3)
    ids = ("--token-ids", apart / "ids.jsonl", "--sentences", 2, "--mask-token-id", 2)
    other = next(each for each in checkpoint.parent.iterdir() if each != checkpoint)
    causal = ("--model", checkpoint, "--words", 2, "--length", 2, "--output", apart / "causal.json")
    return [
        _command("inspect", checkpoint),
        _command("flatness", checkpoint, *ids),
        _command("compare", checkpoint, other, "--text", apart / "words.txt"),
        _command("enlarge", checkpoint, apart / "larger", "--width", 2),
        _command("language", "causal-lm", *causal),
        partial(goes_on, checkpoint),
    ]


def planted(
    everything: Path, readers: Callable[[Path], list[Read]], marker: Path, count: int, done: int = 0
) -> Iterator[tuple[str, str, bool]]:
    """Replace files by payloads, and have what reads them do so; the file, the form, and whether it ran.

    All files in all forms, or `count` of these evenly, less the first `done`. Beside each stands the module
    that the JSON names.
    """
    script = f"import os\nos.makedirs({str(marker)!r})\n"
    every = [
        (path, form)
        for path in sorted(path for path in everything.rglob("*") if path.is_file())
        for form in payloads(marker)
        if path.suffix != ".lock"
    ]
    for path, form in every[:: max(1, len(every) // count)][done:count]:
        whole, module = path.read_bytes(), path.with_name("evil.py")
        module.write_text(script)
        path.write_bytes(payloads(marker)[form])
        in_child(lambda path=path: _all_of(readers(path), marker.parent))
        yield path.relative_to(everything).as_posix(), form, marker.exists()
        if marker.exists():
            marker.rmdir()
        path.parent.mkdir(parents=True, exist_ok=True)  # damaged files may have been removed after the report
        path.write_bytes(whole)
        module.unlink(missing_ok=True)


def _command(*words: object) -> Read:
    return partial(_isoloss, [str(word) for word in words])


def _isoloss(words: list[str]) -> None:
    from isoloss.cli import main

    main(words)


def _all_of(reads: Sequence[Read], folder: Path) -> None:
    os.chdir(folder)  # where pages go by default
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    for read in reads:
        with suppress(Exception, SystemExit):
            read()
