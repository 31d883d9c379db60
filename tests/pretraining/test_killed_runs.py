"""Killed runs, and those whose workers are killed, end with the bits of the uninterrupted run."""

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from runs import FORK, LANGUAGE, DiesInAWorker, kill_at_random_moments, optimiser_state, outcome, small

from isoloss.errors import IsolossError
from isoloss.pretraining.loop import pretrain

LONG = small(steps=200)


def _train_long(folder: Path, workers: int, averaging_horizon: int | None) -> None:
    torch.set_num_threads(1)
    run = replace(LONG, averaging_horizon=averaging_horizon)
    pretrain(run, LANGUAGE, folder, workers=workers)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "averaging_horizon"), [(0, None), (1, None), (0, 30)])
def test_killed_at_random_moments_a_run_ends_with_the_undisturbed_bits(
    workers: int, averaging_horizon: int | None, tmp_path: Path
) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    _train_long(undisturbed, 0, averaging_horizon)
    train = partial(_train_long, workers=workers, averaging_horizon=averaging_horizon)
    kill_at_random_moments(train, killed, 3, seed=workers)
    assert outcome(killed) == outcome(undisturbed)
    assert all(map(torch.equal, optimiser_state(killed), optimiser_state(undisturbed)))
    assert all(path.name.isdigit() for path in (killed / "steps").iterdir())


def _killed_while_writing(folder: Path, name: str) -> None:
    """Kill this process while it writes the file `name` of its third checkpoint."""
    seen = 0
    plain = Path.open

    def deadly(path: Path, *arguments: object, **keywords: object) -> object:
        nonlocal seen
        if path.name == name and path.parent.name.endswith(".part") and arguments[:1] != ("rb",):
            seen += 1
            if seen == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        return plain(path, *arguments, **keywords)

    Path.open = deadly  # type: ignore[method-assign, assignment]
    pretrain(small(), LANGUAGE, folder)


@pytest.mark.parametrize(
    "name",
    [
        "training_state.pt",
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in ("model.safetensors", "checkpoint.json")
        ),
    ],
)
def test_killed_in_the_middle_of_a_checkpoint(name: str, undisturbed: Path, tmp_path: Path) -> None:
    process = FORK.Process(target=_killed_while_writing, args=(tmp_path, name))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert any(path.name.endswith(".part") for path in (tmp_path / "steps").iterdir())
    assert pretrain(small(), LANGUAGE, tmp_path).resumed_from == 7
    assert outcome(tmp_path) == outcome(undisturbed)


@pytest.mark.thorough
def test_a_run_whose_worker_was_killed_says_so_and_goes_on_without(tmp_path: Path) -> None:
    language = DiesInAWorker(parent=os.getpid())
    specification = replace(small(), language_digest="dies")
    with pytest.raises(IsolossError, match="worker process that prepares batches was killed"):
        pretrain(specification, language, tmp_path, workers=1)
    assert pretrain(specification, language, tmp_path, workers=0).last.step == 40
