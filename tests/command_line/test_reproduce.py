import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from called import Capture, answer, json_of, output_of, refused, run

from isoloss.command_line import cost_table, reproduction
from isoloss.command_line.reproduce import ReproduceOptions, command_again, reproduce
from isoloss.command_line.reproduction import Choice, choice, reproduce_experiments
from isoloss.errors import BadInput, IsolossError
from isoloss.executors.job import Notice, Outcome
from isoloss.experiments import cost
from isoloss.experiments.cost import Device, this_machine
from isoloss.experiments.design import builtin_designs, requested_designs
from isoloss.experiments.experiment import TASK, facts_of
from isoloss.experiments.experiment_result import Results
from isoloss.experiments.languages import headline_grammar
from isoloss.languages.notation import write_grammar
from isoloss.pretraining.specification import Compute
from isoloss.progress import silent

RELEASED = str(Path("tests/data/liu2023-released.pcfg").resolve())
EXTREMES = tuple(f"width-{width}-seed-{seed}" for width in (64, 1536) for seed in (1, 2, 3))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("figure-1", "--task", "prefix-3"), "no task 'prefix-3'; choose prefix-8, prefix-4"),
        (("figure-1", "--language", RELEASED, "--task", "state-1"), "no task 'state-1'; choose root, "),
        (("figure-1", "--runs", "width-16-seed-9"), "called 'width-16-seed-9'; did you mean 'width-"),
        (("figure-1", "--processes", "0"), "--processes must be at least 1"),
        (("figure-1", "--output", "file/below"), "file is a file, where a folder is needed"),
        (("figure-1", "--runs", "zebra"), "no run of figure-1 is called 'zebra'; its 4 runs are width-16-"),
        (("figure-1", "--device", "tpu"), "the device 'tpu' cannot be used (torch knows no device"),
        (("figure-1", "--device", "tpu", "--on", "slurm"), "the device 'tpu' cannot be used"),
        (("figure-1", "--device", "meta", "--on", "slurm"), "the device 'meta' cannot be used"),
        (("zebra",), "no experiment 'zebra'; choose paper or all, among figure-1"),
        (("figure-1", "--address", "head:6379"), "--address is for --on ray"),
        (("figure-1", "--on", "slurm", "--hours", "0"), "some hours"),
        (("figure-1", "--hours", "2"), "--hours is for --on slurm; leave it out with --on local"),
        ((), "name what to reproduce: choose paper or all, among figure-1"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, "reproduce", "--scale", "smoke", *arguments)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (("ray", "--address", "127.0.0.1:1"), r"isoloss\[ray\]|no Ray cluster answers at 127.0.0.1:1"),
        (("slurm",), "SLURM is not to be found here .*; submit from a node that has `sbatch`"),
    ],
)
def test_runs_go_to_the_cluster_that_is_named(
    where: tuple[str, ...], says: str, tmp_path: Path, capsys: Capture
) -> None:
    asked = ("reproduce", "figure-1", "--scale", "smoke", "--output", tmp_path, "--on", *where)
    code, out, told = answer(capsys, *asked)
    assert (code, out) == (2, "")
    assert re.search(says, told.splitlines()[-1])


def test_slurm_is_asked_for_what_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("sbatch", "srun"):
        (tmp_path / name).write_text(
            f'#!/bin/sh\ncp "$1" {tmp_path}/script; echo no such partition >&2; exit 1'
        )
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked = ("--partition", "short", "--account", "lab", "--hours", "2", "--memory", "3")
    output = tmp_path / "results"
    code, _, told = answer(
        capsys, "reproduce", "figure-1", "--scale", "smoke", "--output", output, "--on", "slurm", *asked
    )
    assert code == 2
    assert "SLURM refuses the job" in told
    assert "no such partition" in told
    script = (tmp_path / "script").read_text()
    for flag in ("--partition=short", "--account=lab", "--time=120", "--mem=3GB", "--cpus-per-task=1"):
        assert f"#SBATCH {flag}" in script
    assert "--gpus" not in script


def test_one_name_asks_for_all_of_the_paper() -> None:
    paper = set(requested_designs(("paper",)))
    assert {"figure-1", "figure-10", "table-4", "real-text-steps"} <= paper
    assert not {"drift", "update-rules", "ablations", "dyck-transfer"} & paper
    assert set(requested_designs(("paper", "drift"))) == {*paper, "drift"}
    assert list(requested_designs(("all",))) == list(builtin_designs())


