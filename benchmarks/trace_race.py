"""How long estimators of the trace take to 1 % relative standard error: `python -m benchmarks.trace_race`.

One thread, one process, interleaved, medians; on several models at several stages of training.

The time to 1 % is a value's time times the values that it takes, which are their variance over the squared
mean, in 1 % of 1 %. The variance of estimators that draw labels is exact: every label's gradient is taken and
weighted by its probability, for labels that are rare have enormous gradients, and a spread estimated from
draws leaves those out that did not come up. That of the library's signs, which have no heavy tail, is over
`DRAWS` draws on the same contexts; that of products with random vectors over `PROBES`. Contexts are a sample,
the same for exact variances and signs, and each figure's error is the jackknife's over them.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel

from benchmarks.trace_estimators import OBJECTIVE, Estimator, estimators, factored
from isoloss.languages.language_file import read_language
from isoloss.languages.sentences import Sentences
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch, sentence_averaged_loss

RELEASED = Path(__file__).parents[1] / "tests" / "data" / "liu2023-released.pcfg"
SHAPES = {"2 layers of 32": Shape(32, 2, 2, 128), "4 layers of 64": Shape(64, 2, 4, 256)}
STAGES = (0, 200, 1000)
"""Steps of training after which the estimators are compared."""
CONTEXTS, DRAWS, PROBES, ROUNDS = 32, 64, 40, 9
Moments = tuple[Float[Tensor, " n"], Float[Tensor, " n"]]
"""The mean of a value, and of its square, of each of n contexts."""
EXACT = ("labels one at a time", "vmap of per-sample gradients")
"""Estimators that draw a label from the model, whose variance is had by enumeration."""


@dataclass(frozen=True)
class Arrival:
    """An estimator on one model: a value's relative variance, and the time to 1 % that follows."""

    model: str
    steps: int
    estimator: str
    relative_variance: float
    error: float
    seconds_a_value: float

    @property
    def seconds_to_one_percent(self) -> float:
        """Seconds a value times the values that the variance asks for."""
        return self.seconds_a_value * self.relative_variance * 1e4


def arrivals() -> list[Arrival]:
    """Every estimator on every model and stage."""
    found = []
    for name, shape in SHAPES.items():
        for steps, model, draw in stages(shape):
            found += measured(name, steps, model, draw)
    return found


def measured(name: str, steps: int, model: PreTrainedModel, draw: Callable[[int], Batch]) -> list[Arrival]:
    every, contexts = estimators(model), draw(CONTEXTS)
    seconds = times(every, draw)
    enumerated = by_enumeration(model, contexts)
    found = []
    for estimator in every:
        if estimator.name == every[0].name:
            moments = by_signs(model, contexts)
        elif estimator.name in EXACT:
            moments = enumerated
        else:
            moments = by_probes(estimator, draw)
        variance, error = relative_variance(*moments)
        found.append(Arrival(name, steps, estimator.name, variance, error, seconds[estimator.name]))
    return found


