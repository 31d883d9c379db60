"""A run's plan in its folder, beside its specification, so that the folder suffices to rerun it."""

import hashlib
from pathlib import Path
from typing import Any

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.experiments.languages import LanguagePlan, ReadyLanguage
from isoloss.experiments.planned_run import CorpusPlan, PlannedRun, quantity_digest, weights_setting
from isoloss.files import file_digest, write_atomically
from isoloss.languages.language import Language, WritesItself
from isoloss.pretraining.specification import settings_as_json
from isoloss.results.checkpoint import PLAN_FILE
from isoloss.results.store import read_sealed, write_sealed


def store_plan(run: PlannedRun, language: Language | PackedCorpus, output: Path) -> None:
    """Write `plan.json` into the run's folder, and the language as a file of its own kind if it has one.

    The plan records the run's name as last planned, its language, the run that it continues, and all
    measurements ever planned for it; a damaged plan is rewritten with what is planned now. The caller must
    hold the folder's lock. Raises IsolossError if it cannot be written.
    """
    folder = run.folder(output)
    plan = {
        "name": run.name,
        "labels": dict(run.labels),
        "saturated_from": run.saturated_from,
        "digest": run.digest,
        "language": _stored_language(run.language, language, folder),
        "continues": {"run": run.continues.run.digest[:16], "step": run.continues.step}
        if run.continues
        else None,
        "measured": _measured(run, folder / PLAN_FILE),
    }
    if plan != _stored(run, folder / PLAN_FILE):
        write_sealed(folder / PLAN_FILE, plan, PLAN_FILE)


def _stored(run: PlannedRun, path: Path) -> dict[str, Any] | None:
    """The run's stored plan; None if there is none, or it is damaged or another run's."""
    try:
        plan = read_sealed(path, PLAN_FILE)
    except BadInput:
        return None
    return plan if plan.get("digest") == run.digest else None


def _stored_language(
    plan: LanguagePlan | CorpusPlan, language: Language | PackedCorpus, folder: Path
) -> dict[str, Any]:
    """The language in the plan, its file written where it has one."""
    stored: dict[str, Any] = {"digest": language.digest, "plan": _plan_settings(plan)}
    if isinstance(language, WritesItself):
        file = language.file()
        digest = hashlib.sha256(file.text.encode()).hexdigest()
        if not (folder / file.name).is_file() or file_digest(folder / file.name) != digest:
            write_atomically(folder / file.name, file.text)
        stored |= {"file": file.name, "sha256": digest, "maximum_length": file.maximum_length}
    if isinstance(language, PackedCorpus) and language.commit is not None:
        stored |= {"commit": language.commit}
    return stored


def _plan_settings(plan: LanguagePlan | CorpusPlan) -> Any:
    """How the language is constructed, if it is not a ready one and is defined by plain settings."""
    if isinstance(plan, ReadyLanguage):
        return None
    try:
        return settings_as_json(plan)
    except BadInput:
        return {"is": type(plan).__name__, "digest": plan.digest}


def _measured(run: PlannedRun, path: Path) -> list[dict[str, Any]]:
    """The planned measurements, their data and steps, merged with those planned before."""
    before = (_stored(run, path) or {"measured": []})["measured"]
    entries = {(entry["measured_on"], entry.get("weights")): entry for entry in before}
    for measured in run.measured:
        digest = quantity_digest(measured.quantity, run.language.digest, run.objective)
        weights = weights_setting(measured.weights)
        entry = (digest, weights.get("weights"))
        known = entries.get(entry, {"steps": []})["steps"]
        settings = settings_as_json(measured.quantity)
        entries[entry] = {
            "measured_on": digest,
            **weights,
            "quantity": settings,
            "steps": sorted({*known, *measured.steps}),
        }
    return list(entries.values())
