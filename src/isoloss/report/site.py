"""The site: an overview, a page for each experiment, statement and language, one style and one script."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from isoloss.experiments.claims import Judgement, Kind
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.language_portrait import LanguagePortrait
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.provenance import machine, versions
from isoloss.files import write_atomically
from isoloss.progress import Progress, silent
from isoloss.report.experiment_page import ExperimentPage, told
from isoloss.report.language_page import language_page
from isoloss.report.offered_files import json_link, result_as_json, write_run_files
from isoloss.report.page import Link, Page, Section, drawn, within_site, write_assets, write_page
from isoloss.report.templates import rendered
from isoloss.theory.finding import Finding, Statement
from isoloss.theory.statement_file import statement_content
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


@dataclass(frozen=True)
class Site:
    """Everything that the site shows.

    `output` holds the runs; `portraits` are the languages' by digest; `again` gives the command that computes
    one run anew; `notices` belong to no experiment.
    """

    scale: str
    output: Path
    results: tuple[ExperimentResult, ...]
    portraits: dict[str, LanguagePortrait]
    again: Callable[[Experiment, PlannedRun], str]
    statements: tuple[Statement, ...] = ()
    notices: tuple[str, ...] = ()


def write_site(site: Site, folder: Path, progress: Progress = silent) -> Path:
    """Write all pages, and the files that they offer, into `folder`; return the overview's path.

    Pages refer to one another and to nothing outside `folder`: it opens from disk and can be moved. Raises
    IsolossError when it cannot be written.
    """
    languages = {digest: _language_link(digest, p) for digest, p in site.portraits.items()}
    of_experiment = ExperimentPage(site.scale, site.output, site.again, languages)
    experiments = [of_experiment.of(result) for result in site.results]
    statements = [statement_page(statement) for statement in site.statements]
    of_languages = [language_page(p, languages[digest].name) for digest, p in site.portraits.items()]
    overview = _overview(site, experiments, statements, of_languages)
    frame = within_site(_links(overview))
    pages = [*experiments, *statements, *of_languages]
    write_assets(folder)
    for done, page in enumerate(pages):
        progress("writing the site", done, len(pages), page.name)
        write_page(page, folder, frame)
    for result in site.results:
        content = json.dumps(result_as_json(result), indent=2, allow_nan=False)
        write_atomically(folder / frame.files / f"{result.experiment.name}.json", content)
    for statement in site.statements:
        content = json.dumps(statement_content(statement), indent=2, allow_nan=False)
        write_atomically(folder / frame.files / f"{statement_page_name(statement)}.json", content)
    for run in shared(run for result in site.results for run in result.experiment.runs):
        write_run_files(run, site.output, folder)
    path = folder / f"{OVERVIEW}.html"
    write_atomically(path, rendered("overview.html.j2", page=overview, frame=frame, scripted=False))
    progress("writing the site", len(pages), len(pages))
    return path


def spoken(name: str) -> str:
    """A name as a title.

    >>> spoken("figure-1"), spoken("lemma-g.4")
    ('Figure 1', 'Lemma G.4')
    """
    words = (word.upper() if word[1:2] == "." else word for word in name.split("-"))
    title = " ".join(words)
    return title[:1].upper() + title[1:]


def _overview(
    site: Site, experiments: Sequence[Page], statements: Sequence[Page], languages: Sequence[Page]
) -> Overview:
    planned = [run for result in site.results for run in result.experiment.runs]
    figures = _number(len(site.results), "figure or table", "figures and tables")
    runs = _number(len(shared(planned)), "pre-training run", "pre-training runs")
    tested = _number(len(statements), "statement", "statements")
    of_experiments = zip(site.results, experiments, strict=True)
    return Overview(
        title="Same pre-training loss, better downstream: what holds?",
        text=(
            "Liu, Xie, Li and Ma (ICML 2023) say that language models of one pre-training loss differ "
            "downstream, and that flatness tells which is better. Here is their evidence computed again "
            f"from nothing at {site.scale} scale: {figures} from {runs}, {tested} put to the test, and "
            "every verdict.",
        ),
        experiments=tuple(
            Card(
                link=Link(page.name, spoken(page.name)),
                text=page.title,
                picture=_picture(page),
                judgements=result.judgements,
            )
            for result, page in of_experiments
        ),
        statements=tuple(
            Card(Link(page.name, spoken(statement.name)), page.title, findings=statement.findings)
            for statement, page in zip(site.statements, statements, strict=True)
        ),
        languages=tuple(Card(Link(page.name, page.title), page.title) for page in languages),
        where=(("machine", machine()), *versions().items()),
        notices=(
            *(f"{spoken(r.experiment.name)}: {text}" for r in site.results for text in told(r)),
            *site.notices,
        ),
    )


def _picture(page: Page) -> str:
    """The first panel's, which can be read when it is small."""
    return next((f"files/{page.name}-{panel.name}.svg" for panel in page.panels if panel.charts), "")


def _number(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _links(overview: Overview) -> tuple[Link, ...]:
    """The way to everything: the languages' pages are reached from the overview and the figures."""
    cards = (*overview.experiments, *overview.statements)
    return (Link(OVERVIEW, "Overview"), *(card.link for card in cards))


def _language_link(digest: str, portrait: LanguagePortrait) -> Link:
    return Link(f"language-{digest[:8]}", f"{portrait.kind}, {portrait.source}")


def statement_page(statement: Statement) -> Page:
    """All that the statement says; its page's name begins with `theory-`."""
    corrections = Markup("").join(Markup("<li>{}</li>").format(text) for text in statement.corrections)
    sections = [
        Section("Settings", rows=statement.settings),
        Section("Every number", markup=json_link(statement_page_name(statement))),
    ]
    if statement.corrections:
        markup = Markup("<ul>{}</ul>").format(corrections)
        sections.insert(0, Section("Where the paper’s constants and the arithmetic differ", markup=markup))
    return Page(
        name=statement_page_name(statement),
        title=statement.title,
        text=(statement.text,),
        panels=tuple(drawn(panel) for panel in statement.panels),
        findings=statement.findings,
        sections=tuple(sections),
    )


def statement_page_name(statement: Statement) -> str:
    """The name of its page's file."""
    return f"theory-{statement.name}"
