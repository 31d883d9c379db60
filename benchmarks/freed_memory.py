"""What it saves that jobs reuse freed memory: `python -m benchmarks.freed_memory [--json] [--pairs 5]`.

Processor seconds, the system's among them, of a process that trains a laptop model and measures its exact
loss, with `keep_freed_memory`, as each job of `isoloss reproduce` has it, and as glibc comes. A process each,
in turn, since what an allocator has kept cannot be undone; one thread.
"""

import time
from multiprocessing import get_context

import torch
import tyro

from benchmarks.comparison import Comparison, of_pairs, show
from benchmarks.last_block import OBJECTIVE, build, library_step
from isoloss.executors.runner import keep_freed_memory
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.pretraining.stream import Stream


def processor_seconds(kept: bool, width: int, batch_size: int, steps: int) -> tuple[float, float]:
    """Of training by AdamW on sentences drawn meanwhile, and of the exact loss on 2,000 sentences."""
    torch.set_num_threads(1)
    if kept:
        keep_freed_memory()
    language = pcfg(laptop_grammar(0))
    model = build(language, width, "eager").train()
    step = library_step(model, language, compiled=False)
    evaluation = EvaluationSet.draw(language, n=2000, seed=0)
    begun = time.process_time()
    with Stream(language, OBJECTIVE, batch_size, seed=0).batches(0, steps) as batches:
        for batch in batches:
            step(batch)
    trained = time.process_time()
    exact_loss(model.eval(), OBJECTIVE, evaluation)
    return trained - begun, time.process_time() - trained


def comparisons(width: int, batch_size: int, steps: int, pairs: int) -> list[Comparison]:
    """Training and measuring, each with freed memory kept and not."""
    context = get_context("spawn")
    turns = []
    for _ in range(pairs):
        with context.Pool(1, maxtasksperchild=1) as one:  # a process for each of the two
            asked = [(kept, width, batch_size, steps) for kept in (True, False)]
            turns.append([one.apply(processor_seconds, each) for each in asked])
    names = (f"{steps} training steps of {batch_size}, width {width}", f"exact loss, width {width}")
    return [
        of_pairs(name, "memory returned", [(kept[place], returned[place]) for kept, returned in turns])
        for place, name in enumerate(names)
    ]


def main(
    json: bool = False,
    pairs: int = 5,
    widths: tuple[int, ...] = (32, 48),
    batches: tuple[int, ...] = (32, 128),
) -> None:
    """Jobs that keep freed memory beside jobs that return it: two minutes.

    Args:
        json: Print JSON instead of a table.
        pairs: Turns that the medians are over.
        widths: Widths of the models, of two layers.
        batches: Sentences in a training step.
    """
    found = [each for width in widths for size in batches for each in comparisons(width, size, 500, pairs)]
    show(found, json)


if __name__ == "__main__":
    tyro.cli(main)
