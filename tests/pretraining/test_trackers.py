"""What trackers receive from a run: means of the loss, readings, checkpoints, settings, and the end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.tracking import GeneralTracker
from runs import LANGUAGE, TaskedLanguage, small

from isoloss.errors import BadInput
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.trackers import Tracked, opened_tracker
from isoloss.pretraining.update_rule import UpdateRule
from isoloss.results.checkpoint import checkpoint_folders, read_checkpoint


def recorded(specification: Any, language: Any, folder: Path, every: int) -> tuple[list[float], list[Any]]:
    """Each step's loss, and everything that was logged."""
    losses: list[float] = []
    told: list[Any] = []
    tracked = Tracked(lambda numbers, step: told.append((step, numbers)), every)

    def at_step(step: int, loss: torch.Tensor, rule: UpdateRule) -> None:
        losses.append(float(loss))
        tracked.at_step(step, loss, rule)

    pretrain(specification, language, folder, at_step=at_step, at_checkpoint=tracked.at_checkpoint)
    return losses, told


def test_every_so_many_steps_the_mean_loss_is_logged_and_at_checkpoints_theirs(tmp_path: Path) -> None:
    losses, told = recorded(small(steps=14), LANGUAGE, tmp_path, every=6)
    assert len(losses) == 14
    means = {step: numbers["loss"] for step, numbers in told if "loss" in numbers}
    assert list(means) == [6, 12]
    assert means[12] == pytest.approx(sum(losses[6:12]) / 6)
    kept = [read_checkpoint(folder) for folder in checkpoint_folders(tmp_path)]
    at_checkpoints = [(step, numbers) for step, numbers in told if "checkpoint_loss" in numbers]
    assert at_checkpoints == [(one.step, {"checkpoint_loss": one.training_loss}) for one in kept]
    assert [step for step, _ in told] == sorted(step for step, _ in told)


def test_the_rules_readings_come_with_the_loss_and_tracking_changes_no_weight(tmp_path: Path) -> None:
    language = TaskedLanguage()
    rule = Adversarial((0.3, 0.9), strength=0.1, examples=8, smoothing=0.5, optimiser=AdamW(warm_up_steps=2))
    specification = replace(small(steps=8), update_rule=rule, language_digest=language.digest)
    _, told = recorded(specification, language, tmp_path / "tracked", every=1)
    assert all(
        {"loss", "lambda", "smoothed_loss"} <= set(numbers) for _, numbers in told if "loss" in numbers
    )
    assert [step for step, numbers in told if "loss" in numbers] == list(range(1, 9))
    assert (
        told[-1][1]["lambda"] == pretrain(specification, language, tmp_path / "plain").last.readings["lambda"]
    )
    digests = [
        [read_checkpoint(f).digest for f in checkpoint_folders(tmp_path / n)] for n in ("tracked", "plain")
    ]
    assert digests[0] == digests[1]
    with pytest.raises(BadInput, match="at least 1, not 0"):
        Tracked(lambda numbers, step: None, every=0)


def test_an_accelerate_tracker_begins_with_the_settings_and_ends_also_after_an_error(tmp_path: Path) -> None:
    class Notebook(GeneralTracker):
        name, requires_logging_directory = "notebook", False

        def __init__(self) -> None:
            super().__init__()
            self.pages: list[Any] = []

        @property
        def tracker(self) -> list[Any]:
            return self.pages

        def start(self) -> None:
            self.pages.append("begun")

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            self.pages.append(values)

        def log(self, values: dict[str, float], step: int | None = None, **settings: Any) -> None:
            self.pages.append((step, values))

        def finish(self) -> None:
            self.pages.append("ended")

    def interrupted(notebook: Notebook) -> None:
        with opened_tracker(notebook, small()) as log:
            log({"loss": 0.5}, 3)
            raise KeyboardInterrupt

    notebook = Notebook()
    with pytest.raises(KeyboardInterrupt):
        interrupted(notebook)
    begun, settings, *rest = notebook.pages
    assert (begun, rest) == ("begun", [(3, {"loss": 0.5}), "ended"])
    assert settings["architecture.shape.width"] == 8
    assert settings["update_rule"] == "AdamW"
    # What accelerate's trackers take:
    assert all(isinstance(value, str | int | float | None) for value in settings.values())
