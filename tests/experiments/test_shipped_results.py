"""Results as they are shipped: what a user's are held against, and what a page offers of them."""

import math
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from isoloss.errors import Damaged
from isoloss.executors.job import Outcome
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment_result import ExperimentResult, carry_out_experiments, judged_runs
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.shipped_results import (
    ShippedInterval,
    beside_shipped,
    packed_results,
    result_as_json,
    shipped_result,
    shipped_results,
)
from isoloss.results.verdict import Verdict
from jobs_in_turn import in_turn
from norm_experiments import experiment, planned
from planned_suite import planned_suite

SHIPPED = shipped_result("figure-1", "laptop")
FIGURE_1 = replace(builtin_designs()["figure-1"].at(scale_named("laptop")), settings=())
RUNS = len(FIGURE_1.runs)


def result_of(rows: list[dict[str, object]]) -> ExperimentResult:
    return ExperimentResult(FIGURE_1, pl.DataFrame(rows, infer_schema_length=None), (), Outcome((), ()))


def test_the_same_rows_are_the_same_to_the_last_bit() -> None:
    beside = beside_shipped(result_of(list(SHIPPED.rows)), "laptop")
    assert beside is not None
    assert beside.shipped_runs == beside.here == beside.same == RUNS
    assert beside.differences == ()
    assert beside.sentence.endswith(f"{RUNS} are here, {RUNS} of them the same to the last bit.")


def test_a_number_that_differs_is_told_with_what_may_be_why() -> None:
    first = SHIPPED.rows[0]
    rows = [first | {"loss": first["loss"] + 0.25}, *SHIPPED.rows[1:]]
    beside = beside_shipped(result_of(rows), "laptop")
    assert beside is not None
    assert (beside.here, beside.same) == (RUNS, RUNS - 1)
    assert beside.differences == (("loss", 0.25),)
    elsewhere = replace(beside, versions=("torch 1 there and 2 here",)).sentence
    assert elsewhere.endswith(f"{RUNS - 1} of them the same to the last bit; the others differ by up to: "
                              "loss 0.25 (torch 1 there and 2 here).")  # fmt: skip
    assert "another processor" in replace(beside, versions=()).sentence


def test_any_number_that_differs_is_told_whatever_its_column() -> None:
    rows = [row | {"kl": 1.5 * row["kl"]} if row.get("kl") else row for row in SHIPPED.rows]
    beside = beside_shipped(result_of(rows), "laptop")
    assert beside is not None
    assert [name for name, _ in beside.differences] == ["kl"]
    rows = [row | {"trace_sentences": 7} if "trace_sentences" in row else row for row in SHIPPED.rows]
    assert [name for name, _ in beside_shipped(result_of(rows), "laptop").differences] == ["trace_sentences"]


def test_a_run_that_lacks_numbers_is_not_the_same() -> None:
    first = SHIPPED.rows[0]
    for rows in ([first | {"loss": None}, *SHIPPED.rows[1:]], list(SHIPPED.rows[1:])):
        beside = beside_shipped(result_of(rows), "laptop")
        assert beside is not None
        assert (beside.here, beside.same, beside.partial) == (RUNS, RUNS - 1, 1)
        assert beside.sentence.endswith(
            f"{RUNS - 1} of them the same to the last bit; 1 lack numbers that are shipped."
        )


def test_machines_are_those_of_the_runs_and_not_of_the_process_that_compares() -> None:
    rows = [row | {"loss": row["loss"] + 0.25} for row in SHIPPED.rows if "loss" in row]
    for threads, said in ((1, "another processor"), (4, "(threads 1 there and 4 here)")):
        trained = replace(result_of(rows), versions={**SHIPPED.versions, "threads": threads})
        beside = beside_shipped(trained, "laptop")
        assert beside is not None
        assert said in beside.sentence


def test_what_is_asked_to_be_otherwise_is_not_compared() -> None:
    others = [row | {"folder": "0" * 16} for row in SHIPPED.rows]
    assert beside_shipped(result_of(others), "laptop") is None
    assert beside_shipped(result_of(list(SHIPPED.rows)), "smoke") is None
    assert beside_shipped(result_of([]), "laptop") is None
    with_other_runs = replace(FIGURE_1, runs=FIGURE_1.runs[1:])
    assert (
        beside_shipped(replace(result_of(list(SHIPPED.rows)), experiment=with_other_runs), "laptop") is None
    )
    one = [row for row in SHIPPED.rows if row["run"] == SHIPPED.rows[0]["run"]]
    beside = beside_shipped(result_of(one), "laptop")
    assert beside is not None
    assert (beside.shipped_runs, beside.here) == (RUNS, 1)


