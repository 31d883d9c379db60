"""Is a flatter model of the same KL better on distributions that its probe was not trained on?"""

from dataclasses import replace

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.equal_knowledge import POLISHED, PREMISES, STAGE
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.polished_models import A_QUARTER, MARGIN, as_the_trace_doubles, polished_panel
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import UNJUDGED, seeds_at
from isoloss.experiments.statistics.along_runs import Among, in_points, mean_gain
from isoloss.experiments.suite.flatten_polish import QUICK, SMOKE, TASKS
from isoloss.experiments.suite.other_distributions import OPEN
from isoloss.measurements.accuracy import (
    AccuracyQuantity,
    AsTheyAre,
    FeatureAdaptation,
    LinearProbe,
    Standardised,
)
from isoloss.measurements.task_sentences import Shift
from isoloss.panels import Axis
from isoloss.results.verdict import above, within

EXAMPLES = 300
AS_TRAINED, UNIFORM, SKEWED, PLAIN = (
    "accuracy_as_trained",
    "uniform_rules_accuracy",
    "skewed_roots_accuracy",
    "plain_uniform_rules_accuracy",
)
PROBES: tuple[tuple[str, str, Shift | None, FeatureAdaptation], ...] = (
    (AS_TRAINED, "accuracy on the probe's own distribution", None, Standardised()),
    (UNIFORM, "accuracy with uniform rules", "uniform rules", Standardised()),
    (SKEWED, "accuracy with skewed roots", "skewed roots", Standardised()),
    (PLAIN, "accuracy with uniform rules, plain probe", "uniform rules", AsTheyAre()),
)
"""Column, title, what the sentences of the test are drawn with, and the features' adaptation."""


POINTS_LOST = Among(STAGE, POLISHED, mean_gain(AS_TRAINED, over=UNIFORM))
"""Accuracy of polished models on the probe's own distribution less that with uniform rules."""


def _does_not_carry(shift: Shift, column: str) -> Claim:
    return as_the_trace_doubles(
        f"flatness-does-not-carry-to-{shift.replace(' ', '-')}",
        f"At equal KL, accuracy on sentences with {shift} changes by less than half a point as the trace "
        "doubles.",
        f"accuracy on sentences with {shift} of a probe of standardised features from {EXAMPLES} examples",
        in_points(column),
        within(MARGIN),
        A_QUARTER,
        OPEN,
    )


_, *OF_EQUAL_KL = PREMISES  # so few steps do not bring every start within 1e-5 nats: see limits.md

CLAIMS = (
    *OF_EQUAL_KL,
    Claim(
        name="uniform-rules-are-harder",
        sentence="Probes are clearly less accurate on sentences with uniform rules than on their own.",
        paper=OPEN,
        measure=(
            f"accuracy, from {EXAMPLES} examples, on the language's sentences minus that on sentences with "
            "uniform rules, mean over polished models"
        ),
        unit="percentage points",
        claimed=above(2.0),
        statistic=POINTS_LOST,
        kind="premise",
        reason="else better features would have nothing to carry over",
    ),
    _does_not_carry("uniform rules", UNIFORM),
    _does_not_carry("skewed roots", SKEWED),
    as_the_trace_doubles(
        "flatter-is-no-better-with-uniform-rules",
        "At equal KL, a plain probe's accuracy on sentences with uniform rules does not fall by half a point "
        "as the trace doubles.",
        f"accuracy on sentences with uniform rules of a plain probe from {EXAMPLES} examples",
        in_points(PLAIN),
        above(-MARGIN),
        A_QUARTER,
        OPEN,
    ),
)
"""docs/pilots.md has what pilot runs came to."""


def flatten_polish_shifted(scale: Scale) -> Experiment:
    """The main command's polished models of other seeds, with probes tested on two other distributions."""
    sizes = scale.sizes
    models = SMOKE if scale.name == UNJUDGED else QUICK
    examples = replace(sizes.examples_of(TASKS[0]), train=min(EXAMPLES, sizes.probe_train))
    probes = tuple(
        AccuracyQuantity(replace(examples, shift=shift), LinearProbe(sizes.probe, features), column)
        for column, _, shift, features in PROBES
    )
    return Experiment(
        name="flatten-polish-shifted",
        title="At equal KL, is the flatter model better on other distributions?",
        question=Question.FLATNESS,
        text=(
            "Along a run, later and flatter checkpoints do better on other distributions "
            "(other-distributions), but they know more, too. Here models have one KL, and traces several "
            "times apart (flatten-polish). A probe is trained on sentences of the language and tested on "
            "others with the same words: with all right-hand sides of a symbol but the start equally likely, "
            "where it is less accurate, and with each root a quarter as likely as the one before.",
        ),
        runs=models.runs(scale, probes),
        claims=CLAIMS,
        panels=polished_panel(
            sizes,
            "shifted",
            "Accuracy against the trace at equal KL, on each distribution",
            tuple(Axis(column, title, f"{column}_error") for column, title, *_ in PROBES),
            ("flatness-does-not-carry-to-uniform-rules", "flatness-does-not-carry-to-skewed-roots"),
        ),
    )


EXPERIMENT = Design(
    flatten_polish_shifted,
    registered="286220946470e6bb2bbd15d860a79736d547dac1",
    seeds=seeds_at(laptop="311-316", night="361-390"),
    picture=Picture(
        "shifted", "Accuracy where a probe was not trained, over the trace, of models of equal KL"
    ),
    headline="flatness-does-not-carry-to-uniform-rules",
)
