"""Theorem 3.3 on a tiny transformer that has reached the distribution of a small language."""

from dataclasses import dataclass

from isoloss.progress import Progress, silent
from isoloss.theory.finding import Entry, Statement, stated
from isoloss.theory.minimisers import exact_transformer
from isoloss.theory.theorem_3_3_factors import (
    Race,
    codimension_finding,
    fall_finding,
    flow_against_sgd,
    trace_panel,
)

LEAST_RETURNS = 5.0
"""How many times as long as SGD's return to Γ a race lasts that says something of the limit η → 0: what is
left of a deviation is then e⁻⁵ of it, less than a hundredth."""
TOO_SHORT = (
    f" The theorem is about runs that last at least {LEAST_RETURNS:g} times as long as the return: these are "
    "too short, and the fall of the trace is not judged."
)
AT_LAST_RATE = "At the last learning rate, the trace falls about as far along SGD as along equation (1)."


@dataclass(frozen=True)
class TransformerSettings:
    """One layer of `width` on a hidden Markov model of two words and two states, sentences of two words.

    The start is BERT's initialisation plus normal noise of standard deviation `spread`, taken to an exact fit
    by Newton's method. Seeds are those of `Race`.

    The theorem's limit needs the time η / λ in which SGD returns to Γ along a direction of curvature λ to be
    short compared with the race. The fall is judged only where the race lasts at least `LEAST_RETURNS` times
    as long for the least curvature of the start, and then at the last rate, to within twice ηTr, the size of
    the first-order terms in η: two rates within the available time do not determine the limit η → 0. Starts
    differ in that curvature, as a share of the trace, from 1e-6 to 0.1. At a width of 32 and a spread of 0.3,
    the fifth of six has the most, 0.045, found before any run from it.
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
    judged = race.times[-1] >= LEAST_RETURNS * returning
    fall = fall_finding(AT_LAST_RATE, race.fall(race.runs[-1]), 2 * settings.race.rates[-1])
    return Statement(
        name="theorem-3.3-transformer",
        title="Does SGD at an exact fit flatten? A tiny transformer",
        text=(
            f"A transformer of {len(start):,} parameters predicts each masked word of a language of "
            f"{len(minimisers.distributions.weight)} contexts exactly. Gradients of the trace are exact, "
            "over all contexts in float64, and are projected onto the null space of ∇²L (eigenvalues below "
            "1e-12 of the largest). The fall of the trace along runs of SGD is compared with that along "
            "equation (1). It would fail with another constant. The theorem is about η → 0: at the last "
            "learning rate, SGD returns to an exact fit along the "
            f"direction of least curvature, {flattest:.2g}, in {returning:.2g} of t, and the runs last "
            f"{race.times[-1]:.2g}, {race.times[-1] / returning:.2g} times as long."
            f"{'' if judged else TOO_SHORT}"
        ),
        findings=(codimension_finding(race, codimension), *((fall,) if judged else ())),
        panels=(trace_panel(race, "transformer-trace", "a tiny transformer at an exact fit"),),
        settings=(
            ("width", str(settings.width)),
            ("spread of the start", str(settings.spread)),
            *stated(settings.race),
        ),
    )


ENTRY = Entry(
    "theorem-3.3-transformer",
    theorem_3_3_transformer,
    full=TransformerSettings(
        32,
        0.3,
        Race(
            (0.1, 0.05), 0.25, 3, paths=64, batch_size=1, seed=5, relative_tolerance=1e-5, most_steps=10_000
        ),
    ),
    smoke=TransformerSettings(
        32,
        0.3,
        Race((0.4, 0.2), 0.1, 1, paths=8, batch_size=1, seed=1, relative_tolerance=1e-4, most_steps=100),
    ),
    seconds=150,
)
