"""What pages tell of the experiments' languages, computed once a language."""

import io
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import torch

from isoloss.errors import BadInput
from isoloss.experiments.corpus_plan import CorpusPlan
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.language_portrait import LanguagePortrait, language_portrait
from isoloss.experiments.planned_run import LanguagePlan
from isoloss.experiments.runner import Job
from isoloss.files import write_atomically
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
    """A job for each language whose portrait is not in `output`."""
    return [
        Job(f"page of language {plan.digest[:8]}", partial(_portray, plan, output), cost=1.0)
        for plan in plans
        if not portrait_file(plan, output).exists()
    ]


def kept_portrait(plan: LanguagePlan, output: Path) -> LanguagePortrait | None:
    """The portrait in `output`; None while there is none. Raises BadInput when its file is damaged."""
    path = portrait_file(plan, output)
    if not path.exists():
        return None
    try:
        found: LanguagePortrait = torch.load(path, weights_only=False)
    except Exception as error:
        raise BadInput(f"{path} is damaged ({type(error).__name__}); delete it and run again") from error
    return found


def portrait_file(plan: LanguagePlan, output: Path) -> Path:
    """Where a language's portrait lives."""
    return output / "portraits" / f"{plan.digest[:16]}.pt"


def _portray(plan: LanguagePlan, output: Path, progress: Progress) -> Sequence[str]:
    language = plan.language(output, progress)
    size = f"{plan.words:,} words, sentences of at most {plan.maximum_length}"
    content = io.BytesIO()
    torch.save(language_portrait(language, size, progress=progress), content)
    write_atomically(portrait_file(plan, output), content.getvalue())
    return ()
