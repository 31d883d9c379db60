"""Everything that the essay on flatness shows is run, and what it says of rescaled layers is checked."""

import importlib.util
import json
import random
import re
import shlex
from pathlib import Path

import pytest
import torch

from isoloss.cli import main
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.models.shapes import Shape
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import PostLayerNormTransformer

ESSAY = (Path(__file__).parent.parent / "docs" / "flatness.md").read_text()
WORDS = list("abcdefgh")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", ESSAY, flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("essay")
    for seed, name in enumerate(("my-bert", "my-other-bert")):
        PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, seed).save_pretrained(folder / name)
        word_tokenizer(WORDS, 8).save_pretrained(folder / name)
    chosen = random.Random(0)
    sentences = [chosen.choices(WORDS, k=7) for _ in range(150)]
    (folder / "sentences.txt").write_text("".join(" ".join(words) + "\n" for words in sentences))
    ids = [[WORDS.index(word) + 3 for word in words] for words in sentences]
    (folder / "ids.jsonl").write_text("".join(json.dumps(each) + "\n" for each in ids))
    return folder


@pytest.mark.parametrize("command", [line for block in blocks("sh") for line in block.splitlines()])
def test_each_command_runs(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    name, *arguments = shlex.split(command)
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert (name, leaving.value.code) == ("isoloss", 0)
    assert "fisher_trace" in (written := capsys.readouterr().out) or "gradient_norm" in written


def test_the_code_runs_and_rescaled_layers_do_what_is_said(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    plain, rescaling, training = blocks("python")
    names = {"__name__": "essay"}
    exec(plain, names)
    assert capsys.readouterr().out.startswith("Estimate(value=")
    exec(rescaling, names)
    rows = [
        [float(number) for number in re.findall(r"-?\d+\.\d+", line)]
        for line in capsys.readouterr().out.splitlines()
    ]
    assert len(rows) == 3
    for scale, row in zip((1, 2, 4), rows, strict=True):
        total, first, second = row[:3]
        assert total == pytest.approx(first + second, abs=2e-3)
        assert first == pytest.approx(rows[0][1] / scale**2, rel=0.02)
        assert second == pytest.approx(rows[0][2] * scale**2, rel=0.02)
    # Every measure of the rescaled network is larger in the end.
    assert all(last > start for start, last in zip(rows[0], rows[2], strict=True) if start != rows[0][1])
    if importlib.util.find_spec("accelerate"):
        exec(training, names)
        assert any(
            type(each).__name__ == "FlatnessCallback" for each in names["trainer"].callback_handler.callbacks
        )


def test_the_invariant_of_rescaling_holds_to_the_last_digits():
    """With one seed's signs, for the scores are the same and so is what the signs weigh."""
    _, rescaling, _ = blocks("python")
    names = {"__name__": "essay", "fisher_trace": fisher_trace}
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
