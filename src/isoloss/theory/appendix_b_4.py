"""Appendix B.4: a small model as a special case of a larger one, and what that preserves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from transformers import PreTrainedModel

from isoloss.models.enlarging import Enlargement, Form, enlarged, exact_form, paper_form
from isoloss.models.transformers import Architecture, PostLayerNormTransformer, PreLayerNormTransformer, Shape
from isoloss.panels import Axis, Colour, Lines, Panel, Table
from isoloss.progress import Progress, silent
from isoloss.theory.enlarged_identities import (
    LONGEST,
    MATRICES,
    Weights,
    dense_trace,
    documented_factor,
    feed_forward,
    feed_forward_weights,
    fisher_by_kind,
    largest_change,
    random_tokens,
    random_transformer,
    score_change,
    widened,
    with_epsilon,
)
from isoloss.theory.finding import Entry, Finding, Statement, stated, vanishing

ARCHITECTURES: dict[str, Callable[[Shape], Architecture]] = {
    "post-LN": PostLayerNormTransformer,
    "pre-LN": PreLayerNormTransformer,
}
FORMS: dict[str, Form] = {"exact": exact_form, "paper's": paper_form}
EPSILONS = (1e-12, 1e-10, 1e-8, 1e-6)


@dataclass(frozen=True)
class AppendixB4Settings:
    """Networks for each of `seeds`, `width` times as wide; transformers also with `layers` more layers.

    Tolerances are relative. `exact` is a thousand times the rounding of float64 in such networks.
    `epsilon_left` is the possible effect of a layer norm's epsilon of 1e-12, times its amplification by the
    weights.
    """

    seeds: tuple[int, ...]
    width: int
    layers: int
    sentences: int
    exact: float = 1e-10
    epsilon_left: float = 1e-6


FULL = AppendixB4Settings(seeds=(1, 2, 3, 4, 5), width=3, layers=2, sentences=4)
SMOKE = AppendixB4Settings(seeds=(1,), width=2, layers=1, sentences=1)


def appendix_b_4(settings: AppendixB4Settings, progress: Progress = silent) -> Statement:
    """Test the identities of B.4 with the enlargement used by `isoloss enlarge`."""
    progress("enlarging networks", 0, 3)
    feed_forward = feed_forward_finding(settings)
    scores = pl.DataFrame(list(_score_changes(settings)), orient="row")
    progress("enlarging networks", 1, 3)
    epsilons = pl.DataFrame(list(_epsilon_changes(settings)), orient="row")
    progress("enlarging networks", 2, 3)
    traces = pl.DataFrame(list(_trace_factors(settings)), orient="row")
    return Statement(
        name="appendix-b.4",
        title="Is a small model a point of a large one's parameter space?",
        text=(
            "Feed-forward networks and small transformers with random weights, in float64, are enlarged by "
            "the functions behind `isoloss enlarge` (docs/enlarging.md). Outputs and traces are compared: "
            "for feed-forward networks the trace of the Hessian, computed densely; for transformers that of "
            "the Fisher information, over every label in turn, by kind of parameter."
        ),
        findings=(
            *feed_forward,
            *score_findings(scores, settings),
            epsilon_finding(epsilons),
            *trace_findings(traces),
        ),
        panels=(_epsilon_panel(epsilons), _trace_panel(traces)),
        settings=stated(settings),
        corrections=(
            "In post-LN models the zero blocks that B.4 adds are not the identity: their norms undo the "
            "small model's last gain and bias, which must move to the last added norm. In pre-LN models they "
            "are exact.",
            "B.4 divides the embeddings, so that the next layer norm sees an epsilon k² times as large: this "
            "is exact only as epsilon goes to 0. Left undivided, the embeddings are exact; the scaling of "
            "the output moves to the last norm.",
            "Only the matrices keep their trace: that of the tied embeddings is multiplied by k in the "
            "paper's form and divided by k in the exact form, and that of biases and gains is divided by k.",
        ),
    )


def feed_forward_finding(
    settings: AppendixB4Settings, enlarge: Callable[[Weights, int], Weights] = widened
) -> tuple[Finding, Finding]:
    """B.4.1: the largest changes of outputs and of the dense Hessian's trace, over seeds and slopes."""
    outputs, traces = [], []
    for seed in settings.seeds:
        for slope in (0.0, 0.2):
            small = feed_forward_weights((3, 5, 4, 2), seed, slope)
            large = enlarge(small, settings.width)
            generator = torch.Generator().manual_seed(seed)
            x = torch.randn(8, 3, generator=generator, dtype=torch.float64)
            outputs.append(largest_change(feed_forward(small, x, slope), feed_forward(large, x, slope)))
            traces.append(abs(dense_trace(large, x, slope) / dense_trace(small, x, slope) - 1))
    same, flat = (
        f"Enlarged feed-forward networks have the same {what}" for what in ("outputs", "trace of the Hessian")
    )
    return (
        _unchanged("feed_forward_output_change", same, "B.4.1", outputs, settings.exact),
        _unchanged("feed_forward_trace_change", flat, "B.4.1", traces, settings.exact),
    )


def score_findings(scores: pl.DataFrame, settings: AppendixB4Settings) -> tuple[Finding, ...]:
    """Columns `architecture`, `form`, `change` of the scores, wider and deeper, at epsilon 1e-12."""
    findings = []
    for (architecture, form), part in scores.group_by("architecture", "form", maintain_order=True):
        name = f"{architecture}_{form}_score_change".replace("-", "_").replace("'", "").lower()
        sentence = f"Enlarged {architecture} transformers, in the {form} form, have the same scores"
        changes = part["change"].to_list()
        findings.append(_unchanged(name, sentence, "B.4.2", changes, settings.epsilon_left))
    return tuple(findings)


