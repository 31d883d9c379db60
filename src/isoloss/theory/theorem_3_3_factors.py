"""Theorem 3.3 on a table of logits in two factors, whose minimisers are a manifold of known codimension."""

from dataclasses import dataclass

from isoloss.languages.random_hmm import random_hmm
from isoloss.progress import Progress, silent
from isoloss.seeds import derived_seed
from isoloss.theory.context_distributions import enumerated_contexts
from isoloss.theory.finding import Statement, stated
from isoloss.theory.flow_against_sgd import (
    Race,
    codimension_finding,
    fall_finding,
    flow_against_sgd,
    order_finding,
    trace_panel,
)
from isoloss.theory.minimisers import Minimisers
from isoloss.theory.softmax_model import FactorTable


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


FULL = FactorSettings(3, 2, 4, Race((0.4, 0.2, 0.1), 0.25, 5, paths=100, batch_size=1, seed=1))
SMOKE = FactorSettings(2, 2, 2, Race((0.2, 0.05), 0.5, 2, paths=100, batch_size=1, seed=1))


def theorem_3_3_factors(settings: FactorSettings, progress: Progress = silent) -> Statement:
    """SGD's runs against the integrated flow of the trace, from one point at an exact fit."""
    seed = settings.race.seed
    language = random_hmm(words=settings.words, states=2, blocks=1, length=settings.length, seed=seed)
    distributions = enumerated_contexts(language).distributions
    model = FactorTable(len(distributions.weight), settings.words, settings.rank)
    minimisers = Minimisers(model, distributions)
    start = minimisers.reach(model.random_parameters(derived_seed(seed, "start")))
    race = flow_against_sgd(minimisers, start, settings.race, progress=progress)
    return Statement(
        name="theorem-3.3-factors",
        title="Does SGD at an exact fit flatten? A table of logits in two factors",
        text=(
            f"Logits U Vᵀ of {len(distributions.weight)} contexts and {settings.words} words have "
            f"{model.parameters} parameters and {distributions.codimension} independent probabilities, so "
            f"their minimisers form a manifold of {model.parameters - distributions.codimension} dimensions. "
            "Equation (1) is integrated on it, and runs of SGD start from the same point. It would fail with "
            "another constant, or if SGD drifted in another direction on the manifold."
        ),
        findings=(
            codimension_finding(race, distributions.codimension),
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
