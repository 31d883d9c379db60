"""What experiments call their runs, kept beside the runs, whose folders are named for their content."""

import json
from collections.abc import Sequence
from pathlib import Path

from isoloss.experiments.experiment import Experiment
from isoloss.files import write_atomically

NAMES_FOLDER = "experiments"


def keep_names(experiments: Sequence[Experiment], output: Path) -> None:
    """Write `output`/experiments/NAME.json for each experiment: its title, and its runs' names by folder.

    Raises IsolossError where it cannot be written.
    """
    for experiment in experiments:
        content = {
            "name": experiment.name,
            "title": experiment.title,
            "runs": {run.folder(output).name: run.name for run in experiment.runs},
        }
        path = output / NAMES_FOLDER / f"{experiment.name}.json"
        write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
