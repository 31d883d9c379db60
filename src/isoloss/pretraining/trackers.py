"""TensorBoard, Weights & Biases and trackio, through accelerate's trackers."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Literal

from isoloss.errors import BadInput
from isoloss.pretraining.specification import PretrainingSpecification, settings_as_json
from isoloss.pretraining.tracked import Log

TrackerName = Literal["tensorboard", "wandb", "trackio"]
PROJECT = "isoloss"


def tracker_named(name: TrackerName, folder: Path, run: str, *, online: bool = False) -> Any:
    """An accelerate `GeneralTracker` for one run, not yet begun.

    TensorBoard and Weights & Biases write below `folder`; Weights & Biases stays offline unless `online`
    (`wandb sync` sends its files later). trackio keeps its own folder on this machine, where
    `trackio show` looks. Raises BadInput where the tracker or accelerate is not installed.
    """
    try:
        importlib.import_module(name)
        trackers = importlib.import_module("accelerate.tracking")
    except ImportError as error:
        raise BadInput(
            f"the tracker {name} needs packages that are missing ({error}); pip install 'isoloss[{name}]'"
        ) from error
    match name:
        case "tensorboard":
            return trackers.TensorBoardTracker(run, logging_dir=folder / "tensorboard")
        case "wandb":
            mode, quiet = "online" if online else "offline", {"silent": True}
            return trackers.WandBTracker(PROJECT, name=run, dir=str(folder), mode=mode, settings=quiet)
        case "trackio":
            return trackers.TrackioTracker(PROJECT, name=run)


@contextmanager
def opened_tracker(tracker: Any, specification: PretrainingSpecification) -> Iterator[Log]:
    """Begin the tracker's run with the specification's settings, and end it with the block.

    `tracker` is any `GeneralTracker` of accelerate: one of `tracker_named`, or a user's own. Where several
    processes train, the main one alone opens it.

        with opened_tracker(tracker_named("tensorboard", folder, "width 64"), specification) as log:
            tracked = Tracked(log, every=100)
            pretrain(..., at_step=tracked.at_step, at_checkpoint=tracked.at_checkpoint)
    """
    from accelerate import PartialState  # takes a second, which only those who track need wait for

    PartialState()  # accelerate's trackers will not speak before it knows of its processes
    with redirect_stdout(sys.stderr):  # where a tracker's remarks are no part of a command's result
        tracker.start()
    try:
        tracker.store_init_configuration(flat_settings(settings_as_json(specification)))
        yield lambda numbers, step: tracker.log(numbers, step=step)
    finally:
        with redirect_stdout(sys.stderr):
            tracker.finish()


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under names of one level, as trackers' tables of runs want them.

    >>> flat_settings({"seed": 1, "architecture": {"is": "LSTM", "width": 64}, "checkpoint_steps": [5, 10]})
    {'seed': 1, 'architecture.is': 'LSTM', 'architecture.width': 64, 'checkpoint_steps': '[5, 10]'}
    """
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{name}.")
        else:
            plain = isinstance(value, str | int | float)
            flat[prefix + name] = value if plain else str(value)
    return flat
