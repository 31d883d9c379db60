"""The site's sources besides the pages: claims, docstrings as plain text, and lists of pages."""

import re
from pathlib import Path

import polars as pl
import pytest

from isoloss.experiments.design import builtin_designs
from page_blocks import ROOT, links
from planned_suite import planned_suite


def test_no_claim_has_changed_unseen() -> None:
    """If one was changed on purpose, `make claims` rewrites the page, and the change is stated in it."""
    from claims_page import PAGE, claims_page

    laptop, night = planned_suite("laptop"), planned_suite("night")
    page = PAGE.read_text()
    assert page == claims_page(laptop, night)
    claims = [claim for experiment in (*laptop, *night) for claim in experiment.claims]
    assert len(claims) > 50
    for claim in claims:
        for said in (claim.sentence, claim.measure, claim.paper, f"{claim.claimed}"):
            assert said in page


def test_the_page_of_architectures_is_as_its_script_writes_it() -> None:
    import transformers
    from architectures_page import PAGE, architectures_page, table_of
    from transformers.models.auto import modeling_auto

    page = PAGE.read_text()
    version = re.search(r"`transformers` ([\d.]+)", page)
    assert version is not None
    table = table_of(page)
    assert page == architectures_page(version[1], table)
    assert {row.answer for rows in table.values() for row in rows.values()} <= {
        "measured",
        "refused",
        "skipped",
    }
    if version[1] == transformers.__version__:
        assert list(table["masked"]) == list(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
        assert list(table["causal"]) == list(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


@pytest.mark.usefixtures("_planned_once")
def test_findings_that_are_kept_are_those_of_the_tables() -> None:
    """Of the experiment whose findings take no time; those on sets of seeds are judged anew when shipped."""
    from results_shipped import read_shipped

    findings = builtin_designs()["drift-limits"].findings
    assert findings is not None
    kept = [each for each in read_shipped() if each["result"]["name"] == "drift-limits"]
    assert [each["scale"] for each in kept] == ["laptop", "night"]
    for each in kept:
        table = pl.DataFrame(each["result"]["checkpoints"], infer_schema_length=None)
        assert tuple(each["findings"]) == findings(table)


@pytest.mark.thorough
@pytest.mark.usefixtures("_planned_once")
def test_every_number_that_is_shown_is_one_of_the_shipped_results() -> None:
    """After another run, `make results` rewrites the pages."""
    from results_of_drift import DRIFT_PAGE, with_drift
    from results_page import PAGE, results_page
    from results_quoted import README, with_results
    from results_shipped import read_shipped

    kept, page = read_shipped(), PAGE.read_text()
    assert page == results_page(kept)
    assert README.read_text() == with_results(README.read_text(), kept)
    assert DRIFT_PAGE.read_text() == with_drift(DRIFT_PAGE.read_text(), kept)
    lines = page.splitlines()
    for claim in (claim for each in kept for claim in each["result"]["claims"]):
        said = claim["sentence"].replace("|", r"\|")
        rows = [line for line in lines if line.startswith(f"| {said}<br>")]
        if claim.get("withdrawn"):
            assert claim["withdrawn"] in page
        else:
            assert any(f"| **{claim['verdict']}**<br>" in row for row in rows), claim["name"]


@pytest.mark.thorough
def test_the_runs_on_a_card_are_told_as_they_are_kept() -> None:
    """After others have been finished there, `make results` rewrites the page."""
    from results_on_a_card import PAPER_SCALE, with_runs_on_a_card

    page = PAPER_SCALE.read_text()
    assert page == with_runs_on_a_card(page)


def test_the_page_of_the_papers_scale_tells_its_settings() -> None:
    from isoloss.experiments.scale import scale_named
    from isoloss.experiments.suite.figure_5 import AT

    scale, compared = scale_named("paper"), AT["paper"]
    grammar, text, adversary = scale.grammar, scale.real_text.followed, scale.compared.adversary
    corpora = [runs.language.request.source for runs in (text, scale.real_text.compared)]
    (revision,) = {each.revision for each in corpora}
    page = (ROOT / "docs" / "paper-scale.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line[:2] == "| "]
    told = {(cells[1], cells[3]) for cells in rows}
    for models in (grammar.architectures, compared.architectures):
        shapes = [model.shape for model in models]
        assert ("width × layers", ", ".join(f"{each.width} × {each.layers}" for each in shapes)) in told
    assert told >= {
        ("batch", f"{grammar.batch_size:,}"),
        ("steps", f"{grammar.steps:,}, saturated from {grammar.saturated_from:,}"),
        ("AdamW's rate", f"{grammar.update_rule.learning_rate:g}, constant"),
        ("warm-up", f"{grammar.update_rule.warm_up_steps:,} steps"),
        ("runs a size", f"{len(scale.seeds)}"),
        ("D1 and D2", f"{adversary.examples} each, fresh at every step"),
        ("contexts of the trace", f"{scale.sizes.trace_sentences:,} sentences, a mask each"),
        ("AdamW's rate, epochs", f"{scale.sizes.probe.learning_rate:g}, {scale.sizes.probe.epochs}"),
        ("corpora", f"{', '.join(each.name for each in corpora)} at {revision} of a hub"),
        ("steps on OpenWebText", f"{text.steps:,}"),
        ("masked", f"{text.objective.share:.0%}"),
    }


@pytest.mark.parametrize(
    ("docstring", "marked_up"),
    [
        ("||x||_2 * a_ and *args", r"\|\|x\|\|\_2 \* a\_ and \*args"),
        ("See `Language.sample`s.", "See :py:obj:`Language.sample`\\ s."),
        ("`n + 1` of `|x|`, over\n`two\nlines`", "``n + 1`` of ``|x|``, over\n``two lines``"),
        ("A. Not an item.", r"\A. Not an item."),
        (">>> 1 * 2\n2", ">>> 1 * 2\n2"),
        ("Sum:\n    a * b_\nwith `b_`.", "Sum:\n\n::\n\n    a * b_\n\nwith :py:obj:`b_`."),
        ("Args:\n    n: How *many*,\n        at least.", ":param n: How \\*many\\*,\n    at least."),
    ],
)
def test_docstrings_are_plain_text(docstring: str, marked_up: str) -> None:
    from plain_docstrings import restructured

    assert "\n".join(restructured(docstring.splitlines())).rstrip() == marked_up


def test_every_module_has_a_page_and_every_page_is_listed() -> None:
    from reference_pages import PACKAGE, reference_pages

    pages = reference_pages()
    paths = [path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py")]
    modules = {".".join(path.parts) for path in paths}
    named = {module.removesuffix(".__init__") for module in modules} - {"isoloss"}
    assert named == set(pages) - {"index"}
    for name in named:
        assert sum(f"<{name}>\n" in page for page in pages.values()) == 1, name


def test_links_lead_from_the_home_to_every_page() -> None:
    """Also where no site is built, which has lists of them."""
    known: set[Path] = set()
    waiting = {ROOT / "docs" / "index.md"}
    while waiting:
        page = waiting.pop()
        known.add(page)
        found = {(page.parent / link.split("#")[0]).resolve() for link in links(page)}
        waiting |= {path for path in found if path.suffix == ".md" and path.is_file()} - known
    assert set((ROOT / "docs").glob("*.md")) <= known


def test_every_page_is_a_guide_or_has_a_place() -> None:
    from guides_page import WITH_A_PLACE, guides_page

    folder = ROOT / "docs"
    index, guides = (folder / "index.md").read_text(), guides_page(folder)
    for path in folder.glob("*.md"):
        placed = path.stem == "index" or re.search(rf"^([\w ]+ <)?{path.stem}>?$", index, flags=re.MULTILINE)
        assert bool(placed) == (path.stem in WITH_A_PLACE)
        assert bool(placed) != (f"   {path.stem}\n" in guides)
