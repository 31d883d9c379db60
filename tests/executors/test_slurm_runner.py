import importlib
import json
import math
import os
import subprocess
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import fake_slurm
import pytest
from short_jobs import (
    be_killed,
    fail_with_a_sentence,
    never_end,
    never_end_either,
    run_out_of_time_once,
    write_after_lines,
    write_thread_count,
)

from isoloss.errors import BadInput, IsolossError, Terminated
from isoloss.executors import slurm_runner
from isoloss.executors.job import Ended, Job, Notice, Work
from isoloss.executors.slurm import SlurmSettings
from isoloss.executors.slurm_runner import run_jobs_on_slurm


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_runner, "SECONDS_BETWEEN_LOOKS", 0.02)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    submitit = pytest.importorskip("submitit")
    submitit.SlurmJob.watcher.clear()
    # Other processes also find the jobs of this file by its name.
    here = Path(__file__).parent
    paths = [str(here), str(here / "without_torch"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setattr(submitit.SlurmJob, "_results_timeout_s", 0)
    monkeypatch.setattr(submitit.SlurmJob.watcher, "_delay_s", 0)
    return fake_slurm.install(tmp_path / "slurm", monkeypatch)


def told_to_end(*_report: object) -> None:
    raise Terminated


def raise_once_written(path: Path, error: type[BaseException], *_report: object) -> None:
    if path.exists() and path.read_text():
        raise error


def test_jobs_through_submitit_mean_what_they_mean_locally(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    jobs = [
        Job("second", partial(write_thread_count, tmp_path / "second"), 9.0, after="first one"),
        Job("first one", partial(write_thread_count, tmp_path / "first"), 1.0),
        Job("mistake", fail_with_a_sentence, 1.0),
        Job("after it", partial(write_thread_count, tmp_path / "never"), 1.0, after="mistake"),
    ]
    seen: list[tuple[object, ...]] = []
    outcome = run_jobs_on_slurm(jobs, tmp_path / "jobs", lambda *report: seen.append(report), cluster="debug")
    assert outcome.failures == (
        Notice("mistake", "the seed must not be negative"),
        Notice("after it", "it needs “mistake”, which failed"),
    )
    assert outcome.notices == (Notice("first one", "wrote first"), Notice("second", "wrote second"))
    assert [(tmp_path / name).read_text() for name in ("first", "second")] == ["1", "1"]  # one thread each
    assert not (tmp_path / "never").exists()
    assert seen[-1][:3] == ("all runs", 1.0, 1.0)


def test_a_job_out_of_time_is_queued_again_and_a_killed_one_is_named(slurm: Path, tmp_path: Path) -> None:
    jobs = [Job("killed", be_killed, 1.0), Job("long", partial(run_out_of_time_once, tmp_path / "long"), 1.0)]
    seen: list[tuple[object, ...]] = []
    outcome = run_jobs_on_slurm(jobs, tmp_path / "jobs", lambda *report: seen.append(report))
    (failure,) = outcome.failures
    assert failure.job == "killed"
    assert "ended as FAILED; its log is" in failure.text
    assert outcome.notices == (Notice("long", "went on from 1"),)
    assert ("long", 1, 2, "begun: 2 times") in seen
    assert len(list(slurm.glob("*.sh"))) == 2


@pytest.mark.slow
def test_a_job_that_always_runs_out_of_time_fails_in_a_sentence(slurm: Path, tmp_path: Path) -> None:
    job = Job("long", partial(run_out_of_time_once, tmp_path / "long"), 1.0)
    settings = SlurmSettings(hours=0.1, time_outs=0)
    outcome = run_jobs_on_slurm([job], tmp_path / "jobs", settings=settings)
    assert [failure.text for failure in outcome.failures] == [
        "it has run out of time too often; ask for more hours, and the same command goes on from its last "
        "checkpoint"
    ]


@pytest.mark.slow
def test_an_interrupt_cancels_and_a_lost_caller_finds_its_jobs_again(slurm: Path, tmp_path: Path) -> None:
    path = tmp_path / "process"
    jobs = [Job("long", partial(never_end, path), 1.0)]
    until_it_runs = partial(raise_once_written, path, KeyboardInterrupt)
    with pytest.MonkeyPatch.context() as patch:  # a killed caller cancels nothing
        patch.setattr(slurm_runner._SlurmJobs, "stop", lambda self: None)
        with pytest.raises(KeyboardInterrupt):
            run_jobs_on_slurm(jobs, tmp_path / "jobs", until_it_runs)
    with pytest.raises(KeyboardInterrupt):
        run_jobs_on_slurm(jobs, tmp_path / "jobs", until_it_runs)
    assert (slurm / "last").read_text().strip() == "101"  # the second call submitted nothing
    process = int(path.read_text())
    for _ in range(100):
        if subprocess.run(["kill", "-0", str(process)], capture_output=True).returncode:
            break
        time.sleep(0.1)
    assert subprocess.run(["kill", "-0", str(process)], capture_output=True).returncode


def test_a_job_that_accounting_does_not_list_is_told_of(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm.parent / "commands" / "sacct").write_text("#!/bin/bash\necho 'JobID|State|NodeList'\n")
    monkeypatch.setattr(slurm_runner, "SECONDS_UNTOLD", 0.2)
    told: list[str] = []

    def until_it_is_told(task: str, completed: float, total: float, message: str = "") -> None:
        told.append(message)
        if "accounting" in message:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs_on_slurm(
            [Job("long", partial(never_end, tmp_path / "process"), 1.0)], tmp_path, until_it_is_told
        )
    assert "SLURM's accounting (sacct) does not list its job 101; ask for accounting" in told[-1]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("REQUEUE_HOLD", "its SLURM job 101 is held (REQUEUE_HOLD); `scontrol release 101` lets it go on"),
        ("NODE_FAIL", "its SLURM job 101 is lost (NODE_FAIL); SLURM has some minutes to requeue it"),
        pytest.param(
            "SUSPENDED",
            "its SLURM job 101 is SUSPENDED, which is not its end: it is waited for",
            marks=pytest.mark.thorough,
        ),
        pytest.param("A_NEW_STATE", "", marks=pytest.mark.thorough),
    ],
)
def test_a_job_that_is_held_up_is_waited_for_and_not_done_twice(
    state: str, says: str, slurm: Path, tmp_path: Path
) -> None:
    fake_slurm.queue_only(slurm, "RUNNING")
    states = [state, "PENDING", "SUSPENDED", "COMPLETED"]
    seen: list[str] = []

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        seen.append(message)
        if task == "all runs" and states:
            (slurm / "101.state").write_text(states.pop(0))

    outcome = run_jobs_on_slurm([Job("long", be_killed, 1.0, key="key")], tmp_path / "jobs", report)
    assert not says or says in seen
    assert "its SLURM job 101 is SUSPENDED, which is not its end: it is waited for" in seen
    assert [failure.text.partition(";")[0] for failure in outcome.failures] == [
        "its SLURM job 101 ended as COMPLETED"
    ]
    assert "#SBATCH --requeue" in (slurm / "101.sh").read_text()
    assert not (slurm / "cancelled").exists()


@pytest.mark.parametrize(("state", "last"), [("SUSPENDED", "101"), ("PREEMPTED", "102"), ("FAILED", "102")])
def test_a_job_that_may_go_on_is_not_submitted_again(
    state: str, last: str, slurm: Path, tmp_path: Path
) -> None:
    """One that SLURM may requeue is cancelled before it is."""
    fake_slurm.queue_only(slurm, state)
    for _ in range(2):
        with pytest.raises(Terminated):
            run_jobs_on_slurm([Job("long", be_killed, 1.0, key="key")], tmp_path / "jobs", told_to_end)
    assert (slurm / "last").read_text().strip() == last
    assert (slurm / "cancelled").exists() == (state == "PREEMPTED")


def test_a_job_that_is_lost_and_not_requeued_has_failed(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_runner, "SECONDS_UNTIL_REQUEUED", 0.2)
    fake_slurm.queue_only(slurm, "PREEMPTED")
    outcome = run_jobs_on_slurm([Job("long", be_killed, 1.0)], tmp_path / "jobs")
    (failure,) = outcome.failures
    assert failure.text.startswith("its SLURM job 101 ended as PREEMPTED; there is no log at")
    assert (slurm / "cancelled").read_text() == "101\n"


@pytest.mark.parametrize(
    ("state", "last", "says"),
    [
        (
            "PENDING",
            "102",
            "SLURM job 101 of an earlier call, still in the queue, is cancelled and submitted anew: "
            "partition short (now gpu), hours 1 (now 48), gpus 0 (now 1)",
        ),
        (
            "RUNNING",
            "101",
            "SLURM job 101 has what an earlier call asked for: partition short (now gpu), hours 1 (now 48), "
            "gpus 0 (now 1); to have the new, `scancel 101` and run the same command again",
        ),
    ],
)
def test_what_is_asked_for_now_is_had_by_jobs_that_wait_and_said_of_those_that_run(
    state: str, last: str, says: str, slurm: Path, tmp_path: Path
) -> None:
    fake_slurm.queue_only(slurm, state)
    seen: list[str] = []

    def told_to_end(task: str, completed: float, total: float, message: str = "") -> None:
        seen.append(message)
        if task == "all runs":
            raise Terminated

    job = Job("long", be_killed, 1.0, key="key")
    shorter = SlurmSettings("short", hours=1, memory_gigabytes=2)
    longer = replace(shorter, partition="gpu", hours=48, gpus=1)
    for settings in (shorter, longer, longer):
        with pytest.raises(Terminated):
            run_jobs_on_slurm([job], tmp_path / "jobs", told_to_end, settings=settings)
    assert (slurm / "last").read_text().strip() == last
    for number, flags in (
        ("101", ("partition=short", "time=60")),
        ("102", ("partition=gpu", "gpus-per-node=1")),
    ):
        for flag in (*flags, "mem=2GB", "cpus-per-task=1") if number <= last else ():
            assert f"#SBATCH --{flag}" in (slurm / f"{number}.sh").read_text()
    assert says in seen
    assert (slurm / "cancelled").exists() == (state == "PENDING")


def test_more_jobs_than_may_be_submitted_at_once_are_submitted_in_turn(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_runner, "SECONDS_BETWEEN_TRIES", 0.0)
    fake_slurm.allow(slurm, 1)
    jobs = [  # the first is not done before the second was refused, and refused again
        Job(name, partial(write_after_lines, 3, slurm / "refused", tmp_path / name), 1.0)
        for name in ("first", "second")
    ]
    seen: list[tuple[object, ...]] = []
    outcome = run_jobs_on_slurm(jobs, tmp_path / "jobs", lambda *report: seen.append(report))
    assert outcome.failures == ()
    assert [notice.text for notice in outcome.notices] == ["wrote first", "wrote second"]
    text = "SLURM takes no more jobs now (QOSMaxSubmitJobPerUserLimit); it is asked again every minute"
    assert {task for task, *_, message in seen if message == text} == {"second"}
    left = [path.name for path in (tmp_path / "jobs").iterdir() if not path.is_symlink()]
    assert not [name for name in left if name.startswith(".") or len(name) == 36]
    assert len((slurm / "refused").read_text().splitlines()) >= 3


@pytest.mark.thorough
def test_jobs_of_one_key_are_one_whatever_their_pickles(slurm: Path, tmp_path: Path) -> None:
    """And a caller that is told to end leaves them running."""
    path = tmp_path / "process"
    for error, number in ((Terminated, 1), (KeyboardInterrupt, 2)):
        job = Job("long", partial(never_end_either, number, path), 1.0, key="key")
        with pytest.raises(KeyboardInterrupt):
            run_jobs_on_slurm([job], tmp_path / "jobs", partial(raise_once_written, path, error))
    assert (slurm / "last").read_text().strip() == "101"  # the second call submitted nothing


@pytest.mark.usefixtures("slurm")
def test_a_node_finds_the_modules_that_its_caller_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rule_elsewhere.py").write_text("def told(progress):\n    return ['found']\n")
    monkeypatch.syspath_prepend(tmp_path / "rules")
    told = importlib.import_module("rule_elsewhere").told
    outcome = run_jobs_on_slurm([Job("own", told, 1.0)], tmp_path / "jobs")
    assert (outcome.failures, outcome.notices) == ((), (Notice("own", "found"),))


def test_without_submitit_or_slurm_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(IsolossError, match=r"isoloss\[slurm\]|SLURM is not to be found here"):
        run_jobs_on_slurm([Job("a", fail_with_a_sentence, 1.0)], tmp_path)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("hours", 0),
        ("hours", math.inf),
        ("memory_gigabytes", 0),
        ("memory_gigabytes", math.inf),
        ("memory_gigabytes", math.nan),
        ("cores", 0),
        ("gpus", -1),
    ],
)
def test_a_job_asks_for_what_there_can_be(name: str, number: float) -> None:
    with pytest.raises(BadInput, match=f"a SLURM job needs some hours, .* not .*{number}"):
        SlurmSettings(**{name: number})


def test_reports_are_json(tmp_path: Path) -> None:
    def done(work: Work) -> Ended:
        pickled = slurm_runner.pickle.dumps(work)
        return slurm_runner._Doing("a", pickled, str(tmp_path), (), 1, tmp_path / "report")()

    assert done(fail_with_a_sentence).failure == "the seed must not be negative"
    assert done(partial(write_thread_count, Path("here"))).failure is None
    assert (tmp_path / "here").exists()
    assert json.loads((tmp_path / "report").read_text()) == [1, 2, "writing"]
