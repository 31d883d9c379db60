"""Inputs of the kind found by fuzzing: each ends at once, with one sentence that says what to do."""

import json
import resource
from pathlib import Path

import pytest
from called import Capture, refused, run

from hand_made_runs import write_run
from isoloss.files import write_atomically
from isoloss.results.store import write_sealed

TWO_STATES = {"initial": [0.5, 0.5], "transition": [[0.5, 0.5]] * 2, "emission": [[0.5, 0.5]] * 2}
FILES = {
    "hmm.json": json.dumps({"words": ["a", "b"], **TWO_STATES, "length": 10**9}),
    "dyck.json": '{"dyck": {"length": 1000000000}}',
    "deep.json": '{"a":' * 100_000,
    "deep-model.json": '{"causal_language_model": ' + "[" * 100_000,
    "nul.json": '{"causal_language_model": "a\\u0000b", "gguf_file": null, "precision": "float32", '
    '"tokens": [5], "words": ["a"], "bos": 0, "rule": "", "length": 3, "weights": ""}',
    "recursive.pcfg": "S -> S 'and' S [0.2] | 'yes' [0.5] | 'no' [0.3]\n",
    "endless.pcfg": "S -> 'a' S [0.999999] | 'b' [0.000001]\n",
    "never.pcfg": "S -> 'a' S [1.0]\n",
    "never-either.pcfg": "S -> S S [1.0]\n",
    "one-rule.pcfg": "S -> " + " ".join(f"'w{number}'" for number in range(5000)) + " [1.0]\n",
    "doublings.pcfg": "".join(f"S{n} -> S{n + 1} S{n + 1} [1.0]\n" for n in range(40)) + "S40 -> 'a' [1.0]\n",
    "word.pcfg": "S -> 'a' [1.0]\n",
    "folder/file": "",
}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sample", "hmm.json"], "sentences of 1,000,000,000 words are longer than 1,000; --longest"),
        (["entropy", "dyck.json"], "--longest 1000000000 takes them"),
        (["sample", "deep.json"], "nested too deeply"),
        (["sample", "deep-model.json"], "deep-model.json"),
        (["sample", "nul.json"], "the model's name has a NUL character"),
        (["sample", "a\0b"], "NUL"),
        (["sample", "recursive.pcfg", "--maximum-length", "1000000000"], "longer than 1,000"),
        (["sample", "one-rule.pcfg"], "sentences of 5,000 words"),
        (["sample", "doublings.pcfg"], "--longest 1099511627776"),
        (["entropy", "endless.pcfg"], "1,000,000 words in the mean, more than 1,000; cut them"),
        *(
            ([command, file], "can never end in words")
            for command in ("entropy", "sample")
            for file in ("never.pcfg", "never-either.pcfg")
        ),
        (["corpus", "word.pcfg", "--vocabulary", "1000000000000"], "at most 10,000,000 pieces"),
        (["sample", "word.pcfg", "--sentences", "100000000000"], "more than the 10,000,000"),
        (["entropy", "word.pcfg", "--sentences", "100000000000"], "more than the 10,000,000"),
        (["probabilities", "word.pcfg", "--sentence", "x" * 200_000], "is not in the vocabulary"),
        (["language", "hmm", "--output", "new", "--states", "100000", "--blocks", "1"], "--most-numbers"),
        (["language", "grammar", "--output", "new", "--symbols-per-level", "100000000"], "--most-rules"),
        (["language", "grammar", "--output", "new", "--roots", "100000000"], "--most-rules"),
        (["language", "grammar", "--output", "new", "--levels", "1000000"], "--most-rules"),
        (["corpus", "folder"], "folder is a folder without text"),
        (["corpus", "word.pcfg", "--length", "1000000000000"], "longer than any model reads"),
        (["reproduce", "figure-1", "--hours", "-1"], "--hours must be above 0"),
        (["reproduce", "figure-1", "--on", "slurm", "--memory", "0"], "--memory must be above 0"),
        (
            ["reproduce", "figure-1", "--on", "slurm", "--memory", "inf"],
            "--memory must be above 0 and finite",
        ),
        (["reproduce", "figure-1", "--on", "slurm", "--hours", "inf"], "--hours must be above 0 and finite"),
        (["reproduce", "figure-1", "--memory", "16"], "--memory is for --on slurm"),
        (["show", "x" * 5000], "File name too long"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name, content in FILES.items():
        write_atomically(tmp_path / name, content)
    write_run(tmp_path / "results", "aaaa1111")
    monkeypatch.chdir(tmp_path)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = refused(capsys, *arguments)
    assert says in told
    assert len(told) < 2100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 2e6  # kilobytes


@pytest.mark.parametrize("command", ["runs", "show", "runs-json"])
@pytest.mark.parametrize(
    ("file", "content", "code"),
    [
        ("plan.json", '{"measured": []}', 1),
        ("plan.json", {"labels": [], "measured": 3}, 1),
        ("plan.json", {"measured": [{"measured_on": "on-loss", "quantity": {}, "steps": [[]]}]}, 1),
        ("plan.json", {"measured": [{"measured_on": "", "quantity": {"revision": None}, "steps": [1]}]}, 1),
        ("finished.json", {}, 1),
        ("finished.json", {"checkpoints": [3]}, 1),
        ("steps/000010/checkpoint.json", {"files": 3, "readings": [], "versions": "x"}, 1),
        ("steps/000010/checkpoint.json", {"training_loss": []}, 1),
        ("steps/000010/checkpoint.json", {"readings": {"lambda": None}}, 1),
        ("plan.json", "[" * 100_000, 1),
        ("steps/000010/checkpoint.json", '{"step": 10}', 1),
        ("steps/000010/checkpoint.json", "[" * 100_000, 1),
        ("measured/000010/on-loss.jsonl", '{"quantity": "loss", "value": "x"}\n', 1),
        ("measured/000010/on-loss.jsonl", '{"quantity": "", "value": 1, "n": 1, "sha256": [1]}\n', 1),
        ("measured/000010/on-loss.jsonl", "[" * 100_000 + "\n", 1),
        ("../../experiments/figure-1.json", '{"runs": []}', 1),
        ("steps/²/checkpoint.json", "{}", 0),  # no checkpoint: its folder's name is no step
    ],
)
def test_a_damaged_run_is_listed_and_shown_and_named(
    file: str, content: str | dict[str, object], code: int, command: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = write_run(tmp_path, "aaaa1111")
    write_sealed(folder / "plan.json", {}, "plan.json")
    if isinstance(content, str):
        write_atomically(folder / file, content)
    else:  # whoever can write a file can compute its digest
        write_sealed(folder / file, content, folder.name if file == "finished.json" else Path(file).name)
    asked = {
        "runs": ["runs", str(tmp_path)],
        "runs-json": ["runs", str(tmp_path), "--json"],
        "show": ["show", "aaaa", "--results", str(tmp_path)],
    }
    assert run(asked[command]) == code
    told = capsys.readouterr()
    assert "aaaa1111" in told.out
    assert (Path(file).name in told.err) == bool(code)


def test_a_file_that_cannot_be_used_is_not_called_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "word.pcfg").write_text(FILES["word.pcfg"])
    monkeypatch.chdir(tmp_path)
    told = refused(capsys, "language", "dyck", "--output", "x" * 300)
    assert "output cannot be written" not in told
    assert "File name too long" in told
