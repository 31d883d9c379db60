from math import exp
from pathlib import Path

import pytest
from called import Capture, answer, json_of, output_of, refused

RECURSIVE = "S -> S 'and' S [0.2] | 'yes' [0.5] | 'no' [0.3]\n"


@pytest.fixture
def grammar(tmp_path: Path) -> str:
    path = tmp_path / "my.pcfg"
    path.write_text(RECURSIVE)
    return str(path)


def test_json_has_every_distribution_and_obeys_the_chain_rule(grammar: str, capsys: Capture) -> None:
    distributions = json_of(answer(capsys, "probabilities", grammar, "--sentence", "yes and no", "--json"))
    assert list(distributions) == ["log_probability", "masked", "next", "end"]
    assert exp(distributions["log_probability"]) == pytest.approx(0.2 * 0.5 * 0.3)
    assert [list(row) for row in distributions["masked"]] == [["position", "word", "probabilities"]] * 3
    assert [(row["position"], row["word"]) for row in distributions["masked"]] == [
        (1, "yes"),
        (2, "and"),
        (3, "no"),
    ]
    assert distributions["masked"][0]["probabilities"] == pytest.approx({"and": 0, "yes": 0.625, "no": 0.375})
    assert [list(row) for row in distributions["next"]] == [["position", "probabilities", "end"]] * 3
    product = distributions["end"]
    for row, word in zip(distributions["next"], ["yes", "and", "no"], strict=True):
        assert sum(row["probabilities"].values()) + row["end"] == pytest.approx(1)
        product *= row["probabilities"][word]
    assert product == pytest.approx(exp(distributions["log_probability"]))


def test_the_table_shows_the_likeliest_first(grammar: str, capsys: Capture) -> None:
    shown = output_of(
        answer(capsys, "probabilities", grammar, "--sentence", "yes and no", "--maximum-length", "3")
    )
    assert "yes 0.625, no 0.375" in " ".join(shown.split())
    assert "nats" in shown


def test_a_word_may_be_called_as_the_end_is(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "my.pcfg"
    path.write_text("S -> 'e' 'f' [0.5] | '(end)' 'f' [0.5]\n")
    shown = output_of(answer(capsys, "probabilities", str(path), "--sentence", "(end) f"))
    assert shown.count("(end) 0.500") == 2, "masked and next"


def test_a_probability_that_cannot_be_computed_is_no_nan(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "my.pcfg"
    path.write_text(
        "S -> X S Z [1e-50] | Y S Z [0.5] | 'e' [0.5]\nX -> 'x' [1]\nY -> 'y' [1]\nZ -> 'z' [1]\n"
    )
    sentence = " ".join("x" * 12 + "y" * 12 + "e" + "z" * 24)
    asked = ("--sentence", sentence, "--maximum-length", "49", "--json")
    said = refused(capsys, "probabilities", str(path), *asked)
    assert "; check its words, and that the language's probabilities are neither" in said


def test_the_table_shows_the_sentences_own_words_however_unlikely(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "my.pcfg"
    path.write_text(
        "S -> 'a' [0.4] | 'b' [0.2] | 'c' [0.2] | 'd' [0.1] | 'e' [0.0999] | 'f' [9e-5] | 'g' [1e-5]\n"
    )
    shown = output_of(answer(capsys, "probabilities", str(path), "--sentence", "g"))
    assert shown.count("a 0.400, b 0.200, c 0.200, d 0.100, e 0.100, g 1.0e-05, 1 more") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sentence", "yes adn no"], "word 2, 'adn', is not in the vocabulary; did you mean 'and'?"),
        (["--sentence", "yes no"], "the grammar does not derive the sentence"),
        (["--sentence", "  "], "the sentence is empty"),
        (
            ["--sentence", "yes and no and no", "--maximum-length", "3"],
            "has 5 words, the longest of the language 3",
        ),
        (["--sentence", "yes", "--maximum-length", "0"], "give at least 1"),
    ],
)
def test_mistakes_are_one_sentence(grammar: str, arguments: list[str], message: str, capsys: Capture) -> None:
    assert message in refused(capsys, "probabilities", grammar, *arguments)
