"""Files of a results folder with a flipped byte, or swapped for others', through the commands that read them.

Damage is named on stderr with exit code 1, whoever reads the file, and what is intact is still shown.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from called import Capture, answer

from isoloss.command_line import reproduction
from isoloss.executors.job import Outcome
from isoloss.results.checkpoint import holds_another
from jobs_in_turn import reproduce_in_this_process
from smoke_reproduction import SMOKE, smoke_reproduction


@dataclass(frozen=True)
class Folder:
    """A copy of a reproduced figure's results: two runs of one language, and some models' text."""

    results: Path

    @property
    def runs(self) -> tuple[Path, Path]:
        described = sorted((self.results / "runs").glob("*/steps/000040"))
        return described[0].parents[1], described[1].parents[1]

    @property
    def listed(self) -> tuple[tuple[object, ...], ...]:
        """The commands that list and compare runs."""
        first, second = self.runs
        return (
            ("runs", self.results, "--json"),
            ("show", first.name, "--results", self.results),
            ("compare-runs", first.name, second.name, "--results", self.results),
            ("records", "pack", self.results, self.results / "packed.parquet"),
        )

    def measured(self, step: str = "000040") -> Path:
        """A file of records, with values beside it, of the first run."""
        return min(self.runs[0].glob(f"measured/{step}/*.npz")).with_suffix(".jsonl")


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smoke_reproduction(tmp_path_factory) / "results" / "smoke"


@pytest.fixture
def folder(reproduced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    reproduce_in_this_process(monkeypatch)
    without_pages = shutil.ignore_patterns("site")
    found = Folder(Path(shutil.copytree(reproduced, tmp_path / "smoke", ignore=without_pages)))
    vocabulary = json.loads((found.runs[0] / "steps/000040/tokenizer.json").read_text())["model"]["vocab"]
    words = [word for word in vocabulary if not word.startswith("[")][:4]
    (tmp_path / "text.txt").write_text("\n".join(" ".join(words[: 1 + n % 4]) for n in range(12)) + "\n")
    return found


@pytest.fixture
def _no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here is told before the site is written, or after it."""
    nothing = Outcome((), ())
    monkeypatch.setattr(reproduction, "write_whole_site", lambda site, *_: (site.output, nothing))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    path.write_bytes(content)


def run(say: Capture, *arguments: object) -> tuple[int, str, str]:
    """A command's exit code, and what it wrote to stdout and stderr, in one line each."""
    code, out, err = answer(say, *arguments)
    return code, out, err.replace("\n", "")


MODELS: tuple[Callable[[Path, Path], tuple[object, ...]], ...] = (
    lambda model, _: ("inspect", model),
    lambda model, _: ("enlarge", model, model.parents[3] / "large", "--width", 2),
    lambda model, _: ("flatness", model, "--text", model.parents[4] / "text.txt"),
    lambda model, other: (
        *("compare", other, model, "--text", model.parents[4] / "text.txt"),
        *("--output", model.parents[4] / "c.html"),
    ),
)


@pytest.mark.parametrize(
    "harm",
    ["model.safetensors", "config.json", "tokenizer.json", "checkpoint.json", "of another step", "of a run"],
)
def test_every_command_refuses_a_damaged_model(harm: str, folder: Folder, capsys: Capture) -> None:
    model, other = folder.runs[0] / "steps/000040", folder.runs[0] / "steps/000020"
    match harm:
        case "of another step":
            shutil.copy(other / "checkpoint.json", model)
        case "of a run":
            shutil.copy(folder.runs[1] / "steps/000040/checkpoint.json", model)
        case name:
            flip(model / name)
    named = harm if "." in harm else "checkpoint.json"
    for arguments in MODELS:
        code, out, err = run(capsys, *arguments(model, other))
        assert (code, out) == (1, "")
        assert f"{model} is damaged: {named}" in err or f"{model} is of another run than" in err
    assert not (folder.results / "runs" / "large").exists()


