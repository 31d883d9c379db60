import json
from dataclasses import asdict

import pytest
import torch

from isoloss.measurements.kept_measurements import DamagedMeasurement, KeptMeasurements
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
    (tmp_path / f".x.{'0' * 32}.part").mkdir()
    kept.forget_unfinished()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("suffix", "content"), [(".npz", b"PK"), (".jsonl", b"{}\n"), (".jsonl", b"")])
def test_what_is_damaged_is_named_and_measured_again(tmp_path, suffix, content):
    kept = KeptMeasurements(tmp_path)
    kept.measured(KEY, "a", lambda: FOUND)
    (file,) = tmp_path.glob(f"*{suffix}")
    file.write_bytes(content)
    assert kept.get(KEY, "a") is None
    with pytest.warns(DamagedMeasurement, match="it was measured again"):
        kept.measured(KEY, "a", lambda: FOUND)
    assert kept.measured(KEY, "a", never).records == FOUND.records


def test_what_is_of_another_key_is_not_taken_for_it(tmp_path):
    kept = KeptMeasurements(tmp_path)
    kept.measured(KEY, "a", lambda: FOUND)
    kept.measured({**KEY, "seed": 2}, "a", lambda: FOUND)
    one, other = sorted(tmp_path.glob("*.jsonl"))
    one.write_bytes(other.read_bytes())
    one.with_suffix(".npz").write_bytes(other.with_suffix(".npz").read_bytes())
    found = [kept.get(key, "a") for key in (KEY, {**KEY, "seed": 2})]
    assert sum(each is None for each in found) == 1


@pytest.mark.parametrize("values", ["records.npz", "values.npz"])
def test_what_an_older_isoloss_kept_is_read(tmp_path, values):
    kept = KeptMeasurements(tmp_path)
    kept.measured(KEY, "a", lambda: FOUND)
    (records,) = tmp_path.glob("*.jsonl")
    folder = tmp_path / records.stem
    folder.mkdir()
    records.with_suffix(".npz").rename(folder / values)
    (folder / "records.jsonl").write_text(json.dumps(asdict(FOUND.records[0])) + "\n")
    records.unlink()
    again = kept.measured(KEY, "a", never)
    assert again.records == FOUND.records
    assert torch.equal(again.values["loss"], FOUND.values["loss"])
