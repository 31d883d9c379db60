"""Every block on every page of the documentation is executed, and its claimed output is checked."""

import ast
import importlib
import importlib.util
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from page_material import MORE, lay_out, material
from page_reader import Reader

from made_once import made_once
from page_blocks import PAGES, ROOT, blocks, links
from smoke_reproduction import SMOKE, smoke_reproduction


def a_language_is_added(reader: Reader) -> None:
    shown = [line for printed in reader.printed for line in printed.splitlines()]
    assert shown[0].startswith("masked_entropy_sentence_averaged: 0.")
    assert "mean_length: 8.0000" in [line.split(" ±")[0] for line in shown]


def flatness_is_measured_and_rescaling_changes_it(reader: Reader) -> None:
    for printed in reader.printed:
        named = "fisher_trace|unit_trace|_sharpness|effective_rank|learning_coef|gradient_no"
        named += "|Estimate|Fisher|longest input"
        assert not printed or re.search(named, printed)
    printed = next(each for each in reader.printed if each.startswith("Fisher"))
    rows = [[float(number) for number in re.findall(r"-?\d+\.\d+", line)] for line in printed.splitlines()]
    assert len(rows) == 3
    for scale, row in zip((1, 2, 4), rows, strict=True):
        total, first, second = row[:3]
        assert total == pytest.approx(first + second, abs=2e-3)
        assert first == pytest.approx(rows[0][1] / scale**2, rel=0.02)
        assert second == pytest.approx(rows[0][2] * scale**2, rel=0.02)
    # Every measure of the rescaled network is larger in the end.
    assert all(last > start for start, last in zip(rows[0], rows[2], strict=True) if start != rows[0][1])
    callbacks = reader.names["trainer"].callback_handler.callbacks
    assert any(type(each).__name__ == "FlatnessCallback" for each in callbacks)


def cost_speed_and_losses_are_told(reader: Reader) -> None:
    cost, share, *told = reader.printed[0].splitlines()
    assert re.fullmatch(r"\d\.\de-\d\d hours, \d+\.\d MB", cost)
    assert re.fullmatch(r"\d+% of this machine's processor \(float32, measured: [\d,.]+ GFLOP/s\)", share)
    assert [line.split(" ", 1)[0] for line in told] == ["10", "10", "20", "20"]


def sgd_goes_on_at_a_measured_rate(reader: Reader) -> None:
    assert re.fullmatch(r"rate 0\.\d+, loss [12]\.\d\d nats\n", reader.printed[0])


def a_distribution_is_printed(reader: Reader) -> None:
    assert any("tensor" in printed for printed in reader.printed)


def checkpoints_are_compared(reader: Reader) -> None:
    _, compared, fine_tuned, told = reader.printed
    assert "tuned/checkpoint-40 against my-bert: same loss to within 1 %" in compared
    assert "better (fine-tuning)" in " ".join(fine_tuned.split())
    found = json.loads(told)
    assert {"pretraining_loss_difference", "fisher_trace_difference", "linear_probe_accuracy_difference"} <= {
        record["quantity"] for record in found["records"]
    }
    assert Path(found["report"]).read_text().startswith("<!DOCTYPE html>")


def a_corpus_is_prepared_and_trained_on(reader: Reader) -> None:
    prepared = next(each for each in reader.printed if "documents" in each)
    assert "200 documents, 0 of them duplicates" in prepared
    told = next(each for each in reader.printed if each.startswith("loss"))
    assert re.fullmatch(r"loss \d\.\d+ ± 0\.\d+ nats over \d+ documents\n", told)


CHECKED: dict[str, Callable[[Reader], None]] = {
    "README.md": a_distribution_is_printed,
    "add-a-language.md": a_language_is_added,
    "compare-checkpoints.md": checkpoints_are_compared,
    "flatness.md": flatness_is_measured_and_rescaling_changes_it,
    "large-runs.md": cost_speed_and_losses_are_told,
    "real-text.md": a_corpus_is_prepared_and_trained_on,
    "update-rules.md": sgd_goes_on_at_a_measured_rate,
}
"""What to check in the output of a page's blocks."""


LONG = (
    *("compare-checkpoints.md", "drift.md", "flatness.md", "lab.md"),
    *("paper-scale.md", "reproducing.md", "run-on-a-cluster.md", "tutorial.md"),
)
"""Pages whose commands take long; what they call is also tested on less elsewhere."""

TAKE_SECONDS = (
    *("add-a-language.md", "add-a-quantity.md", "add-an-update-rule.md", "enlarging.md", "large-runs.md"),
    *("read-results.md", "real-text.md", "sensitivity.md", "update-rules.md"),
)
"""Pages whose commands take less long, with the same said of what they call."""


def how_long(page: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (page.name in LONG) + [pytest.mark.thorough] * (page.name in TAKE_SECONDS)


@pytest.mark.usefixtures("_nothing_painted")
@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem, marks=how_long(page)) for page in PAGES])
def test_everything_it_shows_can_be_done(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if page.name in ("flatness.md", "compare-checkpoints.md") and not importlib.util.find_spec("accelerate"):
        pytest.skip("the page's Trainer needs accelerate")
    done = {}
    command = shlex.join(("isoloss", *SMOKE))
    if f"\n{command}\n" in page.read_text():  # made before `lay_out` shortens it
        folder = smoke_reproduction(tmp_path_factory)
        shutil.copytree(folder / "results", tmp_path / "results")
        done[command] = (folder / "told.json").read_text()
    lay_out(made_once("pages", material, tmp_path_factory), tmp_path, monkeypatch)
    if page.name in MORE:
        MORE[page.name](tmp_path, monkeypatch)
    reader = Reader(capsys, done)
    shown = blocks(page)
    reader.follow(shown)
    assert len(reader.printed) == sum(not each.file and each.language in ("python", "sh") for each in shown)
    if page.name in CHECKED:
        CHECKED[page.name](reader)


def test_programs_that_take_long_import_what_is_there() -> None:
    shown = [block for name in LONG for block in blocks(ROOT / "docs" / name)]
    trees = [ast.parse(each.text) for each in shown if each.language == "python"]
    imports = [each for tree in trees for each in tree.body if isinstance(each, ast.ImportFrom)]
    ours = [
        (each.module, name.name) for each in imports for name in each.names if "isoloss" in str(each.module)
    ]
    missing = [
        (module, wanted)
        for module, wanted in ours
        if not hasattr(importlib.import_module(str(module)), wanted)
        and not importlib.util.find_spec(f"{module}.{wanted}")
    ]
    assert ours
    assert missing == []


def test_every_page_that_is_looked_at_is_there() -> None:
    assert set(CHECKED) <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path = link.split("#")[0]
        target = page.parent / path if path else page
        assert target.is_file(), f"{page.name}: {link}"
