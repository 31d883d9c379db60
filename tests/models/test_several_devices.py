"""Models on several devices: on the processor alone, and with a second device built for the test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models_to_place import gpt2
from torch import nn

from isoloss.errors import BadInput
from isoloss.models import streamed_weights
from isoloss.models.streamed_weights import spread_over_devices

PROCESSOR = torch.device("cpu")
TESTS = Path(__file__).parents[1]


def test_layers_stay_whole_and_every_share_has_some() -> None:
    pytest.importorskip("accelerate")
    model = gpt2(layers=4)
    spread_over_devices(model, [PROCESSOR, PROCESSOR])
    executed = {
        name: module._hf_hook for name, module in model.named_modules() if hasattr(module, "_hf_hook")
    }
    assert {f"transformer.h.{layer}" for layer in range(4)} <= set(executed)


def test_a_model_that_does_not_fit_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate")
    monkeypatch.setattr(streamed_weights, "free_memory", lambda device: 2_000)
    with pytest.raises(
        BadInput, match=r"do not hold the weights of GPT2LMHeadModel, .* name more devices, or"
    ):
        spread_over_devices(gpt2(layers=4), [PROCESSOR, PROCESSOR])


def test_a_model_that_does_not_say_what_must_stay_whole_is_refused() -> None:
    with pytest.raises(BadInput, match="Sequential does not say which of its layers must stay whole"):
        spread_over_devices(nn.Sequential(nn.Linear(2, 2)), [PROCESSOR, PROCESSOR])


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(BadInput, match=r"needs the package accelerate; pip install 'isoloss\[accelerate\]'"):
        spread_over_devices(gpt2(layers=4), [PROCESSOR, PROCESSOR])


@pytest.mark.slow
def test_numbers_are_those_of_the_processor_where_no_device_takes_those_of_another(tmp_path: Path) -> None:
    folder = TESTS / "models" / "second_device"
    sys.path.insert(0, str(folder))
    import second_device

    if second_device.compiler() is None:
        pytest.skip("there is no g++ to build the second device with")
    library = tmp_path / "second_device.so"
    second_device.build(library)
    places = [*sys.path, str(folder), str(TESTS), str(TESTS / "command_line"), str(TESTS / "models")]
    environment = {**os.environ, "SECOND_DEVICE": str(library), "PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", str(folder / "on_two_devices.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
