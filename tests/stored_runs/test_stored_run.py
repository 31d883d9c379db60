import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hand_made_runs import LOSS, write_measurement, write_names, write_run
from isoloss.errors import BadInput, IsolossError
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import settings_by_path
from isoloss.results.store import write_sealed
from isoloss.stored_runs.run_filter import Condition, condition, run_facts, runs_where, sorted_runs, values_of
from isoloss.stored_runs.stored_run import StoredRun, find_run, full_names, runs_in, stored_run


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_run(tmp_path / "laptop", "aaaa1111", width=32, seed=1, loss=LOSS)
    write_run(tmp_path / "laptop", "aabb2222", width=64, seed=2, loss={40: [0.5, 0.6]}, rule="SGD")
    write_run(tmp_path / "smoke", "cccc3333", width=16, seed=1, steps=(10, 20))
    write_names(tmp_path / "laptop", "figure-1", {"aaaa1111": "width-32-seed-1", "aabb2222": "w64"})
    write_names(tmp_path / "laptop", "figure-3", {"aaaa1111": "small"})
    return tmp_path


def names(runs: list[StoredRun]) -> list[str]:
    return [run.name for run in runs]


def test_runs_are_found_wherever_they_are_below(results: Path) -> None:
    runs = runs_in(results)
    assert names(runs) == ["aaaa1111", "aabb2222", "cccc3333"]
    first = runs[0]
    assert full_names(first) == ["figure-1 width-32-seed-1", "figure-3 small"]
    assert [checkpoint.step for checkpoint in first.checkpoints] == [10, 20, 40]
    (last,) = first.last_records
    assert last.value == pytest.approx(1.2)
    assert last.n == 3
    assert first.state_in_words == "complete"
    assert runs[2].state_in_words == "unfinished: trained to step 20 of 40"
    assert runs[2].names == {}


def test_what_is_planned_and_not_measured_leaves_a_run_unfinished(results: Path) -> None:
    folder = results / "laptop" / "runs" / "aaaa1111"
    planned = [{"measured_on": "on-loss", "quantity": {}, "steps": [10, 40]}]
    write_sealed(folder / "plan.json", {"measured": planned}, "plan.json")
    assert stored_run(folder).state == "complete"
    planned[0]["steps"] = [10, 20, 40]
    write_sealed(folder / "plan.json", {"measured": planned}, "plan.json")
    assert stored_run(folder).state_in_words == "unfinished: 1 measurements are missing"


def test_raw_weights_are_another_measurement(results: Path) -> None:
    folder = results / "laptop" / "runs" / "aaaa1111"
    planned = {"measured_on": "on-loss", "weights": "raw", "quantity": {}, "steps": [40]}
    write_sealed(folder / "plan.json", {"measured": [planned]}, "plan.json")
    assert stored_run(folder).missing == 1
    measured = measurements_at(folder, folder.name, 40)
    (record,) = measured.records("on-loss")
    raw = replace(record, value=5.0, settings={**record.settings, "weights": "raw"})
    measured.write("on-loss-raw", [raw])
    run = stored_run(folder)
    assert run.state == "complete"
    assert len(run.last_records) == 2
    facts = run_facts(run)
    assert facts["loss"] == [pytest.approx(1.2)]
    assert facts["raw_masked_loss_sentence_averaged"] == [5.0]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("specification.json", "{", r"specification\.json cannot be read"),
        ("specification.json", "[]", r"specification\.json cannot be read \(it is not what was written\)"),
        ("steps/000020/checkpoint.json", "", r"checkpoint\.json cannot be read"),
        ("steps/000020/model.safetensors", None, r"model\.safetensors is missing"),
        ("measured/000010/on-loss.jsonl", "no record\n", "line 1 is not a record"),
    ],
)
def test_damage_is_named_and_the_other_runs_are_listed(
    results: Path, file: str, text: str | None, said: str
) -> None:
    path = results / "laptop" / "runs" / "aaaa1111" / file
    path.unlink() if text is None else path.write_text(text)
    runs = runs_in(results)
    assert [run.state for run in runs] == ["damaged", "complete", "unfinished"]
    assert len(runs[0].damage) == 1
    assert re.search(said, runs[0].state_in_words)


def test_a_lost_specification_is_damage_and_the_run_is_still_there(results: Path) -> None:
    folder = results / "laptop" / "runs" / "aaaa1111"
    write_sealed(folder / "plan.json", {}, "plan.json")
    (folder / "specification.json").unlink()
    assert names(runs_in(results)) == ["aaaa1111", "aabb2222", "cccc3333"]
    assert re.search(r"damaged: .*specification\.json cannot be read", stored_run(folder).state_in_words)


