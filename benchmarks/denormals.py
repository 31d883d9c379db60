"""What it saves to count denormal numbers as zero: `python -m benchmarks.denormals [--json] [--pairs 9]`.

A forward and backward pass of a model whose attention is as sharp as after long training, with denormal
numbers flushed, as `pretrain` and the measurements have them, and as torch comes. One thread, one process,
interleaved pairs, medians. Two layers, 128 sentences of eight words, one masked. Attention is made sharp by
larger queries: `--sharpness 1` is the model as it begins.
"""

import torch
import tyro
from transformers import PreTrainedModel

from benchmarks.comparison import Comparison, compare, show
from isoloss.device import denormals_flushed
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective


def sharpened(model: PreTrainedModel, sharpness: float) -> PreTrainedModel:
    """The model with its queries multiplied, and so the logits of its attention."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".query." in name:
                parameter.mul_(sharpness)
    return model


def passes(width: int, sharpness: float, pairs: int) -> Comparison:
    """Ten forward and backward passes."""
    language, objective = pcfg(laptop_grammar(0)), MaskedObjective()
    architecture = PreLayerNormTransformer(laptop_shape(width), dropout=0.0, attention="eager")
    model = architecture.build(len(language.vocabulary), language.maximum_length, seed=0)
    sharpened(model, sharpness)
    generator = torch.Generator().manual_seed(0)
    batch = objective.mask_one(language.sample(128, generator), generator)

    def ten() -> None:
        for _ in range(10):
            model.zero_grad()
            logits = objective.logits(model, batch)
            torch.nn.functional.cross_entropy(logits, batch.targets).backward()

    def flushed() -> None:
        with denormals_flushed():
            ten()

    return compare(
        f"10 passes, width {width}, queries x {sharpness:g}", flushed, "as torch comes", ten, pairs
    )


def main(
    json: bool = False,
    pairs: int = 9,
    widths: tuple[int, ...] = (48, 128),
    sharpness: tuple[float, ...] = (1, 1e3, 1e4),
) -> None:
    """Passes with denormal numbers flushed beside passes without: half a minute.

    Args:
        json: Print JSON instead of a table.
        pairs: Turns that the medians are over.
        widths: Widths of the models, of two layers.
        sharpness: What queries are multiplied by.
    """
    torch.set_num_threads(1)
    found = [passes(width, times, pairs) for width in widths for times in sharpness]
    show(found, json)


if __name__ == "__main__":
    tyro.cli(main)
