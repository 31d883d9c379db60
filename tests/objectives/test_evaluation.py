from types import SimpleNamespace

import pytest
import torch
from torch import nn

from isoloss.objectives.evaluation import evaluation_mode, rows_at_once


def test_each_module_returns_to_its_own_mode_after_an_exception():
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout().eval(), nn.Linear(2, 2)))
    before = [module.training for module in model.modules()]

    def fail():
        with evaluation_mode(model):
            assert not any(module.training for module in model.modules())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [module.training for module in model.modules()] == before == [True, True, True, False, True]


def test_at_least_one_row_and_no_more_than_memory_holds():
    model = nn.Linear(100, 1000)
    assert rows_at_once(model, tokens=50, memory_bytes=1) == 1
    rows = rows_at_once(model, tokens=50, memory_bytes=10**8)
    assert rows * 50 * 1000 * 4 * 8 <= 10**8 < (rows + 1) * 50 * 1000 * 4 * 8
    assert rows_at_once(model.to(torch.float64), tokens=50, memory_bytes=10**8) == rows // 2


class Repacked(nn.Linear):
    """As bitsandbytes' layers of 4 bits are once they have brought their weights into another format."""

    support_avx512bf16_for_cpu = True

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.weight.quant_state = SimpleNamespace(packing_format_for_cpu=True)

    def state_dict(self, *args, **settings):
        self.weight.quant_state.packing_format_for_cpu = False
        return super().state_dict(*args, **settings)


def test_layers_compute_by_the_weights_that_they_store_and_later_as_before():
    layer = Repacked()
    with evaluation_mode(nn.Sequential(layer)):
        assert not layer.support_avx512bf16_for_cpu
        assert not layer.weight.quant_state.packing_format_for_cpu
    assert layer.support_avx512bf16_for_cpu