def test_a_run_is_found_by_folder_by_prefix_and_by_name(results: Path) -> None:
    folder = results / "laptop" / "runs" / "aaaa1111"
    for wanted in (str(folder), "aaaa", "aaaa1111", "figure-1 width-32-seed-1", "figure-3 small"):
        assert find_run(wanted, results).folder == folder
    with pytest.raises(BadInput, match=r"'aa' means 2 runs: .*aaaa1111, .*aabb2222; give more"):
        find_run("aa", results)
    with pytest.raises(BadInput, match=r"no run below .* is called 'ff'"):
        find_run("ff", results)
    with pytest.raises(BadInput, match=r"there is no folder .*none"):
        find_run("aa", results / "none")
    with pytest.raises(BadInput, match="there is no run in"):
        runs_in(results / "laptop" / "experiments")
    with pytest.raises(BadInput, match=r"is no run: it has no specification\.json"):
        stored_run(results)


def test_a_run_is_found_by_the_name_that_the_list_shows(results: Path) -> None:
    """An experiment's, or for a run of none its plan's; of two runs with one name, the experiment tells."""
    for folder in (results / "laptop" / "runs" / "aaaa1111", results / "smoke" / "runs" / "cccc3333"):
        write_sealed(folder / "plan.json", {"name": "own", "measured": []}, "plan.json")
    assert find_run("w64", results).name == "aabb2222"
    assert find_run("small", results).name == "aaaa1111"
    assert find_run("own", results).name == "cccc3333"
    write_names(results / "laptop", "figure-3", {"aabb2222": "width-32-seed-1"})
    with pytest.raises(BadInput, match="'width-32-seed-1' means 2 runs"):
        find_run("width-32-seed-1", results)
    assert find_run("figure-3 width-32-seed-1", results).name == "aabb2222"


def test_a_name_that_is_lost_to_damage_is_damage_and_no_misspelling(results: Path) -> None:
    named = results / "laptop" / "experiments" / "figure-1.json"
    named.write_bytes(named.read_bytes()[:-9])
    with pytest.raises(
        IsolossError, match=r"is called 'figure-1 width-32-seed-1'.*figure-1\.json"
    ) as refused:
        find_run("figure-1 width-32-seed-1", results)
    assert not isinstance(refused.value, BadInput)


def test_what_a_site_hands_on_is_no_run(results: Path) -> None:
    copy = results / "laptop" / "site" / "runs" / "aaaa1111"
    copy.mkdir(parents=True)
    for name in ("specification.json", "records.jsonl"):
        (copy / name).write_bytes((results / "laptop/runs/aaaa1111/specification.json").read_bytes())
    assert names(runs_in(results)) == ["aaaa1111", "aabb2222", "cccc3333"]
    assert find_run("aaaa", results).folder == results / "laptop" / "runs" / "aaaa1111"
    with pytest.raises(BadInput, match="is no run"):
        stored_run(copy)


def test_links_to_folders_are_followed_and_no_run_is_there_twice(results: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "laptop").symlink_to(results / "laptop")
    (linked / "run").symlink_to(results / "smoke" / "runs" / "cccc3333")
    assert [run.folder for run in runs_in(linked)] == [
        linked / "laptop" / "runs" / "aaaa1111",
        linked / "laptop" / "runs" / "aabb2222",
        linked / "run",
    ]
    assert find_run("figure-3 small", linked).name == "aaaa1111"
    # A run kept on another disk, with a link in its place, has the names beside that.
    (tmp_path / "disk").mkdir()
    (results / "laptop" / "runs" / "aaaa1111").rename(tmp_path / "disk" / "aaaa1111")
    (results / "laptop" / "runs" / "aaaa1111").symlink_to(tmp_path / "disk" / "aaaa1111")
    assert find_run("figure-3 small", linked).name == "aaaa1111"
    assert names(runs_in(linked / "laptop")) == ["aaaa1111", "aabb2222"]
    before = [run.folder for run in runs_in(results / "laptop")]
    for number, target in enumerate((results, results / "laptop", results / "laptop" / "runs", "aaaa1111")):
        for place in (results / "laptop", results / "laptop" / "runs"):
            (place / f"a-link-{number}").symlink_to(target)
    # Neither the folders above nor their other runs are in the folder, though links lead there.
    assert [run.folder for run in runs_in(results / "laptop")] == before


