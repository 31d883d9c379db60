"""What it saves to compute the last block only where predictions are: `python -m benchmarks.last_block`.

    python -m benchmarks.last_block [--json] [--compiled] [--pairs 9] [--widths 32 64]

A training step beside the plain step of `transformers` (`model(input_ids, labels).loss`, torch's AdamW as it
comes), and the exact loss and the trace beside the same with the model's whole forward pass. One thread, one
process, interleaved pairs, medians. Two layers, batches of 128 sentences of eight words, one masked, no
dropout. With --compiled the library's step is compiled (`Compute`), which takes a C++ compiler and, before
anything is timed, some 20 seconds a model.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import tyro
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.comparison import Comparison, compare, show
from benchmarks.pretraining import ordinary_step
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.languages.language import Language
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.models.transformers import Attention, PreLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.specification import Compute
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training

OBJECTIVE = MaskedObjective()
BATCH_SIZE = 128


@dataclass(frozen=True)
class WholeForward(MaskedObjective):
    """The same objective, its predictions picked out of the scores of every word."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `Objective.logits`."""
        return model(input_ids=batch.input_ids).logits[batch.rows, batch.positions]


def build(language: Language, width: int, attention: Attention) -> PreTrainedModel:
    architecture = PreLayerNormTransformer(laptop_shape(width), dropout=0.0, attention=attention)
    return architecture.build(len(language.vocabulary), language.maximum_length, seed=0)


def library_step(model: PreTrainedModel, language: Language, compiled: bool) -> Callable[[Batch], None]:
    objective = Compute(compiled=compiled).of(OBJECTIVE, model)
    training = Training(model, objective, language, seed=0, steps=10**9, batch_size=BATCH_SIZE)
    rule = AdamW(warm_up_steps=0).build(training)

    def step(batch: Batch) -> None:
        rule.step(batch, 1)

    return step


def training(language: Language, width: int, attention: Attention, compiled: bool, pairs: int) -> Comparison:
    """Twenty steps of either, on the same batches."""
    with Stream(language, OBJECTIVE, BATCH_SIZE, seed=0).batches(0, 20) as made:
        batches = list(made)
    ours = library_step(build(language, width, attention).train(), language, compiled)
    theirs = ordinary_step(build(language, width, attention).train())

    def twenty(step: Callable[[Batch], None]) -> None:
        for batch in batches:
            step(batch)

    name = f"20 training steps, width {width}, {attention}{', compiled' if compiled else ''}"
    return compare(name, lambda: twenty(ours), "the plain step", lambda: twenty(theirs), pairs)


def measurements(language: Language, width: int, pairs: int) -> list[Comparison]:
    """The exact loss of 2,000 sentences, all their words masked in turn, and the trace, one masked each."""
    model = build(language, width, "sdpa").eval()
    evaluation = EvaluationSet.draw(language, n=2000, seed=0)
    of_whole = replace(evaluation, objective=WholeForward())
    generator = torch.Generator().manual_seed(0)
    batch = OBJECTIVE.mask_one(language.sample(2000, generator), generator)
    return [
        compare(
            f"exact loss, width {width}, 2,000 sentences",
            lambda: exact_loss(model, OBJECTIVE, evaluation),
            "with the whole forward pass",
            lambda: exact_loss(model, WholeForward(), of_whole),
            pairs,
        ),
        compare(
            f"trace, width {width}, 2,000 sentences",
            lambda: fisher_trace(model, [batch], OBJECTIVE, seed=0),
            "with the whole forward pass",
            lambda: fisher_trace(model, [batch], WholeForward(), seed=0),
            pairs,
        ),
    ]


def main(
    json: bool = False, compiled: bool = False, pairs: int = 9, widths: tuple[int, ...] = (32, 64)
) -> None:
    """Training steps, exact loss and trace beside those of the whole model: about a minute.

    Args:
        json: Print JSON instead of a table.
        compiled: Compile the library's step.
        pairs: Turns that the medians are over.
        widths: Widths of the models, of two layers.
    """
    torch.set_num_threads(1)
    language = pcfg(laptop_grammar(0))
    attentions: tuple[Attention, ...] = ("eager", "sdpa")
    found = [
        training(language, width, attention, compiled, pairs) for width in widths for attention in attentions
    ]
    if not compiled:
        found += [comparison for width in widths for comparison in measurements(language, width, pairs)]
    show(found, json)


if __name__ == "__main__":
    tyro.cli(main)
