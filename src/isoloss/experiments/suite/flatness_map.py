"""When does flatness matter? Its effect at equal knowledge, over what the loss pays for the features."""

from dataclasses import dataclass, replace

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.equal_knowledge import PREMISES, EqualKnowledge, per_doubling
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, TRACE, trace_bars
from isoloss.experiments.languages import ReadyLanguage, decided_grammar
from isoloss.experiments.polished_models import BETTER, MARGIN, START, polished_rows
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import at_scales, seeds_at
from isoloss.experiments.statistics.along_runs import Among, in_points
from isoloss.experiments.statistics.rank_correlation import Advantage
from isoloss.experiments.suite.flatten_polish import DECIDED, SMOKE
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_grammar import with_independent_halves
from isoloss.panels import Colour, Dots, Panel
from isoloss.results.verdict import below, within

PAID = Colour("paid", "what the loss pays for the features (nats)", ordered=True)
TASK = "prefix-8"


@dataclass(frozen=True)
class Priced:
    """How far the halves of the decided grammar's sentences depend on each other, and its root's price."""

    dependence: float
    price: float
    entropy: float

    @property
    def language(self) -> PCFG:
        """The language: all but the roots' probabilities is the decided grammar's."""
        return pcfg(with_independent_halves(decided_grammar().grammar, self.dependence))

    @property
    def name(self) -> str:
        """By its price, in nats."""
        return f"price {self.price:.2g}"

    def models(self, as_in: EqualKnowledge) -> EqualKnowledge:
        """The models, sharpened within a window as far above `entropy` as there above `ENTROPY`."""
        low, high = (bound - ENTROPY + self.entropy for bound in as_in.sharpened.loss_window)
        sharpened = replace(as_in.sharpened, loss_window=(low, high))
        return replace(as_in, name=self.name, language=ReadyLanguage(self.language), sharpened=sharpened)


ENTROPY = 1.4604
"""Above which the flagship's window of sharpening was set, in nats: an estimate, like the last of each of
`PRICES`. docs/pilots.md has how far off."""
PRICES = (
    Priced(0.0, 0.0, 1.4768),
    Priced(0.025, 1.11e-5, 1.4768),
    Priced(0.08, 1.13e-4, 1.4767),
    Priced(0.25, 1.10e-3, 1.4758),
    Priced(1.0, 1.80e-2, 1.4598),
)
"""Prices of nothing, of the KL that models are polished to, and of 10, 100 and 1,000 times that."""


AT_NO_PRICE, AT_THE_HIGHEST = (
    Among("language", priced.name, per_doubling(in_points("accuracy"))) for priced in (PRICES[0], PRICES[-1])
)
"""The effect of a doubling of the trace at equal knowledge on one language."""


SLOPE = (
    "least-squares slope of the probe's accuracy over log2 trace, among the polished models of one start; an "
    "intercept for every start"
)

CLAIMS = (
    *PREMISES,
    Claim(
        name="no-better-where-features-are-paid",
        sentence=(
            "Where the task's features lower the loss, accuracy at equal KL changes by less than half a "
            "point as the trace doubles."
        ),
        paper=BETTER,
        measure=f"{SLOPE}; on the language in which ignoring the root costs 0.018 nats",
        unit="percentage points per doubling of the trace",
        claimed=within(MARGIN),
        statistic=AT_THE_HIGHEST,
        reason="a quarter to an eighth of the paper's gain as the trace halves",
    ),
    Claim(
        name="better-where-features-are-for-nothing",
        sentence="Where the task's features do not lower the loss, flatter models have better ones.",
        paper=BETTER,
        measure=f"{SLOPE}; on the language in which ignoring the root costs nothing",
        unit="percentage points per doubling of the trace",
        claimed=below(-MARGIN),
        statistic=AT_NO_PRICE,
        reason="the margin within which an effect counts as none",
    ),
    Claim(
        name="flatness-matters-less-as-price-rises",
        sentence="Flatness matters more where the task's features do not lower the loss than where they do.",
        paper=BETTER,
        measure=f"{SLOPE}; where ignoring the root costs nothing, minus where it costs 0.018 nats",
        unit="percentage points per doubling of the trace",
        claimed=below(-MARGIN),
        statistic=Advantage(AT_NO_PRICE, AT_THE_HIGHEST),
        reason="the margin within which an effect counts as none",
    ),
)

NARROW = replace(DECIDED, architectures=DECIDED.architectures[:1])

AT = at_scales(SMOKE, NARROW, NARROW, DECIDED, DECIDED)
"""At laptop scale on two languages. A pilot start with seed 900 on that without a price came to 3e-6 nats."""


def flatness_map(scale: Scale) -> Experiment:
    """The flagship's models on languages that differ in what the loss pays for the label alone."""
    as_in = AT[scale.name]
    chosen = (PRICES[0], PRICES[-1]) if scale.name in ("smoke", "laptop") else PRICES
    downstream = (scale.sizes.probe_of(TASK), *scale.sizes.probes_beside(TASK))
    return Experiment(
        name="flatness-map",
        title="When does flatness matter?",
        question=Question.FLATNESS,
        text=(
            "Models with equal knowledge can still differ in flatness (flatten-polish). If flatness makes "
            "features, it should do so where the loss does not: where the label is of no help in predicting "
            "a word. These languages have the same labels and the same halves of sentences. They differ only "
            "in how much one half tells about the other, and so in what a model loses by ignoring the root: "
            "from nothing to 0.018 nats, a thousand times what the models have left to learn.",
        ),
        runs=tuple(run for priced in chosen for run in priced.models(as_in).runs(scale, downstream)),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale),
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    if "accuracy" not in table.columns:
        return ()
    rows = polished_rows(table).with_columns(paid=pl.col("language").str.strip_prefix("price "))
    caption = f"One dot per polished model. {trace_bars(scale.sizes)}"
    plots = (Dots(TRACE, ACCURACY, PAID, START),)
    title = "Accuracy over the trace at equal KL, by what the loss pays for the features"
    shows = ("no-better-where-features-are-paid", "better-where-features-are-for-nothing")
    return (Panel("map", title, caption, plots, rows, shows=shows),)


EXPERIMENT = Design(
    flatness_map,
    registered="d6fdd0d17b0d70c8d984d0b708d47843323b22bd",
    seeds=seeds_at(smoke="3-4", laptop="641-645", night="701-710", gpu="1-3", paper="1-3"),
    picture=Picture(
        "map",
        "Accuracy against the trace at equal KL, where the task's features lower the loss and where not",
    ),
    headline="better-where-features-are-for-nothing",
)