@pytest.mark.parametrize("begun", [".lock", "plan.json", "steps"])
def test_a_run_is_there_as_soon_as_it_has_begun(begun: str, results: Path) -> None:
    folder = results / "laptop" / "runs" / "aaaa1111"
    shutil.rmtree(folder / "steps")
    assert len(runs_in(results)) == 2
    write_sealed(folder / begun, {}, begun)
    assert find_run("aaaa", results).state_in_words == "unfinished: trained to step 0 of 40"


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        (["width>=32"], ["aaaa1111", "aabb2222"]),
        (["width>=32", "seed=1"], ["aaaa1111"]),
        (["rule=adamw"], ["aaaa1111", "cccc3333"]),
        (["update_rule!=AdamW"], ["aabb2222"]),
        (["state = unfinished"], ["cccc3333"]),
        (["experiment=figure-3"], ["aaaa1111"]),
        (["experiment!=figure-3"], ["aabb2222", "cccc3333"]),
        (["loss<1"], ["aabb2222"]),
        (["masked_loss_sentence_averaged>1"], ["aaaa1111"]),
        (["architecture.shape.width<=16"], ["cccc3333"]),
        (["steps<1,000", "width>0,032"], ["aabb2222"]),
        (["learning_rate=1e-3", "seed<2"], ["aaaa1111", "cccc3333"]),
    ],
)
def test_conditions(results: Path, conditions: list[str], found: list[str]) -> None:
    assert names(runs_where(runs_in(results), [condition(text) for text in conditions])) == found


@pytest.mark.parametrize(
    ("text", "holds"), [("tied=true", True), ("tied!=true", False), ("tied=1", False), ("tied>0", False)]
)
def test_yes_and_no_are_no_numbers(text: str, holds: bool) -> None:
    assert condition(text).holds([True]) == holds


def test_accuracy_is_that_of_a_probe_or_else_of_fine_tuning(results: Path) -> None:
    folder = results / "laptop" / "runs" / "aaaa1111"
    for quantity, value in (("fine_tuning_best_accuracy", 0.75), ("linear_probe_accuracy", 0.5)):
        write_measurement(folder, 40, quantity, f"on-{quantity[0]}", np.full(4, value), kept=True)
        assert values_of(run_facts(stored_run(folder)), "accuracy") == [value]


def test_conditions_that_are_none() -> None:
    assert condition("learning_rate <= 1e-3") == Condition("learning_rate", "<=", "1e-3")
    for text in ("width", "=3", "width>", "", "width==3", "width=>3", "width<>3"):
        with pytest.raises(BadInput, match="is no condition"):
            condition(text)


def test_a_whole_name_means_one_run_though_another_begins_with_it(results: Path) -> None:
    write_run(results / "laptop", "aaaa11112")
    assert find_run("aaaa1111", results).name == "aaaa1111"
    with pytest.raises(BadInput, match="'aaaa' means 2 runs"):
        find_run("aaaa", results)


def test_what_a_killed_process_left_is_no_run(results: Path) -> None:
    before = names(runs_in(results))
    write_run(results / "laptop", f".dddd4444.{'0' * 32}.part")
    assert names(runs_in(results)) == before


def test_runs_of_no_experiment_are_not_of_one(tmp_path: Path) -> None:
    write_run(tmp_path, "dddd4444")
    assert names(runs_where(runs_in(tmp_path), [condition("experiment!=figure-3")])) == ["dddd4444"]


def test_an_unknown_key_is_named_with_the_known_ones(results: Path) -> None:
    with pytest.raises(BadInput, match=r"no run has 'widht'; did you mean 'width'"):
        runs_where(runs_in(results), [condition("widht=3")])


def test_an_order_of_what_is_no_number_is_refused(results: Path) -> None:
    with pytest.raises(BadInput, match="width is a number, and 'sixteen' is none"):
        runs_where(runs_in(results), [condition("width>sixteen")])
    with pytest.raises(BadInput, match="no run has a number as rule, which < and > compare"):
        runs_where(runs_in(results), [condition("rule<SGD")])
    with pytest.raises(BadInput, match="no run has 'widht'"):
        sorted_runs(runs_in(results), "widht", descending=False)


def test_sorting_puts_runs_without_the_key_last(results: Path) -> None:
    runs = runs_in(results)
    assert names(sorted_runs(runs, "loss", descending=False)) == ["aabb2222", "aaaa1111", "cccc3333"]
    assert names(sorted_runs(runs, "loss", descending=True)) == ["aaaa1111", "aabb2222", "cccc3333"]
    assert names(sorted_runs(runs, "width", descending=False)) == ["cccc3333", "aaaa1111", "aabb2222"]
    assert names(sorted_runs(runs, "rule", descending=True)) == ["aabb2222", "aaaa1111", "cccc3333"]


def test_the_shortest_path_that_ends_in_a_key_counts(results: Path) -> None:
    facts = run_facts(runs_in(results)[0])
    assert values_of(facts, "width") == [32]
    nested = {"is": "Run", "rule": {"is": "SAM", "inner": {"is": "AdamW", "rate": 2}, "rate": 1}}
    own = {path: [value] for path, value in settings_by_path(nested).items()}
    assert values_of(own, "rate") == [1]
    assert values_of(own, "inner.rate") == [2]
    assert values_of(own, "inner") == ["AdamW"]
    assert values_of(own, "none") == []
