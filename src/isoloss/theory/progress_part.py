"""The progress of one of several equal parts of a statement's work."""

from isoloss.progress import Progress


def part_of(progress: Progress, done: int, parts: int) -> Progress:
    """Reports to `progress` for the part that comes after `done` of all `parts`.

    >>> part_of(lambda task, completed, total, message="": print(task, completed, total), 1, 4)("fit", 3, 6)
    fit 1.5 4
    """

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(task, done + completed / total, parts, message)

    return report
