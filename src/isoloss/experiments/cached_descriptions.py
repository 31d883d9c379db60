"""Descriptions of the experiments' languages for their pages, computed once per language."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput
from isoloss.executors.runner import Job
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.language_description import LanguageDescription, describe_language
from isoloss.experiments.planned_run import CorpusPlan, LanguagePlan
from isoloss.languages.derivation import Derivation
from isoloss.progress import Progress
from isoloss.results.plain_data import as_plain, from_plain
from isoloss.results.store import read_sealed, write_sealed


def planned_languages(experiments: Iterable[Experiment]) -> list[LanguagePlan]:
    """The languages of the experiments' runs and references, each once, without corpora."""
    plans: dict[str, LanguagePlan] = {}
    for experiment in experiments:
        planned = [run.language for run in experiment.runs]
        planned += [reference.language for reference in experiment.references]
        plans |= {plan.digest: plan for plan in planned if not isinstance(plan, CorpusPlan)}
    return list(plans.values())


def description_jobs(plans: Iterable[LanguagePlan], output: Path) -> list[Job]:
    """One job for each language whose description is missing or damaged in `output`."""
    return [
        Job(f"page of language {plan.digest[:8]}", partial(_describe, plan, output), cost=1.0)
        for plan in plans
        if cached_description(plan, output) is None
    ]


def cached_description(plan: LanguagePlan, output: Path) -> LanguageDescription | None:
    """The description in `output`; None if there is none that can be read. Making one takes seconds."""
    try:
        return read_description(description_file(plan, output), plan.digest)
    except BadInput:
        return None


def description_file(plan: LanguagePlan, output: Path) -> Path:
    """The file of a language's description."""
    return output / "portraits" / f"{plan.digest[:16]}.json"


def _describe(plan: LanguagePlan, output: Path, progress: Progress) -> Sequence[str]:
    language, path = plan.language(output, progress), description_file(plan, output)
    damaged = path.exists()  # or else there would be nothing to compute
    size = f"{plan.words:,} words, sentences of at most {plan.maximum_length}"
    write_description(path, describe_language(language, size, progress=progress), plan.digest)
    return (f"{path} was damaged or of another version; it has been made again",) if damaged else ()


def write_description(path: Path, description: LanguageDescription, name: str) -> None:
    """Write the description of the language of that name. Raises IsolossError where it cannot be written."""
    content = as_plain(LanguageDescription, replace(description, derivation=None))
    if description.derivation is not None:
        content["derivation"] = _nodes(description.derivation)
    write_sealed(path, content, name)


def read_description(path: Path, name: str) -> LanguageDescription:
    """What `write_description` wrote under that name. Raises BadInput where the file is anything else."""
    content = read_sealed(path, name)
    try:
        nodes = content.pop("derivation")
        found: LanguageDescription = from_plain(LanguageDescription, content | {"derivation": None})
        return found if nodes is None else replace(found, derivation=_tree(nodes))
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # other content when it was written
        raise BadInput(f"{path} is a description of another version; delete it and run again") from error


def _nodes(derivation: Derivation) -> list[list[Any]]:
    """Each node's label and how many children it has, the node before its children, however deep it is."""
    found: list[list[Any]] = []
    pending = [derivation]
    while pending:
        node = pending.pop()
        found.append([node.label, len(node.children)])
        pending.extend(reversed(node.children))
    return found


def _tree(nodes: list[list[Any]]) -> Derivation:
    """The derivation with these `_nodes`: from the last on, each takes its children off the pile."""
    pile: list[Derivation] = []
    for label, children in reversed(nodes):
        pile.append(Derivation(label, tuple(pile.pop() for _ in range(children))))
    return pile.pop()
