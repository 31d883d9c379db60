"""Every quantity's measuring set is unchanged after it is stored and restored."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import torch

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.experiments import language_description
from isoloss.experiments.language_description import (
    LanguageDescription,
    cached_description,
    description_file,
    description_jobs,
)
from isoloss.experiments.languages import ReadyLanguage
from isoloss.languages.dyck import dyck
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning, LinearProbe, Standardised
from isoloss.measurements.derived_traces import EnlargedTraceQuantity
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.fine_tuning import FineTuningSettings
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.on_sentences.gradients import GradientNormQuantity
from isoloss.measurements.on_sentences.hessian import TopEigenvalueQuantity
from isoloss.measurements.on_sentences.loss_rise import AscentSharpnessQuantity, NoiseSensitivityQuantity
from isoloss.measurements.on_sentences.traces import NormalisedTraceQuantity, TraceQuantity
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.sample_efficiency import SampleEfficiencyQuantity
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.measurements.task_texts import DrawnTask
from isoloss.models.transformers import laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.progress import silent
from isoloss.results.store import read_sealed, write_sealed
from isoloss.results.tensors import drawn_of, read_tensors, tensors_of, write_tensors

LANGUAGE, MASKED = pcfg(laptop_grammar(0)), MaskedObjective()
SENTENCES = TaskSentences("prefix-4", 10, 6, 6, 1)
QUANTITIES = [
    AscentSharpnessQuantity(6, 1),
    EnlargedTraceQuantity(laptop_shape(32), "exact", 6, 1),
    ExactLossQuantity(6, 1),
    ExactLossQuantity(6, 1, NextWordObjective()),
    AccuracyQuantity(SENTENCES, FineTuning(FineTuningSettings())),
    GradientNormQuantity(6, 1),
    NoiseSensitivityQuantity((0.1,), 6, 1),
    NormalisedTraceQuantity(6, 1),
    AccuracyQuantity(SENTENCES, LinearProbe(ProbeSettings())),
    SampleEfficiencyQuantity("prefix-4", 6, ProbeSettings(), 1, examples=(3, 5), draws=2),
    AccuracyQuantity(SENTENCES, LinearProbe(ProbeSettings(), Standardised())),
    TopEigenvalueQuantity(6, 1),
    TraceQuantity(6, 1),
]


def parts(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """All parts of a nested dataclass, by path."""
    if is_dataclass(value) and not isinstance(value, type(LANGUAGE)):
        for field in fields(value):
            yield from parts(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from parts(each, f"{path}.{place}")
    else:
        yield path, value


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: type(quantity).__name__)
def test_a_restored_set_is_the_drawn_one(quantity: Quantity, tmp_path: Path) -> None:
    drawn = quantity.draw(LANGUAGE, MASKED, silent)
    path = tmp_path / "set.safetensors"
    write_tensors(path, tensors_of(drawn), "set")
    restored = drawn_of(quantity.drawn_as, read_tensors(path, "set"))
    assert type(restored) is type(drawn) is quantity.drawn_as
    for (place, own), (same_place, other) in zip(parts(drawn), parts(restored), strict=True):
        assert place == same_place
        if isinstance(own, torch.Tensor):
            assert own.dtype == other.dtype
            assert torch.equal(own, other), place
        else:
            assert own == other, place


@pytest.mark.parametrize("commit", [None, "8a" * 20])
def test_a_task_of_texts_comes_back_as_it_was(commit: str | None) -> None:
    single = LabelledTexts(("one", "zwölf"), None, (0, 1))
    pairs = LabelledTexts(("who?",), ("she",), (1,))
    drawn = DrawnTask(TextTask("told", ("no", "yes"), single, single, pairs), 3, commit)
    assert drawn_of(DrawnTask, tensors_of(drawn)) == drawn


@pytest.mark.parametrize("language", [dyck(4), LANGUAGE], ids=["dyck", "grammar"])
def test_a_kept_description_is_the_one_that_was_drawn_or_none(
    language: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_description, "usual_sentences", lambda language: 40)
    plan = ReadyLanguage(language)
    assert cached_description(plan, tmp_path) is None
    (job,) = description_jobs([plan], tmp_path)
    job.work(silent)
    kept = cached_description(plan, tmp_path)
    assert isinstance(kept, LanguageDescription)
    assert description_jobs([plan], tmp_path) == []
    path = description_file(plan, tmp_path)
    content = read_sealed(path, plan.digest)
    older = {key: value for key, value in content.items() if key != "entropy"}
    for harm in (
        lambda: path.write_bytes(path.read_bytes().replace(b"0", b"1", 1)),
        lambda: write_sealed(path, older, plan.digest),
        lambda: write_sealed(path, content | {"tasks": [{"name": "a", "classes": 2}]}, plan.digest),
    ):
        harm()
        assert cached_description(plan, tmp_path) is None
    (again,) = description_jobs([plan], tmp_path)
    again.work(silent)
    found = cached_description(plan, tmp_path)
    assert torch.equal(found.word.masked, kept.word.masked)
    assert torch.equal(found.word.following, kept.word.following)
    for part in ("sentences", "facts", "entropy", "tasks", "derivation", "vocabulary", "source"):
        assert getattr(found, part) == getattr(kept, part)
