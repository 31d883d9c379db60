"""The site's pages of all experiments: every answer, with links to all pages, and the paper's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from markupsafe import Markup

from isoloss.experiments.claims import Judgement, Question, decided_in_one_family
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.languages.language import Facts
from isoloss.report.frame import Link
from isoloss.report.page import Page, Section, spoken
from isoloss.report.table import html_table, in_numbers, interval_picture
from isoloss.results.verdict import Verdict, counts
from isoloss.theory.finding import Finding

OVERVIEW = "index"

PICTURES_SHOWN = 4


@dataclass(frozen=True)
class Card:
    """A page as shown in the overview: a link with its picture, if it has one, and what it answers.

    `place` is its place among those whose pictures are shown large, if it has one.
    """

    link: Link
    picture: str = ""
    question: Question = Question.MATERIAL
    place: int | None = None
    judgements: tuple[Judgement, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many of its findings got each verdict."""
        return counts(finding.verdict for finding in self.findings)


@dataclass(frozen=True)
class Answer:
    """A question with the claims that answer it, each with the page that has the details, and its own pages.

    `statements` are theory's pages, whose findings count too.
    """

    question: Question
    claims: tuple[tuple[Judgement, Link], ...]
    cards: tuple[Card, ...]
    statements: tuple[Card, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether there is any verdict."""
        return any(self.counts.values())

    @property
    def anchor(self) -> str:
        """Its anchor on the page."""
        return self.question.name.lower()

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many claims and findings got each verdict."""
        of_theory = (finding.verdict for card in self.statements for finding in card.findings)
        return counts((*(judged.verdict for judged, _ in self.claims), *of_theory))


def answers(experiments: Sequence[Card], statements: Sequence[Card]) -> tuple[Answer, ...]:
    """Every question with a page or a claim, in order; effects come before premises."""
    claims = sorted(
        (
            (judged, card.link, judged.claim.answers or card.question)
            for card in experiments
            for judged in card.judgements
        ),
        key=lambda each: each[0].claim.kind,
    )
    found = []
    for question in Question:
        answering = tuple((judged, link) for judged, link, asked in claims if asked == question)
        cards = tuple(card for card in experiments if card.question == question)
        of_theory = tuple(statements) if question == Question.THEORY else ()
        if answering or cards or of_theory:
            found.append(Answer(question, answering, cards, of_theory))
    return tuple(found)


def gallery(experiments: Sequence[Card]) -> tuple[Card, ...]:
    """The cards whose pictures are shown large, those with a place in the gallery first, in its order."""
    pictured = [card for card in experiments if card.picture]
    placed = [card for card in pictured if card.place is not None]
    finest = sorted(placed, key=lambda card: card.place or 0)
    return tuple(finest or pictured)[:PICTURES_SHOWN]


def decided_by_family(experiments: Sequence[Card]) -> str:
    """How many effects are decided within each experiment's family, and in one; empty if there are none.

    Over several experiments the probability of a wrong verdict is larger than on the page of one.
    """
    judged = [each for card in experiments for each in card.judgements if each.claim.role == "effect"]
    if not judged:
        return ""
    decided = sum(each.verdict != Verdict.INCONCLUSIVE for each in judged)
    return (
        f"Of {len(judged)} effects, {decided} are decided by Holm's procedure within each experiment, and "
        f"{decided_in_one_family(judged)} would be in one family of all experiments."
    )


PAPER_PAGE = "paper-and-here"
RANGES = (
    ("loss", "exact pre-training loss", "nats"),
    ("kl", "KL(distribution || model)", "nats"),
    ("trace", "trace of the Hessian (Fisher form)", ""),
    ("accuracy", "linear probe accuracy", ""),
)
"""Columns of experiments' tables that the paper has too, their names, and their units."""
OF_THE_PAPER = (
    "The paper’s languages, models and numbers of steps differ from ours, so losses and traces need not be "
    "equal. What can be compared with the paper is what happens at the same loss, and by how much.",
    "For each figure, claim by claim, the paper’s number or words are shown next to what was measured, with "
    "its interval over seeds; the shaded side is what is claimed. Below are the other numbers that the paper "
    "gives, and the ranges plotted here.",
)


def paper_page(results: Sequence[ExperimentResult]) -> tuple[Page, ...]:
    """The page of all experiments for which the paper states a number or a result; none if it states none."""
    stated = [result for result in results if result.experiment.paper_numbers or result.judgements]
    if not stated:
        return ()
    return (
        Page(
            name=PAPER_PAGE,
            title="How do the paper’s numbers compare with ours?",
            text=OF_THE_PAPER,
            sections=tuple(_beside_the_paper(result) for result in stated),
        ),
    )


def ranges(table: pl.DataFrame) -> Facts:
    """From the least to the largest of each of RANGES, over the checkpoints that are judged.

    >>> ranges(pl.DataFrame({"step": [1, 2, 3], "saturated": [False, True, True], "loss": [9.0, 2.0, 3.0]}))
    (('exact pre-training loss', '2 to 3 nats, a spread of 50 %'),)
    """
    if not {"step", "saturated"} <= set(table.columns):
        return ()
    dots = table.filter(pl.col("step").is_not_null() & pl.col("saturated").fill_null(value=False))
    return tuple(
        (name, _range(numbers, unit))
        for column, name, unit in RANGES
        if column in dots.columns and len(numbers := dots[column].drop_nulls().drop_nans())
    )


def _range(numbers: pl.Series, unit: str) -> str:
    least, most = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
    spread = f", a spread of {100 * (most - least) / least:.2g} %" if least > 1 and unit else ""
    return f"{least:.4g} to {most:.4g} {unit}".rstrip() + spread


def _beside_the_paper(result: ExperimentResult) -> Section:
    experiment = result.experiment
    theirs = tuple((f"the paper: {name}", value) for name, value in experiment.paper_numbers)
    here = tuple((f"here: {name}", value) for name, value in ranges(result.table))
    link = Markup('<p><a href="{}.html">Its page</a></p>').format(experiment.name)
    return Section(
        f"{spoken(experiment.name)}: {experiment.title}",
        markup=_claims(result.tested) + link,
        rows=theirs + here,
    )


def _claims(judgements: Sequence[Judgement]) -> Markup:
    if not judgements:
        return Markup()
    measured = Markup('<td class="{}">{}{}</td>')
    verdict = Markup('<td><span class="verdict {}">{}</span></td>')
    rows = [
        (
            judged.claim.sentence,
            judged.claim.paper,
            measured.format(kind, interval_picture(judged), in_numbers(judged)),
            verdict.format(kind, judged.verdict),
        )
        for judged in judgements
        for kind in (judged.verdict.replace(" ", "-"),)
    ]
    return html_table(("claim", "the paper", "here", "verdict"), rows)
