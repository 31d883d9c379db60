"""Does the drift's clock hold on grammars that nobody chose? Random ones, each judged by itself as well."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from isoloss.experiments.claims import Claim, Question, judge
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.drift_exponents import HALF, steps_to
from isoloss.experiments.drift_panels import leaving_panels
from isoloss.experiments.drift_runs import RelativeSchedule, plain
from isoloss.experiments.drift_statistics import (
    change_of_loss,
    curves,
    distance_between_schedules,
    halvings_of_trace,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.grammar_runs import DRIFT, branched_runs
from isoloss.experiments.languages import ReadyLanguage, unchosen_grammar
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import checkpoint_steps
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.statistics.over_languages import MeanOverLanguages, WorstBut, by_language
from isoloss.experiments.statistics.seed_bootstrap import Frames, Statistic, once_per_frames
from isoloss.panels import Axis, Categories, Colour, Panel, Table
from isoloss.results.verdict import Region, Verdict, above, below

NO_CLOCK = "none: the theorem is about the limit η → 0, and the paper shows one language"
LEFT_OUT = 2
"""On how many grammars a claim need not hold: it is about the one that is third from the worst."""

ONE_CLOCK = 0.25
"""The share of the fall within which the curves of one grammar lie, as for `drift`."""
CLOCK_REASON = "as in drift; a law of ηk alone would make it 0.3 here, and one without the batch 0.45"


@dataclass(frozen=True)
class OverGrammars:
    """Starts on each random grammar, and SGD from each at every schedule, with checkpoints at `times`."""

    grammars: tuple[int, ...]
    widths: tuple[int, ...]
    schedules: tuple[RelativeSchedule, ...]
    times: tuple[float, ...]


def rate_beside_batch(runs: Frames) -> float:
    """a - b of steps ∝ η^-a B^b, to half of the fall that all schedules reach: of 1/η at one η/B."""
    a, b = _exponents(*runs)
    return a - b


def batch_alone(runs: Frames) -> float:
    """b of the same."""
    return _exponents(*runs)[1]


@once_per_frames
def _exponents(*runs: pl.DataFrame) -> tuple[float, float]:
    medians = curves(runs, DRIFT, clock=RelativeSchedule, centre=pl.Expr.median)
    return steps_to(medians, HALF).exponents


MEDIAN_LOSS = partial(change_of_loss, centre=pl.Expr.median)
MEDIAN_FALL = partial(halvings_of_trace, clock=RelativeSchedule, centre=pl.Expr.median)
MEDIAN_DISTANCE = partial(distance_between_schedules, clock=RelativeSchedule, centre=pl.Expr.median)
POWERS = (
    "steps ∝ η^-a B^b to half of the fall that all schedules reach, by least squares on medians over seeds"
)

CLAIMS = (
    Claim(
        name="loss-stands",
        answers=Question.LOSS,
        sentence="On at least eight of ten grammars the loss does not change along SGD.",
        paper="“after the validation pre-training loss converges” (Section 4)",
        measure=(
            "largest change of a schedule's exact loss since the start, median over seeds, over the loss at "
            "the start; on the grammar where it is third largest"
        ),
        unit="",
        claimed=below(0.005),
        statistic=WorstBut(MEDIAN_LOSS, LEFT_OUT, largest=True),
        kind="premise",
        reason="as on the headline's grammar: four times the window of the paper's losses",
        lowest=0.0,
    ),
    Claim(
        name="trace-falls",
        sentence="On at least eight of ten grammars the trace of the Hessian falls along SGD.",
        paper="“a clear decreasing trend” (Section 4; no number given)",
        measure=(
            "mean over schedules of the median of log2(trace at the start / at the last checkpoint); on the "
            "grammar where it is third smallest"
        ),
        unit="halvings",
        claimed=above(0.25),
        statistic=WorstBut(MEDIAN_FALL, LEFT_OUT, largest=False),
        reason="a sixth of the trace, several times its error",
    ),
    Claim(
        name="one-clock",
        sentence="Runs of all learning rates and batches lie on one curve over τ = η²k / 4B.",
        paper=NO_CLOCK,
        measure=(
            "largest distance between two schedules' median log2 trace at one τ, over the mean fall at the "
            "last τ; mean over grammars"
        ),
        unit="of the fall",
        claimed=below(ONE_CLOCK),
        statistic=MeanOverLanguages(MEDIAN_DISTANCE),
        reason=CLOCK_REASON,
        lowest=0.0,
    ),
    Claim(
        name="rate-exponent",
        sentence="At one η/B, the number of steps to a given fall of the trace scales as 1/η.",
        paper=NO_CLOCK,
        measure=f"a - b of {POWERS}; mean over grammars",
        unit="",
        claimed=Region(0.5, 1.5),
        statistic=MeanOverLanguages(rate_beside_batch),
        reason="half of what sets it apart from steps that do not depend on the rate",
    ),
    Claim(
        name="batch-exponent",
        sentence="At a given learning rate, the number of steps to a given fall of the trace scales as B.",
        paper=NO_CLOCK,
        measure=f"b of {POWERS}; mean over grammars",
        unit="",
        claimed=Region(0.5, 1.5),
        statistic=MeanOverLanguages(batch_alone),
        reason="half of what sets it apart from a law without the batch, such as AdamW's",
    ),
)

OF_A_GRAMMAR: tuple[tuple[str, str, Region, Statistic], ...] = (
    ("fall", "fall of the trace (halvings)", above(0.25), MEDIAN_FALL),
    ("distance", "distance between schedules (of the fall)", below(ONE_CLOCK), MEDIAN_DISTANCE),
    ("rate", "steps as 1/η at one η/B: exponent", Region(0.5, 1.5), rate_beside_batch),
    ("batch", "steps as B at one η: exponent", Region(0.5, 1.5), batch_alone),
)
"""Each effect by itself on one grammar: its column, title, what is claimed, and the statistic."""


def by_grammar(table: pl.DataFrame) -> pl.DataFrame:
    """A row a grammar: each effect, its error over seeds, and its verdict by that grammar's runs alone.

    Its four effects are tested together by Holm's procedure.
    """
    claims = [
        Claim(column, title, "", "", "", claimed, statistic)
        for column, title, claimed, statistic in OF_A_GRAMMAR
    ]
    return pl.DataFrame([_row(own, claims) for own in by_language(judged_runs(table)).values()])


def _row(own: Sequence[pl.DataFrame], claims: Sequence[Claim]) -> dict[str, str | float]:
    row: dict[str, str | float] = {"language": own[0]["language"][0], "loss": MEDIAN_LOSS(own)}
    judgements = judge(claims, own)
    for judged in judgements:
        name = judged.claim.name
        row |= {name: judged.effect, f"{name}_error": judged.estimate.standard_error}
        row[f"{name}_verdict"] = judged.verdict
    return row


def standing(rows: pl.DataFrame) -> str:
    """On how many grammars each effect is supported, and not supported.

    >>> verdicts = {f"{column}_verdict": "supported" for column, *_ in OF_A_GRAMMAR}
    >>> standing(pl.DataFrame([{"language": "grammar 1", "rate": 1.1, **verdicts}])).split(", ")[0]
    'Of 1 grammars judged each by itself the trace falls on 1'
    """
    effects = (
        "the trace falls on",
        "schedules lie on one curve on",
        "steps go as 1/η on",
        "steps go as B on",
    )
    counts = ", ".join(
        f"{effect} {_counts(rows[f'{column}_verdict'].to_list())}"
        for effect, (column, *_) in zip(effects, OF_A_GRAMMAR, strict=True)
    )
    undefined = rows.filter(pl.col("rate").is_nan())["language"].to_list()
    why = f" There are no exponents on {', '.join(undefined)}, and so no mean: its schedules share no fall."
    return f"Of {rows.height} grammars judged each by itself {counts}.{why if undefined else ''}"


def _counts(verdicts: Sequence[str]) -> str:
    against, open_ = (verdicts.count(str(each)) for each in (Verdict.NOT_SUPPORTED, Verdict.INCONCLUSIVE))
    besides = " and ".join(
        f"{number} {words}" for number, words in ((against, "against"), (open_, "undecided")) if number
    )
    return f"{verdicts.count(str(Verdict.SUPPORTED))}{f' ({besides})' if besides else ''}"


def drift_grammars(scale: Scale, settings: OverGrammars) -> Experiment:
    """AdamW's last models on each grammar, and SGD from them."""
    loss, trace, _ = scale.followed
    branches = tuple(plain(each, checkpoint_steps(each, settings.times)) for each in settings.schedules)
    return Experiment(
        name="drift-grammars",
        title="Does SGD's clock hold on grammars that nobody chose?",
        question=Question.THEORY,
        text=(
            "The grammars of the other experiments were found by a search: they have tasks that words "
            f"alone do not solve. These {len(settings.grammars)} are random and taken as they come, with "
            "consecutive seeds of the generator: 12 words, 4 roots, 3 levels of 4 symbols with 4 rules "
            "each, 3 words a preterminal. From AdamW's last models SGD starts at shares of the rate that "
            "is stable there, as in drift: one rule for all grammars, and nothing set for any of them.",
            "Along three of the schedules η/B is the same, and theory has steps go as 1/η; a fourth has "
            "the largest rate and three times its batch. Curves are medians over seeds, so that a run that "
            "leaves its minimum decides nothing; such runs are named. Each grammar is judged by itself as "
            "well: the table says on how many each effect stands.",
        ),
        runs=tuple(
            run
            for grammar in settings.grammars
            for run in branched_runs(
                replace(scale.grammar, language=ReadyLanguage(unchosen_grammar(grammar))),
                settings.widths,
                scale.seeds,
                branches,
                (loss, trace),
                language=f"grammar {grammar}",
            )
        ),
        claims=CLAIMS,
        panels=_panels,
    )


