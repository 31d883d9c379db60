"""Tables 1 and 2: a row an algorithm, at the loss that the adversary and AdamW share; and each seed's."""

import polars as pl

from isoloss.experiments.rule_runs import ADAMW
from isoloss.experiments.same_loss_table import mean_over_runs, rows_at_same_loss
from isoloss.experiments.scale import Scale
from isoloss.experiments.table_1_claims import ADVERSARIAL, LOOKUP_TABLE
from isoloss.panels import Axis, Panel, Table

TEXT = (
    "Models of one architecture and one loss can differ downstream. The adversarial algorithm lowers the "
    "pre-training loss as AdamW does while it works against the downstream tasks (A.5).",
    "The adversary's run and AdamW's of the same seed, hence on the same sentences, are compared where each "
    "first falls to the lowest loss that both reach, interpolated between checkpoints. Whether the two "
    "losses are the same, to within 0.5 % and with their errors, is computed.",
)
REAL_TEXT = "The paper's rows of BookCorpus are the experiment real-text-algorithms."


def algorithm_panels(table: pl.DataFrame, columns: tuple[Axis, ...]) -> tuple[Panel, ...]:
    """Means over seeds, with the lookup table where it was measured, and the pairs seed by seed."""
    names = [axis.column for axis in columns]
    rows = rows_at_same_loss(table, (ADVERSARIAL,), ADAMW, names)
    means = mean_over_runs(rows, "rule", ["loss", *names])
    lookup = table.filter(pl.col("rule") == LOOKUP_TABLE) if "rule" in table.columns else means.clear()
    present = [name for name in ("loss", *names) if name in lookup.columns]
    kept = ["rule", *present, *(f"{name}_error" for name in present)]
    summary = pl.concat([means, lookup.select(kept)], how="diagonal_relaxed")
    named, loss = Axis("rule", "pre-training"), Axis("loss", "exact loss (nats)", "loss_error")
    by_seed = (
        named,
        Axis("seed", "seed"),
        Axis("step", "step"),
        loss,
        Axis("same_loss", "same loss"),
        *columns,
    )
    return (
        Panel(
            "algorithms",
            "Algorithms at the same loss",
            "Mean over pre-training seeds ± one standard error over them; of the lookup table, which has no "
            f"seed, one standard error over test sentences. {REAL_TEXT}",
            (Table((named, loss, *columns, Axis("runs", "seeds"))),),
            summary,
        ),
        Panel(
            "pairs",
            "Each seed's pair",
            "Both runs where they first have the loss that the pair shares; ± one standard error over "
            "sentences, with that of the place between checkpoints. “Same loss”: whether the two agree to "
            "within 0.5 % of the loss, as far as their errors tell.",
            (Table(by_seed),),
            rows,
        ),
    )


def adversary_in_words(scale: Scale) -> str:
    """The adversary's settings, for a page."""
    rule = scale.compared.adversary
    low, high = rule.loss_window
    return (
        f"λ up to {rule.strength:g} at a training loss (with dropout) of at most {low:g} nats, none from "
        f"{high:g} on; {rule.examples} + {rule.examples} fresh examples a step, ridge {rule.ridge:g}; "
        f"{scale.compared.steps:,} steps"
    )
