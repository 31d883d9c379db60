"""Descriptions of the experiments' languages for their pages, computed once per language."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from isoloss.errors import BadInput
from isoloss.executors.runner import Job
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.language_description import (
    LanguageDescription,
    TaskDescription,
    WordDistributions,
    describe_language,
)
from isoloss.experiments.planned_run import CorpusPlan, LanguagePlan
from isoloss.languages.derivation import Derivation
from isoloss.progress import Progress
from isoloss.results.record import Record
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
    word, derivation = description.word, description.derivation
    content = {
        "source": description.source,
        "kind": description.kind,
        "vocabulary": description.vocabulary,
        "maximum_length": description.maximum_length,
        "facts": description.facts,
        "sentences": description.sentences,
        "word": {
            "words": word.words,
            "position": word.position,
            "masked": word.masked.tolist(),
            "following": word.following.tolist(),
        },
        "derivation": None if derivation is None else _nodes(derivation),
        "entropy": [asdict(record) for record in description.entropy],
        "tasks": [asdict(task) for task in description.tasks],
        "speed": asdict(description.speed),
    }
    write_sealed(path, content, name)


def read_description(path: Path, name: str) -> LanguageDescription:
    """What `write_description` wrote under that name. Raises BadInput where the file is anything else."""
    content = read_sealed(path, name)
    try:
        return _description(content)
    except (KeyError, TypeError) as error:  # it had other content when it was written
        raise BadInput(f"{path} is a description of another version; delete it and run again") from error


def _description(content: dict[str, Any]) -> LanguageDescription:
    word, derivation = content["word"], content["derivation"]
    return LanguageDescription(
        source=content["source"],
        kind=content["kind"],
        vocabulary=tuple(content["vocabulary"]),
        maximum_length=content["maximum_length"],
        facts=tuple((what, value) for what, value in content["facts"]),
        sentences=tuple(map(tuple, content["sentences"])),
        word=WordDistributions(
            tuple(word["words"]),
            word["position"],
            torch.tensor(word["masked"], dtype=torch.float64),
            torch.tensor(word["following"], dtype=torch.float64),
        ),
        derivation=None if derivation is None else _tree(derivation),
        entropy=tuple(Record(**record) for record in content["entropy"]),
        tasks=tuple(map(_task, content["tasks"])),
        speed=Record(**content["speed"]),
    )


def _task(content: dict[str, Any]) -> TaskDescription:
    values: dict[str, Any] = {"name": content.pop("name"), "classes": content.pop("classes")}
    for what, record in content.items():
        values[what] = None if record is None else Record(**record)
    return TaskDescription(**values)


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
