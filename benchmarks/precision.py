"""Whether pre-training in bfloat16 gives another model than in float32: `python -m benchmarks.precision`.

    python -m benchmarks.precision [--json] [--steps 500] [--seeds 900 901] [--width 32]

Two runs a seed from the same first weights on the same sentences, the second with matrix products in
bfloat16 (torch's autocast, `Compute`); then the exact loss, the trace and the linear probe of both, on the
same sentences, in float32. No clock is compared: a CPU without bfloat16 is slower with it.
"""

import json as json_format
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
import tyro

from isoloss.experiments.languages import second_grammar
from isoloss.measurements.accuracy import AccuracyQuantity, LinearProbe
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.quantity import Columns, Quantity, Subject
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import Compute, Precision, PretrainingSpecification
from isoloss.progress import silent

LANGUAGE, OBJECTIVE = second_grammar(), MaskedObjective()
QUANTITIES: tuple[Quantity, ...] = (
    ExactLossQuantity(1000, seed=1),
    TraceQuantity(500, seed=2),
    AccuracyQuantity(
        TaskSentences("prefix-8", 1000, 100, 2000, seed=3),
        LinearProbe(ProbeSettings(seeds=(0, 1), epochs=50)),
    ),
)
SHOWN = ("kl", "trace", "accuracy")


def measured(precision: Precision, seed: int, steps: int, width: int) -> dict[str, float]:
    """The last checkpoint's numbers and their standard errors."""
    specification = PretrainingSpecification(
        architecture=PreLayerNormTransformer(laptop_shape(width), dropout=0.0, attention="eager"),
        update_rule=AdamW(3e-3, warm_up_steps=100),
        language_digest=LANGUAGE.digest,
        steps=steps,
        batch_size=128,
        seed=seed,
        checkpoint_steps=(steps,),
        compute=Compute(precision=precision),
        averaging_horizon=100,
    )
    with tempfile.TemporaryDirectory() as folder:
        last = pretrain(specification, LANGUAGE, Path(folder)).last
        model = load_masked_language_model(last.folder)
    subject = Subject(precision, OBJECTIVE, {}, LANGUAGE, seed=seed)
    columns: Columns = {}
    for quantity in QUANTITIES:
        drawn = quantity.draw(LANGUAGE, OBJECTIVE, silent)
        columns |= quantity.columns(quantity.measure(model, drawn, subject, silent).records)
    names = (name for shown in SHOWN for name in (shown, f"{shown}_error"))
    return {name: float(value) for name in names if isinstance(value := columns[name], float)}


def main(json: bool = False, steps: int = 500, seeds: Sequence[int] = (900, 901), width: int = 32) -> None:
    """KL, trace and accuracy after float32 and bfloat16: a minute or two.

    Args:
        json: Print JSON instead of a table.
        steps: Steps of either run.
        seeds: Of first weights and sentences.
        width: Width of the models, of two layers.
    """
    torch.set_num_threads(1)
    precisions: tuple[Precision, ...] = ("float32", "bfloat16")
    found = []
    for seed in seeds:
        for precision in precisions:
            numbers = measured(precision, seed, steps, width)
            found.append({"seed": seed, "precision": precision, "steps": steps, **numbers})
            if not json:
                told = "  ".join(f"{n} {numbers[n]:.4g} ± {numbers[f'{n}_error']:.2g}" for n in SHOWN)
                print(f"seed {seed}  {precision:9} {told}", flush=True)
    if json:
        print(json_format.dumps(found, indent=2))


if __name__ == "__main__":
    tyro.cli(main)
