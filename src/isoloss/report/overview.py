"""The site's first page: how many claims hold, all of them by figure, and the way to every page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from isoloss.experiments.claims import Judgement, Kind
from isoloss.report.frame import Link
from isoloss.theory.finding import Finding
from isoloss.verdict import Verdict

OVERVIEW = "index"


@dataclass(frozen=True)
class Card:
    """A page as the overview shows it: a link with its picture, if it has one, and what it says."""

    link: Link
    text: str
    picture: str = ""
    judgements: tuple[Judgement, ...] = ()
    findings: tuple[Finding, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Overview:
    """The first page; `where` says on which machine, with which versions, the site was made."""

    title: str
    text: tuple[str, ...]
    experiments: tuple[Card, ...]
    statements: tuple[Card, ...]
    languages: tuple[Card, ...]
    where: tuple[tuple[str, str], ...]
    notices: tuple[str, ...] = ()
    name: str = OVERVIEW

    @property
    def effect_counts(self) -> dict[Verdict, int]:
        """How many effects got each of the three verdicts."""
        return counts(verdicts_on("effect", self._judgements))

    @property
    def premise_counts(self) -> dict[Verdict, int]:
        """How many premises got each of the three verdicts."""
        return counts(verdicts_on("premise", self._judgements))

    @property
    def finding_counts(self) -> dict[Verdict, int]:
        """How many of theory's findings got each of the three verdicts."""
        return counts([finding.verdict for card in self.statements for finding in card.findings])

    @property
    def _judgements(self) -> list[Judgement]:
        return [judged for card in self.experiments for judged in card.judgements]


def verdicts_on(kind: Kind, judgements: Sequence[Judgement]) -> list[Verdict]:
    """The verdicts on the claims of that kind."""
    return [judged.verdict for judged in judgements if judged.claim.kind == kind]


def counts(verdicts: Sequence[Verdict]) -> dict[Verdict, int]:
    """Every verdict with how often it was given.

    >>> {str(verdict): n for verdict, n in counts([Verdict.SUPPORTED]).items()}
    {'supported': 1, 'not supported': 0, 'inconclusive': 0}
    """
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in Verdict}
