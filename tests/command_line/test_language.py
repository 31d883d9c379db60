"""`isoloss language` writes files that the other commands accept."""

import json
from functools import partial
from pathlib import Path

import pytest
from called import Capture, answer, json_of, output_of, refused, run

from isoloss.experiments.teacher import Teacher
from isoloss.languages.language_file import read_language
from isoloss.languages.random_hmm import random_hmm
from isoloss.models.transformers import GPT2Transformer, Shape
from tiny_causal_models import tiny_checkpoint

SIZES = {
    "grammar": "--words 6 --levels 2 --symbols-per-level 2 --roots 2 --rules-per-symbol 2 "
    "--words-per-preterminal 4",
    "hmm": "--words 6 --states 4 --blocks 2 --length 4",
    "dyck": "--length 4",
}


@pytest.mark.parametrize("kind", SIZES)
def test_what_is_made_is_said_and_read_back(kind: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "language"
    told = json_of(answer(capsys, "language", kind, "--output", path, *SIZES[kind].split(), "--json"))
    language = read_language(path)
    assert told == {
        "file": str(path),
        "kind": language.kind,
        "words": len(language.vocabulary),
        "maximum_length": 4,
        "digest": language.digest,
    }


def test_seeds_give_different_languages_and_the_same_one_twice(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        path = str(tmp_path / name)
        assert run(["language", "hmm", "--output", path, *SIZES["hmm"].split(), "--seed", str(seed)]) == 0
    a, b, c = (read_language(tmp_path / name).digest for name in "abc")
    assert a == b == random_hmm(words=6, states=4, blocks=2, length=4, seed=3).digest
    assert c != a


def test_the_default_sizes_are_the_papers(tmp_path: Path, capsys: Capture) -> None:
    assert run(["language", "hmm", "--output", str(tmp_path / "hmm.json")]) == 0
    assert run(["language", "grammar", "--output", str(tmp_path / "my.pcfg")]) == 0
    assert "hidden Markov model, 200 words, sentences of 16" in (shown := capsys.readouterr().out)
    assert "probabilistic grammar, 200 words, sentences of 32" in shown


@pytest.mark.parametrize(
    "options", [f"{kind} {sizes}" for kind, sizes in SIZES.items()] + ["causal-lm --model x", "teacher"]
)
def test_a_file_that_is_there_is_never_overwritten(options: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    told = refused(capsys, "language", *options.split(), "--output", path)
    assert told == f"isoloss: {path} is there already; name another file, or delete it first\n"
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("grammar --levels -1", "--levels must be at least 1, not -1"),
        ("grammar --words-per-preterminal 0", "--words-per-preterminal must be at least 1, not 0"),
        ("teacher --length 0", "--length must be at least 1, not 0"),
        ("teacher --words -1", "--words must be at least 1, not -1"),
        ("teacher --steps 0", "--steps must be at least 1, not 0"),
        (
            "teacher --words 5",
            "12 different characters cannot be written with 5 word pieces; give at least 12",
        ),
    ],
)
def test_mistakes_are_one_sentence_and_leave_no_file(
    options: str, says: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isoloss.corpora.fetched_package.gutenberg_books", lambda *_: ("He came. She went.",))
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, "language", *options.split(), "--output", "out.json")
    assert not Path("out.json").exists()


def test_a_folder_that_cannot_be_written_is_noticed_before_the_work(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    told = refused(capsys, "language", "teacher", "--output", tmp_path / "file" / "t.json")
    assert "is a file, where a folder is needed" in told


def test_a_models_language_serves_every_command(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_checkpoint("opt", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    made = "language causal-lm --output my.json --model model --words 6 --length 4 --precision float64 --json"
    assert json_of(answer(capsys, *made.split()))["kind"] == "causal language model"
    # The file finds its model from anywhere.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sentence, _ = output_of(answer(capsys, "sample", "../my.json", "--sentences", "2")).splitlines()
    code, out, err = answer(capsys, "probabilities", "../my.json", "--sentence", sentence, "--json")
    distributions = json.loads(out)
    assert code == 0
    assert list(distributions) == ["log_probability", "masked", "next", "end"]
    assert [sum(row["probabilities"].values()) for row in distributions["masked"]] == pytest.approx([1] * 4)
    # 6 words, of which each of 3 substitutes leaves 3, 2 and 1 tokens to read.
    assert err.startswith("masked distributions: 36 tokens of suffixes")
    code, out, err = answer(capsys, "entropy", "../my.json", "--sentences", "20", "--json")
    assert (code, err.startswith("masked distributions: 180 tokens of suffixes")) == (0, True)
    masked, _, following, length = json.loads(out)["records"]
    assert masked["n"] == 20
    assert 0 < masked["value"] < 1.8
    assert 0 < following["value"] < 1.8
    assert length["value"] == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["probabilities", "--sentence", "Ġ2 Ġ3"], "2 words, all of the language's 4; give as many"),
        (["probabilities", "--sentence", "Ġ2 Ġ3 x"], "word 3, 'x', is not in the vocabulary"),
        (["sample", "--trees"], "sentences of this causal language model have no derivation trees"),
        (["entropy", "--maximum-length", "3"], "is no grammar, and its sentences have one length"),
    ],
)
def test_mistakes_with_a_models_language_are_one_sentence(
    arguments: list[str], says: str, tmp_path: Path, capsys: Capture
) -> None:
    path, model = tmp_path / "my.json", tiny_checkpoint("gpt2", tmp_path / "model")
    made = ("language", "causal-lm", "--output", path, "--model", model, "--words", 38, "--length", 4)
    assert answer(capsys, *made)[0] == 0
    assert says in refused(capsys, arguments[0], path, *arguments[1:])


@pytest.mark.thorough
def test_a_teacher_is_trained_once_and_its_language_written(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = " ".join(["The cats purr. The dogs bark. He said so."] * 40)
    monkeypatch.setattr("isoloss.corpora.fetched_package.gutenberg_books", lambda *_: (book,))
    tiny = GPT2Transformer(Shape(16, 2, 1, 32), dropout=0.0)
    quick = partial(Teacher, architecture=tiny, batch_size=8)
    monkeypatch.setattr("isoloss.experiments.teacher.Teacher", quick)
    monkeypatch.chdir(tmp_path)
    options = "--words 50 --length 4 --steps 10 --folder run"
    assert run(f"language teacher --output one.json {options}".split()) == 0
    weights = Path("run/steps/000010/model.safetensors")
    when = weights.stat().st_mtime_ns
    assert run(f"language teacher --output two.json {options}".split()) == 0
    assert weights.stat().st_mtime_ns == when
    assert Path("one.json").read_text() == Path("two.json").read_text()
    shown = output_of(answer(capsys, "sample", "one.json", "--sentences", "3"))
    assert [len(line.split()) for line in shown.splitlines()] == [4, 4, 4]


def test_the_distributions_of_balanced_strings(tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "dyck.json")
    assert run(["language", "dyck", "--output", path, "--length", "4"]) == 0
    distributions = json_of(answer(capsys, "probabilities", path, "--sentence", "< > > <", "--json"))
    assert [row["probabilities"] for row in distributions["masked"]] == [
        {"<": 1, ">": 0}, {"<": 0, ">": 1}, {"<": 0, ">": 1}, {"<": 1, ">": 0},
    ]  # fmt: skip
    assert distributions["next"][1]["probabilities"] == pytest.approx({"<": 1 / 3, ">": 2 / 3})
    for sentence, says in (("< >", "has 2 words, all of"), ("< < < >", "not as many < as >")):
        assert says in refused(capsys, "probabilities", path, "--sentence", sentence)
