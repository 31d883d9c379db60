import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from isoloss.errors import BadInput, Damaged
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.quantity import Subject
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.progress import silent
from isoloss.results.estimate import cluster_values, mean_over_members, sample_mean
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record, read_records, read_values, value_name, write_records

ENTROPY = Record("masked_entropy", 1.25, "nats", 0.5, 100, seed=3)
TRACE = Record(
    "fisher_trace", 32.0, "nats per squared parameter", 0.1, 9, 0, "step-8", {"step": 8, "width": "ü"}
)
EXACT = Record("chance", 0.25, "fraction", None, 1, settings={"task": "root", "exact": True, "none": None})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "records.jsonl"


def test_a_file_holds_the_records_that_were_written_last(path):
    assert read_records(path, path.name) == []
    write_records(path, [ENTROPY, TRACE, EXACT], path.name)
    assert read_records(path, path.name) == [ENTROPY, TRACE, EXACT]
    write_records(path, [ENTROPY, TRACE], path.name)
    assert read_records(path, path.name) == [ENTROPY, TRACE]
    with pytest.raises(BadInput, match="not finite"):
        write_records(path, [Record(**{**vars(TRACE), "value": math.nan})], path.name)
    assert read_records(path, path.name) == [ENTROPY, TRACE]


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: text.replace("1.25", "1.26"),
        lambda text: text.replace('"step": 8', '"step": 9'),
        lambda text: text.partition("\n")[0] + "\n",
        lambda text: text.partition("\n")[2],
        lambda text: text + text,
    ],
    ids=["a value", "a setting", "without the last", "without the first", "twice"],
)
def test_a_file_written_whole_is_whole_or_damaged(path, harm):
    write_records(path, [ENTROPY, TRACE], "loss at 8")
    path.write_text(harm(path.read_text()))
    with pytest.raises(BadInput, match=r"records\.jsonl is damaged or not what its name says"):
        read_records(path, "loss at 8")


def test_records_and_values_hold_for_their_name_alone(path):
    write_records(path, [ENTROPY], "loss at 8", {"masked_entropy": [1.0, 2.0], "of_group layer 1": [0.0]})
    assert read_records(path, "loss at 8") == [ENTROPY]
    found = read_values(path, "loss at 8")
    assert {name: (each.dtype, each.tolist()) for name, each in found.items()} == {
        "masked_entropy": (np.float64, [1.0, 2.0]),
        "of_group layer 1": (np.float64, [0.0]),
    }
    with pytest.raises(Damaged, match="not what its name says"):
        read_records(path, "loss at 9")
    values = path.with_suffix(".npz")
    values.write_bytes(values.read_bytes()[:40])
    for read in (read_records, read_values):
        with pytest.raises(Damaged, match=r"records\.npz is damaged or missing; delete records\.jsonl"):
            read(path, "loss at 8")


def test_what_carries_no_digest_is_damaged(path):
    path.parent.mkdir()
    path.write_text(json.dumps(asdict(ENTROPY)) + "\n")
    with pytest.raises(Damaged, match=r"records\.jsonl is damaged"):
        read_records(path, path.name)


def test_values_that_other_records_left_are_not_read(path):
    write_records(path, [ENTROPY], path.name, {"masked_entropy": [1.0, 2.0]})
    write_records(path, [ENTROPY], path.name)
    assert read_values(path, path.name) == {}


def test_a_measurement_from_another_run_step_or_place_is_refused(tmp_path):
    def at(run, step):
        return measurements_at(tmp_path / run, run, step)

    def of(step, measured_on="0123"):
        return Record("loss", 1.0, "nats", 0.1, 9, settings={"step": step, "measured_on": measured_on})

    at("a", 8).write("0123", [of(8)], {"loss": [1.0]})
    assert at("a", 8).names() == ["0123"]
    assert at("a", 8).values("0123")["loss"].tolist() == [1.0]
    for elsewhere, name in ((at("a", 9), "0123"), (at("b", 8), "0123"), (at("a", 8), "4567")):
        for suffix in (".jsonl", ".npz"):
            copy = elsewhere.file(name).with_suffix(suffix)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(at("a", 8).file("0123").with_suffix(suffix), copy)
        with pytest.raises(Damaged, match="is damaged or not what its name says"):
            elsewhere.records(name)
    at("a", 8).file("0123").write_text("")
    with pytest.raises(Damaged, match="holds no record"):
        at("a", 8).records("0123")
    at("a", 8).write("0123", [of(9)])
    with pytest.raises(Damaged, match="holds 0123 at step 9"):
        at("a", 8).records("0123")


def test_a_folder_in_the_place_of_a_file_is_damage(path):
    path.mkdir(parents=True)
    with pytest.raises(Damaged, match="delete it to measure again"):
        read_records(path, "a name")


