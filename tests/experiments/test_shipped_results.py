from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from isoloss.errors import Damaged
from isoloss.executors.job import Outcome
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shipped_results import (
    ShippedInterval,
    beside_shipped,
    packed_results,
    shipped_result,
    shipped_results,
)
from isoloss.results.verdict import Verdict

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
