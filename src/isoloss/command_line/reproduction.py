"""`isoloss reproduce`: checks the request, carries it out, writes the site, prints the verdicts."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from isoloss.command_line.cost_table import print_dry_run
from isoloss.command_line.reproduce import ReproduceOptions, command_again
from isoloss.command_line.terminal import error_console, print_failures, progress_display
from isoloss.command_line.verdict_lines import claim_lines, counted
from isoloss.device import refuse_unknown_device, usable_cores, usable_device
from isoloss.errors import IsolossError
from isoloss.executors.job import Job, Notice, Outcome
from isoloss.executors.ray_runner import ShareOfNode, run_jobs_on_ray
from isoloss.executors.runner import run_jobs
from isoloss.executors.slurm import SlurmSettings
from isoloss.executors.slurm_runner import run_jobs_on_slurm
from isoloss.experiments.checks import refuse_what_decides_nothing
from isoloss.experiments.design import Changes, other_experiments, requested_designs, requested_experiments
from isoloss.experiments.experiment import Experiment, only_named
from isoloss.experiments.experiment_jobs import job_names, shared
from isoloss.experiments.experiment_result import Executor, Results, carry_out_experiments, experiment_damage
from isoloss.experiments.planned_folder import damaged_files, is_complete, is_records_alone
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import Scale, scale_named
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.shipped_results import beside_shipped, result_as_json
from isoloss.files import only_process_in
from isoloss.pretraining.specification import Compute
from isoloss.progress import Progress
from isoloss.report.site import Site, write_whole_site
from isoloss.results.checkpoint import MEASURED_FOLDER, STEPS_FOLDER, checkpoint_folders, to_have_again
from isoloss.stored_runs.run_names import damaged_names


@dataclass(frozen=True)
class Choice:
    """The requested experiments, their selected runs, and functions that create the others for the site."""

    experiments: tuple[Experiment, ...]
    runs: tuple[PlannedRun, ...]
    others: Mapping[str, Callable[[], Experiment]]


def choice(request: ReproduceOptions) -> Choice:
    """The meaning of the request. Raises BadInput for what is impossible, listing the known names."""
    scale = scale_named(request.scale)
    designs = requested_designs(request.names)
    changes = Changes(
        request.language,
        request.maximum_length,
        request.task,
        request.any_task,
        request.tokens,
        _compute(request, scale),
    )
    experiments = requested_experiments(designs, scale, changes, request.folder)
    runs = [run for experiment in experiments for run in only_named(experiment, request.runs)]
    others = {} if request.language else other_experiments(scale, changes, tuple(designs))
    return Choice(experiments, tuple(runs), others)


def _compute(request: ReproduceOptions, scale: Scale) -> Compute | None:
    """How to train, where the request says so; None leaves it to the scale."""
    if request.precision is None and request.compiled is None:
        return None
    of_scale = scale.compute
    compiled = of_scale.compiled if request.compiled is None else request.compiled
    return Compute(request.precision or of_scale.precision, compiled)


def reproduce_experiments(request: ReproduceOptions) -> int:
    """Carry out the request; returns 0 if all is well, 1 if some run failed and the rest was done."""
    execute = executor(request)
    chosen = choice(request)
    for experiment in chosen.experiments if request.scale != UNJUDGED else ():
        refuse_what_decides_nothing(experiment)
    if request.dry_run:
        print_dry_run(request, chosen.experiments, chosen.runs)
        return 0
    damaged = _report_what_is_there(chosen, request.folder)
    with only_process_in(request.folder), progress_display() as progress:
        results = carry_out_experiments(
            chosen.experiments,
            request.folder,
            execute,
            runs=chosen.runs,
            device=request.device,
            progress=progress,
        )
        try:
            site = Site(request.scale, request.folder, results.experiments, partial(command_again, request))
            overview, outcome = write_whole_site(site, chosen.others, execute, progress)
        except IsolossError:  # e.g. a full disk: its effect on the runs must not be lost with the site
            print_failures(results.outcome.failures)
            raise
    one = len(chosen.experiments) == 1
    page = overview.with_stem(chosen.experiments[0].name) if one else overview
    failures = (*results.outcome.failures, *outcome.failures)
    if damaged or results.outcome.notices:
        failures += tuple(_not_mended(chosen, request.folder, {failure.job for failure in failures}))
    if request.json:
        content = {
            "report": str(page),
            "experiments": [result_as_json(result) for result in results.experiments],
            "failures": [asdict(failure) for failure in failures],
            "notices": [asdict(notice) for notice in results.outcome.notices],
        }
        print(json.dumps(content, indent=2, allow_nan=False))
    print_verdicts(results, failures, page, request.scale)
    return 1 if failures else 0


def _report_what_is_there(chosen: Choice, folder: Path) -> bool:
    """Say what the folder has that will not be computed again, or will be since it is damaged: if any is."""
    references = [each for experiment in chosen.experiments for each in experiment.references]
    damage = experiment_damage(chosen.runs, references, folder)
    for sentence in (*damaged_names([folder]), *damage):
        print(sentence, file=sys.stderr)
    if alone := sum(is_records_alone(run, folder) for run in shared(chosen.runs)):
        said = "have records only, unpacked without checkpoints: they are not computed again"
        print(f"{alone} of the runs {said}", file=sys.stderr)
    return bool(damage)


def _not_mended(chosen: Choice, folder: Path, failed: Set[str]) -> Iterator[Notice]:
    """What is still damaged or missing of the chosen runs after all work, but for those that failed."""
    names = job_names(chosen.experiments, shared(chosen.runs))
    for run in shared(chosen.runs):
        if names[run.digest] not in failed:
            for sentence in damaged_files(run, folder):
                damage = sentence.partition(";")[0]
                again = _again(run.folder(folder), sentence)
                yield Notice(
                    names[run.digest], f"{damage}, and was not made again; {again}, and reproduce it"
                )
            if not is_complete(run, folder):
                yield Notice(
                    names[run.digest],
                    "measurements are missing and could not be made, so that verdicts leave the run out; "
                    f"to have them, delete {run.folder(folder) / STEPS_FOLDER} and reproduce it",
                )


def _again(run: Path, sentence: str) -> str:
    """What to delete of a run so that what the sentence is about is made again: of a checkpoint, its step."""
    for step in checkpoint_folders(run):
        if sentence.startswith((f"{step}/", f"{run / MEASURED_FOLDER / step.name}/")):
            return to_have_again(step)
    return f"to have it, delete {run}"


def executor(request: ReproduceOptions) -> Executor:
    """The executor of the request's jobs. Raises BadInput for a device that it cannot have."""
    refuse_unknown_device(request.device)  # a cluster's devices cannot be tried from here
    gpus = 0 if request.device == "cpu" else 1
    match request.on:
        case "local":
            usable_device(request.device)
            # Several processes on one accelerator would only compete for its memory.
            processes = request.processes or (1 if gpus else usable_cores())
            return lambda jobs, progress: run_jobs(jobs, processes, progress)
        case "ray":
            return partial(run_jobs_on_ray, address=request.address, share=ShareOfNode(gpus=gpus))
        case "slurm":
            settings = SlurmSettings(request.partition, request.account, gpus=gpus)
            if request.hours is not None:
                settings = replace(settings, hours=request.hours)
            if request.memory is not None:
                settings = replace(settings, memory_gigabytes=request.memory)

            def on_slurm(jobs: Sequence[Job], progress: Progress) -> Outcome:
                return run_jobs_on_slurm(jobs, request.folder / "slurm", progress, settings=settings)

            return on_slurm


def print_verdicts(results: Results, failures: Sequence[Notice], page: Path, scale: str) -> None:
    """The counts of verdicts, a line a claim by experiment, failures, and the page's path last, on stderr."""
    console = error_console()
    width = console.width if console.is_terminal else None
    line = partial(console.print, soft_wrap=True)
    beside = [beside_shipped(result, scale) for result in results.experiments]
    judged = scale != UNJUDGED
    everything = [each for result in results.experiments for each in result.judgements]
    for text in counted(everything) if judged else [f"at {scale} scale nothing is judged"]:
        line(text)
    for result, shipped in zip(results.experiments, beside, strict=True):
        for text in claim_lines(result, shipped, width, judged=judged):
            line(text)
        if result.not_judged and judged:
            console.print(result.not_judged)
    for result, shipped in zip(results.experiments, beside, strict=True):
        if shipped is not None:
            sentence = f"{result.experiment.name}: {shipped.sentence[:1].lower()}{shipped.sentence[1:]}"
            console.print(sentence if len(beside) > 1 else shipped.sentence)
    print_failures(failures)
    for notice in results.outcome.notices:
        console.print(f"{notice.job}: {notice.text}")
    line(f"{results.seconds:,.0f} s")
    line(f"page: {page}")
