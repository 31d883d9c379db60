"""Averages of models, and the seeds that they have gone through."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from isoloss import lab
from isoloss.errors import BadInput
from isoloss.languages.pcfg import PCFG


def test_an_average_is_the_mean_of_the_weights(run: lab.Run) -> None:
    some = run.models[-3:]
    mean = lab.average(some)
    each = [list(model.module.parameters()) for model in some]
    for weight, *of_models in zip(mean.module.parameters(), *each, strict=True):
        assert torch.allclose(weight, torch.stack(of_models).mean(0), atol=1e-6)
    assert mean.seeds == (1,)


def test_running_means_are_averaged_too() -> None:
    norms = [nn.BatchNorm1d(2), nn.BatchNorm1d(2)]
    for value, norm in enumerate(norms, start=1):
        norm.running_mean = torch.full((2,), float(value))
        norm.num_batches_tracked += value
    mean = lab.average([lab.model(norm) for norm in norms]).module.state_dict()
    assert mean["module.running_mean"].tolist() == [1.5, 1.5]
    assert mean["module.num_batches_tracked"] == 1


def test_checkpoints_on_disk_are_averaged(run: lab.Run, tmp_path: Path) -> None:
    folders = [lab.save(model, tmp_path / str(model.step)) for model in run.models[-2:]]
    read, held = (lab.average(models).module.parameters() for models in (folders, run.models[-2:]))
    assert all(a.equal(b) for a, b in zip(read, held, strict=True))


def test_an_average_knows_the_seeds_of_all_its_models(run: lab.Run, language: PCFG) -> None:
    """The sentences of any of them would come again."""
    mean = lab.average([replace(run[-2], seeds=(3, 1)), replace(run.last, seeds=(1, 2))])
    assert mean.seeds == (3, 1, 2)
    for seed in mean.seeds:
        with pytest.raises(BadInput, match=f"was trained with seed {seed} on the sentences that would be"):
            lab.train(language, mean, steps=1, seed=seed, progress=lab.silent)
