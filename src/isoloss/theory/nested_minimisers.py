"""Figure 11 (right), computed: one coin with one and with more pairs of factors (Section 4, B.4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.theory.finding import Entry, Finding, Statement, stated, vanishing
from isoloss.theory.minimisers import BiasedCoin, trace_flow

SOURCE = "Figure 11, right; B.4"
LEAST = "2 p(1-p) |logit p|"


@dataclass(frozen=True)
class NestedSettings:
    """Flows start at the minimisers with u² - v² = `differences`; for more `pairs`, `seeds` are other starts.

    They last for `decays` times 1 / p(1-p), the decay time of u² - v². `tolerance` is relative.
    """

    heads: float
    pairs: int
    differences: tuple[float, ...]
    seeds: tuple[int, ...]
    decays: float
    points: int
    tolerance: float = 1e-5


FULL = NestedSettings(0.7, 2, (1.0, 2.0, 3.0), (1, 2, 3), decays=16, points=40)
SMOKE = NestedSettings(0.7, 2, (2.0,), (1,), decays=16, points=4)


def nested_minimisers(settings: NestedSettings, progress: Progress = silent) -> Statement:
    """The flow of the trace over the minimisers of the small model and over those of the large one.

    Raises BadInput for fewer than two pairs, which do not make a larger model.
    """
    if settings.pairs < 2:
        raise BadInput(f"the larger model needs at least two pairs of factors, not {settings.pairs}")
    coin = BiasedCoin(settings.heads)
    traces = _traces_along_flows(settings, coin, progress)
    return Statement(
        name="nested-minimisers",
        title="Has a larger model the smaller one's minimisers, and flatter ones?",
        text=(
            f"A coin, p = {settings.heads:g}, is predicted by σ(Σ u_i v_i) with one pair of factors and with "
            f"{settings.pairs}. A minimiser of the small model, padded with pairs of zeros, is a minimiser "
            "of the large model and equally flat. Equation (1) is integrated from several minimisers of "
            "each. Since Σ (u_i² + v_i²) ≥ 2 |Σ u_i v_i|, no minimiser of either model has a trace below 2 "
            "p(1-p) |logit p|. It would fail if a flow ended elsewhere, or if the endpoints of the two "
            "models differed."
        ),
        findings=_findings(settings, coin, traces),
        panels=(_panel(traces, _least_trace(coin)),),
        settings=stated(settings),
        corrections=(
            "The figure says that larger models can achieve flatter minima than smaller ones. Since the "
            "minimisers are nested, the least trace of a larger model cannot be larger; on this coin it is "
            "the same.",
        ),
    )


Traces = Sequence[tuple[int, str, list[tuple[float, float]]]]
"""For each flow the model's number of pairs, its start, and the trace at each time."""


def _traces_along_flows(settings: NestedSettings, coin: BiasedCoin, progress: Progress) -> Traces:
    minimisers = coin.minimisers
    end = settings.decays / coin.decay_rate(batch_size=1)
    times = [end * point / settings.points for point in range(settings.points + 1)]
    starts = [(1, f"u² - v² = {d:g}", coin.minimiser(d)) for d in settings.differences]
    for seed in settings.seeds:
        generator = torch.Generator().manual_seed(seed)
        start = minimisers.reach(torch.randn(2 * settings.pairs, generator=generator, dtype=torch.float64))
        starts.append((settings.pairs, f"start {seed}", start))
    found = []
    for done, (pairs, name, start) in enumerate(starts, start=1):
        path = trace_flow(minimisers, start, times)
        traces = [(time, minimisers.trace(at)) for time, at in zip(times, path, strict=True)]
        found.append((pairs, name, traces))
        progress("flows of the trace", done, len(starts))
    return found


def _findings(settings: NestedSettings, coin: BiasedCoin, traces: Traces) -> tuple[Finding, ...]:
    minimisers, least = coin.minimisers, _least_trace(coin)
    small = [coin.minimiser(d) for d in settings.differences]
    apart = [abs(minimisers.trace(_embedded(at, settings.pairs)) - minimisers.trace(at)) for at in small]
    sentence = "A minimiser of the small model is one of the large model, with the same trace (difference)."
    findings = [vanishing("embedding", sentence, SOURCE, apart, 1e-12, unit="nats")]
    for pairs in (1, settings.pairs):
        ends = [flow[-1][1] for of, _, flow in traces if of == pairs]
        findings.append(
            Finding(
                f"least trace, {_in_words(pairs)}",
                f"With {_in_words(pairs)} of factors, the flow of the trace ends at the trace {LEAST}.",
                SOURCE,
                max(ends, key=lambda trace: abs(trace - least)),
                "equal to",
                least,
                n=len(ends),
                unit="nats",
                tolerance=settings.tolerance * least,
            )
        )
    return tuple(findings)


def _least_trace(coin: BiasedCoin) -> float:
    return 2 * coin.heads * (1 - coin.heads) * abs(coin.logit)


def _in_words(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs} pairs"


def _embedded(small: Float[Tensor, " 2"], pairs: int) -> Float[Tensor, " P"]:
    """The same point in the larger model: the other pairs are zeros."""
    large = torch.zeros(2, pairs, dtype=small.dtype)
    large[:, 0] = small
    return large.flatten()


def _panel(traces: Traces, least: float) -> Panel:
    rows = []
    for pairs, start, flow in traces:
        model = _in_words(pairs)
        rows += [(*point, model, f"{model}, {start}", False) for point in flow]
    rows += [(t, least, LEAST, LEAST, True) for t in (0.0, traces[0][2][-1][0])]
    y, colour = Axis("trace", "Tr ∇²L (nats)"), Colour("model", "model")
    return Panel(
        "nested-traces",
        "The interaction of size and implicit bias (Figure 11, right), computed",
        "Trace of the Hessian along equation (1), from several minimisers of each model. Dashed: the "
        "smallest trace that a minimiser of either can have.",
        (Lines(Axis("t", "t"), y, colour, series="series", predicted="predicted"),),
        pl.DataFrame(rows, ["t", "trace", "model", "series", "predicted"], orient="row"),
    )


ENTRY = Entry("nested-minimisers", nested_minimisers, FULL, SMOKE, seconds=5)
