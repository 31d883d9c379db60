"""Figures 2 (c) and 4 (right): on real text, later checkpoints do better and are flatter."""

import polars as pl

from isoloss.experiments.claims import Question
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import BY_SEED, STEP, TRACE
from isoloss.experiments.planned_run import measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import later_is_better, later_is_flatter, premise_of_loss
from isoloss.experiments.shared.language_runs import rounds_at
from isoloss.experiments.shared.real_text import TextSizes, followed_runs, majority, majority_in_words
from isoloss.experiments.shared.real_text_settings import SEEDS
from isoloss.experiments.statistics.along_runs import RANGE_OF_LOSS
from isoloss.measurements.quantity import Quantity
from isoloss.panels import Axis, Dots, Lines, Panel

ACCURACY = "accuracy"
LOSS = Axis("loss", "validation loss (nats a masked word)", "loss_error")
FINE_TUNED = "fine_tuned_accuracy"
TUNED = Axis(FINE_TUNED, "accuracy, fine-tuned", f"{FINE_TUNED}_deviation")
PROBE = Axis(ACCURACY, "linear probe accuracy", f"{ACCURACY}_deviation")

CLAIMS = (
    premise_of_loss(
        "one-loss",
        sentence="From the first measured checkpoint to the last, the validation loss does not change.",
        paper="“even after the pre-training loss converges” (Figure 2; no number given)",
        measure="mean over runs of largest minus smallest loss of the run's checkpoints, over their mean",
        statistic=RANGE_OF_LOSS,
    ),
    later_is_better(
        "later-is-better",
        "Models at a later step do better downstream.",
        "+1.25 percentage points from step 400,000 to 1,400,000 (Section 4)",
    ),
    later_is_flatter(
        "later-is-flatter",
        "Models at a later step are flatter.",
        "the trace falls by 0.67 from step 400,000 to 1,400,000 (Section 4)",
    ),
)


def real_text_steps(scale: Scale) -> Experiment:
    """The runs, claims and panel at a scale."""
    settings = scale.real_text
    runs, sizes, task = settings.followed, settings.sizes, settings.sentiment
    quantities: list[Quantity] = [sizes.loss(), sizes.trace(), sizes.probe_of(task, ACCURACY)]
    if sizes.fine_tuning is not None:
        quantities.append(sizes.accuracy_of(task, FINE_TUNED))
    measured = measured_at(runs.compared_steps, *quantities)
    return Experiment(
        name="real-text-steps",
        title="Are later checkpoints better and flatter, on real text?",
        question=Question.LATER,
        text=(
            "Figures 2 (c) and 4 (right): the paper follows a model of 25M parameters, pre-trained by AdamW "
            "on OpenWebText, from step 400,000 to 1,400,000. Accuracy on SST-2 rises, and the trace falls.",
            "The distribution of real text is unknown, so there is no minimal loss to compare with, and the "
            "loss is measured on held-out documents. Where it is still falling, better accuracy of a later "
            "model says nothing about models at the same loss; the first claim tells whether it is.",
            "The paper does not say whether it probes or fine-tunes here. Claims are on probes, its default "
            "(A.5); where models are large enough to be fine-tuned, that is shown beside them.",
            "This is a separate experiment from Figures 2 and 4: its texts have to be downloaded, and its "
            "claims are corrected for multiple testing among themselves.",
        ),
        runs=followed_runs(runs, scale.seeds, measured),
        references=(majority(runs, task, sizes),),
        claims=CLAIMS,
        panels=lambda table: _panels(table, sizes, len(scale.seeds)),
        paper_numbers=(
            ("SST-2, from step 400,000 to 1,400,000", "+1.25 percentage points"),
            ("trace, from step 400,000 to 1,400,000", "−0.67"),
        ),
    )


def _panels(table: pl.DataFrame, sizes: TextSizes, seeds: int) -> tuple[Panel, ...]:
    rows = table.filter(pl.col("step").is_not_null())
    if rows.is_empty():
        return ()
    caption = (
        f"{majority_in_words(table)}One line for each of {seeds} seeds. Bars of the loss: one standard "
        f"error over {_sequences(rows, 'loss')} validation documents; of the trace: over "
        f"{_sequences(rows, 'trace')} sequences, with all masks of the objective at once; of accuracy: one "
        f"standard deviation over {len(sizes.probe.seeds)} probe seeds."
    )
    tuned = (TUNED,) if FINE_TUNED in rows.columns else ()
    over_steps = [Lines(STEP, y, BY_SEED, "run") for y in (LOSS, PROBE, *tuned, TRACE)]
    charts: tuple[Lines | Dots, ...] = (*over_steps, Dots(TRACE, PROBE, BY_SEED))
    shows = ("later-is-flatter", "later-is-better")
    return (Panel("steps", "Over pre-training steps", caption, charts, rows, shows=shows),)


def _sequences(rows: pl.DataFrame, quantity: str) -> str:
    return f"{rows[f'{quantity}_sentences'][0]:,}"


EXPERIMENT = Design(
    real_text_steps,
    registered="443864760435bf2251e1dfb5e00d411cf83d1d99",
    seeds=SEEDS,
    earlier_seeds=rounds_at(laptop="111-115"),
    of_the_paper=True,
)
