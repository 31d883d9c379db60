"""Runs that the laboratory keeps in a folder: whose they are, and what of them is damaged."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch
from small_networks import Layered, bert, same_weights
from torch import Tensor, nn

from isoloss import lab
from isoloss.errors import BadInput, Damaged
from isoloss.lab.network import digest_of_network
from isoloss.languages.pcfg import PCFG


def test_a_folder_keeps_the_run(language: PCFG, tmp_path: Path) -> None:
    settings = {"steps": 4, "seed": 1, "progress": lab.silent, "folder": tmp_path / "kept"}
    first, again = lab.train(language, 16, **settings), lab.train(language, 16, **settings)
    assert first.steps == again.steps
    assert same_weights(first.last.module, again.last.module)


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-9] ^= 0x40
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (flipped, r"model\.safetensors is not what was written"),
        (
            lambda file: file.write_bytes(file.read_bytes()[:500]),
            r"model\.safetensors is not what was written",
        ),
        (Path.unlink, r"model\.safetensors cannot be read \(No such file"),
        (lambda file: rmtree(file.parent), "checkpoint.json cannot be read"),
    ],
)
def test_a_damaged_model_of_a_kept_run_is_not_returned(
    damage: Callable[[Path], None], says: str, language: PCFG, tmp_path: Path
) -> None:
    settings = {"steps": 4, "seed": 1, "progress": lab.silent, "folder": tmp_path / "kept"}
    run = lab.train(language, 16, **settings)
    first = tmp_path / "kept" / "steps" / f"{run[0].step:06d}"
    damage(first / "model.safetensors")
    again = f"to have it again, delete {first} and the steps after it, and run again"
    with pytest.raises(Damaged, match=f"the checkpoint {first} is damaged: {says}.*; {again}"):
        lab.train(language, 16, **settings)


def of_equal_weights(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


class Scaled(Layered):
    """The same weights, and another network for each scale and activation."""

    def __init__(self, scale: float, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.scale, self.activation = scale, activation

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.activation(self.scale * self.words(ids)))


class Keeping(Layered):
    """The same weights, and whatever it keeps."""

    def __init__(self, kept: Any) -> None:
        super().__init__()
        self.kept = kept


@dataclass
class Settings:
    scales: tuple[float, ...]


def test_containers_that_a_network_keeps_are_part_of_it_and_caches_are_not() -> None:
    kept = [
        (1.0, 2.0),
        (1.0, 3.0),
        [{"scale": 1.0}],
        [{"scale": 2.0}],
        Settings((1.0,)),
        Settings((2.0,)),
        {"function": torch.tanh},
        {"function": torch.sigmoid},
    ]
    digests = {digest_of_network(Keeping(each)) for each in kept}
    assert digests == {digest_of_network(Keeping(deepcopy(each))) for each in kept}
    assert len(digests) == len(kept)
    assert digest_of_network(Keeping(None)) == digest_of_network(Keeping(torch.ones(2)))


def test_another_network_of_equal_weights_is_another_run(language: PCFG, tmp_path: Path) -> None:
    networks = [
        of_equal_weights(make)
        for make in (
            Layered,
            lambda: Scaled(1.0, torch.tanh),
            lambda: Scaled(2.0, torch.tanh),
            lambda: Scaled(2.0, torch.sigmoid),
            lambda: nn.Sequential(nn.Embedding(9, 8), nn.ReLU(), nn.Linear(8, 9)),
            lambda: nn.Sequential(nn.Embedding(9, 8), nn.Tanh(), nn.Linear(8, 9)),
            bert,
            lambda: bert(num_attention_heads=4),
        )
    ]
    for number, network in enumerate(networks):
        for other in networks[number + 1 :]:
            assert digest_of_network(network) != digest_of_network(other)
    first, last = networks[4:6]
    run = lab.train(language, first, steps=2, seed=1, folder=tmp_path / "run", progress=lab.silent)
    again = lab.train(language, first, steps=2, seed=1, folder=tmp_path / "run", progress=lab.silent)
    assert same_weights(again.last.module, run.last.module)
    with pytest.raises(BadInput, match=r"holds another run: its architecture\.network is"):
        lab.train(language, last, steps=2, seed=1, folder=tmp_path / "run", progress=lab.silent)
    with pytest.raises(BadInput, match="holds another run: its steps is 2, not 200"):
        lab.train(language, first, steps=200, seed=1, folder=tmp_path / "run", progress=lab.silent)
