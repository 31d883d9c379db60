"""The jobs of experiments in order of dependency, and what they do: a run is trained, then measured once."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.device import denormals_flushed
from isoloss.errors import BadInput, Damaged, IsolossError
from isoloss.executors.job import Job
from isoloss.experiments.cost import run_operations
from isoloss.experiments.experiment import Experiment, PlannedReference
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_folder import (
    PlannedMeasurement,
    drawn,
    drop_records_of_other_weights,
    is_complete,
    is_unpacked,
    missing,
    store_plan,
)
from isoloss.experiments.planned_run import CorpusPlan, PlannedRun, Weights, quantity_digest
from isoloss.files import only_process_in
from isoloss.languages.language import Language
from isoloss.measurements.quantity import Quantity, Subject
from isoloss.models.loading import load_causal_language_model, load_masked_language_model
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.loop import pretrain
from isoloss.progress import Progress
from isoloss.results.checkpoint import (
    RAW_FOLDER,
    SPECIFICATION_FILE,
    STEPS_FOLDER,
    checkpoint_folders,
    holds_another,
    read_checkpoint,
)

PREPARING_COST = 0.01
"""A language's or reference's cost as a share of a run's; only order and progress bar depend on it."""

TRAINING_SHARE = 0.7
"""About how much of a run's time its pre-training takes; only the progress bar depends on it."""

Drawing = tuple[Quantity, PretrainingObjective]


def experiment_jobs(
    experiments: Sequence[Experiment], runs: Sequence[PlannedRun], output: Path, device: str
) -> list[Job]:
    """The jobs of `runs`, of the runs that they continue, and of the experiments' references.

    Anything complete in `output` is not a job, unless another job needs a checkpoint of it that is missing.
    """
    every = _to_do(runs, output)
    costs = {run.digest: run_operations(run) for run in every}
    preparing = PREPARING_COST * max(costs.values(), default=1.0)
    references = {
        reference.digest: reference
        for experiment in experiments
        for reference in experiment.references
        if not reference.records(output)
    }
    plans = [run.language for run in every] + [reference.language for reference in references.values()]
    languages = {plan.digest: plan for plan in plans}
    names = job_names(experiments, every)
    jobs = []
    for digest, plan in languages.items():
        of_language = [run for run in every if run.language.digest == digest]
        drawings = dict.fromkeys((m.quantity, run.objective) for run in of_language for m in run.measured)
        work = partial(prepare, plan, tuple(drawings), output)
        key = _key(digest, sorted(quantity_digest(quantity, digest, of) for quantity, of in drawings))
        jobs.append(Job(_language_name(plan), work, preparing, key=key))
    for reference in references.values():
        measure = partial(reference.carry_out, output, device)
        after = _language_name(reference.language)
        key = _key(reference.digest, device)
        jobs.append(Job(_reference_name(reference), measure, preparing, after, key))
    for run in every:
        origin = run.continues.run if run.continues else None
        to_come = origin is not None and origin.digest in costs
        before = names[origin.digest] if origin and to_come else _language_name(run.language)
        work = partial(carry_out, run, output, device)
        key = _key(run.digest, device, *map(sorted, _measured(run)))
        jobs.append(Job(names[run.digest], work, costs[run.digest], before, key))
    return jobs


def _measured(run: PlannedRun) -> Iterator[list[str]]:
    """The run's measurements and their steps."""
    for each in run.measured:
        digest = run.measured_on(each.quantity)
        yield [f"{digest} {each.weights} {step}" for step in each.steps]


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _to_do(runs: Sequence[PlannedRun], output: Path) -> list[PlannedRun]:
    """The `runs` that are incomplete or lack measurements, and those they start from, origins first."""
    found: list[PlannedRun] = []
    asked, needed = {run.digest for run in runs}, set[str]()
    for run in reversed(shared(runs)):
        if run.digest in needed or (run.digest in asked and not is_complete(run, output)):
            found.append(run)
            start = run.start_from(output)
            if run.continues and start is not None and not start.is_dir():
                needed.add(run.continues.run.digest)
    return found[::-1]


