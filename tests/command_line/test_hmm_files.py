"""Every command that takes a grammar also takes an HMM file; the content determines which it is."""

import json
from math import exp
from pathlib import Path

import pytest
from called import Capture, answer, json_of, output_of, refused

HMM = {
    "words": ["sun", "rain"],
    "initial": [0.5, 0.5],
    "transition": [[0.75, 0.25], [0.25, 0.75]],
    "emission": [[1.0, 0.0], [0.0, 1.0]],
    "length": 3,
}


@pytest.fixture
def weather(tmp_path: Path) -> str:
    path = tmp_path / "weather"
    path.write_text("\n  " + json.dumps(HMM))
    return str(path)


def test_distribution_adds_the_posteriors(weather: str, capsys: Capture) -> None:
    asked = ("probabilities", weather, "--sentence", "sun sun rain")
    distributions = json_of(answer(capsys, *asked, "--json"))
    assert list(distributions) == ["log_probability", "masked", "next", "end", "posteriors"]
    assert exp(distributions["log_probability"]) == pytest.approx(0.5 * 0.75 * 0.25)
    assert distributions["posteriors"] == [[1, 0], [1, 0], [0, 1]]
    assert distributions["masked"][1] == {
        "position": 2,
        "word": "sun",
        "probabilities": pytest.approx({"sun": 0.5, "rain": 0.5}),
    }
    assert distributions["next"][1] == {
        "position": 2,
        "probabilities": pytest.approx({"sun": 0.75, "rain": 0.25}),
        "end": 0,
    }
    assert distributions["end"] == 1
    assert "sun 0.750, rain 0.250" in " ".join(output_of(answer(capsys, *asked)).split())


def test_sample_and_entropy(weather: str, capsys: Capture) -> None:
    lines = output_of(answer(capsys, "sample", weather, "--sentences", "50")).splitlines()
    assert len(lines) == 50
    assert {len(line.split()) for line in lines} == {3}
    told = json_of(answer(capsys, "entropy", weather, "--sentences", "50", "--json"))
    records = {record["quantity"]: record for record in told["records"]}
    assert records["mean_length"]["value"] == 3
    assert 0 < records["masked_entropy_sentence_averaged"]["value"] < 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["probabilities", "--sentence", "sun sun"], "2 words, all of the language's 3; give as many"),
        (["probabilities", "--sentence", "sun sun snow"], "word 3, 'snow', is not in the vocabulary"),
        (["probabilities", "--sentence", "sun sun sun", "--maximum-length", "3"], "leave the maximum length"),
        (["sample", "--trees"], "sentences of this hidden Markov model have no derivation trees"),
    ],
)
def test_mistakes_are_one_sentence(weather: str, arguments: list[str], message: str, capsys: Capture) -> None:
    assert message in refused(capsys, arguments[0], weather, *arguments[1:])


def test_an_impossible_sentence(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "stuck.json"
    path.write_text(json.dumps(HMM | {"transition": [[1, 0], [0, 1]]}))
    told = refused(capsys, "probabilities", path, "--sentence", "sun sun rain")
    assert "no path of states emits the sentence" in told


@pytest.mark.parametrize("command", ["probabilities", "sample", "entropy"])
def test_a_damaged_file_is_named(command: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(HMM)[:-20])
    sentence = ["--sentence", "sun"] if command == "probabilities" else []
    assert f"{path}: this is not JSON" in refused(capsys, command, path, *sentence)
