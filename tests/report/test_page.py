import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest
import vl_convert

from isoloss.panels import Axis, Colour, Dots, Lines, Mark, Panel, Table
from isoloss.report.frame import Link, within_site
from isoloss.report.page import Page, Section, as_csv, drawn, message, write_lone_page, write_page
from shown_results import JUDGEMENTS

ACCURACY = Axis("accuracy", "accuracy", "accuracy_deviation")
WIDTH = Colour("width", "width", ordered=True)


@pytest.fixture(scope="module")
def checkpoints() -> pl.DataFrame:
    rows = [
        {
            "run": f"width-{width}-seed-{seed}", "width": width, "seed": seed, "step": step,
            "loss": 1.5 + 1 / step, "accuracy": 0.9 + step / 1e5, "accuracy_deviation": 0.002,
            "trace": 100.0 - step / 50 + seed * step / 500, "trace_error": 1.0,
        }
        for width in (16, 32) for seed in (1, 2) for step in (500, 1000, 2000)
    ]  # fmt: skip
    return pl.DataFrame(rows)


@pytest.fixture(scope="module")
def page(checkpoints: pl.DataFrame) -> Page:
    trace, step = Axis("trace", "trace", "trace_error"), Axis("step", "step", logarithmic=True)
    dots = (Dots(Axis("loss", "loss"), ACCURACY, WIDTH),)
    lines = tuple(Lines(step, y, WIDTH, "run", marked=Mark(1000, "converged")) for y in (ACCURACY, trace))
    panels = (
        Panel("loss", "Loss", "Loss & accuracy.", dots, checkpoints),
        Panel("rho-0.05", "Steps", "Over steps.", lines, checkpoints),
        Panel("again", "Loss", "The same.", dots, checkpoints),
        Panel("all", "All", "As a table.", (Table((Axis("run", "run"), trace)),), checkpoints),
    )
    return Page(
        "figure-1",
        "Figure 1",
        ("A summary.", "More."),
        panels=tuple(map(drawn, panels)),
        judgements=JUDGEMENTS,
        sections=(Section("Settings", rows=(("seeds", "1, 2"),), code="isoloss reproduce figure-1"),),
        notices=("run x failed",),
    )


def first_alone(paint: Callable[..., Any], pictures: int = 1) -> Callable[..., Any]:
    """Paints the first pictures alone, each most of a second, and gives the last for all others."""
    painted: list[Any] = []

    def given(*picture: object, **how: object) -> Any:
        if len(painted) < pictures:
            painted.append(paint(*picture, **how))
        return painted[-1]

    return given


@pytest.fixture(scope="module")
def site(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    links = {"Both": (Link("index", "Overview"), Link("figure-1", "Figure 1"))}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vl_convert, "svg_to_pdf", lambda svg, **_: b"")  # see test_pictures.py
        # As wide as a page, and as a column.
        patched.setattr(vl_convert, "vegalite_to_svg", first_alone(vl_convert.vegalite_to_svg, pictures=2))
        patched.setattr(vl_convert, "svg_to_png", first_alone(vl_convert.svg_to_png))
        assert write_page(page, folder, within_site(links)) == folder / "figure-1.html"
    return folder


@pytest.mark.usefixtures("_nothing_painted")
def test_a_page_alone_is_one_file_with_one_copy_of_the_charts_javascript(page: Page, tmp_path: Path) -> None:
    write_lone_page(page, tmp_path / "alone.html")
    html = (tmp_path / "alone.html").read_text()
    assert html.count("window.vegaEmbed = ") + html.count("window.vegaEmbed=") >= 1
    without_script = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"(src|href)=[\"']https?:", without_script)
    assert "<nav" not in without_script
    assert 0.8e6 < len(html) < 1.6e6


def test_a_page_of_a_site_refers_to_what_is_shared(site: Path) -> None:
    html = (site / "figure-1.html").read_text()
    assert len(html) < 1e5
    for reference in ("assets/style.css", "assets/charts.js", "index.html", "files/figure-1-rho-0.05.png"):
        assert f'"{reference}"' in html
    assert '<a href="figure-1.html" aria-current="page">Figure 1</a>' in html


def test_everything_the_page_has_to_say_is_on_it(site: Path) -> None:
    html = (site / "figure-1.html").read_text()
    said = ("A summary.", "More.", "Loss &amp; accuracy.", "91.0 ± 1.0", "1, 2", "run x failed")
    for text in (*said, "The claim rises &lt;holds&gt;.", "8.0 against 19.3", "✓ supported"):
        assert text in html
    specifications = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert len(specifications) == 4
    for specification in specifications:
        assert json.loads(specification)["width"] == "container"
    # A page's charts share the names of signals only if they are drawn as one.
    assert len(set(re.findall(r'"name": "(hover_\w+)"', html))) == 4


