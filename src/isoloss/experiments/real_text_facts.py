"""The settings of runs on real text, in words."""

from collections.abc import Sequence

from isoloss.corpora.labelled_texts import TaskSource
from isoloss.experiments.experiment import Facts
from isoloss.experiments.real_text_runs import CorpusRuns, TextSizes
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.text_features import DESCRIPTION
from isoloss.objectives.many_masks import AlwaysMask


def corpus_facts(runs: CorpusRuns) -> Facts:
    """What is trained on what, and how long."""
    shape, rule, request = runs.architecture.shape, runs.update_rule, runs.corpus.request
    shown = "[MASK]" if isinstance(runs.objective.replacement, AlwaysMask) else "BERT's 80/10/10"
    return (
        ("corpus", runs.corpus_name),
        (
            "sequences",
            f"{request.length} tokens, {runs.corpus.words + 3:,} different ones; documents held out for "
            f"validation: {request.validation_share:.0%}, by hash",
        ),
        (
            "model",
            f"transformer of width {shape.width} ({shape.layers} layers, {shape.heads} heads, inner width "
            f"{shape.inner_width:,})",
        ),
        (
            "training",
            f"{runs.steps:,} steps of {runs.batch_size:,} sequences, {runs.objective.share:.0%} of their "
            f"words predicted ({shown}); AdamW, learning rate {rule.learning_rate:g}, constant after "
            f"{rule.warm_up_steps:,} steps of warm-up, weight decay {rule.weight_decay:g}, dropout "
            f"{runs.architecture.dropout:g}",
        ),
    )


def task_facts(tasks: Sequence[TaskSource]) -> Facts:
    """Where each task's texts come from, and under which licence."""
    return tuple((task.name, task.description) for task in tasks)


def measurement_facts(sizes: TextSizes) -> Facts:
    """How the numbers are taken."""
    texts, tuning = sizes.texts, sizes.fine_tuning
    parts = [
        f"{'all' if size is None else f'at most {size:,}'} for {use}"
        for size, use in (
            (texts.train, "training"),
            (texts.validation, "validation"),
            (texts.test, "the test"),
        )
    ]
    facts = (
        ("texts of a task", ", ".join(parts)),
        (
            "linear probe",
            f"{DESCRIPTION}; {sizes.probe.epochs} epochs, AdamW {sizes.probe.learning_rate:g}, "
            f"{len(sizes.probe.seeds)} seeds",
        ),
        ("measurement seed", str(sizes.seed)),
    )
    return facts if tuning is None else (*facts, ("fine-tuning", _tuning_in_words(tuning)))


def _tuning_in_words(tuning: FineTuningSettings) -> str:
    return (
        f"the vector of [CLS]; {tuning.epochs} epochs, AdamW {tuning.learning_rate:g}, "
        f"{tuning.warm_up_steps} steps of warm-up, {len(tuning.seeds)} seeds; validation texts choose the "
        "epoch"
    )
