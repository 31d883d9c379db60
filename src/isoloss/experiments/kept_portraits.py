"""What pages tell of the experiments' languages, computed once a language."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from isoloss.errors import BadInput
from isoloss.experiments.corpus_plan import CorpusPlan
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.language_portrait import LanguagePortrait, language_portrait
from isoloss.experiments.planned_run import LanguagePlan
from isoloss.experiments.portrait_file import read_portrait, write_portrait
from isoloss.experiments.runner import Job
from isoloss.progress import Progress


def planned_languages(experiments: Iterable[Experiment]) -> list[LanguagePlan]:
    """The languages of the experiments' runs and references, each once; corpora are none."""
    plans: dict[str, LanguagePlan] = {}
    for experiment in experiments:
        planned = [run.language for run in experiment.runs]
        planned += [reference.language for reference in experiment.references]
        plans |= {plan.digest: plan for plan in planned if not isinstance(plan, CorpusPlan)}
    return list(plans.values())


def portrait_jobs(plans: Iterable[LanguagePlan], output: Path) -> list[Job]:
    """A job for each language whose portrait is not in `output`, or damaged there."""
    return [
        Job(f"page of language {plan.digest[:8]}", partial(_portray, plan, output), cost=1.0)
        for plan in plans
        if kept_portrait(plan, output) is None
    ]


def kept_portrait(plan: LanguagePlan, output: Path) -> LanguagePortrait | None:
    """The portrait in `output`; None while there is none that can be read, which costs seconds to make."""
    try:
        return read_portrait(portrait_file(plan, output), plan.digest)
    except BadInput:
        return None


def portrait_file(plan: LanguagePlan, output: Path) -> Path:
    """Where a language's portrait lives."""
    return output / "portraits" / f"{plan.digest[:16]}.json"


def _portray(plan: LanguagePlan, output: Path, progress: Progress) -> Sequence[str]:
    language = plan.language(output, progress)
    size = f"{plan.words:,} words, sentences of at most {plan.maximum_length}"
    write_portrait(
        portrait_file(plan, output), language_portrait(language, size, progress=progress), plan.digest
    )
    return ()
