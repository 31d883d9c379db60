"""The page on which the paper's numbers are beside ours."""

from collections.abc import Sequence

import polars as pl
from markupsafe import Markup

from isoloss.experiments.claims import Judgement
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.languages.language import Facts
from isoloss.report.page import Page, Section, spoken
from isoloss.report.table import html_table, in_numbers, interval_picture

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

    >>> ranges(pl.DataFrame({"step": [1, 2], "saturated": [True, True], "loss": [1.5, 1.52]}))
    (('exact pre-training loss', '1.5 to 1.52 nats, a spread of 1.3 %'),)
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
