"""Does the drift's clock hold on grammars that nobody chose? Random ones, each judged by itself as well."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from isoloss.experiments.claims import Claim, Question, judge
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.drift_exponents import (
    CLAIMS_OF_GRAMMARS,
    MEDIAN_LOSS,
    OF_A_GRAMMAR,
    by_language,
    divergence_at_the_starts,
)
from isoloss.experiments.drift_panels import leaving_panels
from isoloss.experiments.drift_runs import Measured, branched_runs, plain
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.languages import ReadyLanguage, unchosen_grammar
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import RelativeSchedule, checkpoint_steps
from isoloss.experiments.shared.language_runs import (
    at_scales,
    laptop_transformers,
    rounds_at,
    seeds_at,
    width_of,
)
from isoloss.models.transformers import TABLE_3, PreLayerNormTransformer
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.panels import Axis, Categories, Colour, Panel, Table
from isoloss.pretraining.other_optimisers import SOAP
from isoloss.results.verdict import Verdict


@dataclass(frozen=True)
class OverGrammars:
    """Starts on each random grammar, and SGD from each at every schedule, with checkpoints at `times`.

    A start is trained for `start_steps` by `start_rule` on the exact distribution of each word.
    """

    grammars: tuple[int, ...]
    architectures: tuple[PreLayerNormTransformer, ...]
    schedules: tuple[RelativeSchedule, ...]
    times: tuple[float, ...]
    start_steps: int
    start_rule: SOAP = SOAP(1.5e-2, warm_up_steps=50, weight_decay=0.0, basis_steps=25, decay="cosine")  # noqa: RUF009  (frozen)


def by_grammar(table: pl.DataFrame) -> pl.DataFrame:
    """A row a grammar: each effect, its error over seeds, and its verdict by that grammar's runs alone.

    Its four effects are tested together by Holm's procedure.
    """
    claims = [
        Claim(column, title, "", "", "", claimed, statistic)
        for column, title, claimed, statistic in OF_A_GRAMMAR
    ]
    return pl.DataFrame([_row(group, claims) for group in by_language(judged_runs(table))])


def _row(of_language: Sequence[pl.DataFrame], claims: Sequence[Claim]) -> dict[str, str | float]:
    row: dict[str, str | float] = {
        "language": of_language[0]["language"][0],
        "kl": 100 * divergence_at_the_starts(of_language),
        "loss": 100 * MEDIAN_LOSS(of_language),
    }
    judgements = judge(claims, of_language)
    for judged in judgements:
        name = judged.claim.name
        row |= {name: judged.effect, f"{name}_error": judged.estimate.standard_error}
        row[f"{name}_verdict"] = judged.verdict
    return row


def standing(rows: pl.DataFrame) -> str:
    """On how many grammars each effect is supported, and not supported.

    >>> verdicts = {f"{column}_verdict": "supported" for column, *_ in OF_A_GRAMMAR}
    >>> standing(pl.DataFrame([{"language": "grammar 1", "rate": 1.1, **verdicts}])).split(", ")[1]
    'judged one by one: the trace falls on 1'
    """
    effects = (
        "the trace falls on",
        "all schedules lie on one curve on",
        "steps scale as 1/η on",
        "and as B on",
    )
    counts = ", ".join(
        f"{effect} {_counts(rows[f'{column}_verdict'].to_list())}"
        for effect, (column, *_) in zip(effects, OF_A_GRAMMAR, strict=True)
    )
    undefined = rows.filter(pl.col("rate").is_nan())["language"].to_list()
    why = f" Schedules share no fall on {', '.join(undefined)}, which has no exponents."
    return f"Of {rows.height} grammars, judged one by one: {counts}.{why if undefined else ''}"


def _counts(verdicts: Sequence[str]) -> str:
    against, open_ = (verdicts.count(str(each)) for each in (Verdict.NOT_SUPPORTED, Verdict.INCONCLUSIVE))
    besides = ", ".join(
        f"{number} {words}" for number, words in ((against, "against"), (open_, "undecided")) if number
    )
    return f"{verdicts.count(str(Verdict.SUPPORTED))}{f' ({besides})' if besides else ''}"


def drift_grammars(scale: Scale, settings: OverGrammars) -> Experiment:
    """Models that know each grammar, and SGD from them on words drawn."""
    loss, trace, _ = scale.followed
    starting = replace(
        scale.grammar,
        architectures=settings.architectures,
        update_rule=settings.start_rule,
        objective=SoftLabels(),
        steps=settings.start_steps,
        checkpoint_steps=(settings.start_steps // 2, settings.start_steps),
        saturated_from=settings.start_steps // 2,
        averaging_horizon=None,
    )
    branches = tuple(plain(each, checkpoint_steps(each, settings.times)) for each in settings.schedules)
    return Experiment(
        name="drift-grammars",
        title="Does SGD's clock hold on grammars that nobody chose?",
        question=Question.THEORY,
        text=(
            "The grammars of the other experiments were found by a search: they have tasks that words "
            f"alone do not solve. These {len(settings.grammars)} are random ones, with consecutive seeds "
            "of the generator: 12 words, 4 roots, 3 levels of 4 symbols with 4 rules each, 3 words a "
            "preterminal. Models are pre-trained on the exact distribution of each word (soft labels), "
            "without the noise of sampled words, until little is left to learn, since the trace rises "
            "while a model learns. In an earlier round models had been pre-trained on sampled words, to a "
            "KL of 1 to 5 % of the entropy, and that hid the clock. SGD then continues on sampled words, "
            "at shares of the largest rate that is stable there, as in drift: one rule for all grammars, "
            "and nothing is tuned to any of them.",
            "Three of the schedules have the same η/B, so that by theory steps scale as 1/η; a fourth has "
            "the largest rate and three times its batch. Curves are medians over seeds, so that a single "
            "run that leaves its minimum decides nothing; such runs are named. Each grammar is also "
            "judged by itself: the table shows on how many each effect is supported.",
        ),
        runs=tuple(
            run
            for grammar in settings.grammars
            for run in branched_runs(
                replace(starting, language=ReadyLanguage(unchosen_grammar(grammar))),
                [width_of(model) for model in settings.architectures],
                scale.seeds,
                branches,
                Measured((loss, trace)),
                language=f"grammar {grammar}",
            )
        ),
        claims=CLAIMS_OF_GRAMMARS,
        panels=_panels,
    )


EFFECTS = tuple(Axis(column, title, f"{column}_error") for column, title, *_ in OF_A_GRAMMAR)
EXPONENT = Axis("exponent", "exponent of the steps to half of the fall", "error")


def _panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    if not judged_runs(table) or "trace" not in table.columns:
        return ()
    rows = by_grammar(table)
    verdicts = tuple(Axis(f"{axis.column}_verdict", f"{axis.title}: verdict") for axis in EFFECTS)
    columns = (
        Axis("language", "grammar"),
        Axis("kl", "KL of the starts (% of the entropy)"),
        Axis("loss", "change of the loss (%)"),
    )
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
    architectures=laptop_transformers((16,)),
    schedules=(RelativeSchedule(1.0, 8), RelativeSchedule(0.5, 4), RelativeSchedule(1.0, 24)),
    times=(0.2, 0.4, 0.8),
    start_steps=80,
)

LAPTOP = OverGrammars(
    grammars=tuple(range(2001, 2011)),
    architectures=laptop_transformers((48,)),
    schedules=(
        RelativeSchedule(1.0, 64),
        RelativeSchedule(0.5, 32),
        RelativeSchedule(0.25, 16),
        RelativeSchedule(1.0, 192),
    ),
    times=(1.0, 2.5, 6.0, 10.0, 16.0),
    start_steps=3000,
)
"""Ten grammars, with starts by SOAP on soft labels; docs/pilots.md has why."""

LARGE = replace(
    LAPTOP,
    architectures=(PreLayerNormTransformer(TABLE_3[4]),),
    start_steps=12_000,
    schedules=tuple(replace(each, batch_size=8 * each.batch_size) for each in LAPTOP.schedules),
)
"""No pilot has been run at this scale."""

NIGHT = replace(LAPTOP, grammars=tuple(range(2001, 2021)))
GPU = replace(LARGE, architectures=(PreLayerNormTransformer(TABLE_3[1]),))
AT = at_scales(SMOKE, LAPTOP, NIGHT, GPU, LARGE)

EXPERIMENT = Design(
    lambda scale: drift_grammars(scale, AT[scale.name]),
    registered="763982595265c7d1bf528799a760953b32d49252",
    seeds=seeds_at(laptop="891-895", night="561-570"),
    earlier_seeds=rounds_at(laptop="551-555"),
    picture=Picture("exponents", "Exponents of the steps to a fall of the trace, on ten random grammars"),
    headline="one-clock",
    findings=lambda table: (standing(by_grammar(table)),),
)
