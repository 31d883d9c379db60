"""The jobs of experiments in order of dependency: languages, references, shared runs, and descriptions."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from isoloss.executors.job import Job
from isoloss.experiments.carry_out import carry_out, is_complete
from isoloss.experiments.cost import run_operations
from isoloss.experiments.experiment import Experiment, PlannedReference
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import CorpusPlan, PlannedRun, drawn, quantity_digest
from isoloss.measurements.quantity import Quantity
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress

PREPARING_COST = 0.01
"""A language's or reference's cost as a share of a run's; only order and progress bar depend on it."""

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
        digest = quantity_digest(each.quantity, run.language.digest, run.objective)
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


def prepare(
    plan: LanguagePlan | CorpusPlan, drawings: Sequence[Drawing], output: Path, progress: Progress
) -> tuple[str, ...]:
    """Prepare the language and all measurement data in `output`; returns what was damaged."""
    language = plan.language(output, progress)
    messages: list[str] = []
    for quantity, objective in drawings:
        drawn(quantity, language, plan.digest, objective, output, progress, messages.append)
    return tuple(messages)


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
