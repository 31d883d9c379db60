"""`isoloss reproduce`: a figure of the paper, from nothing to its page."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

Scale = Literal["smoke", "laptop", "paper"]


def reproduce(
    figure: Positional[Literal["figure-1"]],
    /,
    scale: Scale = "laptop",
    output: Path | None = None,
    language: Path | None = None,
    maximum_length: int | None = None,
    task: str | None = None,
    runs: tuple[str, ...] = (),
    processes: int | None = None,
    device: str = "cpu",
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Compute a figure of the paper and write its page; go on where an interrupted call stopped.

    Example: isoloss reproduce figure-1 --scale laptop

    Args:
        figure: Which figure.
        scale: How large: smoke (seconds), laptop (minutes), paper (the paper's own settings).
        output: Folder for runs and page; results/figure-1-SCALE when not given.
        language: A grammar of your own, in NLTK's notation, instead of the scale's.
        maximum_length: Longest sentence kept of --language; needed when it has no longest sentence.
        task: Downstream task, such as prefix-4; the prefix of half the longest sentence when not given.
        runs: Only these runs, such as width-32-seed-1; all when not given.
        processes: Runs side by side, one core each; when not given, one for each core, or 1 on cuda.
        device: Where models are trained and measured: cpu or cuda.
        dry_run: Print the cost in operations, hours and gigabytes, and stop.
        json: Print the claims and all numbers as JSON on stdout.
    """
    # Models and charts take seconds to import, which `--help` need not wait for.
    from isoloss.command_line.reproduce_figure_1 import Request, reproduce_figure_1

    del figure  # there is one so far; its type has checked the name
    request = Request(scale, output, language, maximum_length, task, runs, processes, device, dry_run, json)
    return reproduce_figure_1(request)
