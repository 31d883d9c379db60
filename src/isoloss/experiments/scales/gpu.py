"""Hours on one GPU: the paper's languages and rates, its four smallest sizes."""

from dataclasses import replace
from typing import Any

from isoloss.experiments.descent_runs import DescentRuns, Descents
from isoloss.experiments.scales import laptop, paper
from isoloss.experiments.scales.laptop_text import REAL_TEXT
from isoloss.experiments.scales.scale import MeasurementSizes, Scale, SizeComparison, students
from isoloss.experiments.teacher_plan import SmolLM2Plan
from isoloss.models.shapes import TABLE_3, Shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.pretraining.sgd import SGD
from isoloss.pretraining.specification import log_spaced_steps

_PLAN = SmolLM2Plan()

CAUSAL_LANGUAGE = replace(
    paper.CAUSAL_LANGUAGE,
    language=_PLAN,
    architectures=students([PreLayerNormTransformer(shape) for shape in TABLE_3[:4]], _PLAN),
    steps=30_000,
    checkpoint_steps=log_spaced_steps(7_500, 30_000, per_doubling=4),
    saturated_from=7_500,
)
"""SmolLM2 in OPT's place, which needs no hub, and the four smallest sizes; untried."""


def gpu() -> Scale:
    """Between a night and the paper: its languages, batches and rates, the four smallest of its sizes.

    30,000 steps, the preprint's fewest, of which the last three quarters count as saturated; ten seeds, which
    run five at a time on one GPU (`--device cuda --processes 5`; the widest takes 15 GB). Measurements use
    fewer sentences than the paper's. The paper's learning rate and batch size for SGD would cause no visible
    drift (η²k/4B = 2e-6), so 0.2 and 1,024 are used here, which drift as long as the laptop's. Text is the
    laptop's. No run has been made at this scale: whatever its runs give will be reported.
    """
    large = paper.paper()
    steps, saturated_from = 30_000, 7_500
    checkpoint_steps = log_spaced_steps(saturated_from, steps, per_doubling=4)
    lengths: dict[str, Any] = {
        "steps": steps,
        "checkpoint_steps": checkpoint_steps,
        "saturated_from": saturated_from,
    }
    sizes = large.grammar.architectures[:4]
    descent = DescentRuns(256, SGD(0.2), 1024, steps, (1, *checkpoint_steps), averaging_horizon=400)
    return replace(
        large,
        name="gpu",
        seeds=tuple(range(301, 311)),
        sizes=MeasurementSizes(
            loss_sentences=4000,
            trace_sentences=1000,
            probe_train=20_000,
            probe_validation=1000,
            probe_test=10_000,
        ),
        grammar=replace(large.grammar, architectures=sizes, **lengths),
        compared=replace(large.compared, size=3, **lengths),
        longer=replace(
            large.longer, steps=4 * steps, checkpoint_steps=log_spaced_steps(saturated_from, 4 * steps)
        ),
        sizes_compared=SizeComparison(sizes, common=Shape(768, 12, 6, 3072), sentences=1000),
        flatness=laptop.FLATNESS,
        hidden_markov=replace(
            large.hidden_markov, architectures=large.hidden_markov.architectures[:2], **lengths
        ),
        causal_language=CAUSAL_LANGUAGE,
        descents=Descents(grammar=descent, hidden_markov=descent),
        drift=replace(large.drift, widths=(128, 256)),
        adamw_clock=replace(large.adamw_clock, width=128),
        interventions=replace(large.interventions, width=128),
        real_text=REAL_TEXT,
    )
