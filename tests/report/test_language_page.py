import json
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch

from isoloss.experiments.language_description import describe_language
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.report.language_page import (
    OTHER,
    REST,
    TRUE,
    distribution_bars,
    distribution_table,
    labels,
    language_page,
    reader,
    write_language_page,
)

WORDS = [f"w{number}" for number in range(20)]


def test_the_bars_are_the_likeliest_words_the_true_one_and_the_rest() -> None:
    distribution = torch.arange(20, 0, -1, dtype=torch.float64) / 210
    table = distribution_table(distribution, WORDS, true=17)
    assert table["word"].to_list() == [*WORDS[:12], "w17", "all 7 others"]
    assert table["kind"].to_list() == [OTHER] * 12 + [TRUE, REST]
    assert table["probability"].sum() == pytest.approx(1)
    assert table["probability"][12] == pytest.approx(3 / 210)
    among = distribution_table(distribution, WORDS, true=3)
    assert among["kind"].to_list() == [OTHER] * 3 + [TRUE] + [OTHER] * 8 + [REST]
    assert among["word"].to_list()[-1] == "all 8 others"


def test_a_small_vocabulary_is_shown_whole() -> None:
    table = distribution_table(torch.tensor([0.0, 1.0]).double(), ["<", ">"], true=1)
    assert table.rows() == [(">", 1.0, TRUE), ("<", 0.0, OTHER)]
    drawn = distribution_bars(table).to_dict()
    assert drawn["layer"][0]["encoding"]["color"]["scale"]["domain"] == [TRUE, OTHER]
    assert drawn["layer"][0]["encoding"]["y"]["sort"] is None


def test_pieces_are_read_as_text_where_they_are_a_byte_level_tokenizers() -> None:
    pieces = ["ĠHe", "'s", "Ġr", "an", ",", "Ġ", "âĢ", "ľ"]
    assert reader(pieces)(pieces) == " He's ran, “"
    assert reader(pieces)(["âĢ", "ľ"]) == "“"
    assert reader(["w1", "w2"])(["w2", "w1"]) == "w2 w1"
    # Half a character cannot be decoded, and labels stay distinct.
    assert labels(["Ġa", "a", "âĢ"]) == ["␣a", "a", "âĢ"]
    assert labels(["Ġa", "␣a"]) == ["Ġa", "␣a"]


def test_the_page_says_all_and_loads_nothing(tmp_path: Path) -> None:
    language = random_hmm(words=20, states=4, blocks=1, length=5, seed=0)
    description = describe_language(language, "my <file>", sentences=40)
    page = write_language_page(description, tmp_path, "mine")
    html = page.read_text()
    assert page == tmp_path / "mine.html"
    assert "Hidden Markov model: my &lt;file&gt;" in html
    assert f"<mark>{description.sentences[0][2]}</mark>" in html
    for words in description.sentences[1:]:
        assert " ".join(words) in html
    for text in ("state-5", "4 classes", language.digest, "nats (n = 40)", "sentences per second"):
        assert text in html
    assert re.search(
        r"room 0\.\d{3,} ± 0\.\d{3,}; price [\d.e-]+ ± [\d.e-]+ nats, given the two neighbouring words", html
    )
    without_script = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"(src|href)=[\"']https?:", without_script)
    # One copy of the charts' JavaScript, and pictures.
    assert 0.8e6 < len(html) < 2.4e6
    assert [file.name for file in tmp_path.iterdir()] == ["mine.html"]
    charts = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert [len(json.loads(chart)["layer"]) for chart in charts] == [2, 2]
    offered = [b64decode(each) for each in re.findall(r'href="data:text/csv;base64,([^"]*)"', html)]
    masked, following = map(pl.read_csv, offered)
    assert masked["probability"].sum() == pytest.approx(1)
    assert masked.filter(pl.col("kind") == TRUE)["word"].to_list() == [description.sentences[0][2]]
    assert following["probability"].sum() == pytest.approx(1)


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_prices_are_exact_or_none(tmp_path: Path) -> None:
    halves = pcfg(laptop_grammar(5))
    html = write_language_page(describe_language(halves, "g", 20), tmp_path, "g").read_text()
    assert "given the aligned window of 4 words" in html
    small = pcfg(
        parse_grammar("S -> X [0.5] | Y [0.5]\nX -> A A [1]\nY -> B B [1]\nA -> 'a' [1]\nB -> 'b' [1]")
    )
    html = write_language_page(describe_language(small, "s", 20), tmp_path, "s").read_text()
    assert "room 0 ± 0; price 0.6931 nats exactly, given the aligned window of 1 word" in html
    cut = pcfg(parse_grammar("S -> A S [0.5] | A [0.5]\nA -> 'a' [0.5] | 'b' [0.5]"), 4)
    html = write_language_page(describe_language(cut, "c", 20), tmp_path, "c").read_text()
    assert "no price defined" in html


def test_the_page_tells_the_place_and_the_speed_and_no_word_is_markup(tmp_path: Path) -> None:
    language = pcfg(parse_grammar("S -> A A [1]\nA -> '<b>' [0.5] | '<i>' [0.5]"))
    description = describe_language(language, "g", 20)
    for sentences_a_second, said in (
        (1250.0, "1,250 sentences per second, all positions (timed on 20 sentences)"),
        (0.25, "about 4.0 s per sentence, all positions (from one timed pass)"),
    ):
        speed = replace(description.speed, value=sentences_a_second, n=20)
        page = language_page(replace(description, speed=speed), "g")
        assert (page.sections[-1].rows[0]) == ("masked distributions", said)
    assert "<b>" not in page.opening
    assert "&lt;b&gt;" in page.opening
    place = 1 + description.word.position
    assert all(panel.caption.startswith(f"Word {place} of the first sentence") for panel in page.panels)
    marked = str(page.opening).partition("</li>")[0].split("<mark>")[0]
    assert marked.count("&lt;") == description.word.position


@pytest.mark.usefixtures("_nothing_painted")
def test_a_grammars_page_has_the_derivation(tmp_path: Path) -> None:
    language = pcfg(parse_grammar("S -> A A [1]\nA -> 'a' [0.5] | 'b' [0.5]"))
    html = write_language_page(describe_language(language, "g", 20), tmp_path, "g").read_text()
    assert 'aria-label="derivation tree"' in html
    assert "<h2>Tasks</h2>" not in html
