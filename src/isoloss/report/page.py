"""A page as data, and how it is written: HTML, and its panels' numbers and pictures as files."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
from markupsafe import Markup

from isoloss.experiments.claims import Judgement
from isoloss.files import write_atomically
from isoloss.panels import Bars, Categories, Dots, Layout, Lines, Panel
from isoloss.report.charts import draw
from isoloss.report.frame import FILES, Frame, alone, as_script_data, rendered
from isoloss.report.marks import AXIS_HEIGHT, CHART_HEIGHT, STACKED_HEIGHT, Drawing, Key, key_of
from isoloss.report.over_runs import explained
from isoloss.report.pictures import KINDS, legend, one_picture, svg_and_png, without_legends, write_pictures
from isoloss.report.table import claims_as_latex
from isoloss.results.verdict import Verdict, counts
from isoloss.theory.finding import Finding

Coloured = Dots | Lines | Categories | Bars
"""The charts whose colours a panel may have in common."""

COLUMNS = {1: "one", 3: "three", 4: "two"}
"""How a wide panel lays out that many charts: one beside a table is large, and none is alone in a row."""

WRITTEN = {"adamw": "AdamW"}
"""Words of names whose spelling differs from what is typed."""


def spoken(name: str) -> str:
    """The name of an experiment or statement as a title.

    >>> spoken("figure-1"), spoken("lemma-g.4"), spoken("adamw-clock")
    ('Figure 1', 'Lemma G.4', 'AdamW clock')
    """
    words = (word.upper() if word[1:2] == "." else WRITTEN.get(word, word) for word in name.split("-"))
    title = " ".join(words)
    return title[:1].upper() + title[1:]


def several(number: int, what: str) -> str:
    """A number of things.

    >>> several(1, "run"), several(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


@dataclass(frozen=True)
class DrawnPanel:
    """A panel with its charts as drawings; `key` is what the colours of all of them mean, if it is one thing.

    `title` is the message, where claims are judged, and `subtitle` what is drawn.
    """

    name: str
    title: str
    caption: str
    drawings: tuple[Drawing, ...]
    data: pl.DataFrame
    layout: Layout = "beside"
    subtitle: str = ""
    key: Key | None = None

    @property
    def charts(self) -> list[dict[str, Any]]:
        """The drawings that are pictures."""
        return [drawing for drawing in self.drawings if not isinstance(drawing, Markup)]

    @property
    def picture(self) -> dict[str, Any]:
        """Its charts as one picture's specification."""
        return one_picture(self.charts, self.title, self.layout, self.subtitle, self.key)


@dataclass(frozen=True)
class Section:
    """A heading over text, ready HTML, a table of names and values, and code."""

    title: str
    text: str = ""
    markup: Markup = Markup()  # noqa: RUF009  (a string)
    rows: tuple[tuple[str, str], ...] = ()
    code: str = ""


@dataclass(frozen=True)
class Page:
    """Everything that a page shows, in order; `name` is its file's, `text` has one string per paragraph.

    `unregistered` are those of its claims that no commit fixed before the runs, such as "of figure 1".
    """

    name: str
    title: str
    text: tuple[str, ...]
    opening: Markup = Markup()  # noqa: RUF009  (a string)
    panels: tuple[DrawnPanel, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    unregistered: str = ""
    findings: tuple[Finding, ...] = ()
    sections: tuple[Section, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def verdict_counts(self) -> dict[str, dict[Verdict, int]]:
        """How many claims of each kind on the page got each verdict."""
        found = {
            kind: [judged.verdict for judged in self.judgements if judged.claim.role == kind]
            for kind in ("effect", "premise")
        }
        return {kind: counts(verdicts) for kind, verdicts in found.items() if verdicts}


def drawn(panel: Panel, judgements: Sequence[Judgement] = ()) -> DrawnPanel:
    """The panel with all its charts drawn, under what the claims that it `shows` have come to."""
    stem = "".join(letter if letter.isalnum() else "_" for letter in panel.name)
    drawings = []
    for number, chart in enumerate(panel.charts):
        drawing = draw(chart, panel.data, f"{stem}_{number}")
        if panel.layout == "stacked" and not isinstance(drawing, Markup):
            drawing |= {"height": STACKED_HEIGHT}
        drawings.append(drawing)
    claimed = message(panel.shows, judgements)
    extra = " ".join(dict.fromkeys(chain.from_iterable(map(explained, drawings))))
    by = {chart.colour for chart in panel.charts if isinstance(chart, Coloured)}
    return DrawnPanel(
        panel.name,
        claimed or panel.title,
        f"{panel.caption.rstrip()} {extra}".strip(),
        tuple(drawings),
        panel.data,
        panel.layout,
        panel.title if claimed else "",
        key_of(panel.data, by.pop()) if len(by) == 1 else None,
    )


SAID = {Verdict.SUPPORTED: "", Verdict.NOT_SUPPORTED: "Not supported: ", Verdict.INCONCLUSIVE: "Undecided: "}


def message(shows: Sequence[str], judgements: Sequence[Judgement]) -> str:
    """The claims of these names, each with what its verdict says of it; empty if none of them is judged.

    A title before a colon that all begin with is said once, as is what a claim begins with as the one before
    it, with the same verdict: a clause, or `LEAST_SHARED` words.
    """
    shown = [
        judged
        for name in shows
        for judged in judgements
        if judged.claim.name == name and not judged.claim.withdrawn
    ]
    mixed = len({judged.verdict for judged in shown}) > 1
    titles = {judged.claim.sentence.rpartition(": ")[0] for judged in shown}
    title = f"{titles.pop()}: " if len(titles) == 1 and len(shown) > 1 and "" not in titles else ""
    clauses: list[str] = []
    last = ""
    for judged in shown:
        said = SAID[judged.verdict] or "Supported: " * mixed
        sentence = judged.claim.sentence.removeprefix(title).removesuffix(".")
        rest = _after_what_both_say(said + sentence, last)
        whole = said + _small(sentence) if said or clauses else sentence
        clauses.append(rest or (_small(whole) if clauses else whole))
        last = said + sentence
    return title + "; ".join(_small(each) for each in clauses) if title else "; ".join(clauses)


LEAST_SHARED = 8
"""How many words two sentences begin with alike, at least, for the second to leave them out."""


def _after_what_both_say(sentence: str, last: str) -> str:
    """What is left of a sentence that begins as the last one does; empty if it begins otherwise.

    >>> _after_what_both_say("Within a run, it is better", "Within a run, it is flatter")
    'it is better'
    """
    clause, comma, rest = sentence.rpartition(", ")
    if comma and last.startswith(f"{clause}, "):
        return rest
    words = sentence.split()
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, last.split(), strict=False)))
    if alike < LEAST_SHARED:
        return ""
    return " ".join(words[alike - (words[alike - 1] in ("as", "than")) :])


