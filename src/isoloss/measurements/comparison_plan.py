"""What `isoloss compare` measures of a checkpoint, and the stages in which it measures all of them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, PreTrainedModel

from isoloss.corpora.labelled_texts import TextTask
from isoloss.curvature.stopping import Stopping
from isoloss.errors import BadInput
from isoloss.files import file_digest
from isoloss.measurements.compared_checkpoints import (
    Checkpoint,
    CheckpointMeasurement,
    Models,
    Stage,
    families,
)
from isoloss.measurements.comparison_sources import Sources
from isoloss.measurements.fine_tuning import FineTuningSettings, fine_tune_once
from isoloss.measurements.fixed_sentences import WARNED_ABOVE, SampledBatches
from isoloss.measurements.labelled_inputs import text_inputs, text_splits
from isoloss.measurements.linear_probe import ProbeSettings, converged_probe
from isoloss.measurements.measured_models import FIXED_SENTENCES, INTERRUPTED, measure, progress_of
from isoloss.measurements.models_on_text import masking
from isoloss.measurements.on_sentences import name_and_value, quantity_named, short_name
from isoloss.measurements.prediction import MaskedTokens
from isoloss.measurements.quantity import LOWER, Measurement
from isoloss.measurements.task_texts import task_features
from isoloss.measurements.verdicts import FINE_TUNING, LOSS, PROBE, TRACE
from isoloss.models.folder_configuration import read_config
from isoloss.models.names import base_of_adapter
from isoloss.models.tokenizer import load_tokenizer
from isoloss.progress import Progress
from isoloss.results.estimate import sample_mean
from isoloss.results.record import Setting

WEIGHTS = (".safetensors", ".bin")
SHORTER = {"pretraining_loss": LOSS, "fisher_trace": TRACE}
"""What the two usual quantities of a text are called in a comparison; others by their own names."""


def quantities_beside_loss(named: Sequence[str]) -> tuple[str, ...]:
    """What is to be measured of a text besides the loss, which always is.

    Raises BadInput for one of the name of something else: results are kept by name.
    """
    beside = tuple(each for each in dict.fromkeys(named) if each != "pretraining_loss")
    for quantity in beside:
        called = _called(quantity)
        taken = called in (LOSS, TRACE, PROBE) or called.startswith(FINE_TUNING)
        if taken and quantity not in SHORTER:
            raise BadInput(f"{quantity} would be taken for the {called} of isoloss compare; rename the file")
    return beside


def _called(quantity: str) -> str:
    name = short_name(quantity)
    return SHORTER.get(name, name)


def quantity_of_text(
    quantity: str, batches: SampledBatches, text: str, stopping: Stopping
) -> CheckpointMeasurement:
    """A quantity, named as in `quantity_named`, on batches of the text whose digest is `text`; see `measure`.

    Its records say why it stopped, and how much was truncated or left out. Interrupted, it has no result.
    """
    called = _called(quantity)
    key = {
        "measures": called,
        "text": text,
        "longest": getattr(batches.corpus, "longest", None),
        "prediction": repr(batches.prediction),
        "mask": batches.tokens.mask,
        "start": batches.tokens.start,
        "seed": batches.seed,
        "stopping": asdict(stopping),
    }
    file, value = name_and_value(quantity)
    if file.endswith(".py"):
        key |= {"file": file_digest(Path(file))}
    if value is not None:
        key |= {"value": _content_of(Path(value))}
    found = quantity_named(quantity, stopping.sentences or FIXED_SENTENCES, batches.seed)

    def measured(model: PreTrainedModel, checkpoint: Checkpoint, progress: Progress) -> Measurement:
        name, settings = checkpoint.name, {"estimand": batches.prediction.estimand}
        result = measure(quantity, {name: model}, batches, stopping, settings, progress_of(name, progress))
        if result.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        read = result.reading
        more: dict[str, Setting] = {
            "stopped": result.stopped,
            "cut": len(read.cut),
            "too_short": len(read.short),
        }
        if read.unknown > WARNED_ABOVE * read.tokens:
            more["warning"] = read.unknown_tokens
        whole = result.measurements[name]
        records = [replace(record, settings={**more, **record.settings}) for record in whole.records]
        return Measurement(records, whole.values)

    return CheckpointMeasurement(called, key, measured, found.revision, getattr(found, "smaller_is", LOWER))


def _content_of(named: Path) -> list[str]:
    """Digests of the file, or of the weights in the folder, that a quantity names, if it does.

    Of an adapter's also of its settings, which say what its weights are multiplied by.
    """
    if not named.is_dir():
        return [file_digest(named)] if named.is_file() else []
    read = [each for each in named.iterdir() if each.suffix in WEIGHTS or each.name == "adapter_config.json"]
    return [file_digest(each) for each in sorted(read) if each.is_file()]


def probe_of_task(
    task: TextTask, digest: str, longest: int, settings: ProbeSettings
) -> CheckpointMeasurement:
    """The accuracy of linear heads on the task of that digest, with texts truncated to `longest` tokens."""

    def probed(model: PreTrainedModel, checkpoint: Checkpoint, progress: Progress) -> Measurement:
        tokenizer, report = load_tokenizer(checkpoint.name), progress_of(checkpoint.name, progress)
        accuracy = task_features(model, tokenizer, task, longest, report).probed(settings, report)
        cut = text_inputs(model, tokenizer, task.test, longest).cut
        records = accuracy.records(checkpoint.name, {"task": task.name, "cut": cut})
        return Measurement(records, {"correct": accuracy.correct, "by_seed": accuracy.by_seed})

    key = {"measures": PROBE, "task": digest, "longest": longest, "settings": asdict(settings)}
    return CheckpointMeasurement(PROBE, key, probed)


def fine_tuning_of_task(
    task: TextTask, digest: str, longest: int, settings: FineTuningSettings, seed: int
) -> CheckpointMeasurement:
    """Of the model fine-tuned on the task with one seed, the best epoch's accuracy, and what is `right`."""
    shared = asdict(settings)
    del shared["seeds"]
    key = {"measures": FINE_TUNING, "task": digest, "longest": longest, "settings": shared, "seed": seed}
    called = f"{FINE_TUNING} with seed {seed}"

    def fine_tuned(model: PreTrainedModel, checkpoint: Checkpoint, progress: Progress) -> Measurement:
        def report(task: str, completed: float, total: float, message: str = "") -> None:  # noqa: ARG001
            progress(f"{called} of {checkpoint.name}", completed, total, message)

        tokenizer = load_tokenizer(checkpoint.name)
        inputs = text_splits(model, tokenizer, task, longest)
        found = fine_tune_once(model, inputs, settings, seed, report)
        right = found.best.double()
        more: dict[str, Setting] = {
            "task": task.name,
            "best_epoch": found.best_epoch,
            "epochs": len(found.validation),
        }
        quantity = "fine_tuning_best_accuracy_of_seed"
        record = sample_mean(right).record(quantity, "fraction", seed, checkpoint.name, more)
        return Measurement([record], {"right": right})

    return CheckpointMeasurement(called, key, fine_tuned, revision=2)


