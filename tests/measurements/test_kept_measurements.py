import pytest
import torch

from isoloss.errors import BadInput
from isoloss.measurements.kept_measurements import RECORDS, VALUES, KeptMeasurements, Measurement
from isoloss.measurements.record import Record

KEY = {"weights": "w", "seed": 1, "limits": (1, 2)}
FOUND = Measurement(
    (Record("loss", 2.0, "nats", 0.1, 9, 1, "a", {"x": 1.5}),), {"loss": torch.tensor([1.0, 3.0]).double()}
)


def never():
    raise AssertionError("measured again")


def test_what_is_kept_is_not_measured_again_whatever_it_is_called(tmp_path):
    kept = KeptMeasurements(tmp_path)
    assert kept.get(KEY, "a") is None
    kept.measured(KEY, "a", lambda: FOUND)
    again = kept.measured(KEY, "b", never)
    assert again.records[0].checkpoint == "b"
    assert again.records[0].settings == {"x": 1.5}
    assert torch.equal(again.values["loss"], FOUND.values["loss"])
    assert kept.get({**KEY, "seed": 2}, "a") is None


def test_what_was_cut_off_is_not_kept(tmp_path):
    kept = KeptMeasurements(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        kept.measured(KEY, "a", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert kept.get(KEY, "a") is None
    (tmp_path / ".x.0.part").mkdir()
    kept.forget_unfinished()
    assert not list(tmp_path.iterdir())


def test_damage_is_one_sentence(tmp_path):
    kept = KeptMeasurements(tmp_path)
    kept.measured(KEY, "a", lambda: FOUND)
    (folder,) = tmp_path.iterdir()
    (folder / VALUES).write_bytes(b"PK")
    with pytest.raises(BadInput, match="damaged"):
        kept.get(KEY, "a")
    (folder / RECORDS).write_text("{}\n")
    with pytest.raises(BadInput, match="line 1 is not a record"):
        kept.get(KEY, "a")
    (folder / "key.json").write_text("{}")
    with pytest.raises(BadInput, match="it is of something else"):
        kept.get(KEY, "a")
