import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from shown_results import (
    FAILED,
    JUDGEMENTS,
    LANGUAGE,
    experiment_result,
    lay_out_run,
    panels,
    statement,
    words_alone,
)

from isoloss.errors import IsolossError
from isoloss.experiments.claims import Judgement
from isoloss.experiments.language_portrait import language_portrait
from isoloss.report.site import Site, write_site
from isoloss.report.templates import WIDTH, interval_picture


class Reader(HTMLParser):
    """What a page refers to, the names in it that can be referred to, and all its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.places: list[str] = []
        self.names: set[str] = set()
        self.pictures: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.places += [p for n in ("href", "src") if (p := attributes.get(n)) and not p.startswith("data:")]
        self.names |= {attributes["id"] or ""} if "id" in attributes else set()
        if tag == "img" or attributes.get("role") == "img":
            self.pictures.append(attributes)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two figures that share runs, one of which failed in the second, a table, and a theorem."""
    output = tmp_path_factory.mktemp("results")
    first, second = experiment_result("figure-1", (16,)), experiment_result("figure-8", (16, 32), FAILED)
    for planned in first.experiment.runs:
        lay_out_run(planned, output)
    shown = Site(
        scale="laptop",
        output=output,
        results=(first, second, words_alone("table-3")),
        portraits={LANGUAGE.digest: language_portrait(LANGUAGE.ready, "by <hand>", 20)},
        again=lambda experiment, run: f"isoloss reproduce {experiment.name} --runs {run.name}",
        statements=(statement(),),
        notices=("page of language x failed: no room",),
    )
    assert write_site(shown, output / "site") == output / "site" / "index.html"
    return output / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Reader]:
    return {path.stem: Reader(path.read_text()) for path in site.glob("*.html")}


def test_every_reference_leads_somewhere_in_the_site_and_every_page_is_reached(
    site: Path, pages: dict[str, Reader]
) -> None:
    language = f"language-{LANGUAGE.digest[:8]}"
    assert set(pages) == {"index", "figure-1", "figure-8", "table-3", "theory-theorem-3.3", language}
    for name, page in pages.items():
        for place in page.places:
            file, _, part = place.partition("#")
            target = (site / (file or f"{name}.html")).resolve()
            assert target.is_relative_to(site), place
            assert target.is_file(), place
            assert not part or part in page.names
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
    assert html.count("vegaEmbed(") == 3


def test_the_overview_has_every_claim_and_counts_the_verdicts(site: Path, pages: dict[str, Reader]) -> None:
    html, text = (site / "index.html").read_text(), pages["index"].text
    counts = re.findall(r"<li><b>(\d+)</b>\s*<span class=\"verdict ([a-z-]+)\">", html)
    of_claims, of_findings = ({verdict: n for n, verdict in part} for part in (counts[:3], counts[3:]))
    assert of_claims == {"supported": "2", "not-supported": "2", "inconclusive": "2"}
    assert of_findings == {"supported": "1", "not-supported": "1", "inconclusive": "0"}
    assert text.count("8.0 against 19.3 (Table 1)") == 6
    for judged in JUDGEMENTS:
        assert text.count(f"The claim {judged.claim.name} <holds>.") == 2
        assert text.count(f"{judged.effect:.3g} doublings") == 2
    assert text.count("0.9 to 1.6") == text.count("-0.5 to -0.125") == 2
    assert "nan" not in text
    assert "3 figures and tables from 4 pre-training runs" in text
    assert "Figure 8: figure-8 width-16-seed-1 failed: its <process> was killed" in text
    assert "page of language x failed: no room" in text
    assert "√(4/T)" in text


def test_a_figures_page_says_what_was_done_and_how_to_do_it_again(
    site: Path, pages: dict[str, Reader]
) -> None:
    text = pages["figure-1"].text
    said = ("What figure-1 shows", "The paper shows one thing.", "Here is another.", "3.204 to 3.208 nats")
    more = ("4,000 of 4 <fresh> sentences", "900; they chose the scale", "complete", "One bar is one error.")
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
    assert [claim["effect"] for claim in content["claims"]] == [1.2345, -0.25, 0.4]
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


def test_a_folder_that_cannot_be_written_is_a_sentence(site: Path, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    nothing = Site("smoke", tmp_path, (), {}, again=lambda experiment, run: "")
    with pytest.raises(IsolossError, match="cannot write"):
        write_site(nothing, in_the_way / "site")


def test_an_interval_is_drawn_on_its_side_of_the_threshold() -> None:
    supported, contradicted, open_ended = JUDGEMENTS

    def places(judged: Judgement) -> list[float]:
        picture = str(interval_picture(judged))
        names = ('class="threshold" x1="', 'y2="18"/><line x1="', '" x2="', 'circle cx="')
        return [float(re.findall(f'{name}([0-9.]+)"', picture)[-1]) for name in names]

    threshold, low, high, effect = places(supported)
    assert 0 < threshold < low < effect < high < WIDTH
    threshold, low, high, effect = places(contradicted)
    assert 0 < low < effect < high < threshold < WIDTH
    assert interval_picture(open_ended) == ""
