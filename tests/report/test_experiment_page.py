"""Sections of an experiment's page that only results at a judged scale have."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from isoloss.executors.job import Outcome
from isoloss.experiments.checks import Range
from isoloss.experiments.claims import Judgement
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.made_up_runs import World
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shipped_results import shipped_result
from isoloss.report import experiment_page
from isoloss.report.experiment_page import ExperimentPage
from isoloss.report.page import Page
from isoloss.results.estimate import Estimate

SHIPPED = shipped_result("figure-1", "laptop")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """That of the shipped runs of Figure 1; one claim is far from its shipped effect, and one withdrawn."""
    figure = replace(builtin_designs()["figure-1"].at(scale_named("laptop")), panels=lambda _: ())
    claims = {claim.name: claim for claim in figure.claims}
    near, far, gone = (claims[name] for name in ("one-kl", "later-is-flatter", "trace-ranks-better"))
    alike = Range(near.claimed, dict.fromkeys(World, (0.3, 0.4)))  # simulations of it would take seconds
    monkeypatch.setattr(experiment_page, "claim_ranges", lambda _: {near.name: alike})
    gone = replace(gone, withdrawn="it cannot be decided", unit="of the trace's fall")
    effects = {near: SHIPPED.claims[near.name].effect, far: SHIPPED.claims[far.name].high + 9, gone: 1.25}
    judgements = tuple(Judgement(each, Estimate(effects[each], 0.1, 7), 0.95, 0.5, 14) for each in effects)
    table = pl.DataFrame(SHIPPED.rows, infer_schema_length=None)
    result = ExperimentResult(replace(figure, settings=()), table, judgements, Outcome((), ()))
    missing = figure.runs[3]
    monkeypatch.setattr(experiment_page, "is_complete", lambda run, _: run != missing)
    monkeypatch.setattr(experiment_page, "is_records_alone", lambda *_: True)
    return ExperimentPage("laptop", tmp_path, lambda *_: "", {}).of(result)


def test_what_results_at_a_judged_scale_alone_have_is_told(page: Page) -> None:
    assert "5 of 6 runs are complete; claims are judged only on these." in page.notices
    sections = {section.title: str(section.markup) for section in page.sections}
    _, _, near, far, *_ = sections["Comparison with the shipped results"].split("<tr>")
    assert ("within" in near, "outside" in far) == (True, True)
    withdrawn = sections["Withdrawn claims"]
    assert withdrawn.count("<tr>") == 2
    assert "it cannot be decided" in withdrawn
    assert '<td class="number">125</td>' in withdrawn  # per cent, in which shares of something are read
    # A claim that is the same in every world cannot be decided.
    _, _, claim = sections["What the claims could have said"].split("<tr>")
    assert claim.count(">0.35 (0.3 to 0.4)<") == 4
    assert "undecidable by design: " in claim