@pytest.fixture
def _few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a task has room is told by a probe, which learns here from so few sentences."""
    monkeypatch.setattr("isoloss.experiments.scale.MOST_EXAMPLES", 300)


@pytest.mark.usefixtures("_few_examples")
def test_a_task_that_the_words_settle_needs_a_word_of_the_users_own(tmp_path: Path) -> None:
    grammar = str(tmp_path / "easy.pcfg")
    lines = ["S -> X [0.5] | Y [0.5]", "X -> A A [1]", "Y -> B B [1]"]
    lines += [f"{part} -> " + " | ".join(f"'{part}{n}' [0.1]" for n in range(10)) for part in "AB"]
    Path(grammar).write_text("\n".join(lines))
    asked = ReproduceOptions(("figure-1",), "laptop", tmp_path, language=Path(grammar))
    with pytest.raises(BadInput, match="no task of the language has room"):
        choice(asked)
    with pytest.raises(BadInput, match=r"prefix-2 has no room.*; choose another language, or give --any"):
        choice(replace(asked, task="prefix-2"))
    chosen = choice(replace(asked, any_task=True))
    assert (TASK, "prefix-2") in facts_of(chosen.experiments[0])
    again = command_again(replace(asked, any_task=True), chosen.experiments[0], chosen.runs[0])
    assert again.endswith(" --task prefix-2 --any-task")
    # The smoke scale shows that everything runs, whatever the language.
    choice(replace(asked, scale="smoke"))


@pytest.fixture(scope="module")
def rate() -> Callable[..., Device]:
    """The rate of this machine, which takes half a second to measure, measured once."""
    return cache(this_machine)


@pytest.fixture
def _measured_once(rate: Callable[..., Device], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cost_table, cost):
        monkeypatch.setattr(module, "this_machine", rate)


@pytest.mark.usefixtures("_measured_once")
def test_a_dry_run_tells_the_cost_of_the_paper_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "refuse_what_decides_nothing", lambda experiment: None)
    asked = ("reproduce", "figure-1", "--scale", "paper", "--dry-run", "--json", "--runs", *EXTREMES)
    content = json_of(answer(capsys, *asked))
    families = content["families"]
    assert [family["model"] for family in families] == ["transformer 64 × 1", "transformer 1536 × 24"]
    assert [family["runs"] for family in families] == [3] * 2
    assert [family["batch_size"] for family in families] == [4096] * 2
    assert families[-1]["hours_a100"] > families[0]["hours_a100"] > 0
    minutes = 60 * families[0]["hours_a100"] * 19.5 / 67 / 3  # three seeds
    assert families[0]["minutes_a_run_h100"] == pytest.approx(minutes)
    assert families[0]["hours_h100"] == pytest.approx(3 * minutes / 60)
    # The paper: "transformers from 2M to 950M".
    assert 0.6e9 < families[-1]["parameters"] < 1.0e9
    assert content["total"]["runs"] == 6
    for summed in ("operations", "hours_h100"):
        assert content["total"][summed] == pytest.approx(sum(family[summed] for family in families))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_runs_that_cost_differently_are_rows_of_their_own() -> None:
    first = choice(ReproduceOptions(("figure-1",), "smoke", None)).runs[0]
    often = replace(first, checkpoint_steps=tuple(range(1, first.steps + 1)))
    rough = replace(first, compute=Compute(precision="bfloat16"))
    other_seed = replace(first, seed=first.first_seed + 100)
    other_rate = replace(first, update_rule=replace(first.update_rule, learning_rate=1e-2))
    runs = (first, often, rough, other_seed, other_rate)
    rows = cost_table.cost_rows((), runs, Device("a machine", 1e11), None, silent)
    assert [row["runs"] for row in rows] == [3, 1, 1]
    assert rows[0]["disk_gigabytes"] == pytest.approx(3 * cost.run_cost(first).disk_bytes / 1e9)
    assert rows[1]["disk_gigabytes"] == pytest.approx(cost.run_cost(often).disk_bytes / 1e9)
    assert rows[2]["hours_h100"] < rows[0]["hours_h100"] / 2


@pytest.mark.usefixtures("_measured_once")
def test_a_dry_run_can_time_the_models_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost_table, "SECONDS_A_FAMILY", 0.02)
    monkeypatch.setattr(cost_table, "run_throughput", cache(cost_table.run_throughput))
    # A grammar, and a causal model that is not trained yet: neither is supported here.
    names = ("figure-1", "figure-2")
    assert (
        reproduce_experiments(ReproduceOptions(names, "smoke", None, dry_run=True, measure=True, json=True))
        == 0
    )
    families = json.loads(capsys.readouterr().out)["families"]
    for family in families:
        assert family["not_measured"] is None
        assert family["hours_measured"] > 0 < family["share_measured"]
    assert reproduce_experiments(ReproduceOptions(names[:1], "smoke", None, dry_run=True, measure=True)) == 0
    told = capsys.readouterr().out
    assert "timed here" in told
    assert not re.search(r"\de-\d", told), "a time is told in the unit in which it is read"
    assert re.match(r"Cost of training alone, smoke scale; \d+ measurements come on top", told)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match=r"--measure goes with --dry-run"):
        reproduce(ReproduceOptions(names, "smoke", None, measure=True))


@pytest.mark.usefixtures("_measured_once")
@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_costs_has_a_line_a_row_that_fits(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    asked = ["reproduce", "figure-1", "table-1", "--scale", "smoke", "--dry-run"]
    lines = output_of(answer(capsys, *asked)).splitlines()
    assert max(map(len, lines)) <= width
    titles = lines[1].split()
    assert {"model", "runs", "here"} <= set(titles)
    assert [line for line in lines[2:9] if line[0] != " "] == ["figure-1", "table-1", "all of them"]
    assert any(line.startswith("not shown: ") for line in lines)
    wide = output_of(answer(capsys, *asked, "--wide"))
    assert "operations" in wide.splitlines()[1]
    assert "batch" in wide.splitlines()[1].split()
    assert "(--wide)" not in wide
    assert run(["reproduce", "figure-1", "--wide"]) == 2


def test_a_model_too_large_to_time_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BadInput("a step needs about 400 GB")

    monkeypatch.setattr(cost_table, "run_throughput", refuse)
    chosen = choice(ReproduceOptions(("figure-1",), "smoke", None, dry_run=True, measure=True))
    rows = cost_table.cost_rows(chosen.experiments, chosen.runs, Device("a machine", 1e11), "cpu", silent)
    assert {row["not_measured"] for row in rows} == {"a step needs about 400 GB"}
    assert {row["hours_measured"] for row in rows} == {None}


@pytest.mark.usefixtures("_few_examples")
def test_a_run_again_is_of_the_task_that_was_measured(tmp_path: Path) -> None:
    (tmp_path / "own.pcfg").write_text(write_grammar(headline_grammar().grammar))
    asked = ReproduceOptions(("figure-1", "drift"), "laptop", tmp_path, language=tmp_path / "own.pcfg")
    chosen = choice(asked)
    task = dict(facts_of(chosen.experiments[0]))[TASK]
    for experiment in chosen.experiments:
        assert f"--task {task}" in command_again(asked, experiment, experiment.runs[0])
    # Measurements for the scale's own task are repeated, whatever was requested of another experiment.
    asked = ReproduceOptions(("figure-1",), "smoke", tmp_path, task="prefix-4", any_task=True)
    drift = choice(asked).others["drift"]()
    assert "task" not in command_again(asked, drift, drift.runs[0])


def test_what_failed_is_told_though_the_site_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    def full(*arguments: object) -> None:
        raise IsolossError("cannot write in site: No space left on device")

    failed = Results((), Outcome((Notice("seed-1", "no space"),), ()), 0.0)
    monkeypatch.setattr(reproduction, "choice", lambda request: Choice((), (), {}))
    monkeypatch.setattr(reproduction, "carry_out_experiments", lambda *arguments, **named: failed)
    monkeypatch.setattr(reproduction, "write_whole_site", full)
    with pytest.raises(IsolossError, match="No space left"):
        reproduce_experiments(ReproduceOptions(("figure-1",), "smoke", tmp_path))
    assert "seed-1 failed: no space" in capsys.readouterr().err


def test_a_device_of_a_cluster_need_not_be_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isoloss.command_line.reproduction.reproduce_experiments", lambda request: 0)
    assert reproduce(ReproduceOptions(("figure-1",), scale="paper", on="slurm", device="cuda")) == 0
