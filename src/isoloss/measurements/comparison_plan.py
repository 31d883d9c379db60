"""What `isoloss compare` reads, and the stages in which it measures all checkpoints on it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from isoloss.corpora.answered_texts import AnsweredCorpus, TaggedCorpus
from isoloss.corpora.labelled_texts import TextTask
from isoloss.corpora.task_file import read_task
from isoloss.corpora.token_sentences import TextCorpus
from isoloss.curvature.stopping import Stopping
from isoloss.errors import BadInput
from isoloss.measurements.checkpoint_measurements import (
    CheckpointMeasurement,
    Stage,
    fine_tuning_of_task,
    probe_of_task,
    quantity_of_text,
)
from isoloss.measurements.compared_checkpoints import (
    Checkpoint,
    Models,
    families,
)
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.models_together import read_answers, source_for
from isoloss.measurements.sampled_batches import (
    NextToken,
    Predicting,
    SampledBatches,
    ShareMasked,
    TargetText,
    TextClasses,
    TextLabels,
)
from isoloss.models.loading import Prediction, read_config
from isoloss.models.task_heads import head_of


@dataclass(frozen=True)
class Sources:
    """The text and the task, either of which may be missing, and notes about them.

    `settings` are settings by name; `notes` are sentences on what was left out.
    """

    corpus: TextCorpus | AnsweredCorpus | TaggedCorpus | None
    task: TextTask | None
    settings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def texts(self) -> Sequence[str]:
        """All that losses are measured on, or else the task's, on which tokenizers are told apart."""
        if isinstance(self.corpus, TextCorpus):
            return self.corpus.texts
        if self.corpus is not None:
            return self.corpus.said
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
    models: Sequence[str],
    objective: Prediction | None,
    text: Path | None,
    dataset: str | None,
    task: Path | None,
    test: Path | None,
    columns: Sequence[str],
    examples: int | None,
) -> Sources:
    """Read what the models are measured on. Raises BadInput if it cannot be read, or is too little.

    Of models with the head of a task, `text` is the table of texts and of what the head is to say.
    """
    settings, notes = [], []
    corpus = _read_corpus(models, objective, text, dataset)  # no tokenizer yet: every model has its own
    if task is not None and objective is None and (head := head_of(models[0])) is not None:
        raise BadInput(
            f"{models[0]} has the head of a task ({head}), and --task trains one; leave --task out, and name "
            "a table by --text"
        )
    if corpus is not None:
        settings.append(("text", f"{text or dataset}, {len(corpus):,} sentences"))
    found = None
    if task is not None:
        read = read_task(task, test, columns, examples)
        found, notes = read.task, list(read.notes)
        settings.append(("task", _task_in_words(task, test, found)))
    return Sources(corpus, found, tuple(settings), tuple(notes))


def _read_corpus(
    models: Sequence[str], objective: Prediction | None, text: Path | None, dataset: str | None
) -> TextCorpus | AnsweredCorpus | TaggedCorpus | None:
    """Raises BadInput if only some of the models have the head of a task, or they have different ones."""
    if text is None and dataset is None:
        return None
    source = source_for(models[0], objective, text, None, dataset)
    heads = {name: head_of(name) if objective is None else None for name in models}
    if len(set(heads.values())) > 1:
        listed = ", ".join(f"{name} has {head or 'none'}" for name, head in heads.items())
        raise BadInput(f"models with different heads of tasks are not compared: {listed}")
    if isinstance(source, TextCorpus):
        return source
    head = heads[models[0]]
    assert head is not None  # only then is a table not read yet
    return read_answers(head, {name: read_config(name) for name in models}, source)


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
    corpus = sources.corpus
    if corpus is None:
        return []
    said = list(sources.texts)
    text = _digest(said if isinstance(corpus, TextCorpus) else [said, corpus.labels])
    measured: dict[str, list[CheckpointMeasurement]] = {}
    for family in families(checkpoints):
        tokenizer = models.tokenizer(family[0].name)
        longest = min((each.longest for each in family if each.longest is not None), default=None)
        batches = SampledBatches(
            corpus.read_by(tokenizer, longest),
            _predicting(family[0], tokenizer, settings.mask_rate),
            settings.seed,
            family[0].padding,
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


def _predicting(checkpoint: Checkpoint, tokenizer: Any, mask_rate: float) -> Predicting:
    match checkpoint.prediction:
        case "masked":
            return ShareMasked(tokenizer.mask_token_id, mask_rate)
        case "causal":
            return NextToken()
        case "target text":
            return TargetText(checkpoint.decoder_start)
        case "text labels":
            return TextLabels()
    return TextClasses(of_tokens=checkpoint.prediction == "token classes")


def _task_in_words(path: Path, test: Path | None, task: TextTask) -> str:
    parts = (("training", task.train), ("validation", task.validation), ("test", task.test))
    sizes = ", ".join(f"{len(part):,} for {name}" for name, part in parts)
    files = f"{path} and {test}" if test is not None else str(path)
    form = "texts" if task.train.seconds is None else "pairs of texts"
    return f"{files}: {form} of {len(task.classes)} classes, {sizes}"


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
