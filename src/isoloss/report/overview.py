"""The site's first page: the answers to each question, the best pictures, and links to every page."""

from collections.abc import Sequence
from dataclasses import dataclass

from isoloss.experiments.claims import Judgement, Question, decided_in_one_family
from isoloss.report.frame import Link
from isoloss.results.verdict import Verdict, counts
from isoloss.theory.finding import Finding

OVERVIEW = "index"

PICTURES_SHOWN = 4


@dataclass(frozen=True)
class Card:
    """A page as shown in the overview: a link with its picture, if it has one, and its question.

    `place` is its place among those whose pictures are shown large, if it has one.
    """

    link: Link
    text: str
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


@dataclass(frozen=True)
class Overview:
    """The first page; `where` gives the machines and versions with which the runs were trained.

    `unregistered` are the claims that no commit fixed before the runs, as of a `Page`.
    """

    title: str
    text: tuple[str, ...]
    answers: tuple[Answer, ...]
    gallery: tuple[Card, ...]
    languages: tuple[Card, ...]
    where: tuple[tuple[str, str], ...]
    notices: tuple[str, ...] = ()
    unregistered: str = ""
    name: str = OVERVIEW
    verdicts: tuple[Verdict, ...] = tuple(Verdict)


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
