"""`isoloss reproduce`: figures and tables of the paper, from nothing to their pages."""

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

ScaleName = Literal["smoke", "laptop", "paper"]
Place = Literal["local", "ray", "slurm"]


def reproduce(
    names: Positional[tuple[str, ...]],
    /,
    scale: ScaleName = "laptop",
    output: Path | None = None,
    language: Path | None = None,
    maximum_length: int | None = None,
    task: str | None = None,
    runs: tuple[str, ...] = (),
    processes: int | None = None,
    device: str = "cpu",
    precision: Literal["float32", "bfloat16"] = "float32",
    compiled: bool = False,
    on: Place = "local",
    address: str | None = None,
    partition: str | None = None,
    account: str | None = None,
    hours: float = 24.0,
    dry_run: bool = False,
    measure: bool = False,
    json: bool = False,
) -> int:
    """Compute figures and tables of the paper and write their pages; go on where a call stopped.

    Example: isoloss reproduce figure-1 --scale laptop

    Args:
        names: Which experiments, such as figure-1 table-1; or all. Those that share runs compute them once.
        scale: How large: smoke (seconds), laptop (minutes), paper (the paper's own settings).
        output: Folder for runs and site; results/SCALE when not given, and all experiments share it.
        language: A grammar of your own, in NLTK's notation, instead of the scale's; figure-1 alone.
        maximum_length: Longest sentence kept of --language; needed when it has no longest sentence.
        task: Downstream task, such as prefix-4; the prefix of half the longest sentence when not given;
            figure-1 alone.
        runs: Only these runs of one experiment, such as width-32-seed-1; all when not given.
        processes: Runs side by side, one core each; when not given, one for each core, or 1 on cuda.
        device: Where models are trained and measured: cpu or cuda.
        precision: Of the matrix products in training; measurements are always in float32. Another precision
            is another run.
        compiled: Train with the forward pass compiled; another run, too.
        on: Where runs are done: local (this machine), ray or slurm (a cluster whose nodes share the output).
        address: HOST:PORT of the Ray cluster's head; the cluster that this machine belongs to when not given.
        partition: SLURM's partition; the cluster's default when not given.
        account: SLURM's account; the cluster's default when not given.
        hours: After how long a SLURM job that is not done is queued again, to go on where it was.
        dry_run: Print the cost in operations, hours and gigabytes, and stop.
        measure: With --dry-run, train each model for some seconds on --device and tell the hours from that.
        json: Print the claims and all numbers as JSON on stdout.
    """
    # Models and charts take seconds to import, which `--help` need not wait for.
    from isoloss.command_line.reproduction import reproduce_experiments
    from isoloss.command_line.reproduction_request import Request

    request = Request(
        names=names,
        scale=scale,
        output=output,
        language=language,
        maximum_length=maximum_length,
        task=task,
        runs=runs,
        processes=processes,
        device=device,
        precision=precision,
        compiled=compiled,
        on=on,
        address=address,
        partition=partition,
        account=account,
        hours=hours,
        dry_run=dry_run,
        measure=measure,
        json=json,
    )
    return reproduce_experiments(request)