def test_every_panel_has_its_numbers_and_pictures(site: Path, checkpoints: pl.DataFrame) -> None:
    files = site / "files"
    assert pl.read_csv(files / "figure-1-loss.csv").equals(checkpoints)
    assert (files / "figure-1-rho-0.05.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (files / "figure-1-rho-0.05.svg").read_text()
    assert (files / "figure-1.png").exists()
    assert (files / "figure-1-all.csv").exists()
    assert not (files / "figure-1-all.png").exists()


@pytest.mark.usefixtures("_nothing_painted")
def test_links_are_to_the_files_whatever_their_name(checkpoints: pl.DataFrame, tmp_path: Path) -> None:
    panel = drawn(Panel("loss", "Loss", "", (Dots(Axis("loss", "loss"), ACCURACY, WIDTH),), checkpoints))
    page = Page("50 % off #1?", "Page", (), panels=(panel,))
    links = {"All": (Link(page.name, "Page"),)}
    html = write_page(page, tmp_path, within_site(links)).read_text()
    found = [unquote(link) for link in re.findall(r'href="([^"#]+)"', html)]
    assert f"{page.name}.html" in found
    assert f"files/{page.name}-loss.csv" in found
    assert all((tmp_path / link).is_file() for link in found if page.name in link)


@pytest.mark.thorough
def test_charts_over_one_axis_stand_one_above_another(
    checkpoints: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for painted in ("svg_to_png", "svg_to_pdf"):
        monkeypatch.setattr(vl_convert, painted, lambda svg, **_: b"")
    step = Axis("step", "step", logarithmic=True)
    lines = tuple(Lines(step, Axis(name, name), WIDTH, "run") for name in ("loss", "trace", "accuracy"))
    panels = (
        drawn(Panel("stacked", "Stacked", "", lines, checkpoints, "stacked")),
        drawn(Panel("beside", "Beside", "", lines, checkpoints)),
    )
    html = write_page(Page("page", "Page", (), panels=panels), tmp_path, within_site({})).read_text()
    assert html.count('class="charts stacked"') == 1
    assert [html.count(f"min-height: {height}px") for height in (220, 320)] == [3, 3]
    sizes = []
    for panel in panels:
        svg = (tmp_path / "files" / f"page-{panel.name}.svg").read_text()
        sizes.append([float(re.search(f'{side}="([0-9.]+)"', svg)[1]) for side in ("width", "height")])
    assert sizes[0][0] < sizes[1][0]
    assert sizes[0][1] > sizes[1][1]


def test_premises_and_effects_have_a_table_each(tmp_path: Path) -> None:
    effect, other, _ = JUDGEMENTS
    premise = replace(other, claim=replace(other.claim, kind="premise", reason="it is so in the paper"))
    page = Page("page", "Page", (), judgements=(premise, effect))
    html = write_page(page, tmp_path, within_site({})).read_text()
    tables = html.split('<table class="claims">')[1:]
    assert ["Effect</th>" in tables[0], "Premise</th>" in tables[1]] == [True, True]
    assert effect.claim.name in tables[0]
    assert other.claim.name not in tables[0]
    assert "it is so in the paper" in tables[1]


@pytest.mark.usefixtures("_nothing_painted")
@pytest.mark.parametrize("begun", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_or_name_of_a_column_is_a_formula_of_a_spreadsheet(begun: str) -> None:
    table = pl.read_csv(as_csv(pl.DataFrame({f"{begun}a": [f"{begun}1"], "b": [f"1{begun}"]})).encode())
    assert table.columns == [f"'{begun}a", "b"]
    assert table.row(0) == (f"'{begun}1", f"1{begun}")


@pytest.mark.usefixtures("_nothing_painted")
def test_a_chart_may_have_many_rows(tmp_path: Path) -> None:
    """A landscape has one row per cell: more than Altair accepts by default."""
    cells = pl.DataFrame({"u": range(5001), "kind": ["cell"] * 5001})
    chart = Dots(Axis("u", "u"), Axis("u", "u"), Colour("kind", "kind"))
    panel = drawn(Panel("many", "Many", "", (chart,), cells))
    html = write_page(Page("page", "Page", (), panels=(panel,)), tmp_path, within_site({})).read_text()
    assert html.count('"u"') < 10
    assert html.count('"x": 5000.0') == 1


def test_a_heading_says_what_the_verdicts_of_its_claims_are() -> None:
    rises, *_ = JUDGEMENTS
    assert message(("rises",), JUDGEMENTS) == "The claim rises <holds>"
    assert message(("falls", "stays"), JUDGEMENTS) == (
        "Not supported: the claim falls <holds>; undecided: the claim stays <holds>"
    )
    assert message(("falls", "rises"), JUDGEMENTS) == (
        "Not supported: the claim falls <holds>; supported: the claim rises <holds>"
    )
    assert message(("rises",), ()) == message((), JUDGEMENTS) == ""
    withdrawn = replace(rises, claim=replace(rises.claim, withdrawn="undecidable by design"))
    assert message(("rises",), (withdrawn,)) == ""
    both = [
        replace(rises, claim=replace(rises.claim, name=name, sentence=f"Within a run, it is {name}."))
        for name in ("flatter", "better")
    ]
    assert message(("flatter", "better"), both) == "Within a run, it is flatter; it is better"
    long = "On at least eight of ten grammars the number of steps scales as"
    alike = [replace(each, claim=replace(each.claim, sentence=f"{long} {each.claim.name}.")) for each in both]
    assert message(("flatter", "better"), alike) == f"{long} flatter; as better"
    of_one_task = [
        replace(each, claim=replace(each.claim, sentence=f"PCFG, task B: it {each.claim.name}."))
        for each in JUDGEMENTS[:2]
    ]
    names = tuple(each.claim.name for each in of_one_task)
    assert (
        message(names, of_one_task) == f"PCFG, task B: supported: it {names[0]}; not supported: it {names[1]}"
    )
