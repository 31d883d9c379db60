import pickle
import re
from collections.abc import Iterable, Sequence

import pytest

from isoloss.errors import BadInput, FolderHeld
from isoloss.executors.job import (
    Advanced,
    Ended,
    Job,
    Notice,
    Outcome,
    Schedule,
    do,
    do_jobs,
    reports,
    retried_while_held,
)
from isoloss.progress import Progress, silent


def work(progress: Progress) -> Sequence[str]:
    return ()


def job(name: str, cost: float = 1.0, after: str | None = None) -> Job:
    return Job(name, work, cost, after)


class Played:
    """A backend that follows a script: the job started first ends first, as determined by `failing`."""

    def __init__(self, room: int, failing: Iterable[str] = (), interrupted_at: str = "") -> None:
        self.room, self.failing, self.interrupted_at = room, set(failing), interrupted_at
        self.begun: list[str] = []
        self.running: list[str] = []
        self.most = 0
        self.stopped = False

    @property
    def has_room(self) -> bool:
        return len(self.running) < self.room

    def begin(self, job: Job) -> None:
        self.begun.append(job.name)
        self.running.append(job.name)
        self.most = max(self.most, len(self.running))

    def events(self) -> Iterable[Advanced | Ended]:
        name = self.running.pop(0)
        if name == self.interrupted_at:
            raise KeyboardInterrupt
        yield Advanced(name, 1, 2, "half way")
        yield Ended(name, (f"{name} was here",), "it broke" if name in self.failing else None)

    def stop(self) -> None:
        self.stopped = True


def test_the_most_expensive_job_that_may_begin_is_next() -> None:
    jobs = [job("language", 0.1), job("small", 1, "language"), job("large", 9, "language"), job("free", 2)]
    backend = Played(room=1)
    assert do_jobs(jobs, backend).failures == ()
    assert backend.begun == ["free", "language", "large", "small"]
    assert backend.stopped


def test_no_more_jobs_than_there_is_room_for() -> None:
    backend = Played(room=2)
    do_jobs([job(str(i)) for i in range(5)], backend)
    assert backend.most == 2
    assert sorted(backend.begun) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"a": "b", "b": "a", "c": "a"}, "the job “a” waits for “b”, which waits for “a”: none of them can"),
        ({"a": "a"}, "the job “a” waits for “a”: none of them can"),
        ({"a": "b", "b": "c", "c": "b"}, "the job “b” waits for “c”, which waits for “b”: none of them can"),
    ],
)
def test_jobs_that_wait_for_each_other_are_refused(after: dict[str, str], says: str) -> None:
    backend = Played(room=1)
    with pytest.raises(BadInput, match=says):
        do_jobs([job(name, after=other) for name, other in after.items()], backend)
    assert backend.begun == []


def test_what_needs_a_failed_job_fails_with_it_and_the_others_go_on() -> None:
    jobs = [job("c", after="b"), job("b", after="a"), job("a"), job("other"), job("orphan", after="gone")]
    backend = Played(room=1, failing=["a"])
    outcome = do_jobs(jobs, backend)
    assert {(failure.job, failure.text) for failure in outcome.failures} == {
        ("a", "it broke"),
        ("b", "it needs “a”, which failed"),
        ("c", "it needs “b”, which failed"),
        ("orphan", "it needs “gone”, which failed"),
    }
    assert backend.begun == ["a", "other"]
    assert Notice("other", "other was here") in outcome.notices


def test_progress_counts_cost_and_never_passes_the_whole() -> None:
    seen: list[tuple[object, ...]] = []
    do_jobs([job("large", 3), job("small", 1)], Played(room=2), lambda *report: seen.append(report))
    assert seen == [
        ("large", 1, 2, "half way"),
        ("all runs", 0.75, 1, "1 of 2 jobs done"),
        ("small", 1, 2, "half way"),
        ("all runs", 1, 1, "2 of 2 jobs done"),
    ]


def test_progress_says_at_once_what_failed_and_why() -> None:
    said: list[object] = []
    backend = Played(room=1, failing=["large"])
    do_jobs([job("large", 3), job("small", 1)], backend, lambda *report: said.append(report[3]))
    assert said[1::2] == [f"{ended} of 2 jobs done, 1 of them failed: large: it broke" for ended in (1, 2)]


def test_a_running_jobs_part_counts() -> None:
    schedule = Schedule([job("a", 3), job("b", 1)])
    schedule.take()
    schedule.advance(Advanced("a", 1, 2, ""))
    assert schedule.share == pytest.approx(1.5 / 4)
    schedule.advance(Advanced("a", 0, 2, ""))  # restarted elsewhere
    assert schedule.share == 0
    schedule.advance(Advanced("a", 3, 2, ""))  # more than it was thought to be
    assert schedule.share == 3 / 4


def test_of_an_unexpected_error_progress_says_what_it_was() -> None:
    schedule = Schedule([job("a"), job("b")])
    schedule.end(Ended("a", failure="please report it:\nTraceback: line 3\nZeroDivisionError: a bug\n"))
    assert schedule.status == "1 of 2 jobs done, 1 of them failed: a: ZeroDivisionError: a bug"


def test_reports_are_as_far_apart_as_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.4, 100.5, 100.9, 101.2])
    monkeypatch.setattr("isoloss.executors.job.time.monotonic", lambda: next(clock))
    sent: list[Advanced] = []
    report = reports("a", 0.5, sent.append)
    for done in range(5):
        report("training", done, 5, "")
    assert [each.completed for each in sent] == [0, 2, 4]


class Held:
    """Work whose folder another process holds, the first `times` times that it is done."""

    def __init__(self, times: int) -> None:
        self.times, self.done = times, 0

    def __call__(self, progress: Progress) -> list[str]:
        self.done += 1
        if self.done <= self.times:
            raise FolderHeld("another process works in it")
        return ["done"]


def test_a_held_folder_is_waited_for_as_long_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isoloss.executors.job._PAUSE_SECONDS", 0.0)
    told: list[str] = []
    soon, never = Held(3), Held(10**9)
    assert retried_while_held(soon, lambda *report: told.append(str(report[3])), 60.0) == ["done"]
    assert told == ["another process works in it"] * 3
    with pytest.raises(FolderHeld):
        retried_while_held(never, silent, 0.0)
    assert never.done == 1


def test_an_interrupt_stops_what_runs() -> None:
    backend = Played(room=2, interrupted_at="b")
    with pytest.raises(KeyboardInterrupt):
        do_jobs([job("a"), job("b"), job("c")], backend)
    assert backend.stopped


def test_nothing_to_do_and_two_of_one_name() -> None:
    backend = Played(room=1)
    assert do_jobs([], backend) == Outcome((), ())
    assert backend.stopped
    with pytest.raises(BadInput, match="one name"):
        Schedule([job("a"), job("a")])


def fails(progress: Progress) -> Sequence[str]:
    raise ZeroDivisionError("by nothing")


def test_an_error_in_a_users_own_code_names_its_line() -> None:
    failure = do("own", pickle.dumps(fails), silent).failure
    assert failure is not None
    assert re.fullmatch(
        r".*test_job\.py, line \d+, in fails: ZeroDivisionError: by nothing; mend it and run again", failure
    )
