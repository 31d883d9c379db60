"""Flatten, polish, then fine-tune to a task: is the flatter of two models that know the same better?"""

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.equal_knowledge import POLISHED, PREMISES, STAGE
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.polished_models import (
    A_QUARTER,
    ACCURACY_100,
    ACCURACY_300,
    BETTER,
    MARGIN,
    as_the_trace_doubles,
    polished_panel,
)
from isoloss.experiments.scale import MeasurementSizes, Scale
from isoloss.experiments.shared.language_runs import UNJUDGED, at_scales, rounds_at, seeds_at
from isoloss.experiments.statistics.along_runs import Among, in_points, mean_gain
from isoloss.experiments.suite.flatten_polish import MODELS, SOONER, STEADY
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning
from isoloss.measurements.fine_tuning import FineTuningSettings
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.panels import Axis
from isoloss.results.verdict import above, within

MODELS_OF_SCALE = at_scales(MODELS["smoke"], SOONER, STEADY, SOONER, SOONER)

TASK = "prefix-8"
TUNED_100, TUNED_300 = "tuned_100", "tuned_300"


def fine_tuned(column: str, examples: int, epochs: int, sizes: MeasurementSizes) -> AccuracyQuantity:
    """The accuracy of the model fine-tuned on so many sentences."""
    sentences = TaskSentences(TASK, examples, sizes.probe_validation, sizes.probe_test, sizes.seed + 7)
    settings = FineTuningSettings(
        seeds=(0, 1), epochs=epochs, learning_rate=3e-4, warm_up_steps=30, every_word=True
    )
    return AccuracyQuantity(sentences, FineTuning(settings), column)


CLAIMS = (
    *PREMISES,
    Claim(
        name="tuning-changes-features",
        sentence="Fine-tuned models are clearly more accurate than linear probes of their features.",
        paper="fine-tuning is used on real text alone (A.5)",
        measure=(
            "accuracy of the model fine-tuned on 300 sentences minus that of the linear probe from 300, "
            "mean over polished models"
        ),
        unit="percentage points",
        claimed=above(2.0),
        statistic=Among(STAGE, POLISHED, mean_gain(TUNED_300, over=ACCURACY_300)),
        kind="premise",
        reason="with a smaller gain, fine-tuning would be little more than a probe",
    ),
    as_the_trace_doubles(
        "flatter-is-no-better-tuned-on-fewer",
        "At equal KL, accuracy after fine-tuning on 100 sentences does not fall by half a point as the trace "
        "doubles.",
        "accuracy after fine-tuning on 100 sentences",
        in_points(TUNED_100),
        above(-MARGIN),
        A_QUARTER,
        BETTER,
    ),
    as_the_trace_doubles(
        "flatness-does-not-matter-once-tuned",
        "At equal KL, accuracy after fine-tuning on 300 sentences changes by less than half a point as the "
        "trace doubles.",
        "accuracy after fine-tuning on 300 sentences",
        in_points(TUNED_300),
        within(MARGIN),
        A_QUARTER,
        BETTER,
    ),
)
"""docs/pilots.md has what pilot runs came to."""

PROBES = (
    Axis(TUNED_300, "accuracy, fine-tuned on 300 sentences", f"{TUNED_300}_error"),
    Axis(TUNED_100, "accuracy, fine-tuned on 100 sentences", f"{TUNED_100}_error"),
    Axis(ACCURACY_300, "accuracy, linear probe, 300 sentences", f"{ACCURACY_300}_error"),
    Axis(ACCURACY_100, "accuracy, linear probe, 100 sentences", f"{ACCURACY_100}_error"),
)


def flatten_polish_tuned(scale: Scale) -> Experiment:
    """The flagship's models of other seeds, each fine-tuned to the language's task."""
    sizes, models = scale.sizes, MODELS_OF_SCALE[scale.name]
    epochs = (16, 8) if scale.name == UNJUDGED else (60, 30)
    tuned = (
        fine_tuned(column, examples, each, sizes)
        for column, examples, each in zip((TUNED_100, TUNED_300), (100, 300), epochs, strict=True)
    )
    _, *from_few = sizes.probes_beside(TASK)
    return Experiment(
        name="flatten-polish-tuned",
        title="Fine-tuned to a task, is the flatter model better?",
        question=Question.FLATNESS,
        text=(
            "A linear probe reads features as pre-training left them; practitioners fine-tune. Here models "
            "that know the same to 1e-5 nats, and whose traces lie several times apart (flatten-polish), are "
            "fine-tuned to the label of a sentence's root, on 100 sentences and on 300, two seeds each.",
        ),
        runs=models.runs(scale, (*from_few, *tuned)),
        claims=CLAIMS,
        panels=polished_panel(
            sizes,
            "tuned",
            "Accuracy against the trace at equal KL, fine-tuned and probed",
            PROBES,
            ("flatter-is-no-better-tuned-on-fewer", "flatness-does-not-matter-once-tuned"),
        ),
    )


EXPERIMENT = Design(
    flatten_polish_tuned,
    registered="1c85e2496f761379d111c4d2fa33a057397da48a",
    seeds=seeds_at(laptop="491-495", night="531-560"),
    earlier_seeds=rounds_at(night="501-530"),
    picture=Picture("tuned", "Accuracy after fine-tuning against the trace, of models of equal KL"),
    headline="flatness-does-not-matter-once-tuned",
)
