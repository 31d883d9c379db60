"""Files of a results folder replaced by code that would leave a trace; then commands read the folder."""

import io
import json
import os
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from kill_points import in_child


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


def planted(folder: Path, read: Sequence[list[str]], marker: Path) -> Iterator[tuple[str, str, bool]]:
    """Replace each file in turn by each payload and run the commands; the file, the form, and whether it ran.

    Beside `config.json` stands the module that the JSON names.
    """
    script = f"import os\nos.makedirs({str(marker)!r})\n"
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        module = path.with_name("evil.py")
        module.write_text(script)
        for form, content in payloads(marker).items():
            path.write_bytes(content)
            in_child(lambda: _run(read))
            ran = marker.exists()
            if ran:
                marker.rmdir()
            yield path.relative_to(folder).as_posix(), form, ran
        path.write_bytes(whole)
        module.unlink()


def _run(commands: Sequence[list[str]]) -> None:
    from isoloss.cli import main

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    for command in commands:
        try:
            main(command)
        except SystemExit:
            continue
