"""Whether the predicted KL of rounding is the measured one: `python -m benchmarks.sensitivity [--json]`.

    python -m benchmarks.sensitivity --seeds 900 901 902 --folder rxnfp --text reactions.txt

Every layer of every model alone is rounded to 8, 6, 5 and 4 bits, by row or with `--group` by groups. A cell
is one layer at one number of bits. Then the bits that are best at a mean of 4 and of 5 are found on these
sentences, and the model with them is held beside the uniformly rounded one on other sentences: both are
measured. The models are trained here for a minute each, and whatever is in `--folder`.
"""

import json as json_format
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro
from torch import nn

from isoloss.corpora.token_sentences import read_text_corpus
from isoloss.curvature.predicted_kl import measured_kl
from isoloss.curvature.weight_changes import Rounding, differences
from isoloss.experiments.languages import second_grammar
from isoloss.measurements.models_on_text import load_predicting, prediction_of, sampled_batches
from isoloss.measurements.sensitivity import (
    WHOLE,
    PartUnderChange,
    Sensitivity,
    allocated,
    layer_of,
)
from isoloss.models.transformers import (
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    laptop_shape,
)
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.pretrained import apart_throughout
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training

BITS, MEANS = (8, 6, 5, 4, 3), (5.0, 4.0)
JUDGED = (8, 6, 5, 4)
ARCHITECTURES = {
    "BERT, norms after": (PostLayerNormTransformer, MaskedObjective()),
    "BERT, norms before": (PreLayerNormTransformer, MaskedObjective()),
    "GPT-2": (GPT2Transformer, NextWordObjective()),
}


@dataclass(frozen=True)
class Case:
    """A model, sentences to predict on, and others to judge allocations on."""

    name: str
    model: nn.Module
    objective: Objective
    batches: list[Batch]
    others: list[Batch]


def trained(name: str, seed: int, steps: int, sentences: int) -> Case:
    """A small model of the laptop's second grammar."""
    architecture, objective = ARCHITECTURES[name]
    language = second_grammar()
    shape = laptop_shape(32)
    model = architecture(shape, dropout=0.0).build(len(language.vocabulary), language.maximum_length, seed)
    training = Training(model, objective, language, seed, steps, 128)
    rule = AdamW(3e-3, warm_up_steps=100, decay="cosine").build(training)
    with Stream(language, objective, 128, seed).batches(0, steps) as batches:
        for step in range(1, steps + 1):
            rule.step(next(batches), step)
    generator = torch.Generator().manual_seed(seed)
    both = [objective.draw(language.sample(sentences, generator), generator) for _ in range(2)]
    return Case(f"{name}, seed {seed}", model, objective, both[:1], both[1:])


def in_folder(folder: str, text: Path, sentences: int) -> Case:
    """A published model, and a text for it."""
    prediction = prediction_of(folder)
    model = load_predicting(folder, prediction)
    sampled = sampled_batches({folder: model}, prediction, read_text_corpus(text), seed=0)
    batches = sampled.first(2 * sentences)
    pieces = [
        each.part(start, min(start + 8, len(each))) for each in batches for start in range(0, len(each), 8)
    ]
    objective, _ = apart_throughout(model, sampled.objective, batches)
    half = len(pieces) // 2
    return Case(Path(folder).name, model, objective, pieces[:half], pieces[half:])


def cells_of(case: Case, roundings: Sequence[Rounding]) -> tuple[Sensitivity, list[PartUnderChange]]:
    """Every part under every rounding, predicted in all ways and measured."""
    engine = Sensitivity.of(case.model, case.objective, case.batches, check=True)
    return engine, engine.under(roundings, layer_of)


def shares(cells: list[PartUnderChange], roundings: Sequence[Rounding]) -> dict[str, float | int]:
    """Of the layers' cells at `JUDGED` bits: how many are predicted to 20 %, and medians of the ratio."""
    names = {each.name for each in roundings if each.bits in JUDGED}
    judged = [each for each in cells if each.part != WHOLE and each.change in names]
    found: dict[str, float | int] = {"cells": len(judged)}
    for way in ("from_trace", "quadratic", "linearised"):
        ratios = [getattr(each, way).value / each.measured.value for each in judged if each.measured]
        found[f"{way}_within_20"] = sum(abs(ratio - 1) <= 0.2 for ratio in ratios)
        found[f"{way}_median"] = statistics.median(ratios)
    return found


def saved_by_allocation(
    case: Case, engine: Sensitivity, cells: list[PartUnderChange], roundings: Sequence[Rounding]
) -> Iterator[dict[str, float | str]]:
    """The measured KL, on other sentences, of allocated and of uniform bits at the same mean.

    Bits are given to layers by ½ δᵀFδ, and to tensors by the trace alone, which takes one pass.
    """
    of_trace = replace(engine, of_errors=False, check=False)
    of_tensors = of_trace.under(roundings, str)
    for mean in MEANS:
        for_layers = allocated(of_trace, cells, roundings, layer_of, mean)
        for_tensors = allocated(of_trace, of_tensors, roundings, str, mean)
        changes = {
            "layers": for_layers.rounding,
            "tensors": for_tensors.rounding,
            "uniform": replace(roundings[0], bits=int(mean)),
        }
        found = {
            name: measured_kl(case.model, case.objective, case.others, differences(case.model, change))
            for name, change in changes.items()
        }
        yield {"model": case.name, "mean_bits": mean, **{k: float(v.mean()) for k, v in found.items()}}


def main(
    seeds: tuple[int, ...] = (900, 901, 902),
    steps: int = 3000,
    sentences: int = 32,
    folder: tuple[str, ...] = (),
    text: tuple[Path, ...] = (),
    group: int | None = None,
    json: bool = False,
) -> None:
    """Print a row for every model; `folder` and `text` are of published models and go together."""
    torch.set_num_threads(1)
    roundings = [Rounding(bits, group) for bits in BITS]
    cases: list[Case] = [in_folder(name, file, sentences) for name, file in zip(folder, text, strict=True)]
    cases += [trained(name, seed, steps, sentences) for name in ARCHITECTURES for seed in seeds]
    rows = []
    for case in cases:
        engine, cells = cells_of(case, roundings)
        row = {
            "model": case.name,
            **shares(cells, roundings),
            "allocations": list(saved_by_allocation(case, engine, cells, roundings)),
        }
        rows.append(row)
        if not json:
            print(json_format.dumps(row), flush=True)
    if json:
        print(json_format.dumps(rows))


if __name__ == "__main__":
    tyro.cli(main)
