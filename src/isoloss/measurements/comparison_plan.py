"""What `isoloss compare` measures: its text, its task, and the stages of the work."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from isoloss.corpora.labelled_texts import TextTask
from isoloss.corpora.task_file import read_task
from isoloss.corpora.token_sentences import TextCorpus
from isoloss.curvature.stopping import Stopping
from isoloss.measurements.checkpoint_comparison import Stage
from isoloss.measurements.checkpoint_measurements import (
    CheckpointMeasurement,
    fine_tuning_of_task,
    probe_of_task,
    quantity_of_text,
)
from isoloss.measurements.compared_checkpoints import Checkpoint, Models, families
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.labelled_inputs import padding_token
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.sampled_batches import NextToken, SampledBatches, ShareMasked, measured_text


@dataclass(frozen=True)
class Sources:
    """The text and the task, either of which may be missing, and notes about them.

    `settings` are settings by name; `notes` are sentences on what was left out.
    """

    corpus: TextCorpus | None
    task: TextTask | None
    settings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def texts(self) -> Sequence[str]:
        """All that losses are measured on, or else the task's, on which tokenizers are told apart."""
        if self.corpus is not None:
            return self.corpus.texts
        return self.task.train.texts if self.task is not None else ()


@dataclass(frozen=True)
class PlanSettings:
    """How everything is measured; `task_length` is the maximum number of tokens read of an example.

    `quantities` are measured on the text, besides the loss, until `stopping` ends each.
    """

    seed: int
    mask_rate: float
    loss_stopping: Stopping
    stopping: Stopping
    quantities: tuple[str, ...]
    task_length: int
    fine_tune: bool


def read_sources(
    text: Path | None,
    dataset: str | None,
    task: Path | None,
    test: Path | None,
    columns: Sequence[str],
    examples: int | None,
) -> Sources:
    """Read what the models are measured on. Raises BadInput if it cannot be read, or is too little."""
    settings, notes = [], []
    corpus = measured_text(text, dataset)  # no tokenizer yet: every model has its own
    if corpus is not None:
        settings.append(("text", f"{text or dataset}, {len(corpus):,} sentences"))
    found = None
    if task is not None:
        read = read_task(task, test, columns, examples)
        found, notes = read.task, list(read.notes)
        settings.append(("task", _task_in_words(task, test, found)))
    return Sources(corpus, found, tuple(settings), tuple(notes))


def planned_stages(
    settings: PlanSettings, checkpoints: Sequence[Checkpoint], sources: Sources, models: Models
) -> list[Stage]:
    """The measurements of all checkpoints, one kind after the other: the quick ones first.

    Each seed of fine-tuning is a stage: all checkpoints are compared with two seeds before any has five.
    """
    stages: list[Stage] = []
    on_text = _on_text(settings, checkpoints, sources, models)
    stages += on_text[:1]
    if sources.task is not None:
        task, digest = sources.task, _digest(asdict(sources.task))
        known = [each.longest for each in checkpoints if each.longest is not None]
        longest = min([settings.task_length, *known])
        probe = probe_of_task(task, digest, longest, ProbeSettings())
        stages.append([(each, probe) for each in checkpoints])
    stages += on_text[1:]
    if sources.task is not None and settings.fine_tune:
        tuning = fine_tuning_settings(len(task.train))
        for seed in tuning.seeds:
            one = fine_tuning_of_task(task, digest, longest, tuning, seed)
            stages.append([(each, one) for each in checkpoints])
    return stages


def fine_tuning_settings(examples: int) -> FineTuningSettings:
    """The paper's settings; with few examples, the warm-up is a tenth of the steps instead of 200.

    >>> fine_tuning_settings(100_000).warm_up_steps, fine_tuning_settings(320).warm_up_steps
    (200, 10)
    """
    paper = FineTuningSettings()
    steps = paper.epochs * -(-examples // paper.batch_size)
    return replace(paper, warm_up_steps=min(paper.warm_up_steps, steps // 10))


def _on_text(
    settings: PlanSettings, checkpoints: Sequence[Checkpoint], sources: Sources, models: Models
) -> list[Stage]:
    """The loss, then each quantity, on the same batches for checkpoints that predict the same tokens."""
    if sources.corpus is None:
        return []
    text = _digest(list(sources.corpus.texts))
    measured: dict[str, list[CheckpointMeasurement]] = {}
    for family in families(checkpoints):
        tokenizer = models.tokenizer(family[0].name)
        longest = min((each.longest for each in family if each.longest is not None), default=None)
        masked = family[0].prediction == "masked"
        batches = SampledBatches(
            replace(sources.corpus, tokenizer=tokenizer, longest=longest),
            ShareMasked(tokenizer.mask_token_id, settings.mask_rate) if masked else NextToken(),
            settings.seed,
            padding_token(tokenizer),
        )
        of_family = [
            quantity_of_text("pretraining_loss", batches, text, settings.loss_stopping),
            *(quantity_of_text(name, batches, text, settings.stopping) for name in settings.quantities),
        ]
        measured |= {each.name: of_family for each in family}
    return [
        [(each, measured[each.name][number]) for each in checkpoints]
        for number in range(1 + len(settings.quantities))
    ]


def _task_in_words(path: Path, test: Path | None, task: TextTask) -> str:
    parts = (("training", task.train), ("validation", task.validation), ("test", task.test))
    sizes = ", ".join(f"{len(part):,} for {name}" for name, part in parts)
    files = f"{path} and {test}" if test is not None else str(path)
    form = "texts" if task.train.seconds is None else "pairs of texts"
    return f"{files}: {form} of {len(task.classes)} classes, {sizes}"


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
