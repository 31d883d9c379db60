"""One planned run: pre-train, then measure every checkpoint once."""

from collections.abc import Iterator
from pathlib import Path

from transformers import PreTrainedModel

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import IsolossError
from isoloss.experiments.kept_plan import keep_plan
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.quantity import AnyQuantity, MeasuringSet, Subject, drawn, quantity_digest
from isoloss.languages.language import Language
from isoloss.measurements.record import Record
from isoloss.measurements.records_file import read_records, write_records
from isoloss.measurements.sentence_values import write_sentence_values
from isoloss.models.loading import load_causal_language_model, load_masked_language_model
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.pretraining.checkpoint import STEPS_FOLDER, read_checkpoint
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.run_folder import only_process_in
from isoloss.progress import Progress

TRAINING_SHARE = 0.7
"""About how much of a run's time its pre-training takes; only the progress bar depends on it."""


def carry_out(run: PlannedRun, output: Path, device: str, progress: Progress) -> tuple[str, ...]:
    """Pre-train and measure one run into its folder; what is there already is not computed again.

    Returns a sentence for each damaged checkpoint, which is passed over.
    """
    folder = run.folder(output)
    language = run.language.language(output, progress)
    with only_process_in(folder):
        keep_plan(run, language, output)

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
    with only_process_in(folder):
        damaged = _measure_missing(run, language, output, device, progress)
    progress("done", 1.0, 1.0)
    return (*report.damaged, *damaged)


def measured_records(run: PlannedRun, quantity: AnyQuantity, step: int, output: Path) -> list[Record]:
    """What a quantity's measurement at a step gave; nothing while it has not been made."""
    return read_records(_records_file(run, quantity, step, output))


def is_complete(run: PlannedRun, output: Path) -> bool:
    """Whether the run has been trained to its end and everything planned of it has been measured."""
    trained = (run.folder(output) / STEPS_FOLDER / f"{run.steps:06d}").is_dir()
    return trained and not any(True for _ in _missing(run, output))


def _missing(run: PlannedRun, output: Path) -> Iterator[tuple[int, AnyQuantity]]:
    for step in run.checkpoint_steps:
        # Experiments that share the run may each ask for a quantity, at steps that overlap.
        asked = dict.fromkeys(measured.quantity for measured in run.measured if step in measured.steps)
        for quantity in asked:
            if not _records_file(run, quantity, step, output).exists():
                yield step, quantity


def _records_file(run: PlannedRun, quantity: AnyQuantity, step: int, output: Path) -> Path:
    digest = quantity_digest(quantity, run.language.digest, run.objective)
    return run.folder(output) / "measured" / f"{step:06d}" / f"{digest}.jsonl"


def _measure_missing(
    run: PlannedRun, language: Language | PackedCorpus, output: Path, device: str, progress: Progress
) -> list[str]:
    """Measure what is missing; a sentence for each checkpoint that is damaged."""
    damaged: list[str] = []
    missing = list(_missing(run, output))
    sets: dict[AnyQuantity, MeasuringSet] = {}
    model: PreTrainedModel | None = None
    loaded = unusable = 0
    for done, (step, quantity) in enumerate(missing):
        share = TRAINING_SHARE + (1 - TRAINING_SHARE) * done / len(missing)
        progress("measuring", share, 1.0, f"step {step:,}")
        if step == unusable:
            continue
        folder = run.folder(output) / STEPS_FOLDER / f"{step:06d}"
        if step != loaded or model is None:
            try:
                digest = read_checkpoint(folder).digest[:16]
            except IsolossError as error:
                damaged.append(str(error))
                unusable = step
                continue
            model, loaded = _load(folder, run.objective).to(device), step
        if quantity not in sets:
            sets[quantity] = drawn(quantity, language, run.language.digest, run.objective, output)
        measured_on = quantity_digest(quantity, run.language.digest, run.objective)
        subject = Subject(folder, digest, run.objective, {"step": step, "measured_on": measured_on}, run.seed)
        records = sets[quantity].measure(model, subject, _within(progress, share, step))
        path = _records_file(run, quantity, step, output)
        if subject.sentence_values:  # first, since the records say that the measurement is complete
            write_sentence_values(path.with_suffix(".npz"), subject.sentence_values)
        write_records(path, records)
    return damaged


def _load(folder: Path, objective: PretrainingObjective) -> PreTrainedModel:
    if isinstance(objective, NextWordObjective):
        return load_causal_language_model(str(folder))
    return load_masked_language_model(folder)


def _within(progress: Progress, share: float, step: int) -> Progress:
    """A measurement's progress: it names its stage, while the run's bar stays where it is."""

    def report(task: str, completed: float, total: float, message: str = "") -> None:  # noqa: ARG001
        progress("measuring", share, 1.0, f"step {step:,}, {task}")

    return report
