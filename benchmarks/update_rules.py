"""What a step of each update rule costs, over a plain AdamW step on the same batch.

    python -m benchmarks.update_rules [--json] [--width 64] [--batch-size 128] [--repetitions 15] [--steps 4]

Rules take turns in one process, on one thread, each on a model of its own and the same batches made
beforehand; a turn is `steps` steps, a figure the median over turns of one turn's ratio to the plain step.
SAM is handed the same batch as the others and learns from one half of it: its cost a sentence learnt from
is twice the figure. The adversary's λ is held at its full strength; its examples are
drawn inline, which the second figure leaves out.
"""

import json as json_format
import statistics
from collections.abc import Callable
from time import perf_counter

import torch
import tyro

from isoloss.languages.language import Language
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.adversarial import Adversarial, AdversarialRule
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import SAM, FlatnessRegularised
from isoloss.pretraining.other_optimisers import SOAP, Lion, Muon, Sophia
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRule, UpdateRuleSettings

PLAIN = "AdamW"
ALWAYS_ON = Adversarial(loss_window=(100.0, 101.0))
RULES: dict[str, UpdateRuleSettings] = {
    PLAIN: AdamW(),
    "SGD": SGD(),
    "flatness-regularised": FlatnessRegularised(),
    "SAM in halves": SAM(),
    "adversarial, 64 + 64 examples": ALWAYS_ON,
    "the same, examples beforehand": ALWAYS_ON,
    "Lion": Lion(),
    "Muon": Muon(),
    "SOAP": SOAP(),
    "Sophia": Sophia(),
}


def rules(language: Language, width: int, batch_size: int, steps: int) -> dict[str, UpdateRule]:
    """Each rule on a fresh model of its own."""
    built = {}
    for name, settings in RULES.items():
        model = PreLayerNormTransformer(laptop_shape(width)).build(
            len(language.vocabulary), language.maximum_length, seed=0
        )
        training = Training(model.train(), MaskedObjective(), language, 0, max(steps, 1000), batch_size)
        built[name] = settings.build(training)
    beforehand = built["the same, examples beforehand"]
    assert isinstance(beforehand, AdversarialRule)
    examples = beforehand.examples(0)
    beforehand.examples = lambda step: examples  # type: ignore[method-assign] # noqa: ARG005
    return built


def seconds_of(step: Callable[[Batch, int], object], batches: list[Batch], first: int) -> float:
    """Time of these steps, counted from `first`."""
    begun = perf_counter()
    for number, batch in enumerate(batches, start=first):
        step(batch, number)
    return perf_counter() - begun


def measure(width: int, batch_size: int, repetitions: int, steps: int) -> dict[str, dict[str, float]]:
    """Milliseconds a step and the ratio to the plain step, by rule."""
    language = pcfg(laptop_grammar(0))
    stream = Stream(language, MaskedObjective(), batch_size, seed=0)
    with stream.batches(0, steps) as made:
        batches = list(made)
    built = rules(language, width, batch_size, (repetitions + 1) * steps)
    turns: dict[str, list[float]] = {name: [] for name in built}
    for turn in range(repetitions + 1):
        for name, rule in built.items():
            turns[name].append(seconds_of(rule.step, batches, 1 + turn * steps) / steps)
    return {
        name: {
            "milliseconds_a_step": 1e3 * statistics.median(seconds[1:]),  # the first turn warms up
            "over_plain_step": statistics.median(
                own / plain for own, plain in zip(seconds[1:], turns[PLAIN][1:], strict=True)
            ),
        }
        for name, seconds in turns.items()
    }


def main(
    json: bool = False, width: int = 64, batch_size: int = 128, repetitions: int = 15, steps: int = 4
) -> None:
    """The cost of each update rule's step, at one of the laptop's shapes: about a minute.

    Args:
        json: Print JSON instead of a table.
        width: The model's width.
        batch_size: Sentences a batch.
        repetitions: Turns that the medians are over.
        steps: Steps a turn.
    """
    torch.set_num_threads(1)
    rows = measure(width, batch_size, repetitions, steps)
    if json:
        settings = {"width": width, "batch_size": batch_size, "threads": 1}
        print(json_format.dumps({**settings, "rules": rows}, indent=2))
        return
    print(f"width {width}, batches of {batch_size}, one thread")
    for name, row in rows.items():
        print(f"{name:32}{row['milliseconds_a_step']:9.2f} ms{row['over_plain_step']:8.2f} x plain")


if __name__ == "__main__":
    tyro.cli(main)