def shared(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """One run per digest, measured for all experiments that plan it; runs come before their continuations."""
    by_digest: dict[str, PlannedRun] = {}
    for planned in runs:
        line = [planned]
        while (before := line[-1].continues) is not None:
            line.append(before.run)
        for run in reversed(line):
            known = by_digest.get(run.digest)
            measured = dict.fromkeys((*(known.measured if known else ()), *run.measured))
            by_digest[run.digest] = replace(known or run, measured=tuple(measured))
    return list(by_digest.values())


def job_names(experiments: Sequence[Experiment], runs: Sequence[PlannedRun]) -> dict[str, str]:
    """The name of each run's job, by digest: the first experiment that plans it, and its name there.

    A run that no experiment plans, but that a planned run continues, is named by its name and digest.
    """
    names = {run.digest: f"{run.name} {run.digest[:8]}" for run in runs}
    for experiment in reversed(experiments):
        names |= {run.digest: f"{experiment.name} {run.name}" for run in reversed(experiment.runs)}
    return names


def jobs_of(experiment: Experiment, names: Mapping[str, str]) -> set[str]:
    """The names of all jobs that an experiment depends on; `names` are those of `job_names`."""
    plans = [run.language for run in experiment.runs] + [row.language for row in experiment.references]
    return {
        *(names[run.digest] for run in shared(experiment.runs)),
        *(_reference_name(reference) for reference in experiment.references),
        *map(_language_name, plans),
    }


def _reference_name(reference: PlannedReference) -> str:
    # Several experiments may have one of that name.
    return f"{reference.name} {reference.digest[:8]}"


def _language_name(plan: LanguagePlan | CorpusPlan) -> str:
    kind = "corpus" if isinstance(plan, CorpusPlan) else "language"
    return f"{kind} {plan.digest[:8]}"


def planned_languages(experiments: Iterable[Experiment]) -> list[LanguagePlan]:
    """The languages of the experiments' runs and references, each once, without corpora."""
    plans: dict[str, LanguagePlan] = {}
    for experiment in experiments:
        planned = [run.language for run in experiment.runs]
        planned += [reference.language for reference in experiment.references]
        plans |= {plan.digest: plan for plan in planned if not isinstance(plan, CorpusPlan)}
    return list(plans.values())


def carry_out(run: PlannedRun, output: Path, device: str, progress: Progress) -> tuple[str, ...]:
    """Pre-train and measure one run into its folder; existing results are not recomputed.

    Returns a sentence for each damaged checkpoint, which is skipped. Raises Damaged if the folder holds
    another run.
    """
    folder = run.folder(output)
    if what := holds_another(folder):
        raise Damaged(f"{folder} {what}")
    language = run.language.language(output, progress)
    with only_process_in(folder):
        store_plan(run, language, output)
        if is_unpacked(folder) and not checkpoint_folders(folder):
            # Its start may have come to other last bits here, and with them to another specification.
            (folder / SPECIFICATION_FILE).unlink(missing_ok=True)

    def while_training(task: str, completed: float, total: float, message: str = "") -> None:
        progress(task, TRAINING_SHARE * completed, total, message)

    report = pretrain(
        run.specification(language, output),
        language,
        folder,
        start_from=run.start_from(output),
        device=device,
        progress=while_training,
    )
    with only_process_in(folder), denormals_flushed():
        if is_unpacked(folder):
            drop_records_of_other_weights(folder)
        damaged = _measure_missing(run, language, output, device, progress)
    progress("done", 1.0, 1.0)
    return (*report.damaged, *damaged)


def prepare(
    plan: LanguagePlan | CorpusPlan, drawings: Sequence[Drawing], output: Path, progress: Progress
) -> tuple[str, ...]:
    """Prepare the language and all measurement data in `output`; returns what was damaged."""
    language = plan.language(output, progress)
    messages: list[str] = []
    for quantity, objective in drawings:
        drawn(quantity, language, plan.digest, objective, output, progress, messages.append)
    return tuple(messages)


def _measure_missing(
    run: PlannedRun, language: Language | PackedCorpus, output: Path, device: str, progress: Progress
) -> list[str]:
    """Make the missing measurements; returns a sentence for each damaged checkpoint."""
    damaged: list[str] = []
    to_make = list(missing(run, output))
    sets: dict[Quantity, Any] = {}
    model: PreTrainedModel | None = None
    loaded: tuple[int, Weights] | None = None
    unusable = 0
    for done, wanted in enumerate(to_make):
        step, quantity = wanted.step, wanted.quantity
        share = TRAINING_SHARE + (1 - TRAINING_SHARE) * done / len(to_make)
        progress("measuring", share, 1.0, f"step {step:,}")
        if step == unusable:
            continue
        if model is None or loaded != (step, wanted.weights):
            try:
                folder, digest = _weights_of(wanted, output)
            except IsolossError as error:
                damaged.append(str(error))
                unusable = step
                continue
            model, loaded = _load(folder, run.objective).to(device), (step, wanted.weights)
        if quantity not in sets:
            sets[quantity] = drawn(
                quantity, language, run.language.digest, run.objective, output, tell=damaged.append
            )
        subject = Subject(digest[:16], run.objective, wanted.settings, language, folder, seed=run.seed)
        found = quantity.measure(model, sets[quantity], subject, _within(progress, share, step))
        if not found.records or any(each.settings.get("step") != step for each in found.records):
            raise BadInput(
                f"{type(quantity).__name__} gives no records of step {step:,} of {run.name}; let measure "
                "return what subject.record makes"
            )
        wanted.store(output).write(wanted.name, found.records, found.arrays)
    return damaged


def _weights_of(wanted: PlannedMeasurement, output: Path) -> tuple[Path, str]:
    """The verified folder of the weights to be measured, and the digest of their file."""
    folder = wanted.run.folder(output) / STEPS_FOLDER / f"{wanted.step:06d}"
    checkpoint = read_checkpoint(folder)
    if wanted.weights == "kept":
        return folder, checkpoint.digest
    assert checkpoint.raw_digest is not None  # the run keeps an average, or else its plan is refused
    return folder / RAW_FOLDER, checkpoint.raw_digest


def _load(folder: Path, objective: PretrainingObjective) -> PreTrainedModel:
    if isinstance(objective, SoftLabels):
        objective = objective.of
    if isinstance(objective, NextWordObjective):
        return load_causal_language_model(str(folder))
    return load_masked_language_model(folder)


def _within(progress: Progress, share: float, step: int) -> Progress:
    """A measurement's progress: it names its stage, while the run's bar stays where it is."""

    def report(task: str, completed: float, total: float, message: str = "") -> None:  # noqa: ARG001
        progress("measuring", share, 1.0, f"step {step:,}, {task}")

    return report
