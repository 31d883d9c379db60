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