@dataclass(frozen=True)
class PlanSettings:
    """How everything is measured; `task_length` is the maximum number of tokens read of an example.

    `quantities` are measured on the text, besides the loss, until `stopping` ends each. `mask_rate` is that
    of masked models, None for the usual one.
    """

    seed: int
    mask_rate: float | None
    loss_stopping: Stopping
    stopping: Stopping
    quantities: tuple[str, ...]
    task_length: int
    fine_tune: bool


def planned_stages(
    settings: PlanSettings, checkpoints: Sequence[Checkpoint], sources: Sources, models: Models
) -> list[Stage]:
    """The measurements of all checkpoints, the quick kinds first, and fine-tuning seed by seed.

    Raises BadInput for a model that is to be fine-tuned and is an adapter, or has no classifier.
    """
    if settings.fine_tune:
        _refuse_what_is_not_fine_tuned(checkpoints)
    stages: list[Stage] = []
    on_text = _on_text(settings, checkpoints, sources, models)
    stages += on_text[:1]
    if sources.task is not None:
        task, digest = sources.task, _digest(asdict(sources.task))
        known = [each.longest for each in checkpoints if each.longest is not None]
        longest = min([settings.task_length, *known])
        probe = probe_of_task(task, digest, longest, converged_probe(len(task.train)))
        stages.append([(each, probe) for each in checkpoints])
    stages += on_text[1:]
    if sources.task is not None and settings.fine_tune:
        tuning = fine_tuning_settings(len(task.train))
        for seed in tuning.seeds:
            one = fine_tuning_of_task(task, digest, longest, tuning, seed)
            stages.append([(each, one) for each in checkpoints])
    return stages


def _refuse_what_is_not_fine_tuned(checkpoints: Sequence[Checkpoint]) -> None:
    for checkpoint in checkpoints:
        if base_of_adapter(checkpoint.name) is not None:
            raise BadInput(
                f"{checkpoint.name} is an adapter, and fine-tuning trains a whole model: merge it into its "
                "base model and name the merged folder, or leave --fine-tune out"
            )
        if type(read_config(checkpoint.name)) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
            raise BadInput(
                f"{checkpoint.name} is of a kind that has no classifier in transformers, so it cannot be "
                "fine-tuned; leave --fine-tune out and keep the linear probe"
            )


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
    rate = settings.mask_rate
    if rate is not None and not any(isinstance(each.prediction, MaskedTokens) for each in checkpoints):
        masking(checkpoints[0].prediction, one_mask=False, mask_rate=rate, mask_token=None)
    text = _digest(corpus.content)
    measured: dict[str, list[CheckpointMeasurement]] = {}
    for family in families(checkpoints):
        first = family[0]
        longest = min((each.longest for each in family if each.longest is not None), default=None)
        prediction = first.prediction
        if rate is not None and isinstance(prediction, MaskedTokens):
            prediction = replace(prediction, share=rate)
        batches = SampledBatches(
            corpus.read_by(models.tokenizer(first.name), longest), prediction, settings.seed, first.tokens
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


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
