"""The models that names on a command line stand for: each once, and all checkpoints in a Trainer's folder."""

from collections.abc import Sequence
from pathlib import Path

from isoloss.errors import BadInput
from isoloss.results.checkpoint import ADAPTER_FILE


def with_checkpoints(names: Sequence[str]) -> tuple[str, ...]:
    """The names, and in place of a folder that has no model but checkpoints of a Trainer, those by step.

    >>> with_checkpoints(["my-bert"])
    ('my-bert',)
    """
    found: list[str] = []
    for name in names:
        found += ([] if _is_model(Path(name)) else _checkpoints_in(name)) or [name]
    return tuple(found)


def beside_models(names: Sequence[str]) -> list[str]:
    """A sentence for each model whose folder has a Trainer's checkpoints too, which it does not stand for."""
    return [
        f"{name} is the model in that folder, without the {len(checkpoints)} checkpoints beside it; name "
        f"{name.rstrip('/')}/checkpoint-* for these"
        for name in names
        if _is_model(Path(name)) and (checkpoints := _checkpoints_in(name))
    ]


def _is_model(folder: Path) -> bool:
    return any((folder / file).exists() for file in ("config.json", ADAPTER_FILE))


def _checkpoints_in(name: str) -> list[str]:
    """A Trainer's checkpoints in a folder, by step."""
    steps = {
        int(path.name.removeprefix("checkpoint-")): f"{name.rstrip('/')}/{path.name}"
        for path in Path(name).glob("checkpoint-*")
        if path.is_dir() and path.name.removeprefix("checkpoint-").isdecimal()
    }
    return [steps[step] for step in sorted(steps)]


def refuse_named_twice(names: Sequence[str]) -> None:
    """Raise BadInput for a duplicate name, or a folder given under two names."""
    seen: dict[str, str] = {}
    for name in names:
        place = str(Path(name).resolve()) if Path(name).exists() else name
        if place in seen:
            if seen[place] == name:
                raise BadInput(f"{name} is named twice; name each checkpoint once")
            raise BadInput(f"{seen[place]} and {name} are one checkpoint; name each once")
        seen[place] = name