def _small(sentence: str) -> str:
    """A sentence for the middle of a line; what begins with an abbreviation stays as it is."""
    return sentence if sentence[1:2].isupper() else f"{sentence[:1].lower()}{sentence[1:]}"


def write_page(page: Page, folder: Path, frame: Frame) -> Path:
    """Write the page into a site's `folder`, and into its FILES the claims as LaTeX and every panel.

    Returns the page's path. Several panels of one chart each are also in one picture, named after the page.
    Raises IsolossError if the folder cannot be written.
    """
    files = folder / FILES
    offered = []
    for panel in page.panels:
        stem = files / f"{page.name}-{panel.name}"
        # A dot in the stem (e.g. rho-0.05) does not start a suffix.
        write_atomically(stem.with_name(f"{stem.name}.csv"), as_csv(panel.data))
        if panel.charts:
            write_pictures(panel.picture, stem)
        kinds = ("csv", *KINDS) if panel.charts else ("csv",)
        offered.append({kind: quote(f"{FILES}/{stem.name}.{kind}") for kind in kinds})
    single = [panel.charts[0] for panel in page.panels if len(panel.charts) == 1]
    if len(single) > 1:
        write_pictures(one_picture(single, page.title, "beside"), files / page.name)
    latex = f"{FILES}/{page.name}-claims.tex" if page.judgements else ""
    if latex:
        write_atomically(folder / latex, claims_as_latex(page.judgements, page.name))
    path = folder / f"{page.name}.html"
    write_atomically(path, _html(page, frame, offered, quote(latex)))
    return path


