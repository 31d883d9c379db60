import os
import signal
import time
from functools import partial
from pathlib import Path

import torch

from isoloss.errors import BadInput
from isoloss.experiments.runner import Job, Notice, Outcome, run_jobs
from isoloss.progress import Progress


def write_thread_count(path: Path, progress: Progress) -> list[str]:
    progress("writing", 1, 2)
    path.write_text(str(torch.get_num_threads()))
    return [f"wrote {path.name}"]


def fail_with_a_sentence(progress: Progress) -> list[str]:
    raise BadInput("the seed must not be negative")


def fail_unexpectedly(progress: Progress) -> list[str]:
    raise ZeroDivisionError("a bug")


def be_killed(progress: Progress) -> list[str]:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return []


def test_one_failure_does_not_sink_the_others(tmp_path: Path) -> None:
    jobs = [
        Job("mistake", fail_with_a_sentence, 1.0),
        Job("bug", fail_unexpectedly, 1.0),
        Job("killed", be_killed, 3.0),
        *(Job(f"good-{i}", partial(write_thread_count, tmp_path / str(i)), 2.0) for i in range(3)),
    ]
    seen: list[tuple[str, float]] = []

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        seen.append((task, completed / total))

    outcome = run_jobs(jobs, 2, report)
    failures = {failure.job: failure.text for failure in outcome.failures}
    assert set(failures) == {"mistake", "bug", "killed"}
    assert failures["mistake"] == "the seed must not be negative"
    assert "ZeroDivisionError: a bug" in failures["bug"]
    assert "SIGKILL" in failures["killed"]
    assert Notice("good-1", "wrote 1") in outcome.notices
    # One thread each: a run's numbers must not depend on how many run beside it.
    assert [(tmp_path / str(i)).read_text() for i in range(3)] == ["1", "1", "1"]
    assert ("good-0", 0.5) in seen
    assert seen[-1] == ("all runs", 1.0)


def count(tensors: list[torch.Tensor], progress: Progress) -> list[str]:
    return [str(len(tensors))]


def test_work_may_hold_more_tensors_than_a_process_may_send_descriptors() -> None:
    tensors = [torch.zeros(1) for _ in range(500)]
    assert run_jobs([Job("many", partial(count, tensors), 1.0)], 1).notices == (Notice("many", "500"),)


def test_nothing_to_do_is_done_at_once() -> None:
    assert run_jobs([], 2) == Outcome((), ())
