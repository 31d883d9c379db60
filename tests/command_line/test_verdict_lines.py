"""The last screen of `isoloss reproduce`: a line a claim, at any width."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from called import Capture

from isoloss.command_line.reproduction import print_verdicts
from isoloss.command_line.verdict_lines import claim_lines, counted
from isoloss.executors.job import Outcome
from isoloss.experiments.claims import Judgement
from isoloss.experiments.experiment_result import ExperimentResult, Results
from isoloss.experiments.shipped_results import BesideShipped, ShippedInterval, ShippedResult
from isoloss.results.estimate import Estimate
from isoloss.results.verdict import Verdict
from planned_suite import planned_suite
from shown_results import experiment_result
from thorough_cases import others_thorough

RESULT = experiment_result("figure-1", (16,))
LONG = Estimate(-0.0761, 0.1234, 5)


def shipped(**verdicts: Verdict) -> BesideShipped:
    claims = {name: ShippedInterval(1.0, 0.5, 2.0, verdict) for name, verdict in verdicts.items()}
    return BesideShipped(ShippedResult("a" * 40, {}, {}, claims, ()), 4, 4, 4, 0, (), ())


def every_result() -> Iterator[ExperimentResult]:
    """Every built-in experiment with a number of many digits for each of its claims."""
    for experiment in planned_suite("laptop"):
        judgements = tuple(Judgement(claim, LONG, 0.99, 0.5, 4) for claim in experiment.claims)
        yield replace(RESULT, experiment=experiment, judgements=judgements)


def test_a_line_has_mark_name_number_and_the_shipped_verdict() -> None:
    beside = shipped(rises=Verdict.SUPPORTED, falls=Verdict.SUPPORTED)
    title, *lines = claim_lines(RESULT, beside, None, judged=True)
    assert title == "Figure 1: What figure-1 shows"
    rises, falls, stays = [line.split() for line in lines]
    assert rises[:3] == ["✓", "rises", "1.2"]
    assert " ".join(rises).endswith("same verdict as shipped doublings")
    assert " ".join(falls).endswith("shipped: supported doublings")
    assert stays[0] == "?"
    assert "inconclusive" in stays  # nothing of it is shipped
    assert {line.index("(") for line in lines[1:]} >= {lines[1].index("(")}
    assert counted(RESULT.judgements) == ["3 effects: 1 ✓ supported, 1 ✗ not supported, 1 ? inconclusive"]


def test_a_number_that_is_undefined_has_its_reason_beside_it() -> None:
    first, *others = RESULT.judgements
    judgements = (replace(first, estimate=Estimate(math.nan, math.nan, 2)), *others)
    line = claim_lines(replace(RESULT, judgements=judgements), None, None, judged=True)[1]
    assert "undefined: the runs lack what is compared, such as checkpoints of one loss" in line
    assert "seeds would decide" not in line
    judgements = (replace(first, estimate=Estimate(math.inf, math.nan, 2)), *others)
    line = claim_lines(replace(RESULT, judgements=judgements), None, None, judged=True)[1]
    assert "undefined: the statistic is infinite" in line


@pytest.mark.parametrize(
    ("effect", "error", "says"),
    [
        (1.11, 0.4, "1.1 (-0.16 to 2.4)"),
        (1.11, 0.012, "1.11 (1.07 to 1.15)"),
        (140.0, 144.5, "140 (-320 to 600)"),
        (1401.0, 445.0, "1,401 (-15 to 2,817)"),
        (1.5, math.nan, "1.50 (no interval)"),
    ],
)
def test_the_ends_of_an_interval_differ_in_what_is_shown_of_them(
    effect: float, error: float, says: str
) -> None:
    rises = RESULT.judgements[0]
    judged = replace(rises, estimate=Estimate(effect, error, 4), confidence=0.95)
    _, line = claim_lines(replace(RESULT, judgements=(judged,)), None, None, judged=True)
    assert says in line


@pytest.mark.parametrize(("width", "most_cut"), others_thorough([(120, 0), (80, 7)]))
def test_no_line_of_any_claim_is_wider_than_asked_and_hardly_a_name_is_cut(width: int, most_cut: int) -> None:
    """Seven names of over forty characters do not fit beside their numbers."""
    seen = cut = 0
    for result in every_result():
        names = [judged.claim.name for judged in result.judgements]
        beside = shipped(**dict.fromkeys(names, Verdict.NOT_SUPPORTED))
        lines = claim_lines(result, beside, width, judged=True)
        assert max(map(len, lines), default=0) <= width
        whole = [line for line in lines if re.search(r"  (shipped: .+|.*as shipped|withdrawn)(  |$)", line)]
        assert len(whole) == len(names)
        assert not [line for line in lines if line.endswith("…")]
        cut += sum("…" in line for line in lines)
        seen += len(names)
    assert seen > 100
    assert cut <= most_cut


def test_what_is_shipped_is_said_in_brief_where_names_would_be_cut() -> None:
    beside = shipped(rises=Verdict.SUPPORTED, falls=Verdict.SUPPORTED)
    _, rises, falls, stays = claim_lines(RESULT, beside, 46, judged=True)
    assert rises.split() == ["✓", "rises", "1.2", "(0.91", "to", "1.6)", "as", "shipped"]
    assert falls.endswith("shipped: ✓")
    assert stays.startswith("  ? stays ")
    assert "shipped" not in stays


def test_piped_lines_leave_nothing_out() -> None:
    for result in every_result():
        lines = claim_lines(result, None, None, judged=True)
        for judged in result.judgements:
            (line,) = [line for line in lines[1:] if line.split()[1] == judged.claim.name]
            assert line.count(judged.claim.unit)
            assert "…" not in line


def test_the_counts_come_first_and_the_page_last(capsys: Capture) -> None:
    results = Results((RESULT,), Outcome((), ()), 3.0)
    print_verdicts(results, (), Path("some/where/a-page.html"), "laptop")
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("3 effects: ")
    assert last == "page: some/where/a-page.html"
    print_verdicts(results, (), Path("a-page.html"), "smoke")
    told = capsys.readouterr().err
    assert told.startswith("at smoke scale nothing is judged\n")
    assert "✓" not in told
    assert "supported" not in told
