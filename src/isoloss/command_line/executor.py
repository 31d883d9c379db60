"""Where `isoloss reproduce` has its runs done: on this machine's cores, or on a cluster's."""

from collections.abc import Sequence
from functools import partial

from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.errors import BadInput
from isoloss.experiments.experiment_result import Executor
from isoloss.experiments.job import Job, Outcome
from isoloss.experiments.provenance import usable_cores
from isoloss.experiments.ray_runner import ShareOfNode, run_jobs_on_ray
from isoloss.experiments.runner import run_jobs
from isoloss.experiments.slurm_runner import SlurmSettings, run_jobs_on_slurm
from isoloss.pretraining.loop import usable_device
from isoloss.progress import Progress


def executor(request: ReproduceOptions) -> Executor:
    """What does the request's jobs. Raises BadInput for a device or options that do not go with the place."""
    _refuse_options_of_others(request)
    gpus = 0 if request.device == "cpu" else 1
    match request.on:
        case "local":
            usable_device(request.device)
            # Several processes on one accelerator would only take its memory from one another.
            processes = request.processes or (1 if gpus else usable_cores())
            return lambda jobs, progress: run_jobs(jobs, processes, progress)
        case "ray":
            return partial(run_jobs_on_ray, address=request.address, share=ShareOfNode(gpus=gpus))
        case "slurm":
            settings = SlurmSettings(request.partition, request.account, hours=request.hours, gpus=gpus)

            def on_slurm(jobs: Sequence[Job], progress: Progress) -> Outcome:
                return run_jobs_on_slurm(jobs, request.folder / "slurm", progress, settings=settings)

            return on_slurm


def _refuse_options_of_others(request: ReproduceOptions) -> None:
    if request.processes is not None and request.processes < 1:
        raise BadInput(f"--processes must be at least 1, not {request.processes}")
    if not request.hours > 0:
        raise BadInput(f"--hours must be above 0, some hours of a SLURM job, not {request.hours:g}")
    belongs = {
        "--processes": (request.processes, "local"),
        "--address": (request.address, "ray"),
        "--partition": (request.partition, "slurm"),
        "--account": (request.account, "slurm"),
    }
    for option, (value, place) in belongs.items():
        if value is not None and request.on != place:
            raise BadInput(f"{option} is for --on {place}; leave it out with --on {request.on}")
