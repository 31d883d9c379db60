"""The axes of figures, panels that many of them have, and what captions say about error bars."""

from collections.abc import Callable

import polars as pl

from isoloss.experiments.scale import MeasurementSizes
from isoloss.panels import Axis, Colour, Lines, Panel

OWN_TASK = (
    "GLUE's texts are out of reach of the laptop scale's language, which has 24 tokens and sentences of 6. "
    "Tokenised with its teacher's vocabulary, 70 % of the tokens in film reviews and 71 % of those in QNLI "
    "are none of the 24; a text has 61 or 62 tokens; and of 1,894 review snippets not one consists of known "
    "tokens alone. The language's own tasks leave little room for improvement: a probe on the words alone is "
    "at most 0.07 short of perfect at telling how a sentence began, so features can add little. The "
    "experiment glue-of-causal-language nevertheless probes the models on such texts, next to an untrained "
    "model."
)
"""Counted on the stand-ins' test sets (`MovieSnippets`, `AnsweringSentences`); rooms: `isoloss describe`."""

LOSS = Axis("loss", "exact pre-training loss (nats)", "kl_error")
KL = Axis("kl", "KL(distribution || model) (nats)", "kl_error")
ACCURACY = Axis("accuracy", "linear probe accuracy", "accuracy_deviation")
TRACE = Axis("trace", "trace of the Hessian (Fisher form)", "trace_error", logarithmic=True)
STEP = Axis("step", "pre-training step", logarithmic=True)
BY_WIDTH = Colour("width", "width", ordered=True)
LOG_KL = Axis("kl", "KL(distribution || model) (nats)", "kl_error", logarithmic=True)
DESCENT_STEP = Axis("step", "step of SGD")
SIZE = Axis("width", "width", logarithmic=True)
BY_SEED = Colour("seed", "seed")


def probe_bars(sizes: MeasurementSizes) -> str:
    """Of the probe's accuracy."""
    return (
        f"Bars of accuracy: one standard deviation over {len(sizes.probe.seeds)} probe seeds, each on "
        f"{sizes.probe_test:,} test sentences. "
    )


def loss_bars(sizes: MeasurementSizes) -> str:
    """Of the exact loss and of its KL."""
    return (
        f"Bars of loss and KL: one standard error of KL(distribution || model) over {sizes.loss_sentences:,} "
        "sentences; the loss adds the entropy of the distribution, the same constant for all models. "
    )


def trace_bars(sizes: MeasurementSizes) -> str:
    """Of the trace."""
    return (
        f"Bars of the trace: one standard error over {sizes.trace_sentences:,} sentences. The trace is that "
        "of the Fisher information, which equals the Hessian's where the model has learnt the distribution "
        "(Lemma 3.2). "
    )


def over_steps(*axes: Axis, by: Colour, caption: str = "") -> Callable[[pl.DataFrame], tuple[Panel, ...]]:
    """Panels of an experiment: quantities over pre-training steps, a line a run, coloured `by` a label."""

    def panels(table: pl.DataFrame) -> tuple[Panel, ...]:
        rows = table.filter(pl.col("step").is_not_null())
        shown = [axis for axis in axes if axis.column in rows.columns]
        lines = tuple(Lines(STEP, axis, by, "run") for axis in shown)
        title = f"{', '.join(axis.title.partition(' (')[0] for axis in shown)} over steps"
        return (Panel("steps", title, f"One line per run. {caption}".strip(), lines, rows, "stacked"),)

    return panels