HARMS: dict[str, tuple[Callable[[Folder], None], str]] = {
    "a record": (lambda at: flip(at.measured()), "jsonl"),
    "values": (lambda at: flip(at.measured().with_suffix(".npz")), "npz is damaged or missing"),
    "a record of another step": (
        lambda at: [
            shutil.copy(at.measured("000020").with_suffix(end), at.measured("000040").with_suffix(end))
            for end in (".jsonl", ".npz")
        ],
        "not what its name says",
    ),
    "another run's plan": (
        lambda at: shutil.copy(at.runs[1] / "plan.json", at.runs[0]),
        "plan.json is that of another run",
    ),
    "another run's checkpoint": (
        lambda at: shutil.copy(at.runs[1] / "steps/000040/checkpoint.json", at.runs[0] / "steps/000040"),
        "checkpoint.json is that of another run",
    ),
    "another step's checkpoint": (
        lambda at: shutil.copy(at.runs[0] / "steps/000020/checkpoint.json", at.runs[0] / "steps/000040"),
        "checkpoint.json is that of step 20",
    ),
    "another run's specification": (
        lambda at: shutil.copy(at.runs[1] / "specification.json", at.runs[0]),
        "specification.json is that of another run",
    ),
}


TOLD_QUICKLY = ("a record", "another step's checkpoint", "another run's specification")


@pytest.mark.parametrize(
    "harm",
    [each if each in TOLD_QUICKLY else pytest.param(each, marks=pytest.mark.thorough) for each in HARMS],
)
def test_lists_and_comparisons_of_runs_name_damage(harm: str, folder: Folder, capsys: Capture) -> None:
    first, (do, sentence) = folder.runs[0], HARMS[harm]
    do(folder)
    for arguments in folder.listed:
        code, out, err = run(capsys, *arguments)
        assert code == 1, arguments
        assert sentence in err
        assert str(first) in err
        assert out or "specification" in harm, "what is intact is shown"


@pytest.mark.usefixtures("_no_site")
@pytest.mark.parametrize(
    "harm",
    [
        "a record",
        pytest.param("another run's specification", marks=pytest.mark.thorough),
        pytest.param("another run's plan", marks=pytest.mark.thorough),
        pytest.param("a record of another step", marks=pytest.mark.thorough),
    ],
)
def test_what_can_be_made_again_is_named_and_the_same(harm: str, folder: Folder, capsys: Capture) -> None:
    measured = folder.measured()
    before = measured.read_bytes()
    HARMS[harm][0](folder)
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert code == 0
    assert HARMS[harm][1] in err
    assert measured.read_bytes() == before
    assert run(capsys, "runs", folder.results)[0] == 0


@pytest.mark.thorough
@pytest.mark.usefixtures("_no_site")
def test_a_lost_specification_is_named_and_written_anew(folder: Folder, capsys: Capture) -> None:
    lost = folder.runs[0] / "specification.json"
    before = lost.read_bytes()
    lost.unlink()
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert (code, lost.read_bytes()) == (0, before)
    assert f"{lost} cannot be read (No such file or directory); it is written anew" in err
    assert run(capsys, "runs", folder.results)[0] == 0


@pytest.mark.usefixtures("_no_site")
def test_a_lost_plan_is_named_and_written_anew(folder: Folder, capsys: Capture) -> None:
    lost = folder.runs[0] / "plan.json"
    before = lost.read_bytes()
    lost.unlink()
    packing = ("records", "pack", folder.results, folder.results / "packed.parquet")
    assert f"{lost.parent.name[:8]} has no plan.json" in run(capsys, *packing)[1]
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert (code, lost.read_bytes()) == (0, before)
    assert f"{lost} is missing; it is written anew" in err


def test_a_run_without_a_checkpoint_that_was_measured_is_complete(folder: Folder, capsys: Capture) -> None:
    packing = ("records", "pack", folder.results, folder.results / "packed.parquet")
    before = run(capsys, *packing)
    shutil.rmtree(folder.runs[0] / "steps/000010")
    assert run(capsys, *packing) == before
    listed = json.loads(run(capsys, "runs", folder.results, "--json")[1])["runs"]
    assert {each["state"] for each in listed} == {"complete"}
    code, out, _ = run(capsys, "show", folder.runs[0].name, "--results", folder.results)
    assert (code, "None then" in out) == (0, False)
    shutil.rmtree(folder.runs[0] / "steps/000040")
    listed = json.loads(run(capsys, "runs", folder.results, "--json")[1])["runs"]
    assert sorted(each["state"] for each in listed)[-1] == "unfinished"


