import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.experiments.claims import Question
from isoloss.report.frame import Link, write_assets
from isoloss.report.overview import Card, answers, decided_by_family, gallery
from isoloss.report.site import Site, write_site
from made_once import made_once
from pages_read import Reader, pages_of, places_that_lead_nowhere
from shown_results import JUDGEMENTS, LANGUAGE, experiment_result, panels, written_site
from unpainted import paint_nothing

MATERIAL = Question.MATERIAL.value


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patched:
        paint_nothing(patched)  # what other tests paint
        return made_once("written-site", written_site, tmp_path_factory) / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Reader]:
    return pages_of(site)


def test_every_reference_leads_somewhere_in_the_site_and_every_page_is_reached(
    site: Path, pages: dict[str, Reader]
) -> None:
    language = f"language-{LANGUAGE.digest[:8]}"
    others = {"index", "paper-and-here", "figure-8", "table-3", "theory-theorem-3.3", language}
    assert set(pages) == {"figure-1", *others}
    assert places_that_lead_nowhere(site, pages) == []
    for page in (pages["index"], pages["figure-1"]):
        assert {f"{name}.html" for name in pages} - {f"{language}.html"} <= set(page.places)
    assert f"{language}.html" in pages["index"].places
    assert f"{language}.html" in pages["figure-1"].places


def test_style_and_script_are_there_once(site: Path, pages: dict[str, Reader]) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*.html")) < 1e6
    assert (site / "assets" / "charts.js").stat().st_size > 5e5
    for name, page in pages.items():
        assert "assets/style.css" in page.places
        has_charts = bool(page.pictures) and name != "index"
        assert ("assets/charts.js" in page.places) == has_charts
    html = (site / "figure-1.html").read_text()
    assert html.count('<script type="application/json">') == 3


def test_the_overview_has_every_claim_by_question_and_counts_the_verdicts(
    site: Path, pages: dict[str, Reader]
) -> None:
    html, text = (site / "index.html").read_text(), pages["index"].text
    board = html.split('<table class="board">')[1].split("</table>")[0]
    rows = re.findall(r'<a href="#(\w+)">.*?</tr>', board, flags=re.DOTALL)
    assert rows == ["larger", "flatness", "theory"]
    counts = [re.findall(r'<td class="number">(\d+)</td>', row) for row in board.split("</tr>")[1:4]]
    assert counts == [["1"] * 3, ["1"] * 3, ["1", "1", "0"]]
    assert text.count("The paper: 8.0 against 19.3 (Table 1).") == 6
    for judged in JUDGEMENTS:
        assert text.count(f"The claim {judged.claim.name} <holds>.") == 2
    assert text.count("Measured 1.25 (0.906 to 1.59) doublings, claimed above 0.5.") == 2
    assert text.count("Measured 0.4 doublings, claimed above 0.5; 6 seeds would decide it.") == 2
    assert "nan" not in text
    assert "3 experiments with 4 pre-training runs" in text
    assert "Figure 8: figure-8 width-16-seed-1 failed: its <process> was killed" in text
    assert "page of language x failed: no room" in text


def test_claims_that_nobody_registered_are_said_to_be_so(pages: dict[str, Reader]) -> None:
    registered, own = " ".join(pages["figure-1"].text.split()), " ".join(pages["figure-8"].text.split())
    assert "claimed to lie, both fixed before these runs." in registered
    assert "900; they served to choose the settings" in registered
    assert "claimed to lie, and the claims on this page are not registered anywhere." in own
    assert "before these runs" not in own
    assert "pilot seeds" not in own
    assert "the claims of Figure 8 are not registered anywhere" in " ".join(pages["index"].text.split())


def test_a_claim_may_answer_another_question_than_its_experiment() -> None:
    card = Card(Link("drift", "Drift", "Drift?"), question=Question.FLATNESS, judgements=JUDGEMENTS[:1])
    other = replace(JUDGEMENTS[1].claim, answers=Question.LATER)
    both = replace(card, judgements=(*card.judgements, replace(JUDGEMENTS[1], claim=other)))
    found = {
        answer.question: [judged.claim.name for judged, _ in answer.claims] for answer in answers([both], [])
    }
    assert found == {Question.LATER: ["falls"], Question.FLATNESS: ["rises"]}


def test_the_finest_pictures_come_first_in_their_order() -> None:
    cards = [
        Card(Link(name, name), picture, place=place)
        for name, picture, place in (
            ("plain", "a.svg", None),
            ("second", "b.svg", 2),
            ("none", "", 0),
            ("first", "c.svg", 1),
        )
    ]
    assert [card.link.name for card in gallery(cards)] == ["first", "second"]
    assert [card.link.name for card in gallery(cards[::2])] == ["plain"]


def test_effects_are_decided_whichever_way() -> None:
    """One holds, one does not, and one is open."""
    said = decided_by_family([Card(Link("a", "a"), judgements=JUDGEMENTS)])
    assert said.startswith("Of 3 effects, 2 are decided by Holm's procedure within each experiment")


def test_links_are_grouped_by_question_on_every_page(site: Path) -> None:
    for path in site.glob("*.html"):
        menu = path.read_text().split("<nav")[1].split("</nav>")[0]
        groups = re.findall(r'<p id="group-\d">(.*?)</p>', menu)
        assert groups == ["Is larger better?", "Is flatter better?", "Does the theory hold?", MATERIAL]