EFFECTS = tuple(Axis(column, title, f"{column}_error") for column, title, *_ in OF_A_GRAMMAR)
EXPONENT = Axis("exponent", "exponent of the steps to half of the fall", "error")


def _panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    if not judged_runs(table) or "trace" not in table.columns:
        return ()
    rows = by_grammar(table)
    verdicts = tuple(Axis(f"{axis.column}_verdict", f"{axis.title}: verdict") for axis in EFFECTS)
    columns = (Axis("language", "grammar"), Axis("loss", "change of the loss, as a share of it"))
    bars = "Of medians over seeds; errors are standard errors over seeds."
    return (
        Panel(
            "exponents",
            "Steps to a fall of the trace, grammar by grammar",
            f"By theory both exponents are 1. {bars}",
            (Categories("language", EXPONENT, Colour("of", "steps")),),
            _exponent_rows(rows),
            shows=("rate-exponent", "batch-exponent"),
        ),
        Panel(
            "grammars",
            "The clock on each grammar by itself",
            f"{standing(rows)} {bars}",
            (Table((*columns, *EFFECTS, *verdicts)),),
            rows,
            shows=("one-clock",),
        ),
        *leaving_panels(table),
    )


def _exponent_rows(rows: pl.DataFrame) -> pl.DataFrame:
    of = {"rate": "as 1/η at one η/B", "batch": "as B at one η"}
    return pl.concat(
        rows.select(
            "language",
            pl.lit(name).alias("of"),
            pl.col(column).alias("exponent"),
            pl.col(f"{column}_error").alias("error"),
        )
        for column, name in of.items()
    )


