"""What experiments call their runs, kept beside the runs, whose folders are named for their content."""

import json
from collections.abc import Sequence
from pathlib import Path

from isoloss.experiments.experiment import Experiment
from isoloss.files import write_atomically

NAMES_FOLDER = "experiments"


def keep_names(experiments: Sequence[Experiment], output: Path) -> None:
    """Write `output`/experiments/NAME.json for each experiment: its title, and its runs' names by folder.

    Of a folder that an experiment has under several names the first.

    Raises IsolossError where it cannot be written.
    """
    for experiment in experiments:
        content = {
            "name": experiment.name,
            "title": experiment.title,
            "runs": {run.folder(output).name: run.name for run in reversed(experiment.runs)},
        }
        write_atomically(_path(experiment, output), json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def was_planned(experiment: Experiment, output: Path) -> bool:
    """Whether its names are kept in `output`: someone asked for it there."""
    return _path(experiment, output).exists()


def _path(experiment: Experiment, output: Path) -> Path:
    return output / NAMES_FOLDER / f"{experiment.name}.json"