def test_cut_anywhere_it_is_damaged(path):
    write_records(path, [ENTROPY, TRACE], path.name)
    whole = path.read_bytes()
    for cut in range(1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(Damaged, match=r"records\.jsonl"):
            read_records(path, path.name)


@pytest.mark.parametrize("line", ["{", "[1]", '{"quantity": "x"}', '{"word": 1}', "\0\xff", ""])
def test_a_line_that_is_no_record_is_named(path, line):
    write_records(path, [ENTROPY], path.name)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BadInput, match=r"records\.jsonl: line 2 is not a record"):
        read_records(path, path.name)


@pytest.mark.parametrize(
    "change", [{"value": math.nan}, {"standard_error": math.inf}, {"settings": {"x": math.nan}}]
)
def test_numbers_that_are_not_finite_are_not_written(path, change):
    with pytest.raises(BadInput, match="masked_entropy of '' holds a number that is not finite"):
        write_records(path, [TRACE, Record(**{**vars(ENTROPY), **change})], path.name)
    assert not path.exists()


def test_polars_reads_it_however_settings_differ(path):
    late = [Record("late", float(i), "nats", 0.25, 1, i, "c", {"later": i, "step": i}) for i in range(3)]
    many = [Record("early", float(i), "nats", None, 1, settings={"place": i}) for i in range(300)]
    write_records(path, [EXACT, *many, *late], path.name)
    table = pl.read_ndjson(path, infer_schema_length=None)
    assert len(table) == 304
    found = table.filter(pl.col("quantity") == "late").unnest("settings")
    assert found["later"].to_list() == [0, 1, 2]
    assert found["standard_error"].to_list() == [0.25] * 3
    assert found["seed"].to_list() == [0, 1, 2]


RAGGED = pcfg(parse_grammar("S -> 'a' S [0.5] | 'b' [0.3] | 'c' 'c' [0.2]"), maximum_length=5)


def check(records: Sequence[Record], values: Mapping[str, Tensor], not_means: set[str]) -> None:
    """Each record's value and error are those of the mean of its kept values, and only means are kept."""
    assert {record.quantity for record in records if value_name(record) not in values} == not_means
    assert len(values) == sum(record.quantity not in not_means for record in records)
    for record in records:
        if record.quantity not in not_means:
            estimate = sample_mean(values[value_name(record)])
            assert estimate.value == pytest.approx(record.value, rel=1e-12, abs=1e-15)
            assert estimate.standard_error == pytest.approx(record.standard_error, rel=1e-9, abs=1e-15)
            assert estimate.n == record.n


def test_kept_values_have_the_records_means_and_errors() -> None:
    model = PreLayerNormTransformer(laptop_shape(16)).build(len(RAGGED.vocabulary), 5, seed=0)
    evaluation = EvaluationSet.draw(RAGGED, 20, seed=0)
    loss = exact_loss(model, MaskedObjective(), evaluation)
    assert set(evaluation.predictions.tolist()) > {1, 2}  # so that there are also averages over tokens
    check(loss.records("", {}), loss.sentence_values(), {"masked_loss_subset_deviation"})
    trace, objective = TraceQuantity(12, seed=0), MaskedObjective()
    drawn = trace.draw(RAGGED, objective, silent)
    measured = trace.measure(model, drawn, Subject("", objective, {}, RAGGED), silent)
    check(measured.records, measured.values, set())
    accuracy = Accuracy.of("linear_probe", torch.tensor([[1.0, 0, 1, 1], [0, 0, 1, 1]]))
    deviation = "linear_probe_deviation_over_seeds"
    check(accuracy.records("", {}), accuracy.sentence_values(), {deviation})


def test_kept_values_of_several_predictions_a_sentence() -> None:
    model = PreLayerNormTransformer(laptop_shape(16)).build(len(RAGGED.vocabulary), 5, seed=0)
    trace = TraceQuantity(12, seed=0)
    drawn = trace.draw(RAGGED, NextWordObjective(), silent)
    assert len(set(torch.bincount(drawn.batches[0].rows).tolist())) > 1
    measured = trace.measure(model, drawn, Subject("", MaskedObjective(), {}, RAGGED), silent)
    check(measured.records, measured.values, set())


def test_the_difference_of_two_means_over_members() -> None:
    """Against the delta method's error of a difference of two ratios, written out."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 6, (40,), generator=generator)
    first = torch.rand(40, generator=generator, dtype=torch.float64)
    second = first + 0.1 * torch.rand(40, generator=generator, dtype=torch.float64)
    found = sample_mean(cluster_values(second, sizes) - cluster_values(first, sizes))
    ratios = [mean_over_members(each, sizes).value for each in (first, second)]
    assert found.value == pytest.approx(ratios[1] - ratios[0])
    influence = sizes * ((second - ratios[1]) - (first - ratios[0])) / sizes.double().mean()
    expected = float((influence**2).sum() / 39) ** 0.5 / 40**0.5
    assert found.standard_error == pytest.approx(expected)
