import platform
from functools import partial
from pathlib import Path

import pytest
import torch
from short_jobs import (
    be_killed,
    count,
    fail_unexpectedly,
    fail_with_a_sentence,
    only_after,
    write_page_faults,
    write_thread_count,
)

from isoloss.executors import runner
from isoloss.executors.job import Job, Notice, Outcome
from isoloss.executors.runner import LocalProcesses, run_jobs


@pytest.fixture(autouse=True, scope="module")
def _no_models_for_jobs() -> None:
    # These jobs train none, which jobs of `isoloss reproduce` do: to import them takes seconds.
    runner._CONTEXT.set_forkserver_preload(["torch"])


def test_one_failure_does_not_sink_the_others(tmp_path: Path) -> None:
    jobs = [
        Job("mistake", fail_with_a_sentence, 1.0),
        Job("bug", fail_unexpectedly, 1.0),
        Job("killed", be_killed, 3.0),
        *(Job(f"good-{i}", partial(write_thread_count, tmp_path / str(i)), 2.0) for i in range(3)),
        Job("second", partial(only_after, tmp_path / "2", tmp_path / "second"), 9.0, after="good-2"),
        Job("orphan", partial(write_thread_count, tmp_path / "never"), 9.0, after="killed"),
    ]
    seen: list[tuple[object, ...]] = []
    outcome = run_jobs(jobs, 2, lambda *report: seen.append(report))
    failures = {failure.job: failure.text for failure in outcome.failures}
    assert set(failures) == {"mistake", "bug", "killed", "orphan"}
    assert failures["mistake"] == "the seed must not be negative"
    assert "ZeroDivisionError: a bug" in failures["bug"]
    assert "SIGKILL" in failures["killed"]
    assert failures["orphan"] == "it needs “killed”, which failed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "second"]
    assert Notice("good-1", "wrote 1") in outcome.notices
    # One thread each: a run's numbers must not depend on how many run beside it.
    assert [(tmp_path / str(i)).read_text() for i in range(3)] == ["1", "1", "1"]
    assert ("good-0", 1, 2, "writing") in seen
    assert seen[-1][:3] == ("all runs", 1.0, 1.0)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have ways of their own")
def test_a_job_reuses_the_memory_of_freed_tensors(tmp_path: Path) -> None:
    assert not run_jobs([Job("faults", partial(write_page_faults, tmp_path / "faults"), 1.0)], 1).failures
    assert int((tmp_path / "faults").read_text()) < 10 * 2**11  # the pages of ten of the fifty


@pytest.mark.thorough
def test_work_may_hold_more_tensors_than_a_process_may_send_descriptors() -> None:
    tensors = [torch.zeros(1) for _ in range(500)]
    assert run_jobs([Job("many", partial(count, tensors), 1.0)], 1).notices == (Notice("many", "500"),)


def test_there_is_room_for_one_job_at_least_and_for_no_more_than_is_said() -> None:
    place = LocalProcesses(0)
    assert place.has_room
    try:
        place.begin(Job("one", partial(count, []), 1.0))
        assert not place.has_room
    finally:
        place.stop()


def test_nothing_to_do_is_done_at_once() -> None:
    assert run_jobs([], 2) == Outcome((), ())