@pytest.mark.parametrize(
    "place", ["plan.json", "measured", "steps/000020/model.safetensors", "steps/000040/training_state.sha256"]
)
def test_a_pipe_in_place_of_a_file_is_damage_and_not_waited_for(
    place: str, folder: Folder, capsys: Capture
) -> None:
    file = folder.measured() if place == "measured" else folder.runs[0] / place
    file.unlink()
    os.mkfifo(file)
    code, _, err = run(capsys, "show", folder.runs[0].name, "--results", folder.results)
    assert code == 1
    assert file.name in err
    assert "device or a pipe" in err


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_a_configuration_of_a_checkpoint_of_ours_is_damaged_and_not_another(
    content: bytes | None, folder: Folder, capsys: Capture
) -> None:
    model = folder.runs[0] / "steps/000040"
    (model / "config.json").unlink()
    if content is not None:
        (model / "config.json").write_bytes(content)
    for arguments in MODELS[:3]:
        code, out, err = run(capsys, *arguments(model, model))
        assert (code, out) == (1, "")
        assert f"{model} is damaged: config.json" in err


@pytest.mark.usefixtures("_no_site")
def test_a_record_and_its_checkpoint_both_damaged_are_no_success(folder: Folder, capsys: Capture) -> None:
    flip(folder.measured("000010"))
    flip(folder.runs[0] / "steps/000010/model.safetensors")
    for _ in range(2):
        code, out, err = run(capsys, *SMOKE, "--output", folder.results, "--json")
        assert code == 1
        again = f"to have it again, delete {folder.runs[0]}/steps/000010 and the steps after it"
        assert f"and was not made again; {again}, and reproduce it" in err
        assert "measurements are missing" in err
        told = json.loads(out)
        assert told["failures"]
        assert told["experiments"][0]["checkpoints"]


@pytest.mark.thorough
@pytest.mark.usefixtures("_no_site")
def test_a_checkpoint_that_is_not_needed_is_named_too(folder: Folder, capsys: Capture) -> None:
    HARMS["another step's checkpoint"][0](folder)
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert code == 1
    assert "checkpoint.json is that of step 20; what was measured of the checkpoint is used" in err
    last = folder.runs[0] / "steps/000040"
    assert f"made again; to have it again, delete {last} and the steps after it, and reproduce it" in err
    shutil.rmtree(last)
    assert run(capsys, *SMOKE, "--output", folder.results)[0] == 0


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_references_and_descriptions_are_named_and_made_again(folder: Folder, capsys: Capture) -> None:
    reference, description = min(folder.results.glob("references/*")), min(folder.results.glob("portraits/*"))
    before = reference.read_bytes()
    flip(reference)
    flip(description)
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert (code, reference.read_bytes()) == (0, before)
    assert f"{reference}" in err
    assert run(capsys, *SMOKE, "--output", folder.results)[2].count("damaged") == 0


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.usefixtures("_no_site")
def test_a_folder_that_holds_another_run_is_to_be_renamed(folder: Folder, capsys: Capture) -> None:
    first, second = folder.runs
    swap(first, second)
    told = [f"{a} holds another run: rename it to {b.name}" for a, b in ((first, second), (second, first))]
    held = {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.suffix in (".json", ".jsonl")}
    code, out, err = answer(capsys, "runs", folder.results)
    assert (code, err.splitlines()) == (1, [f"{each}; what it held is left out" for each in told])
    assert len(out.splitlines()) > 2
    asked = [("show", first.name, "--results", folder.results)]
    asked += [arguments(first / "steps/000040", folder.runs[-1] / "steps/000020") for arguments in MODELS]
    for arguments in asked:
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (1, ""), arguments
        assert told[0] in err or told[1] in err
        assert "delete" not in err
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert code == 1
    assert all(each in err for each in told)
    assert "delete" not in err
    assert {path: path.stat().st_mtime_ns for path in held} == held
    swap(first, second)
    assert run(capsys, "runs", folder.results)[0] == 0


def test_a_run_that_goes_on_from_another_is_known_by_its_measurements(folder: Folder) -> None:
    """Its plan alone has the digest that it is named for: here both others are taken away."""
    first, second = folder.runs
    shutil.copy(second / "plan.json", first)
    for file in ("specification.json", "steps"):
        (first / file).rename(folder.results / file)
    assert holds_another(first) == ""
    shutil.rmtree(first / "measured")
    assert holds_another(first) == f"holds another run: rename it to {second.name}"


@pytest.mark.usefixtures("_no_site")
def test_a_specification_and_a_checkpoint_of_another_run_cost_neither_run_more(
    folder: Folder, capsys: Capture
) -> None:
    first, second = folder.runs
    for name in ("specification.json", "steps/000040"):
        swap(first / name, second / name)
    model = first / "steps/000040"
    code, _, err = run(capsys, "inspect", model)
    assert code == 1
    assert f"{model} is of another run than {first / 'plan.json'} says" in err
    assert run(capsys, "inspect", first / "steps/000020")[0] == 0
    measured = {path: path.read_bytes() for path in first.glob("measured/*/*.jsonl")}
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert code == 0
    assert f"the checkpoint {model} is of another run" in err
    assert {path: path.read_bytes() for path in measured} == measured
    assert run(capsys, "inspect", model)[0] == run(capsys, "runs", folder.results)[0] == 0


