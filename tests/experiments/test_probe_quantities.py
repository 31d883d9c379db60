"""The probes beyond the paper's, each against its parts assembled by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from isoloss.errors import BadInput
from isoloss.experiments.experiment import control_references
from isoloss.experiments.languages import ReadyLanguage, headline_grammar
from isoloss.experiments.planned_run import quantity_digest
from isoloss.languages.task import task_splits
from isoloss.measurements.accuracy import (
    AccuracyQuantity,
    FeatureAdaptation,
    LinearProbe,
    Projected,
    Standardised,
    gaussian_projection,
)
from isoloss.measurements.linear_probe import LabelledFeatures, ProbeSettings
from isoloss.measurements.quantity import Measurement, Quantity, Subject
from isoloss.measurements.references import BeforeTraining, ControlQuantity, Untrained, Words
from isoloss.measurements.room_and_price import RoomSettings, measure_room
from isoloss.measurements.sample_efficiency import SampleEfficiencyQuantity
from isoloss.measurements.task_sentences import TaskSentences, sentence_features
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from isoloss.seeds import derived_seed

LANGUAGE = headline_grammar()
TASK = LANGUAGE.tasks()[0]
PROBE = ProbeSettings(seeds=(0, 1), epochs=4, batch_size=64)
EXAMPLES = TaskSentences("prefix-8", 150, 20, 200, seed=5)
PLAIN = AccuracyQuantity(EXAMPLES, LinearProbe(PROBE))
ARCHITECTURE = PreLayerNormTransformer(laptop_shape(16), dropout=0.0)
MODEL = ARCHITECTURE.build(len(LANGUAGE.vocabulary), 8, seed=1)
EFFICIENCY = SampleEfficiencyQuantity("prefix-8", 200, PROBE, seed=6, examples=(20, 60), draws=3)


SUBJECT = Subject("a checkpoint", MaskedObjective(), {"step": 3}, LANGUAGE)


def adapted(features: FeatureAdaptation, column: str) -> AccuracyQuantity:
    return AccuracyQuantity(EXAMPLES, LinearProbe(PROBE, features), column)


STANDARDISED = adapted(Standardised(), "standardised_accuracy")


def of_language(quantity: Quantity) -> dict[str, object]:
    drawn, subject = quantity.draw(LANGUAGE, MaskedObjective(), silent), replace(SUBJECT, settings={})
    return quantity.columns(
        quantity.measure(nn.ParameterList([torch.empty(0)]), drawn, subject, silent).records
    )


def measured(quantity: Quantity) -> tuple[dict[str, object], Measurement]:
    drawn = quantity.draw(LANGUAGE, MaskedObjective(), silent)
    found = quantity.measure(MODEL, drawn, SUBJECT, silent)
    assert all(record.checkpoint == "a checkpoint" for record in found.records)
    assert all(record.settings["step"] == 3 for record in found.records)
    return quantity.columns(found.records), found


@pytest.mark.parametrize("features", [Standardised(), Projected(dimension=40, seed=2)])
def test_adapted_probes_are_probes_of_adapted_features(features: Standardised | Projected) -> None:
    columns, found = measured(adapted(features, "adapted"))
    splits = EXAMPLES.splits(LANGUAGE)
    train, test = (sentence_features(MODEL, part.sentences) for part in (splits.train, splits.test))
    if isinstance(features, Projected):
        train, test = (gaussian_projection(part, 2, 40) for part in (train, test))
    else:
        mean, deviation = train.mean(0), train.std(0, correction=0)
        train, test = (train - mean) / deviation, (test - mean) / deviation
    expected = LabelledFeatures(train, splits.train.labels, test, splits.test.labels, 3).probed(PROBE)
    assert columns["adapted"] == pytest.approx(expected.estimate.value, abs=0.011)
    assert set(columns) == {"adapted", "adapted_error", "adapted_deviation", "adapted_sentences"}
    (values,) = found.values.values()
    assert values.mean().item() == pytest.approx(columns["adapted"])


def test_standardised_is_its_own_column_and_its_own_number() -> None:
    columns, found = measured(STANDARDISED)
    plain, _ = measured(PLAIN)
    assert columns["standardised_accuracy"] != plain["accuracy"]
    assert list(found.values) == ["linear_probe_standardised_accuracy"]
    digests = {
        quantity_digest(quantity, LANGUAGE.digest, MaskedObjective())
        for quantity in (PLAIN, STANDARDISED, adapted(Projected(), "p"))
    }
    assert len(digests) == 3


def test_sample_efficiency_is_a_probe_a_number_and_a_draw() -> None:
    columns, found = measured(EFFICIENCY)
    splits = task_splits(TASK, 3 * 60, 0, 200, 6)
    train, test = (sentence_features(MODEL, part.sentences) for part in (splits.train, splits.test))
    for number in (20, 60):
        by_draw = torch.stack(
            [
                LabelledFeatures(
                    train[first : first + number],
                    splits.train.labels[first : first + number],
                    test,
                    splits.test.labels,
                    3,
                )
                .probed(PROBE)
                .correct
                for first in (0, 60, 120)
            ]
        )
        assert columns[f"accuracy_{number}"] == pytest.approx(by_draw.mean().item())
        error = by_draw.mean(0).std().item() / 200**0.5
        assert columns[f"accuracy_{number}_error"] == pytest.approx(error)
        assert columns[f"accuracy_{number}_deviation"] == pytest.approx(by_draw.mean(1).std().item())
        values = found.values[f"accuracy_of_{number}_examples"]
        assert torch.equal(values, by_draw.mean(0))
    assert len(columns) == 6


def test_sample_efficiency_can_be_that_of_standardised_features() -> None:
    columns, _ = measured(replace(EFFICIENCY, features=Standardised(), column="standardised_accuracy"))
    plain, _ = measured(EFFICIENCY)
    assert next(iter(columns)) == "standardised_accuracy_20"
    assert list(columns.values()) != list(plain.values())
    with pytest.raises(BadInput, match="give at least 2 draws"):
        replace(EFFICIENCY, draws=1)


@pytest.mark.thorough
def test_words_alone_are_as_good_as_the_tasks_room_says() -> None:
    examples = replace(EXAMPLES, train=2000, test=3000)
    columns = of_language(ControlQuantity(replace(PLAIN, examples=examples), Words(), "words_accuracy"))
    room = measure_room(LANGUAGE, TASK, RoomSettings(train=2000, test=3000)).room
    assert abs(1 - columns["words_accuracy"] - room.value) < 5 * room.standard_error
    assert columns["words_accuracy_sentences"] == 3000


def test_an_untrained_model_is_probed_as_a_trained_one() -> None:
    columns = of_language(ControlQuantity(PLAIN, Untrained(ARCHITECTURE, seed=1), "untrained_accuracy"))
    plain, _ = measured(PLAIN)
    assert columns["untrained_accuracy"] == plain["accuracy"]
    assert columns["untrained_accuracy_error"] == plain["accuracy_error"]


def test_the_untrained_model_of_a_run_is_its_own_before_the_first_step() -> None:
    projected = adapted(Projected(dimension=40), "projected")
    columns, found = measured(ControlQuantity(projected, BeforeTraining(), "before"))
    first = ARCHITECTURE.build(len(LANGUAGE.vocabulary), 8, derived_seed(0, "initialisation"))
    drawn = projected.draw(LANGUAGE, MaskedObjective(), silent)
    own = projected.measure(first, drawn, SUBJECT, silent).records
    assert columns["before"] == own[0].value
    assert not found.values
    assert columns["parameters"] == first.num_parameters()


def test_controls_are_rows_of_their_own(tmp_path: Path) -> None:
    wide = replace(ARCHITECTURE, shape=laptop_shape(32))
    named = (("width 16", ARCHITECTURE), ("width 32", wide))
    rows = control_references(ReadyLanguage(LANGUAGE), PLAIN, named)
    names = ["words alone", "untrained model width 16", "untrained model width 32"]
    assert [row.name for row in rows] == names
    assert len({row.digest for row in rows}) == 3
    assert not any(row.labels or row.judged for row in rows)
    rows[0].carry_out(tmp_path, "cpu", silent)
    assert 0.3 < rows[0].quantity.columns(rows[0].records(tmp_path))["words_accuracy"] < 0.8
