"""Runs planned on real text: what can be measured of them, and what is refused at once."""

from dataclasses import replace

import pytest

from isoloss.errors import BadInput
from isoloss.experiments.experiment_jobs import planned_languages
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_folder import drawn
from isoloss.experiments.planned_run import MeasuredAt
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.real_text_steps import real_text_steps
from isoloss.languages.dyck import dyck
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.on_sentences.fisher_trace import TraceQuantity
from isoloss.objectives.masked import MaskedObjective

SMOKE = scale_named("smoke").real_text
RUN = real_text_steps(scale_named("smoke")).runs[0]


def test_a_quantity_of_the_distribution_is_refused_for_a_corpus_when_it_is_planned() -> None:
    with pytest.raises(
        BadInput, match=r"ExactLossQuantity cannot be measured of the run .* whose distribution nobody"
    ):
        replace(RUN, measured=(MeasuredAt(ExactLossQuantity(8, 0), (10,)),))
    of_corpus = MeasuredAt(SMOKE.sizes.loss(), (10,))
    with pytest.raises(BadInput, match=r"CorpusLossQuantity cannot be measured of .* trained on a language"):
        replace(RUN, language=ReadyLanguage(dyck(4)), measured=(of_corpus,))


def test_what_nobody_planned_is_refused_when_it_is_drawn(tmp_path) -> None:
    with pytest.raises(BadInput, match="CorpusLossQuantity cannot be measured on a Dyck"):
        drawn(SMOKE.sizes.loss(), dyck(4), dyck(4).digest, MaskedObjective(), tmp_path)


def test_the_trace_is_measured_of_both() -> None:
    trace = (MeasuredAt(TraceQuantity(8, 0), (10,)),)
    assert replace(RUN, measured=trace).digest == RUN.digest
    replace(RUN, language=ReadyLanguage(dyck(4)), measured=trace)


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
