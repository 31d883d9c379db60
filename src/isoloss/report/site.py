"""The site: an overview, a page for each experiment, statement and language, one style and one script."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from markupsafe import Markup

from isoloss.device import machine, versions
from isoloss.executors.job import Notice, Outcome
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import planned_languages, shared
from isoloss.experiments.experiment_result import (
    Executor,
    ExperimentResult,
    experiment_damage,
    gathered,
    is_done,
    was_planned,
)
from isoloss.experiments.language_description import LanguageDescription, cached_description, description_jobs
from isoloss.experiments.planned_folder import is_complete
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.shipped_results import by_name, result_as_json
from isoloss.files import write_atomically
from isoloss.progress import Progress, part_of, silent
from isoloss.report.experiment_page import ExperimentPage, notices_of, write_run_files
from isoloss.report.frame import FILES, Link, json_link, rendered, within_site, write_assets
from isoloss.report.language_page import language_page
from isoloss.report.overview import OVERVIEW, Answer, Card, answers, decided_by_family, gallery, paper_page
from isoloss.report.page import Page, Section, drawn, several, spoken, write_page
from isoloss.report.table import claims_as_latex
from isoloss.results.verdict import Verdict
from isoloss.theory.finding import Statement
from isoloss.theory.suite import statement_content, stored_statements

SITE, THEORY = "site", "theory"
"""The subfolders of a folder of results that hold the site and the statements."""

NOT_JUDGED = (
    "At smoke scale nothing is judged: a few steps of tiny models show that everything runs, but not which "
    "claims hold. With --scale laptop the same command judges them."
)


@dataclass(frozen=True)
class Site:
    """Everything that the site shows.

    `output` contains the runs; `descriptions` are the languages' by digest; `again` gives the command that
    recomputes one run; `notices` belong to no experiment.
    """

    scale: str
    output: Path
    results: tuple[ExperimentResult, ...]
    again: Callable[[Experiment, PlannedRun], str]
    descriptions: dict[str, LanguageDescription] = field(default_factory=dict)
    statements: tuple[Statement, ...] = ()
    notices: tuple[str, ...] = ()


def write_whole_site(
    site: Site, others: Mapping[str, Callable[[], Experiment]], execute: Executor, progress: Progress = silent
) -> tuple[Path, Outcome]:
    """Write the site with those of the `others`, statements and languages that there are in its `output`.

    Of the others, those with a complete run are there, and which of them are unfinished is a notice. Returns
    the first page, and any messages, which the site has as notices too.
    """
    folder = site.output
    planned = [make() for name, make in others.items() if was_planned(name, folder)]
    results = list(site.results)
    damage: list[Notice] = []
    unfinished = []
    for done, experiment in enumerate(planned):
        found = experiment_damage(experiment.runs, experiment.references, folder)
        again = f"`isoloss reproduce {experiment.name}` makes it again; its page is shown without it, or not"
        damage += [Notice(experiment.name, f"{each.partition(';')[0]}; {again}") for each in found]
        whole = is_done(experiment, folder)
        if whole or any(is_complete(run, folder) for run in experiment.runs):
            results += gathered([experiment], folder, progress=part_of(progress, done, len(planned)))
            unfinished += [] if whole else [experiment.name]
        progress("judging", done + 1, len(planned), f"{experiment.name}, computed before")
    by_name = {result.experiment.name: result for result in results}
    shown = tuple(by_name[name] for name in dict.fromkeys((*builtin_designs(), *by_name)) if name in by_name)
    plans = planned_languages(result.experiment for result in shown)
    outcome = execute(description_jobs(plans, folder), progress)
    statements, damaged = stored_statements(folder / THEORY, smoke=site.scale == UNJUDGED)
    damage += [Notice(THEORY, sentence) for sentence in damaged]
    outcome = replace(outcome, failures=(*outcome.failures, *damage))
    descriptions = {plan.digest: cached_description(plan, folder) for plan in plans}
    complete_site = replace(
        site,
        results=shown,
        descriptions={digest: description for digest, description in descriptions.items() if description},
        statements=statements,
        notices=(
            *(f"{failure.job} failed: {failure.text}" for failure in outcome.failures),
            *(f"{spoken(name)} is unfinished: the command that began it goes on." for name in unfinished),
        ),
    )
    return write_site(complete_site, folder / SITE, progress), outcome


def write_site(site: Site, folder: Path, progress: Progress = silent) -> Path:
    """Write all pages, and the files that they offer, into `folder`; return the overview's path.

    Pages refer to one another and to nothing outside `folder`: it opens from disk and can be moved. Raises
    IsolossError if it cannot be written.
    """
    languages = {
        digest: Link(_language_page_name(digest), f"{described.kind}, {described.source}")
        for digest, described in site.descriptions.items()
    }
    of_experiment = ExperimentPage(site.scale, site.output, site.again, languages)
    notices = (NOT_JUDGED,) if site.scale == UNJUDGED else ()
    experiments = [
        replace(page, notices=(*notices, *page.notices)) for page in map(of_experiment.of, site.results)
    ]
    statements = [statement_page(statement) for statement in site.statements]
    of_languages = [language_page(p, languages[digest].name) for digest, p in site.descriptions.items()]
    beside = paper_page(site.results)
    cards = [_experiment_card(page, result) for page, result in zip(experiments, site.results, strict=True)]
    answered = answers(cards, list(map(_statement_card, site.statements, statements)))
    frame = within_site(_links(answered, beside))
    pages = [*experiments, *beside, *statements, *of_languages]
    write_assets(folder)
    for done, page in enumerate(pages):
        progress("writing the site", done, len(pages), page.name)
        write_page(page, folder, frame)
    _write_files(site, experiments, folder)
    path = folder / f"{OVERVIEW}.html"
    shown = {
        "answers": answered,
        "gallery": gallery(cards),
        "languages": [_language_link(page, site) for page in of_languages],
        "where": _where(site.results),
        "verdicts": tuple(Verdict),
    }
    first = _overview(site, cards)
    write_atomically(path, rendered("overview.html.j2", page=first, frame=frame, scripted=False, **shown))
    progress("writing the site", len(pages), len(pages))
    return path


def _write_files(site: Site, experiments: Sequence[Page], folder: Path) -> None:
    """What pages refer to beside what each writes: all numbers, the runs, and the claims in one file."""
    numbers = {result.experiment.name: result_as_json(result) for result in site.results}
    numbers |= {statement_page_name(each): statement_content(each) for each in site.statements}
    for name, content in numbers.items():
        write_atomically(folder / FILES / f"{name}.json", json.dumps(content, indent=2, allow_nan=False))
    for run in shared(run for result in site.results for run in result.experiment.runs):
        write_run_files(run, site.output, folder)
    if tables := [claims_as_latex(page.judgements, page.name) for page in experiments if page.judgements]:
        write_atomically(folder / FILES / "claims.tex", "\n".join(tables))


def _overview(site: Site, experiments: Sequence[Card]) -> Page:
    """What the first page says, above the answers."""
    planned = [run for result in site.results for run in result.experiment.runs]
    asked = several(len(site.results), "experiment")
    runs = several(len(shared(planned)), "pre-training run")
    tested = len(site.statements)
    evidence = f", {several(tested, 'statement')} put to the test" if tested else ""
    unregistered = [
        spoken(each.experiment.name)
        for each in site.results
        if each.tested and not each.experiment.registered
    ]
    return Page(
        name=OVERVIEW,
        title="Same pre-training loss, better downstream: what holds?",
        text=(
            "Liu, Xie, Li and Ma (ICML 2023) find that language models with the same pre-training loss "
            "differ downstream, and that flatness tells which is better. Here what holds is computed from "
            f"scratch at {site.scale} scale: {asked} with {runs}{evidence}, and "
            f"{'no verdict yet' if site.scale == UNJUDGED else 'every verdict'}.",
            *filter(None, () if site.scale == UNJUDGED else (decided_by_family(experiments),)),
        ),
        unregistered=f"of {', '.join(unregistered)}" if unregistered else "",
        notices=(
            *((NOT_JUDGED,) if site.scale == UNJUDGED else ()),
            *(f"{spoken(r.experiment.name)}: {text}" for r in site.results for text in notices_of(r)),
            *site.notices,
        ),
    )


def _where(results: Sequence[ExperimentResult]) -> tuple[tuple[str, str], ...]:
    """The runs' versions and machines, or this process's where there are no runs."""
    of_runs = dict.fromkeys(
        (name, str(value)) for result in results for name, value in result.versions.items()
    )
    return tuple(by_name(of_runs).items()) or (("machine", machine()), *versions().items())


def _links(answered: Sequence[Answer], beside: Sequence[Page]) -> dict[str, list[Link]]:
    """The links to everything, by question: languages' pages are linked from the overview and the figures."""
    papers = [Link(page.name, "The paper and here", page.title) for page in beside]
    groups = {"": [Link(OVERVIEW, "Overview"), *papers]}
    for answer in answered:
        groups[answer.question] = [card.link for card in (*answer.cards, *answer.statements)]
    return {title: links for title, links in groups.items() if links}


def _language_page_name(digest: str) -> str:
    return f"language-{digest[:8]}"


def _experiment_card(page: Page, result: ExperimentResult) -> Card:
    """With the first panel's picture, which is readable when small."""
    pictures = (f"{FILES}/{page.name}-{panel.name}.svg" for panel in page.panels if panel.charts)
    return Card(
        link=Link(page.name, spoken(page.name), page.title),
        picture=next(pictures, ""),
        question=result.experiment.question,
        place=result.experiment.gallery,
        judgements=result.tested,
    )


def _statement_card(statement: Statement, page: Page) -> Card:
    return Card(Link(page.name, spoken(statement.name), page.title), findings=statement.findings)


def _language_link(page: Page, site: Site) -> Link:
    """With the experiments on the language, since several may be of one kind and size."""
    using = [
        spoken(result.experiment.name)
        for result in site.results
        if page.name in {_language_page_name(run.language.digest) for run in result.experiment.runs}
    ]
    users = f" ({', '.join(using)})" if using else ""
    return Link(page.name, page.title, f"{page.title}{users}")


def statement_page(statement: Statement) -> Page:
    """The statement's whole content; its page's name starts with `theory-`."""
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
