"""Theorem 3.3 on a tiny transformer that has reached the distribution of a small language."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.languages.random_hmm import random_hmm
from isoloss.models.shapes import Shape
from isoloss.models.transformers import PostLayerNormTransformer
from isoloss.progress import Progress, silent
from isoloss.seeds import derived_seed
from isoloss.theory.context_distributions import enumerated_contexts
from isoloss.theory.finding import Statement, stated
from isoloss.theory.flow_against_sgd import (
    Race,
    codimension_finding,
    fall_at_last_rate_finding,
    flow_against_sgd,
    trace_panel,
)
from isoloss.theory.minimisers import Minimisers
from isoloss.theory.softmax_model import EnumeratedTransformer, parameter_vector


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


FULL = TransformerSettings(
    32,
    0.3,
    Race((0.1, 0.05), 0.25, 3, paths=64, batch_size=1, seed=1, relative_tolerance=1e-5, most_steps=1500),
)
SMOKE = TransformerSettings(
    32,
    0.3,
    Race((0.4, 0.2), 0.1, 1, paths=8, batch_size=1, seed=1, relative_tolerance=1e-4, most_steps=100),
)


def theorem_3_3_transformer(settings: TransformerSettings, progress: Progress = silent) -> Statement:
    """SGD's runs against the integrated flow of the trace, from one point at an exact fit."""
    minimisers, start = exact_transformer(settings.width, settings.spread, settings.race.seed)
    race = flow_against_sgd(minimisers, start, settings.race, progress=progress)
    flattest = float(minimisers.singular_values(start)[minimisers.distributions.codimension - 1] ** 2)
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
            codimension_finding(race, minimisers.distributions.codimension),
            fall_at_last_rate_finding(race, 2 * settings.race.rates[-1]),
        ),
        panels=(trace_panel(race, "transformer-trace", "a tiny transformer at an exact fit"),),
        settings=(
            ("width", str(settings.width)),
            ("spread of the start", str(settings.spread)),
            *stated(settings.race),
        ),
    )


def exact_transformer(
    width: int, spread: float, seed: int, words: int = 2
) -> tuple[Minimisers, Float[Tensor, " P"]]:
    """A one-layer transformer's minimisers on sentences of two of `words` words, and one of them."""
    language = random_hmm(words=words, states=2, blocks=1, length=2, seed=seed)
    contexts = enumerated_contexts(language)
    architecture = PostLayerNormTransformer(Shape(width, 2, 1, 2 * width), dropout=0.0, attention="eager")
    model = architecture.build(words, 2, seed).double().eval()
    minimisers = Minimisers(EnumeratedTransformer(model, contexts), contexts.distributions)
    initial = parameter_vector(model)
    generator = torch.Generator().manual_seed(derived_seed(seed, "start"))
    noise = torch.randn(len(initial), generator=generator, dtype=torch.float64)
    return minimisers, minimisers.reach(initial + spread * noise)
