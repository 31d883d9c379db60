from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.estimate import cluster_values, mean_over_members, mean_over_sentences
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.measurements.accuracy import Accuracy
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.flatness import FlatnessSet, flatness
from isoloss.measurements.flatness_records import flatness_records, trace_sentence_values
from isoloss.measurements.record import Record
from isoloss.measurements.sentence_values import read_sentence_values, value_name, write_sentence_values
from isoloss.models.shapes import laptop_shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective

RAGGED = pcfg(parse_grammar("S -> 'a' S [0.5] | 'b' [0.3] | 'c' 'c' [0.2]"), maximum_length=5)


def check(records: list[Record], values: dict[str, Tensor], not_means: set[str]) -> None:
    """Each record's value and error are those of the mean of its kept values, and only means are kept."""
    assert {record.quantity for record in records if value_name(record) not in values} == not_means
    assert len(values) == sum(record.quantity not in not_means for record in records)
    for record in records:
        if record.quantity not in not_means:
            estimate = mean_over_sentences(values[value_name(record)])
            assert estimate.value == pytest.approx(record.value, rel=1e-12, abs=1e-15)
            assert estimate.standard_error == pytest.approx(record.standard_error, rel=1e-9, abs=1e-15)
            assert estimate.n == record.n


def test_kept_values_have_the_records_means_and_errors() -> None:
    model = PreLayerNormTransformer(laptop_shape(16)).build(len(RAGGED.vocabulary), 5, seed=0)
    evaluation = EvaluationSet.draw(RAGGED, 20, seed=0)
    loss = exact_loss(model, MaskedObjective(), evaluation)
    assert set(evaluation.predictions.tolist()) > {1, 2}  # so that there are token averages too
    check(loss.records("", {}), loss.sentence_values(), {"masked_loss_subset_deviation"})
    trace = flatness(model, MaskedObjective(), FlatnessSet.draw(RAGGED, MaskedObjective(), 12, seed=0))
    check(flatness_records(trace, 0, "", {}), trace_sentence_values(trace), set())
    accuracy = Accuracy.of("linear_probe", torch.tensor([[1.0, 0, 1, 1], [0, 0, 1, 1]]))
    deviation = "linear_probe_deviation_over_seeds"
    check(accuracy.records("", {}), accuracy.sentence_values(), {deviation})


def test_kept_values_of_several_predictions_a_sentence() -> None:
    model = PreLayerNormTransformer(laptop_shape(16)).build(len(RAGGED.vocabulary), 5, seed=0)
    drawn = FlatnessSet.draw(RAGGED, NextWordObjective(), 12, seed=0)
    assert len(set(torch.bincount(drawn.batch.rows).tolist())) > 1
    trace = flatness(model, MaskedObjective(), drawn)
    check(flatness_records(trace, 0, "", {}), trace_sentence_values(trace), set())


def test_the_difference_of_two_means_over_members() -> None:
    """Against the delta method's error of a difference of two ratios, written out."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 6, (40,), generator=generator)
    first = torch.rand(40, generator=generator, dtype=torch.float64)
    second = first + 0.1 * torch.rand(40, generator=generator, dtype=torch.float64)
    found = mean_over_sentences(cluster_values(second, sizes) - cluster_values(first, sizes))
    ratios = [mean_over_members(each, sizes).value for each in (first, second)]
    assert found.value == pytest.approx(ratios[1] - ratios[0])
    influence = sizes * ((second - ratios[1]) - (first - ratios[0])) / sizes.double().mean()
    expected = float((influence**2).sum() / 39) ** 0.5 / 40**0.5
    assert found.standard_error == pytest.approx(expected)


def test_files_of_values(tmp_path: Path) -> None:
    path = tmp_path / "values.npz"
    write_sentence_values(path, {"loss": torch.tensor([1.0, 2.0]), "trace_of_group layer 1": torch.ones(2)})
    back = read_sentence_values(path)
    assert list(back) == ["loss", "trace_of_group layer 1"]
    assert back["loss"].dtype == np.float64
    assert back["loss"].tolist() == [1.0, 2.0]
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(BadInput, match=r"values\.npz is damaged"):
        read_sentence_values(path)