def write_lone_page(page: Page, path: Path) -> None:
    """Write the page as a single self-contained file, with the numbers and pictures that it offers inside.

    Raises IsolossError if it cannot be written.
    """
    write_atomically(path, _html(page, alone(), [_files_within(panel) for panel in page.panels]))


def _files_within(panel: DrawnPanel) -> dict[str, str]:
    """The files that a panel offers, by kind, as data URLs."""
    files = {"csv": _as_link("text/csv", as_csv(panel.data).encode(errors="backslashreplace"))}
    if panel.charts:
        svg, png = svg_and_png(panel.picture)
        files["png"] = _as_link("image/png", png)
        files["svg"] = _as_link("image/svg+xml", svg.encode())
    return files


_FORMULA = r"^[=+\-@\t\r]"
"""How a cell begins that a spreadsheet takes for a formula, which may send or change what is beside it."""


def as_csv(table: pl.DataFrame) -> str:
    r"""The table as CSV, in which an apostrophe before it makes text that begins like a formula text again.

    >>> as_csv(pl.DataFrame({"run": ["=1+1", "a"], "loss": [-1.0, 2.0]}))
    "run,loss\n'=1+1,-1.0\na,2.0\n"
    """
    texts = pl.col(pl.String, pl.Categorical).cast(pl.String)
    safe = table.with_columns(
        pl.when(texts.str.contains(_FORMULA)).then(pl.lit("'") + texts).otherwise(texts).name.keep()
    )
    named = [f"'{name}" if re.match(_FORMULA, name) else name for name in safe.columns]
    return safe.rename(dict(zip(safe.columns, named, strict=True))).write_csv()


def _as_link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"


def _html(page: Page, frame: Frame, files: Sequence[dict[str, str]], latex: str = "") -> str:
    """`files` are each panel's files, by kind, with their location; `latex` is the location of the claims."""
    layouts = [
        "stacked" if panel.layout == "stacked" else COLUMNS.get(len(panel.charts), "as-they-fit")
        for panel in page.panels
    ]
    panels = [
        {
            "title": panel.title,
            "subtitle": panel.subtitle,
            "legend": legend(panel.key) if panel.key is not None else "",
            "caption": panel.caption,
            "drawings": [_embedded(drawing, keyed=panel.key is not None) for drawing in panel.drawings],
            "wide": len(panel.drawings) > 1 or not panel.charts,
            "files": offered,
            "columns": layout,
            "file": f"{page.name}-{panel.name}",
        }
        for panel, offered, layout in zip(page.panels, files, layouts, strict=True)
    ]
    scripted = any(panel.charts for panel in page.panels)
    return rendered("page.html.j2", page=page, panels=panels, frame=frame, scripted=scripted, latex=latex)


def _embedded(drawing: Drawing, *, keyed: bool) -> dict[str, str | Markup]:
    """Ready HTML as `markup`, or a chart: its `specification`, `label` for screen readers, and `height`.

    So much is kept free before it is drawn, so that what is below does not move. A chart of a panel that has
    one key for all its charts has no legend of its own.
    """
    if isinstance(drawing, Markup):
        return {"markup": drawing}
    found = {"width": "container", **drawing, "background": "transparent"}
    if keyed:
        found["layer"] = without_legends(found["layer"])
    height = str(round(found.get("height", CHART_HEIGHT)) + AXIS_HEIGHT)
    return {"specification": as_script_data(found), "label": found.get("description", ""), "height": height}
