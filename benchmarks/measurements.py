"""What the measurements cost beside the usual code: `python -m benchmarks.measurements [--json]`.

One thread, one process, interleaved pairs, medians. The models are the laptop's: two layers, sentences of
eight words out of twelve. Sentences and labels are random: the cost does not depend on them.
"""

import argparse
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.comparison import Comparison, compare, show
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.languages.sentences import Sentences
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.linear_probe import LabelledFeatures, ProbeSettings
from isoloss.measurements.task_sentences import sentence_features
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import tokens_of_words

WORDS, LENGTH, CLASSES = 12, 8, 3
OBJECTIVE = MaskedObjective()


def random_sentences(n: int, seed: int) -> Sentences:
    generator = torch.Generator().manual_seed(seed)
    return Sentences(torch.randint(WORDS, (n, LENGTH), generator=generator), torch.full((n,), LENGTH))


def build(width: int) -> nn.Module:
    return PreLayerNormTransformer(laptop_shape(width)).build(WORDS, LENGTH, seed=0).eval()


def probe(width: int, pairs: int) -> list[Comparison]:
    """Five seeds of 100 epochs on 4,000 sentences, with the features and the test on 2,000."""
    model, settings = build(width), ProbeSettings()
    sentences, test = random_sentences(4000, seed=1), random_sentences(2000, seed=2)
    labels, test_labels = sentences.ids[:, 0] % CLASSES, test.ids[:, 0] % CLASSES

    def ours() -> None:
        features, test_features = sentence_features(model, sentences), sentence_features(model, test)
        LabelledFeatures(features, labels, test_features, test_labels, CLASSES).probed(settings)

    def frozen_model_epoch() -> None:
        def features_of(chosen: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                tokens = tokens_of_words(sentences.ids[chosen])
                return model.base_model(input_ids=tokens).last_hidden_state[:, 1:].flatten(1)

        one_seed(features_of, labels, width * LENGTH, settings, epochs=1)

    features = sentence_features(model, sentences)

    def features_once_seed() -> None:
        one_seed(
            lambda chosen: features[chosen], labels, width * LENGTH, settings, epochs=settings.epochs // 5
        )

    heads = len(settings.seeds)
    epoch = 1 / (heads * settings.epochs)
    name = f"linear probe, width {width}, {heads} seeds x {settings.epochs} epochs"
    return [
        compare(name, ours, "each minibatch through the frozen model", frozen_model_epoch, pairs, epoch),
        compare(name, ours, "features once, a seed at a time", features_once_seed, pairs, 1 / (heads * 5)),
    ]


def one_seed(
    features_of: Callable[[torch.Tensor], torch.Tensor],
    labels: torch.Tensor,
    dimension: int,
    settings: ProbeSettings,
    epochs: int,
) -> None:
    """The usual code: a layer, a loss, an optimiser, and a loop over minibatches."""
    head = nn.Linear(dimension, CLASSES)
    optimizer = torch.optim.AdamW(head.parameters(), lr=settings.learning_rate)
    for _ in range(epochs):
        for chosen in torch.split(torch.randperm(len(labels)), settings.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(features_of(chosen)), labels[chosen]).backward()
            optimizer.step()


def trace(width: int, pairs: int) -> list[Comparison]:
    """The Fisher trace on 2,000 sentences with a mask each."""
    model = build(width)
    batch = OBJECTIVE.mask_one(random_sentences(2000, seed=3), torch.Generator().manual_seed(4))

    def ours() -> None:
        fisher_trace(model, [batch], OBJECTIVE, seed=0)

    def part(start: int, size: int) -> Batch:
        rows = slice(start, start + size)
        return Batch(
            batch.input_ids[rows],
            batch.attention_mask[rows],
            torch.arange(size),
            batch.positions[rows],
            batch.targets[rows],
        )

    def backward(size: int, sentences: int) -> None:
        for start in range(0, sentences, size):
            piece = part(start, size)
            loss = nn.functional.cross_entropy(OBJECTIVE.logits(model, piece), piece.targets)
            torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    name = f"Fisher trace, width {width}, 2,000 sentences"
    return [
        compare(name, ours, "ordinary forward and backward of 250", lambda: backward(250, 2000), pairs),
        compare(name, ours, "a backward pass a sentence", lambda: backward(1, 100), pairs, share=0.05),
    ]


def loss(width: int, pairs: int) -> list[Comparison]:
    """The exact loss of 2,000 sentences, every position masked: 16,000 rows."""
    model, sentences = build(width), random_sentences(2000, seed=5)
    distribution = torch.full((2000 * LENGTH, WORDS), 1 / WORDS, dtype=torch.float64)
    evaluation = EvaluationSet(sentences, distribution.log(), torch.zeros(2000, dtype=torch.float64), seed=5)
    rows = OBJECTIVE.mask_every_position(sentences).input_ids

    def forward() -> None:
        with torch.inference_mode():
            for piece in torch.split(rows, 1000):
                model(input_ids=piece)

    name = f"exact loss, width {width}, 2,000 sentences"

    def ours() -> None:
        exact_loss(model, OBJECTIVE, evaluation)

    return [compare(name, ours, "forward passes alone, 1,000 rows each", forward, pairs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--pairs", type=int, default=5, help="how many interleaved pairs a comparison has")
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 64], help="widths of the models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = [
        comparison
        for width in options.widths
        for measure in (probe, trace, loss)
        for comparison in measure(width, options.pairs)
    ]
    show(found, options.json)


if __name__ == "__main__":
    main()