def by_enumeration(
    model: PreTrainedModel, contexts: Batch
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Of each context Σ_y p_y N_y and Σ_y p_y N_y², N_y = ||∇ log p_y||² of every label y."""
    first, second = [], []
    for sentence in range(len(contexts)):
        with sdpa_kernel(SDPBackend.MATH):
            log_p = OBJECTIVE.logits(model, contexts.part(sentence, sentence + 1)).log_softmax(dim=1)[0]
            gradients = torch.autograd.grad(
                log_p,
                list(model.parameters()),
                torch.eye(len(log_p)),
                is_grads_batched=True,
                materialize_grads=True,
            )
        norms = sum(gradient.flatten(1).square().sum(dim=1, dtype=torch.float64) for gradient in gradients)
        p = log_p.detach().double().exp()
        first.append((p * norms).sum())
        second.append((p * norms.square()).sum())
    return torch.stack(first), torch.stack(second)


def by_signs(model: PreTrainedModel, contexts: Batch) -> Moments:
    """Of each context the mean of a value and of its square over `DRAWS` draws of signs."""
    values = torch.stack([factored(model, contexts, seed) for seed in range(DRAWS)])
    return values.mean(dim=0), values.square().mean(dim=0)


def by_probes(estimator: Estimator, draw: Callable[[int], Batch]) -> Moments:
    """`PROBES` values, each of fresh contexts, and their squares."""
    values = torch.cat([estimator.unit(draw(estimator.sentences)).detach().double() for _ in range(PROBES)])
    return values, values.square()


def relative_variance(first: Float[Tensor, " n"], second: Float[Tensor, " n"]) -> tuple[float, float]:
    """E v² / (E v)² - 1 from the moments of each context, and the jackknife's error of it."""
    n = len(first)
    without = [(total.sum() - total) / (n - 1) for total in (first, second)]
    left_out = without[1] / without[0].square() - 1
    error = ((n - 1) / n * (left_out - left_out.mean()).square().sum()).sqrt()
    return float(second.mean() / first.mean().square() - 1), float(error)


def times(every: list[Estimator], draw: Callable[[int], Batch]) -> dict[str, float]:
    """Seconds a value, by turns, the median."""
    found: dict[str, list[float]] = {estimator.name: [] for estimator in every}
    for estimator, _ in itertools.chain.from_iterable(
        ((each, turn) for each in every) for turn in range(ROUNDS)
    ):
        batch = draw(estimator.sentences)
        begun = perf_counter()
        values = len(estimator.unit(batch))
        found[estimator.name].append((perf_counter() - begun) / values)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def stages(shape: Shape) -> list[tuple[int, PreTrainedModel, Callable[[int], Batch]]]:
    """BERT's layout on the released grammar's 200 words after so many steps, and fresh masked sentences.

    It is trained on sentences of every length; compared on those of 16 words, as vmap takes no padding.
    """
    language = read_language(RELEASED)

    def draw(n: int) -> Batch:
        sentences = language.sample(30 * n + 300, generator)
        longest = (sentences.lengths == 16).nonzero().flatten()[:n]
        return OBJECTIVE.mask_one(Sentences(sentences.ids[longest], sentences.lengths[longest]), generator)

    found = []
    for steps in STAGES:
        generator = torch.Generator().manual_seed(0)
        model = PostLayerNormTransformer(shape, dropout=0.0).build(200, 16, seed=0)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.98))
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 1e-3 * min(1.0, (step + 1) / 150)
            batch = OBJECTIVE.mask_one(language.sample(64, generator), generator)
            optimizer.zero_grad()
            sentence_averaged_loss(OBJECTIVE.logits(model, batch), batch).backward()
            optimizer.step()
        found.append((steps, model.eval(), draw))
    return found


def ranges(found: list[Arrival]) -> dict[str, tuple[float, float]]:
    """Of each estimator the least and the most times as long as the library's, over models."""
    own = {
        (each.model, each.steps): each.seconds_to_one_percent for each in found if each.estimator == "isoloss"
    }
    ratios: dict[str, list[float]] = {}
    for each in found:
        ratio = each.seconds_to_one_percent / own[each.model, each.steps]
        ratios.setdefault(each.estimator, []).append(ratio)
    return {name: (min(values), max(values)) for name, values in ratios.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = arrivals()
    if options.json:
        rows = [{**asdict(each), "seconds_to_one_percent": each.seconds_to_one_percent} for each in found]
        print(json.dumps(rows, indent=2))
        return
    for each in found:
        print(
            f"{each.model}, {each.steps} steps, {each.estimator}: variance {each.relative_variance:.3g} ± "
            f"{each.error:.2g} of the squared mean, {1e6 * each.seconds_a_value:.0f} µs a value, "
            f"{each.seconds_to_one_percent:.3g} s to 1 %"
        )
    for name, (least, most) in ranges(found).items():
        print(f"{name}: {least:.2g} to {most:.2g} times as long")


if __name__ == "__main__":
    main()
