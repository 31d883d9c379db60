import json
from dataclasses import asdict

import pytest
import torch

from isoloss.measurements.kept_measurements import KEY as KEY_FILE
from isoloss.measurements.kept_measurements import RECORDS, VALUES, DamagedMeasurement, KeptMeasurements
from isoloss.measurements.quantity import Measurement
from isoloss.results.record import Record

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


@pytest.mark.parametrize(
    ("file", "content"), [(VALUES, b"PK"), (RECORDS, b"{}\n"), (RECORDS, b""), (KEY_FILE, b"{}")]
)
def test_what_is_damaged_is_told_of_and_measured_again(tmp_path, file, content):
    kept = KeptMeasurements(tmp_path)
    kept.measured(KEY, "a", lambda: FOUND)
    (folder,) = tmp_path.iterdir()
    (folder / file).write_bytes(content)
    assert kept.get(KEY, "a") is None
    with pytest.warns(DamagedMeasurement, match="was damaged; it was measured again"):
        kept.measured(KEY, "a", lambda: FOUND)
    assert kept.measured(KEY, "a", never).records == FOUND.records


def test_what_an_older_isoloss_kept_is_read(tmp_path):
    kept = KeptMeasurements(tmp_path)
    kept.measured(KEY, "a", lambda: FOUND)
    (folder,) = tmp_path.iterdir()
    (folder / VALUES).rename(folder / "values.npz")
    (folder / KEY_FILE).write_text(json.dumps(KEY))
    (folder / RECORDS).write_text(json.dumps(asdict(FOUND.records[0])) + "\n")
    again = kept.measured(KEY, "a", never)
    assert again.records == FOUND.records
    assert torch.equal(again.values["loss"], FOUND.values["loss"])
