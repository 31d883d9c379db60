"""Pre-training beside plain loops over the same model, and the share of it spent waiting for sentences.

    python -m benchmarks.pretraining [--json] [--batch-size 128] [--repetitions 5] [--seconds 1.5]

Two plain loops, both handed batches made beforehand and leaving nothing on disk:
- ordinary: `model(input_ids, attention_mask, labels).loss`, torch's AdamW as it comes;
- bare: the loop's own work and no more: last block and head at the masked words, fused AdamW.
The loops take turns in one process, on one thread; figures are medians over turns, ratios medians of one
turn's ratios. The loop's time is all of it, sampling inline, seeding and noting losses included, but for the
checkpoint at the end, which has its own column. A worker's waiting share counts from its first batch on,
inline sampling's from the start.
"""

import json as json_format
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch
import tyro
from transformers import PreTrainedModel

from isoloss.languages.language import Language
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.models.transformers import LAPTOP, PreLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW, parameters_by_decay
from isoloss.pretraining.loop import PretrainingReport, pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.pretraining.stream import Stream


def ordinary_step(model: PreTrainedModel) -> Callable[[Batch], None]:
    """What a tutorial writes."""
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.98), weight_decay=0.01)

    def step(batch: Batch) -> None:
        labels = torch.full_like(batch.input_ids, -100)
        labels[batch.rows, batch.positions] = batch.targets
        loss = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def bare_step(model: PreTrainedModel) -> Callable[[Batch], None]:
    """The loop's own arithmetic with nothing around it."""
    groups = parameters_by_decay(model, 0.01)
    optimiser = torch.optim.AdamW(groups, 1e-3, (0.9, 0.98), eps=1e-6, fused=True)

    def step(batch: Batch) -> None:
        loss = torch.nn.functional.cross_entropy(MaskedObjective().logits(model, batch), batch.targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def seconds_of(step: Callable[[Batch], None], batches: list[Batch]) -> float:
    """Time of one pass over the batches."""
    begun = perf_counter()
    for batch in batches:
        step(batch)
    return perf_counter() - begun


def looped(shape: Shape, language: Language, batch_size: int, steps: int) -> PretrainingReport:
    """One run of the library's loop, in a folder that goes away."""
    specification = PretrainingSpecification(
        PreLayerNormTransformer(shape),
        AdamW(warm_up_steps=min(1000, steps)),
        language.digest,
        steps,
        batch_size,
        0,
        (steps,),
    )
    with tempfile.TemporaryDirectory() as folder:
        return pretrain(specification, language, Path(folder))


def measure(
    shape: Shape, language: Language, batch_size: int, seconds: float, repetitions: int
) -> dict[str, float]:
    """One shape's row."""
    words, longest = len(language.vocabulary), language.maximum_length
    ordinary, bare = (
        step(PreLayerNormTransformer(shape).build(words, longest, seed=0).train())
        for step in (ordinary_step, bare_step)
    )
    stream = Stream(language, MaskedObjective(), batch_size, seed=0)
    with stream.batches(0, 10) as made:
        few = list(made)
    seconds_of(ordinary, few)
    seconds_of(bare, few)
    steps = max(10, round(seconds / seconds_of(bare, few) * len(few)))
    with stream.batches(0, steps) as made:
        batches = list(made)
    turns = []
    for _ in range(repetitions):
        inline = looped(shape, language, batch_size, steps)
        work = inline.seconds - inline.writing_seconds
        turns.append(
            {
                "milliseconds_a_step": work / steps * 1e3,
                "speed_over_bare_loop": seconds_of(bare, batches) / work,
                "speed_over_ordinary_loop": seconds_of(ordinary, batches) / work,
                "waiting_share_inline": inline.waiting_seconds / work,
                "waiting_share_one_worker": waiting_with_a_worker(bare, stream, steps),
                "milliseconds_a_checkpoint": inline.writing_seconds * 1e3,
            }
        )
    return {
        "width": shape.width,
        "steps_a_turn": steps,
        **{name: statistics.median(turn[name] for turn in turns) for name in turns[0]},
    }


def waiting_with_a_worker(step: Callable[[Batch], None], stream: Stream, steps: int) -> float:
    """Share of the steps' time spent waiting for one worker process, once it has handed over a batch."""
    waiting = 0.0
    with stream.batches(0, steps, workers=1) as batches:
        step(next(batches))
        begun = perf_counter()
        for _ in range(steps - 1):
            asked = perf_counter()
            batch = next(batches)
            waiting += perf_counter() - asked
            step(batch)
        return waiting / (perf_counter() - begun)


def main(json: bool = False, batch_size: int = 128, repetitions: int = 5, seconds: float = 1.5) -> None:
    """Pre-training beside plain loops, at the laptop's shapes: about three minutes.

    Args:
        json: Print JSON instead of a table.
        batch_size: Sentences a batch.
        repetitions: Turns that the medians are over.
        seconds: About how long one loop's turn takes.
    """
    torch.set_num_threads(1)
    language = pcfg(laptop_grammar(0))
    rows = [measure(shape, language, batch_size, seconds, repetitions) for shape in LAPTOP]
    if json:
        print(json_format.dumps({"batch_size": batch_size, "threads": 1, "rows": rows}, indent=2))
        return
    print(f"batches of {batch_size} sentences of {language.maximum_length} words, one thread")
    print("width  steps/s  ms/step  x bare loop  x ordinary loop  waiting inline  one worker  ms/checkpoint")
    for row in rows:
        step = row["milliseconds_a_step"]
        print(
            f"{row['width']:5.0f}{1e3 / step:9.1f}{step:9.2f}{row['speed_over_bare_loop']:13.3f}"
            f"{row['speed_over_ordinary_loop']:17.3f}{row['waiting_share_inline']:16.2%}"
            f"{row['waiting_share_one_worker']:12.2%}{row['milliseconds_a_checkpoint']:15.1f}"
        )


if __name__ == "__main__":
    tyro.cli(main)
