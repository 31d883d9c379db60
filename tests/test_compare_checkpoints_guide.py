"""The guide's program and commands are run, on tiny models."""

import json
import random
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import isoloss.command_line.comparison_plan as plan_module
from isoloss.cli import main
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from tiny_text_models import WORDS, text_model, text_tokenizer

GUIDE = (Path(__file__).parent.parent / "docs" / "compare-checkpoints.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


def make(folder: Path) -> None:
    text_model().save_pretrained(folder / "my-bert")
    text_tokenizer().save_pretrained(folder / "my-bert")
    chosen = random.Random(900)

    def text(words: tuple[str, ...]) -> str:
        return " ".join(chosen.choices(words, k=chosen.randint(3, 8)))

    for name in ("train", "held-out"):
        (folder / f"{name}.txt").write_text("".join(text(WORDS) + "\n" for _ in range(120)))
    halves = WORDS[4:], WORDS[:4]
    reviews = [{"text": text(halves[row % 2]), "label": row % 2} for row in range(200)]
    (folder / "reviews.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reviews))
    pairs = [f"{text(WORDS)},{text(halves[row % 2])},{row % 2}\n" for row in range(300)]
    (folder / "pairs.csv").write_text("claim,evidence,verdict\n" + "".join(pairs))


def test_the_run_is_made_and_its_checkpoints_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("accelerate")
    settings = plan_module.fine_tuning_settings

    def short(examples: int) -> FineTuningSettings:
        return replace(settings(examples), seeds=(0, 1), epochs=2)

    monkeypatch.setattr(plan_module, "fine_tuning_settings", short)
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    (program,) = blocks("python")
    exec(program, {"__name__": "guide"})
    capsys.readouterr()
    printed = []
    for command in (line for block in blocks("sh") for line in block.splitlines()):
        name, *arguments = shlex.split(command)
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        assert (name, leaving.value.code) == ("isoloss", 0)
        printed.append(capsys.readouterr().out)
    assert "tuned/checkpoint-40 against my-bert: same loss to within 1 %" in printed[0]
    assert "better (fine-tuning)" in printed[1]
    found = json.loads(printed[2])
    assert {"pretraining_loss_difference", "fisher_trace_difference", "linear_probe_accuracy_difference"} <= {
        record["quantity"] for record in found["records"]
    }
    assert Path(found["report"]).read_text().startswith("<!DOCTYPE html>")