@pytest.mark.usefixtures("_no_site")
def test_a_specification_with_all_checkpoints_of_another_run_is_named_by_every_command(
    folder: Folder, capsys: Capture
) -> None:
    """They agree with each other: only the plan tells."""
    first, second = folder.runs
    for name in ("specification.json", "steps"):
        swap(first / name, second / name)
    model = first / "steps/000040"
    for arguments in MODELS:
        code, out, err = run(capsys, *arguments(model, second / "steps/000020"))
        assert (code, out) == (1, ""), arguments
        assert "plan.json says" in err
    for arguments in folder.listed:
        code, _, err = run(capsys, *arguments)
        assert code == 1, arguments
        assert f"{first}" in err
        assert "specification.json is that of another run" in err
    code, _, err = run(capsys, *SMOKE, "--output", folder.results)
    assert code == 1
    assert f"{first} holds another run: its architecture.shape.width is" in err
    assert f"{first}/specification.json is that of another run; put the run's own back, or delete" in err
    for name in ("specification.json", "steps"):
        swap(first / name, second / name)
    assert run(capsys, *SMOKE, "--output", folder.results)[0] == 0


@pytest.mark.thorough
def test_a_copied_run_is_a_run_that_is_packed_once(folder: Folder, capsys: Capture) -> None:
    first = folder.runs[0]
    pack = ("records", "pack", folder.results)
    assert run(capsys, *pack, folder.results / "a.parquet")[0] == 0
    shutil.copytree(first, first.with_name(f"{first.name}-copy"))
    code, out, err = run(capsys, *pack, folder.results / "b.parquet")
    assert (code, err) == (0, "")
    assert "incomplete" not in out
    assert (folder.results / "a.parquet").read_bytes() == (folder.results / "b.parquet").read_bytes()
    assert run(capsys, "show", first.name, "--results", folder.results)[0] == 0
    # If the first is damaged, the copy has its records.
    flip(folder.measured())
    assert run(capsys, *pack, folder.results / "b.parquet")[0] == 1
    assert (folder.results / "a.parquet").read_bytes() == (folder.results / "b.parquet").read_bytes()


def test_what_a_killed_process_left_is_no_run_and_is_removed(folder: Folder, capsys: Capture) -> None:
    count = run(capsys, "runs", folder.results)[1].splitlines()[-1]
    file = folder.results / "packed.parquet"
    run(capsys, "records", "pack", folder.results, file)
    left = folder.results / "runs" / f".{folder.runs[0].name}.{'0' * 32}.part"
    shutil.copytree(folder.runs[0], left)
    assert run(capsys, "runs", folder.results)[1].splitlines()[-1] == count
    assert run(capsys, "records", "unpack", file, folder.results)[0] == 0
    assert not left.exists()
    large = folder.results.parent / "large"
    left = large.with_name(f".large.{'0' * 32}.part")
    left.mkdir()
    assert run(capsys, "enlarge", folder.runs[0] / "steps/000040", large, "--width", 2)[0] == 0
    assert (large.exists(), left.exists()) == (True, False)


@pytest.mark.thorough
def test_damage_to_a_packed_file_and_to_what_was_unpacked_is_named(
    reproduced: Path, tmp_path: Path, capsys: Capture
) -> None:
    file, there = tmp_path / "packed.parquet", tmp_path / "unpacked"
    run(capsys, "records", "pack", reproduced, file)
    run(capsys, "records", "unpack", file, there)
    unpacked = min(there.glob("runs/*/specification.json")).parent
    record = min(unpacked.glob("measured/*/*.jsonl"))
    for harmed in (*(unpacked / f"{name}.json" for name in ("specification", "plan", "finished")), record):
        flip(harmed)
        code, _, err = run(capsys, "runs", there)
        assert code == 1, harmed
        assert str(unpacked) in err
        flip(harmed)  # back
    assert run(capsys, "runs", there)[0] == 0
    flip(file)
    code, _, err = run(capsys, "records", "unpack", file, tmp_path / "elsewhere")
    assert code == 1
    assert f"{file} is damaged" in err
