"""The page of a lemma or theorem: what was computed, its findings, pictures, and where constants differ."""

from markupsafe import Markup

from isoloss.report.offered_files import json_link
from isoloss.report.page import Page, Section, drawn
from isoloss.theory.finding import Statement


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
