from pathlib import Path

import pytest
from called import Capture, answer, json_of, output_of, refused, run

from tiny_causal_models import tiny_checkpoint


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my.pcfg").write_text("S -> A S [0.5] | A [0.5]\nA -> 'a' [0.5] | 'b' [0.5]\n")
    return tmp_path


@pytest.mark.usefixtures("_nothing_painted")
def test_json_has_every_number_of_the_page(here: Path, capsys: Capture) -> None:
    asked = "describe my.pcfg --maximum-length 4 --sentences 50 --seed 2 --json"
    told = json_of(answer(capsys, *asked.split()))
    assert (here / told["page"]).name == "my.html"
    assert (here / "my.html").is_file()
    assert told["kind"] == "probabilistic grammar"
    assert told["facts"]["longest sentence"] == "4 words"
    assert told["word"]["masked"] == pytest.approx({"a": 0.5, "b": 0.5})
    assert sum(told["word"]["next"].values()) + told["word"]["end"] == pytest.approx(1)
    assert told["word"]["word"] == told["sentences"][0].split()[told["word"]["position"] - 1]
    quantities = [record["quantity"] for record in told["records"]]
    assert quantities[0] == "masked_entropy_sentence_averaged"
    assert quantities[-1] == "masked_distribution_speed"


@pytest.mark.usefixtures("_nothing_painted")
def test_the_page_can_be_anywhere(here: Path, capsys: Capture) -> None:
    asked = "describe my.pcfg --maximum-length 3 --sentences 20 --output pages/first.html"
    (here / "pages").mkdir()
    *told, last = output_of(answer(capsys, *asked.split())).splitlines()
    assert last == "page: pages/first.html"
    assert told[0].startswith("my.pcfg: probabilistic grammar; words ")
    assert told[1].startswith("  entropy of a masked word: ")
    assert told[2].startswith(("  task ", "  tasks: none"))
    assert [file.name for file in (here / "pages").iterdir()] == ["first.html"]


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_a_models_language_tells_its_cost_first(here: Path, capsys: Capture) -> None:
    tiny_checkpoint("llama", here / "model")
    made = "language causal-lm --output my.json --model model --words 6 --length 4"
    assert run(made.split()) == 0
    code, _, err = answer(capsys, "describe", "my.json", "--sentences", "8")
    assert (code, err.startswith("masked distributions: 72 tokens of suffixes")) == (0, True)
    html = (here / "my.html").read_text()
    assert "LlamaForCausalLM" in html
    assert "highest mean probability over 256 sentences" in html
    assert "opening-4" in html


@pytest.mark.usefixtures("_nothing_painted")
def test_a_share_of_labels_is_never_told_as_one_of_the_latent_variable(here: Path, capsys: Capture) -> None:
    Path("hmm.json").write_text(
        '{"words": ["a", "b"], "initial": [0.6, 0.4], "transition": [[0.9, 0.1], [0.1, 0.9]],'
        '"emission": [[0.5, 0.5], [0.4, 0.6]], "length": 2}'
    )
    asked = ["describe", "hmm.json", "--sentences", "100"]
    task = next(line for line in output_of(answer(capsys, *asked)).splitlines() if "state-1:" in line)
    of_latent, of_label = task.split("; about the label, its most probable value, by a constant answer ")
    assert float(of_latent.split("at best ")[1].split(",")[0]) < 0.7  # which no reader of the words exceeds
    assert of_label.startswith("1.000, by a probe on the words alone 1.000: room 0 ± 0; ")
    assert "price" in of_label


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("my.pcfg --output page.txt", "--output names an HTML file, such as my.html, not page.txt"),
        ("my.pcfg --output none/page.html", "there is no folder none to write page.html in"),
        ("my.pcfg --sentences 1", "draw at least 2"),
        ("my.pcfg --sentences 10", "give a maximum length"),
        (
            "my.pcfg --maximum-length 3 --sentences 5 --output my.pcfg/page.html",
            "my.pcfg is a file, where a folder is needed",
        ),
    ],
)
def test_mistakes_are_one_sentence(options: str, says: str, here: Path, capsys: Capture) -> None:
    assert says in refused(capsys, "describe", *options.split())
