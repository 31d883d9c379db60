"""Theorem 3.3 where the flow must be integrated: a table of logits in two factors, and a tiny transformer.

The minimisers of the first are a manifold of known codimension; the second has reached the distribution of a
small language. One coin, with the flow in closed form, is in `theorem_3_3_coin`.
"""

from dataclasses import dataclass

from isoloss.progress import Progress, silent
from isoloss.seeds import derived_seed
from isoloss.theory.finding import Entry, Statement, stated
from isoloss.theory.flow_against_sgd import (
    Race,
    codimension_finding,
    fall_at_last_rate_finding,
    fall_finding,
    flow_against_sgd,
    order_finding,
    trace_panel,
)
from isoloss.theory.minimisers import exact_transformer, factor_table


@dataclass(frozen=True)
class FactorSettings:
    """A hidden Markov model of `words` words and two states, sentences of `length`, and U Vᵀ of `rank`.

    The start is normal and taken to an exact fit by Newton's method; seeds are those of `Race`. The fall's
    tolerance is about the square of the second largest rate, the error of a line in η; the order's is below a
    quarter, half the distance from one possible order to the next.
    """

    words: int
    length: int
    rank: int
    race: Race
    fall_tolerance: float = 0.05
    order_tolerance: float = 0.1


def theorem_3_3_factors(settings: FactorSettings, progress: Progress = silent) -> Statement:
    """SGD's runs against the integrated flow of the trace, from one point at an exact fit."""
    seed = settings.race.seed
    minimisers, start = factor_table(
        settings.words,
        settings.rank,
        length=settings.length,
        language_seed=seed,
        start_seed=derived_seed(seed, "start"),
    )
    codimension, parameters = minimisers.distributions.codimension, len(start)
    race = flow_against_sgd(minimisers, minimisers.reach(start), settings.race, progress)
    return Statement(
        name="theorem-3.3-factors",
        title="Does SGD at an exact fit flatten? A table of logits in two factors",
        text=(
            f"Logits U Vᵀ of {len(minimisers.distributions.weight)} contexts and {settings.words} words have "
            f"{parameters} parameters and {codimension} independent probabilities, so their minimisers form "
            f"a manifold of {parameters - codimension} dimensions. Equation (1) is integrated on it, and "
            "runs of SGD start from the same point. It would fail with another constant, or if SGD drifted "
            "in another direction on the manifold."
        ),
        findings=(
            codimension_finding(race, codimension),
            fall_finding(race, settings.fall_tolerance),
            order_finding(race, settings.order_tolerance),
        ),
        panels=(trace_panel(race, "factors-trace", "a table of logits in two factors"),),
        settings=(
            ("words", str(settings.words)),
            ("sentence length", str(settings.length)),
            ("rank", str(settings.rank)),
            *stated(settings.race),
        ),
    )


FACTORS = Entry(
    "theorem-3.3-factors",
    theorem_3_3_factors,
    full=FactorSettings(3, 2, 4, Race((0.4, 0.2, 0.1), 0.25, 5, paths=100, batch_size=1, seed=1)),
    smoke=FactorSettings(2, 2, 2, Race((0.2, 0.05), 0.5, 2, paths=100, batch_size=1, seed=1)),
    seconds=60,
)


@dataclass(frozen=True)
class TransformerSettings:
    """One layer of `width` on a hidden Markov model of two words and two states, sentences of two words.

    The start is BERT's initialisation plus normal noise of standard deviation `spread`, taken to an exact fit
    by Newton's method. Seeds are those of `Race`.

    The theorem's limit needs the time η / λ in which SGD returns to Γ along a direction of curvature λ to be
    short compared with the race. Larger languages and narrower models have curvatures of 1e-6 of the largest
    and less, for which that would take too many steps: hence the smallest language with contexts, and a model
    that is wide for it. The fall is judged at the last rate, to within twice ηTr, the size of the first-order
    terms in η: two rates within the available time do not determine the limit η → 0. A start that flattens
    slowly is followed for `most_steps` only: its fall may then be too small to distinguish from SGD's noise,
    and is inconclusive.
    """

    width: int
    spread: float
    race: Race


def theorem_3_3_transformer(settings: TransformerSettings, progress: Progress = silent) -> Statement:
    """SGD's runs against the integrated flow of the trace, from one point at an exact fit."""
    minimisers, start = exact_transformer(settings.width, settings.spread, settings.race.seed)
    race = flow_against_sgd(minimisers, start, settings.race, progress)
    codimension = minimisers.distributions.codimension
    flattest = float(minimisers.singular_values(start)[codimension - 1] ** 2)
    returning = race.runs[-1].learning_rate / flattest
    return Statement(
        name="theorem-3.3-transformer",
        title="Does SGD at an exact fit flatten? A tiny transformer",
        text=(
            f"A transformer of {len(start):,} parameters predicts each masked word of a language of "
            f"{len(minimisers.distributions.weight)} contexts exactly. Gradients of the trace are exact, "
            "over all contexts in float64, and are projected onto the null space of ∇²L (eigenvalues below "
            "1e-12 of the largest). The fall of the trace along runs of SGD is compared with that along "
            "equation (1). It would fail with another constant, or if the gradient were not projected. The "
            "theorem is about η → 0: at the last learning rate, SGD returns to an exact fit along the "
            f"direction of least curvature, {flattest:.2g}, in {returning:.2g} of t, and the race lasts "
            f"{race.times[-1]:.2g}."
        ),
        findings=(
            codimension_finding(race, codimension),
            fall_at_last_rate_finding(race, 2 * settings.race.rates[-1]),
        ),
        panels=(trace_panel(race, "transformer-trace", "a tiny transformer at an exact fit"),),
        settings=(
            ("width", str(settings.width)),
            ("spread of the start", str(settings.spread)),
            *stated(settings.race),
        ),
    )


TRANSFORMER = Entry(
    "theorem-3.3-transformer",
    theorem_3_3_transformer,
    full=TransformerSettings(
        32,
        0.3,
        Race((0.1, 0.05), 0.25, 3, paths=64, batch_size=1, seed=1, relative_tolerance=1e-5, most_steps=1500),
    ),
    smoke=TransformerSettings(
        32,
        0.3,
        Race((0.4, 0.2), 0.1, 1, paths=8, batch_size=1, seed=1, relative_tolerance=1e-4, most_steps=100),
    ),
    seconds=100,
)
