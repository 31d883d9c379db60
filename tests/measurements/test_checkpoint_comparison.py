"""The order of the work and of what is told, by measurements that measure nothing."""

from dataclasses import dataclass, replace

import pytest
import torch

from isoloss.measurements import checkpoint_comparison
from isoloss.measurements.checkpoint_comparison import carry_out
from isoloss.measurements.compared_checkpoints import Checkpoint, Models
from isoloss.measurements.kept_measurements import KeptMeasurements, Measurement
from isoloss.measurements.record import Record
from isoloss.progress import silent

A = Checkpoint("a", "masked", "Bert", 4, 8, "digest of a", "tokenizer", "tokens", (("weight", (2, 2)),))
B = replace(A, name="b", weights="digest of b")


@dataclass
class Made:
    revision = 1

    name: str
    interrupted: bool = False

    @property
    def key(self):
        return {"measures": self.name}

    def measure(self, checkpoint, model, tokenizer, progress=silent):
        if self.interrupted:
            raise KeyboardInterrupt
        return Measurement((Record(self.name, 1.0, "", 0.1, 2, checkpoint=checkpoint.name),), {})


@pytest.fixture
def work(monkeypatch, tmp_path):
    monkeypatch.setattr(Models, "__getitem__", lambda *_: None)
    monkeypatch.setattr(Models, "tokenizer", lambda *_: None)
    models, kept = Models(torch.device("cpu"), torch.float32), KeptMeasurements(tmp_path / "measured")

    def carried_out(checkpoints, *measurements):
        reports = []
        stages = [[(each, measurement) for each in checkpoints] for measurement in measurements]
        try:
            carry_out(stages, models, kept, lambda measured: reports.append(list(measured)))
        except KeyboardInterrupt:
            reports.append("interrupted")
        return reports

    return carried_out


def test_what_is_told_has_the_order_of_the_stages_whatever_was_kept(work):
    first = [("a", "loss"), ("a", "trace")]
    assert work([A], Made("loss"), Made("trace")) == [first]
    whole = [("a", "loss"), ("b", "loss"), ("a", "trace"), ("b", "trace")]
    assert work([A, B], Made("loss"), Made("trace")) == [whole]


def test_interrupted_work_tells_all_that_is_kept_of_later_stages_too(work):
    assert work([A], Made("loss", interrupted=True)) == ["interrupted"]
    assert work([A], Made("loss"), Made("trace")) == [[("a", "loss"), ("a", "trace")]]
    reports = work([A, B], Made("loss", interrupted=True), Made("trace"))
    assert reports == [[("a", "loss"), ("a", "trace")], "interrupted"]


def test_what_an_older_revision_gave_is_measured_again(work, monkeypatch):
    assert work([A], Made("loss")) == [[("a", "loss")]]
    assert work([A], Made("loss", interrupted=True)) == [[("a", "loss")]]  # kept, so that nothing interrupts
    monkeypatch.setattr(Made, "revision", 2)
    assert work([A], Made("loss", interrupted=True)) == ["interrupted"]
    assert work([A], Made("loss")) == [[("a", "loss")]]
    monkeypatch.setattr(Made, "revision", 1)
    assert work([A], Made("loss", interrupted=True)) == [[("a", "loss")]]


def test_the_first_revision_is_found_under_the_names_from_before_there_were_any():
    assert checkpoint_comparison._key(A, Made("loss")) == {
        "weights": "digest of a",
        "tokenizer": "tokenizer",
        "measures": "loss",
    }
