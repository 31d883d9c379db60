import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from isoloss.errors import IsolossError
from isoloss.experiments.claims import Claim, judge
from isoloss.report.charts import ACCURACY, KL, LOSS, TRACE, curves, scatter
from isoloss.report.page import Page, Panel, Section, write_page


@pytest.fixture
def checkpoints() -> pl.DataFrame:
    rows = [
        {
            "run": f"width-{width}-seed-{seed}", "width": width, "seed": seed, "step": step,
            "kl": 1 / step, "kl_error": 0.001, "loss": 1.5 + 1 / step, "accuracy": 0.9 + step / 1e5,
            "accuracy_deviation": 0.002, "trace": 100.0 - step / 50, "trace_error": 1.0,
        }
        for width in (16, 32) for seed in (1, 2) for step in (500, 1000, 2000)
    ]  # fmt: skip
    return pl.DataFrame(rows)


@pytest.fixture
def page(checkpoints: pl.DataFrame) -> Page:
    claim = Claim(
        "flatter", "Later is <flatter>.", "8.0 against 19.3", "mean change", "", 0.0, False,
        lambda runs: float(np.mean([run["trace"][-1] - run["trace"][0] for run in runs])),
    )  # fmt: skip
    runs = [run for _, run in checkpoints.group_by("run", maintain_order=True)]
    panels = (
        Panel("loss", "Loss", "Loss and accuracy.", (scatter(checkpoints, LOSS, ACCURACY),), checkpoints),
        Panel(
            "steps", "Steps", "Over steps.",
            (curves(checkpoints, KL, 1000), curves(checkpoints, TRACE, 1000)), checkpoints,
        ),
    )  # fmt: skip
    section = Section("Settings", rows=(("seeds", "1, 2"),), code="isoloss reproduce figure-1")
    return Page(
        "Figure 1", "A summary.", panels, tuple(judge([claim], runs)), (section,), notices=("run x failed",)
    )


def test_the_page_is_self_contained(page: Page, tmp_path: Path) -> None:
    html = write_page(page, tmp_path, "figure-1").read_text()
    assert html.count("window.vegaEmbed = ") + html.count("window.vegaEmbed=") >= 1
    without_script = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"(src|href)=[\"']https?:", without_script)
    # One copy of the charts' JavaScript, however many charts.
    assert 0.8e6 < len(html) < 1.6e6


def test_everything_the_page_has_to_say_is_on_it(page: Page, tmp_path: Path) -> None:
    html = write_page(page, tmp_path, "figure-1").read_text()
    for text in ("Later is &lt;flatter&gt;.", "8.0 against 19.3", "supported", "run x failed", "1, 2"):
        assert text in html
    specifications = re.findall(r'vegaEmbed\("#chart[^"]*", (\{.*?\}), \{actions: false\}\)', html)
    assert len(specifications) == 3
    for specification in specifications:
        assert json.loads(specification.replace("<\\/", "</"))["width"] == "container"


def test_every_panel_has_its_numbers_and_pictures_beside_it(
    page: Page, checkpoints: pl.DataFrame, tmp_path: Path
) -> None:
    write_page(page, tmp_path, "figure-1")
    assert pl.read_csv(tmp_path / "figure-1-loss.csv").equals(checkpoints)
    assert (tmp_path / "figure-1-steps.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure-1-steps.svg").read_text()


def test_a_folder_that_cannot_be_written_is_a_sentence(page: Page, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(IsolossError, match="cannot write"):
        write_page(page, in_the_way, "figure-1")
