"""The order of the work and of the reports, with measurements that measure nothing."""

from dataclasses import replace

import pytest
import torch

from isoloss.measurements import checkpoint_comparison
from isoloss.measurements.checkpoint_comparison import carry_out
from isoloss.measurements.checkpoint_measurements import CheckpointMeasurement
from isoloss.measurements.compared_checkpoints import Checkpoint, Models
from isoloss.measurements.kept_measurements import KeptMeasurements
from isoloss.measurements.quantity import Measurement
from isoloss.results.record import Record
from tiny_text_models import text_model

A = Checkpoint("a", "masked", "Bert", 4, 8, "digest of a", "tokenizer", "tokens", (("weight", (2, 2)),))
B = replace(A, name="b", weights="digest of b")


def made(name, interrupted=False, revision=1):
    def nothing(model, checkpoint, progress):
        if interrupted:
            raise KeyboardInterrupt
        return Measurement((Record(name, 1.0, "", 0.1, 2, checkpoint=checkpoint.name),), {})

    return CheckpointMeasurement(name, {"measures": name}, nothing, revision)


@pytest.fixture
def work(monkeypatch, tmp_path):
    model = text_model()
    monkeypatch.setattr(Models, "__getitem__", lambda *_: model)
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
    assert work([A], made("loss"), made("trace")) == [first]
    whole = [("a", "loss"), ("b", "loss"), ("a", "trace"), ("b", "trace")]
    assert work([A, B], made("loss"), made("trace")) == [whole]


def test_interrupted_work_tells_all_that_is_kept_of_later_stages_too(work):
    assert work([A], made("loss", interrupted=True)) == ["interrupted"]
    assert work([A], made("loss"), made("trace")) == [[("a", "loss"), ("a", "trace")]]
    reports = work([A, B], made("loss", interrupted=True), made("trace"))
    assert reports == [[("a", "loss"), ("a", "trace")], "interrupted"]


def test_what_an_older_revision_gave_is_measured_again(work):
    assert work([A], made("loss")) == [[("a", "loss")]]
    assert work([A], made("loss", interrupted=True)) == [[("a", "loss")]]  # stored: nothing interrupts
    assert work([A], made("loss", interrupted=True, revision=2)) == ["interrupted"]
    assert work([A], made("loss", revision=2)) == [[("a", "loss")]]
    assert work([A], made("loss", interrupted=True)) == [[("a", "loss")]]


def test_the_first_revision_is_found_under_the_names_from_before_there_were_any():
    assert checkpoint_comparison._key(A, made("loss")) == {
        "weights": "digest of a",
        "tokenizer": "tokenizer",
        "measures": "loss",
    }
