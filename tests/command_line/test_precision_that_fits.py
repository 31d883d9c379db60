"""In which precision models are read, by what their files hold and what memory there is."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from isoloss.command_line.options import precision_that_fits


@pytest.mark.parametrize(
    ("free", "precision"), [(4 * 100 + 50, torch.float32), (4 * 100 + 49, torch.float16)], ids=["fits", "not"]
)
def test_models_that_do_not_fit_beside_the_rest_are_read_as_most_of_them_are_stored(
    free: int, precision: torch.dtype, tmp_path: Path
) -> None:
    """A hundred numbers: in single precision four bytes each, and fifty bytes beside them."""
    for name, kind, numbers in (("one", torch.float16, 60), ("two", torch.bfloat16, 40)):
        (tmp_path / name).mkdir()
        save_file({"weight": torch.ones(numbers, dtype=kind)}, tmp_path / name / "model.safetensors")
    names = [str(tmp_path / name) for name in ("one", "two")]
    assert precision_that_fits(names, free, 50) == precision


def test_an_adapter_is_read_as_its_base_model_is_stored_also_in_torchs_own_files(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    for folder in (base, adapter):
        folder.mkdir()
    held = {"weight": torch.ones(9, dtype=torch.bfloat16), "optimizer": {"rate": 1.0}, "epoch": 3}
    torch.save(held, base / "pytorch_model.bin")  # as some keep what they train with beside the weights
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    for name in (base, adapter):
        found = precision_that_fits([str(name)], 35, 0)
        assert found == torch.bfloat16