SMOKE = OverGrammars(
    grammars=(2001, 2002),
    widths=(16,),
    schedules=(RelativeSchedule(1.0, 8), RelativeSchedule(0.5, 4), RelativeSchedule(1.0, 24)),
    times=(0.2, 0.4, 0.8),
)

LAPTOP = OverGrammars(
    grammars=tuple(range(2001, 2011)),
    widths=(32,),
    schedules=(
        RelativeSchedule(1.0, 64),
        RelativeSchedule(0.5, 32),
        RelativeSchedule(0.25, 16),
        RelativeSchedule(1.0, 192),
    ),
    times=(0.1, 0.3, 1.0, 2.5, 6.0, 16.0),
)
"""In pilot runs on grammars 1901 and 1902, with seeds 906 and 907, traces fell by 0.56 halvings on average,
schedules lay 0.24 of the fall apart, and the exponents were 1.1 at one η/B and 1.4 of the batch; the loss
changed by 0.26 % at most."""

LARGE = replace(
    LAPTOP,
    widths=(512,),
    schedules=tuple(replace(each, batch_size=8 * each.batch_size) for each in LAPTOP.schedules),
)
"""No pilot has been run at this scale."""

AT: dict[ScaleName, OverGrammars] = {
    "smoke": SMOKE,
    "laptop": LAPTOP,
    "night": replace(LAPTOP, grammars=tuple(range(2001, 2021))),
    "gpu": replace(LARGE, widths=(128,)),
    "paper": LARGE,
}

EXPERIMENT = Design(
    lambda scale: drift_grammars(scale, AT[scale.name]),
    registered="1c85e2496f761379d111c4d2fa33a057397da48a",
    seeds={"laptop": tuple(range(551, 556)), "night": tuple(range(561, 571))},
    picture=Picture("exponents", "Exponents of the steps to a fall of the trace, on ten random grammars"),
    headline="one-clock",
    findings=lambda table: (standing(by_grammar(table)),),
)
