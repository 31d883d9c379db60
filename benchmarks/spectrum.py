"""Eigenvalues of the Hessian beside hessian-eigenthings: `python -m benchmarks.spectrum [--json]`.

One thread, one process, one model: BERT's layout, 2 layers of 32, trained for a moment on the 32 sentences
that are measured, in float32.

- Five largest eigenvalues to a residual of 1e-3 of each: products with the Hessian, and time. The peer's
  Lanczos process does not stop by itself, so it is given the fewest steps, in tens, that suffice, found
  beforehand; its deflated power iteration does.
- The density from four probes of 40 steps: as many products on both sides, so time alone.

The peer is whatever `hessian_eigenthings` Python finds; without one, the library's own numbers are shown.
"""

import argparse
import importlib.util
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import process_time

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.trace_estimators import OBJECTIVE, Scores, inputs_of
from isoloss.curvature.spectrum import spectral_density, top_eigenvalues
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch, sentence_averaged_loss

WORDS, LENGTH, SENTENCES, COUNT, TOLERANCE = 100, 12, 32, 5, 1e-3
PROBES, STEPS = 4, 40


@dataclass(frozen=True)
class Row:
    """`largest` are the eigenvalues found, `products` those with the whole set; a density has none."""

    name: str
    products: int
    seconds: float
    largest: tuple[float, ...] = ()


def trained(steps: int) -> tuple[nn.Module, Batch]:
    """A model and the batch that it was trained on, whose words mostly follow one another."""
    model = PostLayerNormTransformer(Shape(32, 2, 2, 64), dropout=0.0).build(WORDS, LENGTH, seed=0)
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(WORDS, (SENTENCES, 1), generator=generator)
    ids = (first + torch.arange(LENGTH)) % WORDS + 3
    positions = torch.randint(LENGTH, (SENTENCES,), generator=generator)
    rows = torch.arange(SENTENCES)
    targets = ids[rows, positions]
    ids[rows, positions] = 1
    batch = Batch(ids, torch.ones_like(ids, dtype=torch.bool), rows, positions, targets)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        sentence_averaged_loss(OBJECTIVE.logits(model, batch), batch).backward()
        optimiser.step()
    return model.eval(), batch


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, which others that share it do not change much."""
    start = process_time()
    work()
    return process_time() - start


def library(model: nn.Module, batch: Batch) -> list[Row]:
    found = []
    eigenvalues = seconds(
        lambda: found.append(top_eigenvalues(model, [batch], OBJECTIVE, count=COUNT, tolerance=TOLERANCE))
    )
    density = seconds(
        lambda: found.append(spectral_density(model, [batch], OBJECTIVE, probes=PROBES, steps=STEPS))
    )
    values = tuple(estimate.value for estimate in found[0].estimates)
    # Each eigenvalue's error and residual take one more product, with a third backward pass.
    return [
        Row("isoloss, five largest", found[0].products + COUNT, eigenvalues, values),
        Row("isoloss, density", found[1].products, density),
    ]


def peer(model: nn.Module, batch: Batch) -> list[Row]:
    """The same by hessian-eigenthings, with every product counted."""
    import hessian_eigenthings as peers

    def loss(scores: nn.Module, part: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(scores(part[0]), part[1])

    class Counting(peers.HessianOperator):
        products = 0

        def matvec(self, v: Tensor) -> Tensor:
            self.products += 1
            with sdpa_kernel(SDPBackend.MATH):
                return super().matvec(v)

    operator = Counting(Scores(model), [(inputs_of(batch), batch.targets)], loss)

    def timed(name: str, work: Callable[[], object]) -> Row:
        operator.products, found = 0, []
        elapsed = seconds(lambda: found.append(work()))
        values = getattr(found[0], "eigenvalues", None)
        return Row(name, operator.products, elapsed, () if values is None else tuple(values.tolist()))

    def lanczos(steps: int) -> object:
        return peers.lanczos(
            operator, k=COUNT, max_iter=steps, tol=TOLERANCE, which="LA", reorthogonalize=True, seed=0
        )

    fewest = next(steps for steps in range(10, 400, 10) if bool(lanczos(steps).converged.all()))
    return [
        timed("hessian-eigenthings, Lanczos of the fewest steps", lambda: lanczos(fewest)),
        timed(
            "hessian-eigenthings, deflated power iteration",
            lambda: peers.deflated_power_iteration(operator, k=COUNT, max_iter=300, tol=TOLERANCE, seed=0),
        ),
        timed(
            "hessian-eigenthings, density",
            lambda: peers.spectral_density(operator, num_runs=PROBES, lanczos_steps=STEPS, seed=0),
        ),
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true")
    options.add_argument("--turns", type=int, default=3, help="how often everything is timed, in turn")
    options.add_argument("--steps", type=int, default=100, help="training steps of the model")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    model, batch = trained(arguments.steps)
    has_peer = importlib.util.find_spec("hessian_eigenthings") is not None
    turns = [library(model, batch) + (peer(model, batch) if has_peer else []) for _ in range(arguments.turns)]
    if arguments.json:
        print(json.dumps([[asdict(row) for row in turn] for turn in turns], indent=2))
        return
    for same in zip(*turns, strict=True):
        median = sorted(row.seconds for row in same)[len(same) // 2]
        values = " ".join(f"{value:.5g}" for value in same[0].largest)
        print(f"{same[0].name:50}{same[0].products:6} products {median:8.3f} s  {values}")


if __name__ == "__main__":
    main()
