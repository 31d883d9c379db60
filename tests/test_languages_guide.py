"""Every command of docs/languages.md is run, in its order and in one folder, on small models and texts."""

import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from isoloss.cli import main
from isoloss.experiments.teacher import Teacher
from isoloss.languages.language_file import parse_language
from isoloss.models.causal import GPT2Transformer
from isoloss.models.shapes import Shape
from tiny_causal_models import tiny_checkpoint

GUIDE = (Path(__file__).parent.parent / "docs" / "languages.md").read_text()
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", GUIDE, flags=re.DOTALL) for line in block.splitlines()
]
SMALLER = {
    "grammar": ["--words", "20", "--words-per-preterminal", "5", "--roots", "2"],
    "teacher": ["--words", "50", "--length", "4", "--steps", "10"],
    "causal-lm": ["--words", "10", "--length", "4"],
    "describe": ["--sentences", "20"],
}


def test_every_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    book = " ".join(["The cats purr. The dogs bark. He said so."] * 40)
    monkeypatch.setattr("isoloss.experiments.teacher.gutenberg_books", lambda *_: (book,))
    tiny = partial(Teacher, architecture=GPT2Transformer(Shape(16, 2, 1, 32), dropout=0.0), batch_size=8)
    monkeypatch.setattr("isoloss.experiments.teacher.Teacher", tiny)
    tiny_checkpoint("opt", tmp_path / "MODEL")
    assert len(COMMANDS) == 9
    for command in COMMANDS:
        program, *arguments = shlex.split(command, comments=True)
        assert program == "isoloss"
        smaller = [option for word in arguments for option in SMALLER.get(word, [])]
        with pytest.raises(SystemExit) as leaving:
            main([*arguments, *smaller])
        shown = capsys.readouterr()
        assert leaving.value.code == 0, f"{command}: {shown.err}"
        assert shown.out


def test_the_hmm_written_by_hand_is_one() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", GUIDE, flags=re.DOTALL)
    language = parse_language(text)
    assert language.vocabulary == tuple(json.loads(text)["words"])
    assert language.maximum_length == 6


def test_its_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", GUIDE):
        assert (Path(__file__).parent.parent / "docs" / link).is_file()
