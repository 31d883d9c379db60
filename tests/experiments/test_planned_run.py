"""What a run's plan refuses, and what its folder tells of it; of languages and of real text."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import planned_languages
from isoloss.experiments.experiment_result import keep_names
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_folder import drawn, store_plan
from isoloss.experiments.planned_run import Continued, MeasuredAt, PlannedRun, quantity_digest
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.real_text_steps import real_text_steps
from isoloss.languages.dyck import dyck
from isoloss.languages.language import Language
from isoloss.languages.language_file import read_language
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import Progress
from norm_experiments import RUN
from runtime_types import unchecked

RECURSIVE = pcfg(parse_grammar("S -> 'a' S [0.5] | 'b' [0.5]"), maximum_length=3)
LOSS, TRACE = ExactLossQuantity(8, seed=1), TraceQuantity(8, seed=2)


@dataclass(frozen=True)
class Later:
    """A language that is expensive to build."""

    length: int

    @property
    def digest(self) -> str:
        return dyck(self.length).digest

    words: int = 2
    maximum_length: int = 4

    def language(self, output: Path, progress: Progress) -> Language:
        return dyck(self.length)


def run(*measured: MeasuredAt, language: Language = RECURSIVE) -> PlannedRun:
    return replace(RUN, language=ReadyLanguage(language), measured=measured)


def plan_of(planned: PlannedRun, output: Path) -> dict:
    return json.loads((planned.folder(output) / "plan.json").read_text())


@pytest.mark.parametrize(
    "language",
    [RECURSIVE, dyck(4), random_hmm(words=6, states=4, blocks=2, length=3, seed=0)],
    ids=["grammar", "dyck", "hmm"],
)
def test_the_kept_language_reads_back_as_the_one_that_the_specification_names(
    language: Language, tmp_path: Path
) -> None:
    planned = run(language=language)
    store_plan(planned, language, tmp_path)
    kept = plan_of(planned, tmp_path)["language"]
    back = read_language(planned.folder(tmp_path) / kept["file"], kept["maximum_length"])
    assert back.digest == kept["digest"] == language.digest
    drawn = [each.sample(5, torch.Generator().manual_seed(0)).ids for each in (back, language)]
    assert torch.equal(*drawn)


def test_a_language_that_takes_work_is_kept_as_how_it_comes_about(tmp_path: Path) -> None:
    planned = replace(run(), language=Later(4))
    store_plan(planned, dyck(4), tmp_path)
    plan = {"is": "Later", "length": 4, "words": 2, "maximum_length": 4}
    assert plan_of(planned, tmp_path)["language"]["plan"] == plan


def test_the_plan_tells_all_that_was_ever_to_be_measured(tmp_path: Path) -> None:
    first = run(MeasuredAt(LOSS, (4,)))
    second = replace(first, name="again", measured=(MeasuredAt(TRACE, (4,)), MeasuredAt(LOSS, (2,))))
    for planned in (first, second, second):
        store_plan(planned, RECURSIVE, tmp_path)
    plan = plan_of(first, tmp_path)
    assert plan["name"] == "again"
    assert plan["digest"] == first.digest
    assert plan["labels"] == {"width": 16}
    assert plan["continues"] is None
    named = {entry["quantity"]["is"]: entry for entry in plan["measured"]}
    assert named["ExactLossQuantity"]["steps"] == [2, 4]
    assert named["ExactLossQuantity"]["quantity"]["sentences"] == 8
    assert named["TraceQuantity"]["measured_on"] == quantity_digest(TRACE, RECURSIVE.digest, first.objective)


def test_the_plan_tells_raw_weights_from_averaged_ones(tmp_path: Path) -> None:
    both = (MeasuredAt(LOSS, (2, 4)), MeasuredAt(LOSS, (4,), weights="raw"))
    averaged = replace(run(), averaging_horizon=2, measured=both)
    for planned in (averaged, averaged):
        store_plan(planned, RECURSIVE, tmp_path)
    told = [(each.get("weights"), each["steps"]) for each in plan_of(averaged, tmp_path)["measured"]]
    assert told == [(None, [2, 4]), ("raw", [4])]


def test_a_run_that_goes_on_from_another_says_which(tmp_path: Path) -> None:
    origin = run()
    after = replace(origin, seed=901, continues=Continued(origin, 2))
    store_plan(after, RECURSIVE, tmp_path)
    assert plan_of(after, tmp_path)["continues"] == {"run": origin.digest[:16], "step": 2}


def test_a_run_goes_on_from_a_checkpoint_that_there_is() -> None:
    with pytest.raises(BadInput, match=r"cannot continue run from step 3, at which that has no checkpoint"):
        replace(run(), seed=901, continues=Continued(run(), 3))


def test_two_quantities_have_no_column_in_common_at_one_step() -> None:
    other = replace(LOSS, sentences=9)
    with pytest.raises(BadInput, match=r"two quantities of the run run have the column loss at step 4"):
        run(MeasuredAt(LOSS, (2, 4)), MeasuredAt(other, (4,))).refuse_one_column_of_two()
    run(MeasuredAt(LOSS, (2,)), MeasuredAt(other, (4,)), MeasuredAt(LOSS, (2,))).refuse_one_column_of_two()


@pytest.mark.parametrize("name", ["seed", "step", "loss", "checkpoint"])
def test_a_label_is_no_other_columns(name: str) -> None:
    with pytest.raises(BadInput, match=f"the run run has a label {name} and a column"):
        replace(run(MeasuredAt(LOSS, (4,))), labels=((name, 1),))


def test_two_labels_have_two_names() -> None:
    with pytest.raises(BadInput, match="the run run has two labels rule"):
        replace(run(MeasuredAt(LOSS, (4,))), labels=(("rule", "a"), ("rule", "b")))


@pytest.mark.parametrize("label", [("rule", ["x"]), (["rule"], "x"), ("rule", LOSS)])
def test_a_label_is_a_text_a_number_or_none(label: Any) -> None:
    says = r"the run run has the label .*; give it a text, a number or None"
    with unchecked():
        replace(run(), labels=(("a", None), ("b", np.int64(3)), ("c", 0.5)))
        with pytest.raises(BadInput, match=says):
            replace(run(), labels=(label,))


@pytest.mark.parametrize("labels", [{"rule": "x"}, ("rule", "x"), (("rule", "x", 1),)])
def test_labels_are_pairs(labels: object) -> None:
    with pytest.raises(BadInput, match="labels of the run run must be a tuple of names and values"):
        replace(run(), labels=labels)


@pytest.mark.parametrize("changed", [{"seed": 11.0}, {"seed": "11"}, {"batch_size": 17.0}, {"steps": True}])
def test_numbers_of_a_run_are_whole(changed: dict[str, object]) -> None:
    (name,) = changed
    with pytest.raises(BadInput, match=f"{name} of a run is a whole number, not"):
        replace(run(), **changed)


@pytest.mark.parametrize("file", ["plan.json", "language.pcfg"])
def test_what_is_damaged_beside_the_runs_is_written_anew(tmp_path: Path, file: str) -> None:
    planned = run()
    store_plan(planned, RECURSIVE, tmp_path)
    path = planned.folder(tmp_path) / file
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"1", b"2", 1))
    store_plan(planned, RECURSIVE, tmp_path)
    assert path.read_bytes() == whole


def test_names_are_kept_by_experiment(tmp_path: Path) -> None:
    def named(name: str, *runs: PlannedRun) -> Experiment:
        return Experiment(name, "Title", (), runs, lambda table: ())

    planned = run()
    keep_names([named("one", planned), named("two", replace(planned, name="other"))], tmp_path)
    found = [json.loads((tmp_path / "experiments" / f"{name}.json").read_text()) for name in ("one", "two")]
    assert [each["runs"] for each in found] == [{planned.digest[:16]: "run"}, {planned.digest[:16]: "other"}]


SMOKE = scale_named("smoke").real_text
OF_TEXT = real_text_steps(scale_named("smoke")).runs[0]


def test_a_quantity_of_the_distribution_is_refused_for_a_corpus_when_it_is_planned() -> None:
    with pytest.raises(
        BadInput, match=r"ExactLossQuantity cannot be measured of the run .* whose distribution nobody"
    ):
        replace(OF_TEXT, measured=(MeasuredAt(ExactLossQuantity(8, 0), (10,)),))
    of_corpus = MeasuredAt(SMOKE.sizes.loss(), (10,))
    with pytest.raises(BadInput, match=r"CorpusLossQuantity cannot be measured of .* trained on a language"):
        replace(OF_TEXT, language=ReadyLanguage(dyck(4)), measured=(of_corpus,))


def test_what_nobody_planned_is_refused_when_it_is_drawn(tmp_path) -> None:
    with pytest.raises(BadInput, match="CorpusLossQuantity cannot be measured on a Dyck"):
        drawn(SMOKE.sizes.loss(), dyck(4), dyck(4).digest, MaskedObjective(), tmp_path)


def test_the_trace_is_measured_of_both() -> None:
    trace = (MeasuredAt(TraceQuantity(8, 0), (10,)),)
    assert replace(OF_TEXT, measured=trace).digest == OF_TEXT.digest
    replace(OF_TEXT, language=ReadyLanguage(dyck(4)), measured=trace)


def test_a_corpus_has_no_description() -> None:
    assert planned_languages([real_text_steps(scale_named("smoke"))]) == []


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_a_corpus_is_named_before_any_work(scale, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = scale_named(scale).real_text
    for runs in (settings.followed, settings.compared):
        assert len(runs.language.digest) == 64
        assert runs.compared_steps[0] == runs.saturated_from
        assert runs.compared_steps[-1] == runs.steps
        assert runs.objective.replacement.words == runs.language.words
        assert runs.language.maximum_length == runs.language.request.length - 1
    assert not list(tmp_path.iterdir())
