"""Everything that the README shows is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from isoloss.cli import main
from isoloss.models.shapes import Shape
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import PostLayerNormTransformer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
GRAMMAR = """\
S -> STATEMENT [0.7] | QUESTION [0.3]
STATEMENT -> NP VP [1.0]
QUESTION -> 'does' NP VP [1.0]
NP -> 'the' N [1.0]
VP -> V NP [0.8] | 'sleeps' [0.2]
N -> 'dog' [0.5] | 'cat' [0.5]
V -> 'sees' [0.6] | 'hears' [0.4]
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "grammar.pcfg").write_text(GRAMMAR)
    for seed, name in enumerate(("my-bert", "my-other-bert")):
        PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(3, 8, seed).save_pretrained(tmp_path / name)
        word_tokenizer(["the", "dog", "sleeps"], 8).save_pretrained(tmp_path / name)
    (tmp_path / "sentences.txt").write_text("the dog sleeps\nthe dog\n" * 60)
    return tmp_path


def test_the_python_example_runs(folder: Path) -> None:
    (example,) = blocks("python")
    result = subprocess.run(
        [sys.executable, "-c", example], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "tensor" in result.stdout


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith("isoloss ")]


def test_the_examples_have_five_lines() -> None:
    (python,) = blocks("python")
    assert sum(bool(line) for line in python.splitlines()) == 5
    assert len(commands()) == 5


@pytest.mark.parametrize("command", [line for line in commands() if " reproduce " not in line])
def test_each_command_runs(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, *arguments = shlex.split(command, comments=True)
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    shown = capsys.readouterr()
    assert leaving.value.code == 0, shown.err
    assert shown.out


@pytest.mark.parametrize("command", [line for line in commands() if " reproduce " in line])
def test_each_reproduction_runs(command: str, folder: Path) -> None:
    _, *arguments = shlex.split(command)
    result = subprocess.run(
        [sys.executable, "-m", "isoloss.cli", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout or "report:" in result.stderr


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make (\w+)", README, flags=re.MULTILINE)
    assert named == ["reproduce", "test"]
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_the_picture_is_there() -> None:
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).stat().st_size > 10_000