def test_another_task_is_not_compared() -> None:
    """Runs are the same whatever is probed, and their digests do not depend on it."""
    (task,) = [value for name, value in SHIPPED.settings.items() if name == "downstream task"]
    same, other = result_of(list(SHIPPED.rows)), result_of(list(SHIPPED.rows))
    same = replace(same, experiment=replace(FIGURE_1, settings=(("downstream task", task),)))
    other = replace(other, experiment=replace(FIGURE_1, settings=(("downstream task", "prefix-4"),)))
    assert beside_shipped(same, "laptop") is not None
    assert beside_shipped(other, "laptop") is None


def test_an_interval_that_bounds_nothing_holds_nothing() -> None:
    assert ShippedInterval(1.0, 0.0, 2.0, Verdict.SUPPORTED).holds(2.0)
    assert not ShippedInterval(1.0, float("nan"), float("nan"), Verdict.INCONCLUSIVE).holds(1.0)
    assert set(SHIPPED.claims) > {"one-kl", "later-is-better"}


@pytest.mark.parametrize("scale", ["laptop", pytest.param("night", marks=pytest.mark.thorough)])
def test_a_scales_results_are_one_file_that_is_written_as_it_is_read(scale: str) -> None:
    file = files("isoloss") / "reference" / f"{scale}.json.gz"
    assert packed_results(scale, shipped_results(scale)) == file.read_bytes()
    assert shipped_results("smoke") == {}


def test_a_damaged_file_or_that_of_another_scale_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isoloss.experiments.shipped_results.files", lambda _: tmp_path)
    read = shipped_results.__wrapped__
    (tmp_path / "reference").mkdir()
    file = tmp_path / "reference" / "laptop.json.gz"
    whole = packed_results("laptop", {"figure-1": {"commit": "0"}})
    file.write_bytes(whole)
    assert read("laptop") == {"figure-1": {"commit": "0"}}
    for damaged in (whole[:-9], whole[:20] + b"x" + whole[21:], b"{}", packed_results("night", {})):
        file.write_bytes(damaged)
        with pytest.raises(Damaged, match="install isoloss again"):
            read("laptop")


@pytest.mark.parametrize("scale", ["laptop", pytest.param("night", marks=pytest.mark.thorough)])
def test_a_change_of_a_statistic_changes_what_is_shipped(scale: ScaleName) -> None:
    """Else someone with the same runs is told other numbers than the documentation has."""
    compared = 0
    claims = {each.name: each.claims for each in planned_suite(scale)}
    for name, shipped in shipped_results(scale).items():
        result = shipped["result"]
        registered = {claim.name: claim for claim in claims[name]}
        told = {each["name"]: each["effect"] for each in result["claims"] if each["name"] in registered}
        references = [each | {"step": None, "seed": None} for each in result["references"]]
        runs = judged_runs(pl.DataFrame([*result["checkpoints"], *references], infer_schema_length=None))
        for claim, effect in told.items():
            found = registered[claim].statistic(runs)
            if effect is None:
                assert not math.isfinite(found), (name, claim)
            else:
                assert found == pytest.approx(effect, rel=1e-9, abs=1e-12), (name, claim)
                compared += 1
    assert compared > 150


def test_verdicts_are_about_seeds_of_which_every_run_is_there(tmp_path: Path) -> None:
    """Else a difference between seeds would count as one between the runs that are compared."""
    log = tmp_path / "log"
    runs = [planned(seed, log, 1.0) for seed in (1, 2)]
    others = [replace(run, name=f"more-{run.name}", batch_size=8) for run in runs]
    four = experiment(*runs, *others)
    output = tmp_path / "out"
    three = carry_out_experiments([four], output, in_turn, runs=four.runs[:3]).experiments[0]
    assert three.table["run"].n_unique() == 4  # with the reference
    assert (three.left_out, three.judgements[0].runs) == ((2,), 2)
    assert "leave out the runs with seeds 2:" in three.not_judged
    assert result_as_json(three)["seeds_left_out"] == [2]
    whole = carry_out_experiments([four], output, in_turn).experiments[0]
    assert (whole.left_out, whole.not_judged, whole.judgements[0].runs) == ((), "", 4)
