"""Models as folders with cards, and on a hub."""

from pathlib import Path
from typing import Any

import pytest
from small_networks import same_weights
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from isoloss import lab
from isoloss.errors import BadInput, IsolossError
from isoloss.lab.sharing import model_card
from isoloss.languages.language_file import parse_language
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg
from local_hub import local_hub
from runtime_types import unchecked


def test_a_folder_reads_back_as_the_model_and_its_language(
    run: lab.Run, language: PCFG, tmp_path: Path
) -> None:
    folder = lab.save(run.last, tmp_path / "saved")
    again = lab.model(folder)
    assert same_weights(again.module, run.last.module)
    assert again.tokenizer.get_vocab() == run.last.tokenizer.get_vocab()
    written = (folder / "language.pcfg").read_text()
    assert parse_language(written, "language.pcfg", None).digest == language.digest
    assert again.language is not None
    assert again.language.digest == language.digest
    numbers = [
        lab.loss(each, sentences=20, seed=3, progress=lab.silent)[0].estimate for each in (run.last, folder)
    ]
    assert numbers[0] == numbers[1]


def test_a_folder_knows_its_seeds_whose_sentences_would_come_again(
    run: lab.Run, language: PCFG, tmp_path: Path
) -> None:
    twice = lab.train(language, run.last, steps=2, seed=2, progress=lab.silent, folder=tmp_path / "twice")
    folder = lab.save(twice.last, tmp_path / "saved")
    checkpoint = tmp_path / "twice" / "steps" / "000002"
    for again in (folder, checkpoint, checkpoint / "raw"):
        assert lab.model(again).seeds == (1, 2)
    with pytest.raises(BadInput, match="saved was trained with seed 1 on the sentences"):
        lab.train(language, folder, steps=2, seed=1, progress=lab.silent)
    untrained = lab.model(twice.last.module, language=language)
    other = lab.save(untrained, tmp_path / "other")
    assert lab.model(other).seeds == ()
    assert "weights, shared with isoloss" in (other / "README.md").read_text()


def test_a_grammar_cut_at_a_length_is_read_back_as_it_was_cut(tmp_path: Path) -> None:
    endless = "S -> 'a' [0.5] | 'a' S [0.5]"
    language = pcfg(parse_grammar(endless, "endless"), maximum_length=5)
    folder = lab.save(lab.train(language, 16, steps=2, seed=1, progress=lab.silent).last, tmp_path / "saved")
    found = lab.model(folder).language
    assert found is not None
    assert found.digest == language.digest
    (folder / "language.pcfg").write_text("S -> 'b' [1.0]\n")  # not the one that the card names
    assert lab.model(folder).language is None


def test_a_card_holds_language_numbers_errors_and_seeds(run: lab.Run, language: PCFG, tmp_path: Path) -> None:
    some = run.models[-2:]
    losses = lab.loss(some, sentences=50, seed=7, progress=lab.silent)
    traces = lab.trace(some, sentences=60, seed=8, progress=lab.silent)
    card = (lab.save(run.last, tmp_path / "saved", measured=(losses, traces)) / "README.md").read_text()
    for said in (language.digest, "library_name: transformers", "seeds of its runs: 1)", "of 6 words"):
        assert said in card
    rows = [line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == ["loss", "KL", "trace"]
    assert [row[3:] for row in rows] == [["50", "7"], ["50", "7"], ["60", "8"]]
    value, error = map(float, rows[2][1].split(" ± "))
    assert value == pytest.approx(traces[-1].estimate.value, rel=0.05)
    assert error == pytest.approx(traces[-1].estimate.standard_error, rel=0.1)


@pytest.mark.thorough
def test_a_card_has_no_number_of_another_model_of_the_same_name(
    run: lab.Run, language: PCFG, tmp_path: Path
) -> None:
    other = lab.train(language, 16, steps=40, seed=2, progress=lab.silent)
    assert other.last.label == run.last.label
    measured = lab.loss([run.last, other.last], sentences=20, seed=7, progress=lab.silent)
    (_, *rows) = [line for line in model_card(other.last, [measured]).splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[1] for row in rows] == [
        str(each[1].estimate) for each in (measured, measured.kl) if each
    ]
    again = lab.save(run.last, tmp_path / "saved")
    assert f"| {measured[0].estimate} |" in model_card(lab.model(again), [measured])


@pytest.mark.parametrize("kind", [(BertForMaskedLM, BertConfig), (GPT2LMHeadModel, GPT2Config)])
def test_a_saved_model_is_known_by_what_was_measured_before(
    language: PCFG, tmp_path: Path, kind: tuple[Any, Any]
) -> None:
    of, configuration = kind
    given = of(configuration(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    measured = lab.trace(given, on=language, sentences=5, seed=0, progress=lab.silent)
    again = lab.model(lab.save(lab.model(given), tmp_path / "saved"))
    for model in (lab.model(given), lab.model(given, language=language), again):
        assert f"| {measured[0].estimate} |" in model_card(model, [measured])


def test_what_cannot_be_saved_is_said(run: lab.Run, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    with pytest.raises(BadInput, match="is there already; name a new folder"):
        lab.save(run.last, tmp_path / "full")
    with pytest.raises(BadInput, match="a torch module, whose code no folder holds"):
        lab.save(lab.model(nn.Embedding(9, 9)), tmp_path / "new")
    with unchecked(), pytest.raises(BadInput, match="the run train is no model of the laboratory; give one"):
        lab.save(run, tmp_path / "new")
    with unchecked(), pytest.raises(BadInput, match="'train' is no model of the laboratory; give one"):
        lab.save("train", tmp_path / "new")
    with unchecked(), pytest.raises(BadInput, match="a folder is named by its path, such as"):
        lab.save(run.last, 5)
    measured = lab.trace(run.models[0], sentences=10, seed=0, progress=lab.silent)
    with unchecked(), pytest.raises(BadInput, match=r"a list of what lab.loss, .* give measured=\[loss\]"):
        lab.save(run.last, tmp_path / "new", measured=measured)
    with pytest.raises(BadInput, match="nothing of what was measured is of train, step 40"):
        lab.save(run.last, tmp_path / "new", measured=(measured,))
    assert not (tmp_path / "new").exists()


def test_a_pushed_model_can_be_read_from_the_hub(
    run: lab.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = lab.loss(run.last, sentences=10, seed=0, progress=lab.silent)
    with local_hub() as hub:
        hub.is_asked(monkeypatch, tmp_path)
        address = lab.push(run.last, "somebody/small", measured=(measured,), private=True, token="hf_secret")
        assert address == f"{hub.address}/somebody/small"
        again = lab.model("somebody/small")
    assert (again.language, again.seeds) == (None, ())  # which only a folder tells
    assert same_weights(again.module, run.last.module)
    files = hub.models["somebody/small"]
    assert files.keys() >= {
        "README.md", "config.json", "model.safetensors", "tokenizer.json", "language.pcfg"
    }  # fmt: skip
    assert b"| KL |" in files["README.md"]
    assert hub.private == {"somebody/small": True}
    assert "Bearer hf_secret" in hub.tokens


def test_a_hub_that_refuses_is_named(run: lab.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_hub() as hub:
        hub.refuses = True
        hub.is_asked(monkeypatch, tmp_path)
        with pytest.raises(IsolossError, match=f"the hub at {hub.address} did not take somebody/small"):
            lab.push(run.last, "somebody/small", token="wrong")
        with pytest.raises(BadInput, match="'no/such/name' is no name of a repository"):
            lab.push(run.last, "no/such/name", token="wrong")
