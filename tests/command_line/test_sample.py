from pathlib import Path

import pytest
from called import Capture, answer, json_of, output_of, refused
from reader_that_leaves import left_by_its_reader

from isoloss.languages.pcfg import read_pcfg


def test_sentences_one_a_line(grammar: str, capsys: Capture) -> None:
    lines = output_of(answer(capsys, "sample", grammar, "--sentences", "20", "--seed", "5")).splitlines()
    assert len(lines) == 20
    assert all(line.split()[-1] == "b" and set(line.split()[:-1]) <= {"a"} for line in lines)
    assert (
        output_of(answer(capsys, "sample", grammar, "--sentences", "5", "--seed", "5")).splitlines()
        == lines[:5]
    )


def test_trees_of_the_same_sentences_and_json(grammar: str, capsys: Capture) -> None:
    sentences = json_of(answer(capsys, "sample", grammar, "--sentences", "4", "--json"))["sentences"]
    trees = json_of(answer(capsys, "sample", grammar, "--sentences", "4", "--trees", "--json"))["sentences"]
    for sentence, tree in zip(sentences, trees, strict=True):
        deep = sentence.count("a")
        assert tree == "(S a " * deep + "(S (B b))" + ")" * deep


def test_a_maximum_length_cuts(grammar: str, capsys: Capture) -> None:
    shown = output_of(answer(capsys, "sample", grammar, "--sentences", "50", "--maximum-length", "2"))
    assert set(shown.splitlines()) == {"b", "a b"}
    assert read_pcfg(Path(grammar), 2).maximum_length == 2


@pytest.mark.parametrize("n", ["0", "-5"])
def test_no_sentences(grammar: str, n: str, capsys: Capture) -> None:
    assert "draw at least 1" in refused(capsys, "sample", grammar, "--sentences", n)


def test_a_reader_that_has_enough_is_no_error(grammar: str, tmp_path: Path) -> None:
    arguments = ("sample", grammar, "--sentences", "200000")
    assert left_by_its_reader(arguments, tmp_path, lines=1) == (141, "")
