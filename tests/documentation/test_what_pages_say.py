"""What pages say in words, tables and data, beyond the fact that their blocks can be executed."""

import json
import re
from typing import Any

import pytest
import torch

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.experiments.scale import scale_named
from isoloss.languages.hmm import hmm
from isoloss.languages.language import Language
from isoloss.languages.language_file import parse_language
from page_blocks import ROOT, blocks, commands
from planned_suite import planned_suite

README = ROOT / "README.md"


def texts(page: str, language: str) -> list[str]:
    return [block.text for block in blocks(ROOT / "docs" / page) if block.language == language]


def test_the_readme_shows_five_lines_of_each() -> None:
    (python,) = (block.text for block in blocks(README) if block.language == "python")
    assert sum(bool(line) for line in python.splitlines()) == 5
    *_, command_line = (block for block in blocks(README) if block.language == "sh")
    assert sum(line.startswith("isoloss ") for line in commands(command_line)) == 5


def test_the_readme_begins_with_two_commands() -> None:
    assert re.findall(r"^make (\w+)", README.read_text(), flags=re.MULTILINE) == ["reproduce", "test"]


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(README.read_text().splitlines()) < 100


def test_the_factors_between_sizes_are_those_of_the_scales() -> None:
    (sentence,) = re.findall(r"\*\*Sizes\.\*\* ([^*]+)\n-", (ROOT / "docs" / "limits.md").read_text())
    factors = []
    for scale in ("laptop", "night", "paper"):
        shapes = [model.shape for model in scale_named(scale).grammar.architectures]
        widths = [shape.width for shape in shapes]
        factors.append(f"{max(widths) / min(widths):g}")
        assert scale == "paper" or {shape.layers for shape in shapes} == {2}
    laptop, night, paper = factors
    assert " ".join(sentence.split()) == (
        f"Widths span a factor of {laptop} at laptop scale and of {night} at night, with two layers "
        f"throughout; the paper's span a factor of {paper}."
    )


def test_modules_that_pages_name_are_there() -> None:
    for page in (README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for path in re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text()):
            assert (ROOT / path).exists() or (ROOT / "src" / "isoloss" / path).exists(), f"{page}: {path}"


def test_runs_that_pages_ask_for_are_planned_by_these_sources_or_those_of_the_commit_they_name() -> None:
    command = (
        r"(git checkout [0-9a-f]{12} && )?isoloss reproduce ([\w-]+)(?: --scale (\w+))? --runs ([^\s`]+)"
    )
    for page in (README, *(ROOT / "docs").glob("*.md")):
        for earlier, name, scale, run in re.findall(command, page.read_text()):
            (experiment,) = (each for each in planned_suite(scale or "laptop") if each.name == name)
            planned = run in {planned.name for planned in experiment.runs}
            assert planned != bool(earlier), f"{page}: {run}"


def test_pictures_are_pictures() -> None:
    for page in (README, *(ROOT / "docs").glob("*.md")):
        for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / path).stat().st_size > 10_000


def test_every_rule_the_table_names_is_there() -> None:
    table = (ROOT / "docs" / "update-rules.md").read_text().split("## SGD")[0]
    names = re.findall(r"`(\w+)\.(\w+)`", table)
    assert len(names) == 11
    for module, name in names:
        assert hasattr(__import__(f"isoloss.pretraining.{module}", fromlist=[name]), name)


def test_the_hmm_written_by_hand_is_one() -> None:
    (text,) = texts("languages.md", "json")
    language = parse_language(text)
    assert language.vocabulary == tuple(json.loads(text)["words"])
    assert language.maximum_length == 6


def test_the_coin_is_a_language_and_an_hmm_without_noise() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(texts("add-a-language.md", "python")[0], names)
    coin = names["StickyCoin"]()
    assert isinstance(coin, Language)
    stay = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
    same = hmm(coin.vocabulary, torch.tensor([0.5, 0.5]), stay, torch.eye(2), coin.maximum_length)
    tosses = coin.sample(200, torch.Generator().manual_seed(0))
    for distribution in ("masked_log_probabilities", "next_log_probabilities", "log_probability"):
        ours, theirs = getattr(same, distribution)(tosses), getattr(coin, distribution)(tosses)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    stream = torch.Generator().manual_seed(0)
    parts = torch.cat([coin.sample(n, stream).ids for n in (3, 90, 107)])
    assert torch.equal(parts, tosses.ids)
    stays = (tosses.ids[:, 1:] == tosses.ids[:, :-1]).double().mean().item()
    assert stays == pytest.approx(0.9, abs=4 * (0.09 / 1400) ** 0.5)


def test_the_invariant_of_rescaling_holds_to_the_last_digits() -> None:
    """With the signs of one seed, since the scores are the same and so are the weights of the signs."""
    (rescaling,) = (text for text in texts("flatness.md", "python") if "ReluNetwork" in text)
    names: dict[str, Any] = {"__name__": "page", "fisher_trace": fisher_trace}
    exec(rescaling.split("torch.manual_seed(0)")[0], names)
    torch.manual_seed(1)
    network = names["ReluNetwork"]().double()
    batches = [names["next_token_batch"](torch.randint(10, (20, 6)).tolist(), pad=0)]
    found = []
    for scale in (1.0, 3.0):
        with torch.no_grad():
            network.first.weight *= scale
            network.second.weight /= scale
        parts = fisher_trace(network, batches, names["ReadOff"]()).group_estimates
        found.append((parts["first"].value, parts["second"].value))
    assert found[1][0] == pytest.approx(found[0][0] / 9, rel=1e-9)
    assert found[1][1] == pytest.approx(found[0][1] * 9, rel=1e-9)
