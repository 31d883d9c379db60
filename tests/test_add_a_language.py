"""The guide's code is run, and its coin is compared with the same language built as an HMM."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from isoloss.languages.hmm import hmm
from isoloss.languages.language import Language

GUIDE = (Path(__file__).parent.parent / "docs" / "add-a-language.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)


def run(blocks: list[str]) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(block, names)
    return names


def test_everything_the_guide_shows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(BLOCKS) == 5
    run(BLOCKS)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("masked_entropy_sentence_averaged: 0.")
    assert shown[-1].startswith("mean_length: 8.0000")


def test_the_coin_is_a_language_and_an_hmm_without_noise() -> None:
    coin = run(BLOCKS[:1])["StickyCoin"]()
    assert isinstance(coin, Language)
    stay = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
    same = hmm(coin.vocabulary, torch.tensor([0.5, 0.5]), stay, torch.eye(2), coin.maximum_length)
    tosses = coin.sample(200, torch.Generator().manual_seed(0))
    for law in ("masked_log_law", "next_log_law", "log_probability"):
        ours, theirs = getattr(same, law)(tosses), getattr(coin, law)(tosses)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    stream = torch.Generator().manual_seed(0)
    parts = torch.cat([coin.sample(n, stream).ids for n in (3, 90, 107)])
    assert torch.equal(parts, tosses.ids)
    stays = (tosses.ids[:, 1:] == tosses.ids[:, :-1]).double().mean().item()
    assert stays == pytest.approx(0.9, abs=4 * (0.09 / 1400) ** 0.5)
