import warnings

import torch

from isoloss.objectives.batch import Batch


def test_a_part_of_a_batch_whose_rows_are_strided_warns_of_nothing():
    """As `nonzero` splits rows off; torch says so once a process, unless told to say it always."""
    ids = torch.zeros(3, 4, dtype=torch.int64)
    places = torch.tensor([[0, 1], [1, 2], [1, 3], [2, 1]])
    rows, positions = places.unbind(1)
    assert not rows.is_contiguous()
    batch = Batch(ids, torch.ones(3, 4, dtype=torch.bool), rows, positions, torch.arange(4))
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            part = batch.part(1, 2)
    finally:
        torch.set_warn_always(always)
    assert (part.rows.tolist(), part.positions.tolist(), part.targets.tolist()) == ([0, 0], [2, 3], [1, 2])