@pytest.mark.usefixtures("_nothing_painted")
def test_at_smoke_scale_nothing_is_judged(tmp_path: Path) -> None:
    result = experiment_result("figure-1", (16,))
    plain = replace(result, experiment=replace(result.experiment, claims=()), judgements=())
    shown = Site("smoke", tmp_path, (plain,), again=lambda experiment, run: "")
    write_site(shown, tmp_path / "site")
    for name in ("index", "figure-1"):
        html = (tmp_path / "site" / f"{name}.html").read_text()
        assert "nothing is judged" in html
        assert "inconclusive</span>" not in html


def test_the_papers_numbers_stand_beside_ours(pages: dict[str, Reader]) -> None:
    text = pages["paper-and-here"].text
    for said in ("the paper: losses", "3.204 to 3.208 nats", "here: exact pre-training loss", "a spread of"):
        assert text.count(said) >= 2
    assert text.count("Measured 1.25 (0.906 to 1.59) doublings") == 2


def test_claims_are_offered_as_tables_of_latex(site: Path) -> None:
    both = (site / "files" / "claims.tex").read_text()
    one = (site / "files" / "figure-1-claims.tex").read_text()
    assert one in both
    assert both.isascii()
    rows = [line for line in one.splitlines() if line.endswith(r"\\")]
    assert [line.count("&") for line in rows] == [4] * (1 + len(JUDGEMENTS))
    assert (
        r"The claim rises $<$holds$>$. & 8.0 against 19.3 (Table 1) & 1.25 (0.906 to 1.59) doublings" in one
    )
    for opened in re.findall(r"\\begin\{([a-z*]+)\}", both):
        assert both.count(f"\\begin{{{opened}}}") == both.count(f"\\end{{{opened}}}")
    assert one.replace(r"\{", "").replace(r"\}", "").count("{") == one.count("}")


def test_a_damaged_script_is_written_again(tmp_path: Path) -> None:
    write_assets(tmp_path)
    script = tmp_path / "assets" / "charts.js"
    whole, before = script.read_bytes(), script.stat().st_mtime_ns
    write_assets(tmp_path)
    assert script.stat().st_mtime_ns == before
    for place in (5, len(whole) // 2, len(whole) - 1):
        script.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        write_assets(tmp_path)
        assert script.read_bytes() == whole


def test_a_figures_page_says_what_was_done_and_how_to_do_it_again(
    site: Path, pages: dict[str, Reader]
) -> None:
    text = pages["figure-1"].text
    said = ("What figure-1 shows", "The paper shows one thing.", "Here is another.", "3.204 to 3.208 nats")
    more = (
        "4,000 of 4 <fresh> sentences",
        "900; they served to choose the settings",
        "complete",
        "One bar is one error.",
    )
    for sentence in (*said, *more, "isoloss reproduce figure-1 --runs width-16-seed-1"):
        assert sentence in text
    assert "runs are complete" not in text
    assert "2 of 4 runs are complete" in pages["figure-8"].text
    assert "failed: its <process> was killed" in pages["figure-8"].text
    run = experiment_result("figure-1", (16,)).experiment.runs[0]
    folder = f"runs/{run.digest[:16]}"
    assert f"{folder}/specification.json" in pages["figure-1"].places
    assert len((site / folder / "records.jsonl").read_text().splitlines()) == 3


def test_numbers_on_a_page_are_those_of_its_files(site: Path, pages: dict[str, Reader]) -> None:
    result = experiment_result("figure-1", (16,))
    content = json.loads((site / "files" / "figure-1.json").read_text())
    assert content["checkpoints"] == result.table.to_dicts()
    assert [claim["effect"] for claim in content["claims"]] == [1.25, -0.25, 0.4]
    assert content["claims"][2]["low"] is None
    findings = json.loads((site / "files" / "theory-theorem-3.3.json").read_text())["findings"]
    assert [finding["measured"] for finding in findings] == [0.51, 0.2]
    for panel in panels(result.table):
        assert (site / "files" / f"figure-1-{panel.name}.csv").read_text() == panel.data.write_csv()
    for row in content["checkpoints"]:
        assert f"{row['loss']:.4f} ± 0.0010" in pages["figure-1"].text


def test_an_experiment_without_runs_has_its_panels(pages: dict[str, Reader]) -> None:
    assert "As printed." in pages["table-3"].text
    assert "Nothing has been measured" not in pages["table-3"].text
    assert "Rerun" not in pages["table-3"].text


def test_a_statements_page_has_findings_predictions_and_corrections(pages: dict[str, Reader]) -> None:
    text = pages["theory-theorem-3.3"].text
    for said in (
        "equal to 0.5 1/s",
        "0.5100 ± 0.0040",
        "at least 1",
        "✗ not supported",
        "lacks <factors>",
        "900",
    ):
        assert said in text


def test_every_picture_has_words_for_those_who_do_not_see_it(pages: dict[str, Reader]) -> None:
    charts = [picture for page in pages.values() for picture in page.pictures if "role" in picture]
    assert len(charts) == 3 + 3 + 1 + 2
    assert all(len(chart["aria-label"] or "") > 10 for chart in charts)
    assert all(
        "alt" in picture for page in pages.values() for picture in page.pictures if "role" not in picture
    )
