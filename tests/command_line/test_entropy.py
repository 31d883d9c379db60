import pytest
from called import Capture, answer, json_of, output_of, refused


def test_json_holds_four_records(grammar: str, capsys: Capture) -> None:
    asked = ("entropy", grammar, "--sentences", "400", "--seed", "3", "--json")
    records = json_of(answer(capsys, *asked))["records"]
    assert [record["quantity"] for record in records] == [
        "masked_entropy_sentence_averaged",
        "masked_entropy_token_averaged",
        "next_word_entropy",
        "mean_length",
    ]
    assert [record["unit"] for record in records] == ["nats"] * 3 + ["words"]
    assert {(record["n"], record["seed"]) for record in records} == {(400, 3)}
    # Given the length, every word is certain; the length is geometric with mean 2.
    assert records[0]["value"] == pytest.approx(0, abs=1e-12)
    assert abs(records[3]["value"] - 2) < 4 * records[3]["standard_error"]


def test_the_table(grammar: str, capsys: Capture) -> None:
    shown = output_of(answer(capsys, "entropy", grammar, "--sentences", "50", "--maximum-length", "3"))
    assert "next_word_entropy" in shown
    assert "50 sentences, seed 0" in shown


@pytest.mark.parametrize("n", ["1", "0", "-5"])
def test_too_few_sentences(grammar: str, n: str, capsys: Capture) -> None:
    assert "draw at least 2" in refused(capsys, "entropy", grammar, "--sentences", n)
