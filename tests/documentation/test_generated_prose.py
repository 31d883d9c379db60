"""What is generated reads as a reader of the field would write it: phrases that may not come back."""

import re

import pytest

from isoloss.theory.suite import shipped_statements
from page_blocks import ROOT
from planned_suite import planned_suite

PHRASES = (ROOT / "tests" / "data" / "reworded-phrases.txt").read_text().splitlines()
"""Each was found in claims, titles or pages, and has been reworded."""


def held(text: str) -> list[str]:
    """The phrases in a text, whatever its line breaks."""
    plain = " ".join(text.split())
    return [phrase for phrase in PHRASES if phrase in plain]


@pytest.mark.thorough
@pytest.mark.parametrize("scale", ["laptop", "night"])
def test_no_claim_title_nor_text_has_a_phrase_that_was_reworded(scale: str) -> None:
    for experiment in planned_suite(scale):
        assert held(" ".join((experiment.title, *experiment.text))) == [], experiment.name
        for claim in experiment.claims:
            assert held(f"{claim.sentence} {claim.measure}") == [], claim.name


def test_no_statement_of_the_theory_has_one() -> None:
    for statement in shipped_statements().statements:
        told = (statement.title, statement.text, *(each.sentence for each in statement.findings))
        assert held(" ".join(told)) == [], statement.name


@pytest.mark.parametrize(
    "page",
    ["docs/what-we-found.md", "docs/claims.md", "docs/drift.md", "docs/equal-knowledge.md", "README.md"],
)
def test_no_page_has_one(page: str) -> None:
    assert held((ROOT / page).read_text()) == []


@pytest.mark.parametrize("page", ["docs/what-we-found.md", "docs/claims.md"])
def test_no_page_shows_a_number_that_was_to_be_filled_in(page: str) -> None:
    assert re.findall(r"\{\w+[:!]?\w*\}", (ROOT / page).read_text()) == []


def test_what_we_found_opens_with_a_minutes_summary_and_an_answer_to_every_question() -> None:
    """Every experiment is among the answers, once, with a link to its own part of the page."""
    page = (ROOT / "docs" / "what-we-found.md").read_text()
    summary, details = page.split("## How much is decided")
    minute, questions = summary.split("## Question by question")
    assert len(minute.split()) < 320
    assert len(questions.split()) < 42 * questions.count("\n- *")
    answers = re.findall(r"^- \*.*", questions, flags=re.MULTILINE)
    assert [each for each in answers if "±" in each or len(re.findall(r" to -?[\d.]+\)", each)) > 1] == []
    linked = re.findall(r"\]\(#([\w.-]+)\)$", summary, flags=re.MULTILINE)
    named = re.findall(r"^## ([\w.-]+)$", details, flags=re.MULTILINE)
    assert sorted(linked) == sorted(named)
    assert len(named) > 20
    assert re.search(r"\d+ of \d+ \(\d+\)", page) is None
    assert details.count("<details>") == details.count("</details>") == len(named) + 1


def test_the_readme_tells_five_findings_in_a_sentence_each() -> None:
    _, rest = (ROOT / "README.md").read_text().split("<!-- what was found -->\n")
    findings = rest.split("<!-- until here -->")[0].split("\n- ")
    assert len(findings) == 5
    for each in findings:
        assert re.fullmatch(r"(- )?\*\*[^*]+\*\*: [^?]+\.\n?", each), each
        assert len(re.findall(r"\.(?=\s)", each.strip() + " ")) == 1, each


@pytest.mark.thorough
@pytest.mark.usefixtures("_planned_once")
def test_a_finding_whose_verdicts_have_become_others_is_told_as_claims_under_what_it_is_about() -> None:
    from results_quoted import conclusion, findings
    from results_shipped import read_shipped

    named = ("figure-1", "flatten-polish", "flatten-polish-causal", "drift", "flatten-polish-dyck")
    kept = [each for each in read_shipped() if each["result"]["name"] in named]
    assert "SGD keeps moving to flatter models, roughly by one clock" in map(conclusion, kept)
    for each in kept:
        for claim in each["result"]["claims"]:
            claim["verdict"] = "inconclusive" if claim["verdict"] != "inconclusive" else "supported"
    told = findings(kept, "")
    assert "**The clock**: “The trace of the Hessian falls along SGD” inconclusive, " in " ".join(
        told.split()
    )
    assert [conclusion(each) for each in kept] == [""] * len(kept)


def test_withdrawn_claims_are_not_counted() -> None:
    from results_shipped import of_kind

    claims = [
        {"name": "a", "kind": "effect", "withdrawn": ""},
        {"name": "b", "kind": "effect", "withdrawn": "undecidable by design"},
    ]
    assert [claim["name"] for claim in of_kind({"claims": claims}, "effect")] == ["a"]
