"""The settings of a figure's runs and measurements, in words."""

from collections.abc import Sequence

from isoloss.experiments.descent_panel import START, Descending
from isoloss.experiments.experiment import Facts
from isoloss.experiments.language_runs import AnyModel
from isoloss.experiments.scales.scale import MeasurementSizes
from isoloss.experiments.shown_task import ShownTask
from isoloss.models.lstm import LSTM


def run_facts(tasks: Sequence[ShownTask]) -> Facts:
    """What is trained, how long, and on which rule: once for each language."""
    by_language = {task.runs.language.digest: task for task in tasks}
    return tuple(fact for task in by_language.values() for fact in _of_language(task))


def descent_facts(shown: Descending) -> Facts:
    """How SGD is run: once for each language."""
    by_language = {task.language: descent for task, descent in shown}
    return tuple(
        (
            f"{language}: SGD",
            f"width {descent.width}, {descent.steps:,} steps of {descent.batch_size:,} fresh sentences, "
            f"learning rate {descent.update_rule.learning_rate:g}, constant after a warm-up of "
            f"{descent.update_rule.warm_up_share:.0%} of the steps, from "
            f"{START[descent.start]}; "
            f"no dropout, no weight decay, no momentum; drift time η²k/4B {descent.drift_time:.1e}",
        )
        for language, descent in by_language.items()
    )


def measurement_facts(sizes: MeasurementSizes) -> Facts:
    """How the numbers are taken."""
    return (
        (
            "linear probe",
            f"{sizes.probe_train:,} training sentences, {sizes.probe.epochs} epochs, AdamW "
            f"{sizes.probe.learning_rate:g}, last epoch; contextual vectors of all words, [CLS] left out",
        ),
        ("measurement seed", str(sizes.seed)),
    )


def _of_language(task: ShownTask) -> Facts:
    runs = task.runs
    rule = runs.update_rule
    return (
        (f"{task.language}: models", "; ".join(map(_in_words, runs.architectures))),
        (
            f"{task.language}: training",
            f"{runs.steps:,} steps of {runs.batch_size:,} fresh sentences, one masked word each; AdamW, "
            f"learning rate {rule.learning_rate:g}, constant after {rule.warm_up_steps:,} steps of warm-up, "
            f"weight decay {rule.weight_decay:g}, dropout {runs.architectures[0].dropout:g}"
            f"{_averaging(runs.averaging_horizon)}",
        ),
    )


def _averaging(horizon: int | None) -> str:
    return f"; checkpoints hold the weights' average over a horizon of {horizon:,} steps" if horizon else ""


def _in_words(model: AnyModel) -> str:
    if isinstance(model, LSTM):
        return f"LSTM of width {model.width} ({model.layers} layers, both directions)"
    shape = model.shape
    return f"transformer of width {shape.width} ({shape.layers} layers, {shape.heads} heads)"