def epsilon_finding(epsilons: pl.DataFrame) -> Finding:
    """The exponent of epsilon in the change of scores in the paper's form, widened only: 1, to within 0.05.

    The change is linear in epsilon up to terms of epsilon², and rounding adds 1e-15 to the smallest.
    """
    paper = epsilons.filter((pl.col("form") == "paper's") & (pl.col("change") > 0))
    slopes = [
        float(np.polyfit(part["epsilon"].log().to_numpy(), part["change"].log().to_numpy(), 1)[0])
        for _, part in paper.group_by("architecture", maintain_order=True)
    ]
    sentence = (
        "Divided embeddings change the scores in proportion to the norm's epsilon (exponent farthest from 1)."
    )
    name, n, said = "divided_embeddings_epsilon_exponent", len(paper), "no change at any epsilon"
    farthest = max(slopes, key=lambda slope: abs(slope - 1))
    return Finding(name, sentence, "B.4.2", farthest, "equal to", 1.0, n=n, tolerance=0.05, paper=said)


def trace_findings(traces: pl.DataFrame) -> tuple[Finding, Finding]:
    """Columns `kind`, `measured`, `predicted` of traces of the Fisher information, large over small.

    1e-6 is the effect of an epsilon of 1e-12, as for the scores.
    """
    off = traces.with_columns(
        unchanged=(pl.col("measured") - 1).abs(),
        documented=(pl.col("measured") / pl.col("predicted") - 1).abs(),
    )
    matrices = off.filter(pl.col("kind") == MATRICES)["unchanged"].to_list()
    all_kinds = off["documented"].to_list()
    same = "Enlarged matrices keep their trace"
    documented = "The trace of every kind of parameter changes by its factor in docs/enlarging.md"
    name, said = "trace_factors_off_documented", "unchanged with respect to most parameters"
    return (
        _unchanged("trace_of_matrices_change", same, "Section 4", matrices, 1e-6),
        _unchanged(name, documented, "Section 4, B.4", all_kinds, 1e-6, paper=said),
    )


def _unchanged(
    name: str, sentence: str, source: str, changes: Sequence[float], tolerance: float, paper: str = ""
) -> Finding:
    return vanishing(name, f"{sentence} (largest relative change).", source, changes, tolerance, paper=paper)


Row = dict[str, str | float]


def _score_changes(settings: AppendixB4Settings) -> Iterator[Row]:
    by = Enlargement(settings.width, settings.layers)
    for architecture, build in ARCHITECTURES.items():
        for seed in settings.seeds:
            model, ids = random_transformer(build, seed), random_tokens(settings.sentences, seed)
            for form, large in _in_each_form(model, by):
                yield {"architecture": architecture, "form": form, "change": score_change(model, large, ids)}


def _epsilon_changes(settings: AppendixB4Settings) -> Iterator[Row]:
    ids = random_tokens(settings.sentences, settings.seeds[0])
    for architecture, build in ARCHITECTURES.items():
        for epsilon in EPSILONS:
            model = with_epsilon(random_transformer(build, settings.seeds[0]), epsilon)
            for form, large in _in_each_form(model, Enlargement(settings.width)):
                yield {
                    "architecture": architecture,
                    "form": form,
                    "series": f"{architecture}, {form} form",
                    "epsilon": epsilon,
                    "change": score_change(model, large, ids),
                }


def _trace_factors(settings: AppendixB4Settings) -> Iterator[Row]:
    ids = random_tokens(settings.sentences, settings.seeds[0])
    for architecture, build in ARCHITECTURES.items():
        model = random_transformer(build, settings.seeds[0])
        before = fisher_by_kind(model, ids, LONGEST // 2)
        for form, large in _in_each_form(model, Enlargement(settings.width)):
            after = fisher_by_kind(large, ids, LONGEST // 2)
            for kind, trace in before.items():
                yield {
                    "kind": kind,
                    "architecture": architecture,
                    "form": form,
                    "measured": after[kind] / trace,
                    "predicted": documented_factor(kind, form, settings.width),
                }


def _in_each_form(model: PreTrainedModel, by: Enlargement) -> Iterator[tuple[str, PreTrainedModel]]:
    for name, form in FORMS.items():
        yield name, enlarged(model, by, form)


def _epsilon_panel(epsilons: pl.DataFrame) -> Panel:
    x = Axis("epsilon", "epsilon", logarithmic=True)
    y = Axis("change", "change of scores", logarithmic=True)
    return Panel(
        "epsilon",
        "How a layer norm's epsilon affects an enlarged model",
        "Largest relative change of a score after widening; values below 1e-14 are rounding errors.",
        (Lines(x, y, Colour("series", "transformer and form"), series="series"),),
        # A change of exactly 0 has no place on a logarithmic axis.
        epsilons.with_columns(pl.col("change").clip(lower_bound=1e-17)),
    )


def _trace_panel(traces: pl.DataFrame) -> Panel:
    columns = {
        "kind": "parameters",
        "architecture": "transformer",
        "form": "form",
        "measured": "trace, large over small",
        "predicted": "documented",
    }
    return Panel(
        "traces",
        "What happens to the trace, by kind of parameter",
        "Exact trace of the Fisher information, after widening, with tied embeddings.",
        (Table(tuple(Axis(column, title) for column, title in columns.items())),),
        traces,
    )


ENTRY = Entry("appendix-b.4", appendix_b_4, FULL, SMOKE, seconds=10)
