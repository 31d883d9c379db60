"""The Fisher trace beside training and beside other estimators: `python -m benchmarks.flatness [--json]`.

One thread, one process, interleaved, medians.

- Passes: every sentence's gradient norm against an ordinary forward and backward pass of the same batch,
  with the labels handed to the model, as `transformers` is used; and the peak of memory of both, each in a
  process of its own.
- A race to 1 % relative standard error on a model that is first trained a little: each estimator works on
  fresh sentences by turns; from the median time and the spread of its values follows the time that it would
  need. curvlinops and hessian-eigenthings take part where they are installed. A spread of heavy tails is
  itself uncertain: it wants --seconds.
"""

import argparse
import json
import multiprocessing
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.comparison import Comparison, compare
from benchmarks.trace_estimators import OBJECTIVE, Estimator, estimators
from isoloss.curvature.directions import Directions
from isoloss.curvature.label_draws import drawn_directions, sign_bits
from isoloss.curvature.per_sentence_norms import norms_along
from isoloss.languages.language_file import read_language
from isoloss.languages.sentences import Sentences
from isoloss.models.causal import GPT2Transformer
from isoloss.models.shapes import Shape
from isoloss.models.transformers import PostLayerNormTransformer
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.objectives.next_word import NextWordObjective

RELEASED = Path(__file__).parents[1] / "tests" / "data" / "liu2023-released.pcfg"
SHAPE, LENGTH, SENTENCES = Shape(256, 4, 4, 1024), 31, 64
CASES = {
    "BERT, 200 words, 1 of 31 masked": (PostLayerNormTransformer, 200, 1),
    "BERT, 8,000 words, 5 of 31 masked": (PostLayerNormTransformer, 8000, 5),
    "GPT-2, 8,000 words, all": (GPT2Transformer, 8000, LENGTH + 1),
}


@dataclass(frozen=True)
class Case:
    """A model of the shape and a batch, as work to time."""

    model: PreTrainedModel
    batch: Batch

    @staticmethod
    def of(name: str) -> "Case":
        """One of `CASES`, by its name."""
        architecture, words, predictions = CASES[name]
        model = architecture(SHAPE, dropout=0.0).build(words, LENGTH, seed=0)
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(3, words + 3, (SENTENCES, LENGTH + 1), generator=generator)
        order = torch.rand(ids.shape, generator=generator).argsort(dim=1)[:, :predictions]
        positions = order.sort(dim=1).values.flatten()
        rows = torch.arange(SENTENCES).repeat_interleave(predictions)
        targets = ids[rows, positions]
        return Case(model, Batch(ids, torch.ones_like(ids, dtype=torch.bool), rows, positions, targets))

    def train(self) -> None:
        """Forward and backward, labels handed over; the model shifts them where it is causal."""
        labels = torch.full_like(self.batch.input_ids, -100)
        labels[self.batch.rows, self.batch.positions] = self.batch.targets
        self.model(input_ids=self.batch.input_ids, labels=labels).loss.backward()
        self.model.zero_grad()

    def norms(self) -> None:
        """All sentences' norms, of freshly drawn directions."""
        is_causal = self.model.config.model_type == "gpt2"
        objective = NextWordObjective() if is_causal else OBJECTIVE
        norms_along(self.model, objective, self.batch, self.drawn)

    def drawn(self, logits: Tensor) -> Directions:
        """Directions as the trace draws them."""
        counts = torch.bincount(self.batch.rows)
        bits = sign_bits(torch.arange(SENTENCES), counts, logits.shape[1], seed=0)
        return drawn_directions(logits, bits)


def passes(pairs: int) -> list[Comparison]:
    cases = {name: Case.of(name) for name in CASES}
    return [
        compare(name, case.norms, "ordinary forward and backward", case.train, pairs)
        for name, case in cases.items()
    ]


@dataclass(frozen=True)
class Peak:
    """The most memory that one pass added to a process that held the model."""

    name: str
    megabytes: float
    training_megabytes: float


def peaks() -> list[Peak]:
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        return [
            Peak(name, *(processes.apply(megabytes_added, (name, work)) for work in ("norms", "train")))
            for name in CASES
        ]


def megabytes_added(name: str, work: str) -> float:
    torch.set_num_threads(1)
    case = Case.of(name)
    before = highest_kilobytes()
    getattr(case, work)()
    return (highest_kilobytes() - before) / 1024


def highest_kilobytes() -> int:
    """The process's peak of resident memory; `getrusage` would report its parent's where that was higher."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


@dataclass(frozen=True)
class Finish:
    """What an estimator's units gave, and the seconds until its relative standard error is 1 %."""

    name: str
    mean: float
    relative_deviation: float
    values: int
    microseconds_a_value: float
    seconds_to_one_percent: float
    times_as_long: float = 1.0


def race(budget: float, steps: int) -> list[Finish]:
    """Every estimator works for `budget` seconds, by turns of a twentieth."""
    model, draw = trained_model(steps)
    found = {estimator: ([], []) for estimator in estimators(model)}
    for estimator in found:
        estimator.unit(draw(estimator.sentences))
    for _ in range(20):
        for estimator, (times, values) in found.items():
            spent = 0.0
            while spent < budget / 20:
                batch = draw(estimator.sentences)
                start = perf_counter()
                values.append(estimator.unit(batch).detach().double())
                times.append(perf_counter() - start)
                spent += times[-1]
    finishes = [finish(estimator, *results) for estimator, results in found.items()]
    own = finishes[0].seconds_to_one_percent
    return [
        Finish(**{**asdict(each), "times_as_long": each.seconds_to_one_percent / own}) for each in finishes
    ]


def finish(estimator: Estimator, times: list[float], values: list[Tensor]) -> Finish:
    every = torch.cat(values)
    deviation = float(every.std() / every.mean())
    each = statistics.median(times) * len(times) / len(every)
    return Finish(
        estimator.name, float(every.mean()), deviation, len(every), 1e6 * each, each * (deviation / 0.01) ** 2
    )


def trained_model(steps: int) -> tuple[PreTrainedModel, Callable[[int], Batch]]:
    """BERT's layout, 4 layers of 64, on the released grammar's 200 words; and its fresh masked sentences.

    It is trained on sentences of every length, and the race is on those of 16 words: vmap and the libraries
    take no padding.
    """
    language, generator = read_language(RELEASED), torch.Generator().manual_seed(0)
    model = PostLayerNormTransformer(Shape(64, 2, 4, 256), dropout=0.0).build(200, 16, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.98))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-3 * min(1.0, (step + 1) / 150)
        batch = OBJECTIVE.mask_one(language.sample(64, generator), generator)
        optimizer.zero_grad()
        sentence_averaged_loss(OBJECTIVE.logits(model, batch), batch).backward()
        optimizer.step()

    def draw(n: int) -> Batch:
        sentences = language.sample(30 * n + 300, generator)
        longest = (sentences.lengths == 16).nonzero().flatten()[:n]
        return OBJECTIVE.mask_one(Sentences(sentences.ids[longest], sentences.lengths[longest]), generator)

    return model.eval(), draw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--pairs", type=int, default=7, help="how many interleaved pairs a pass has")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="how long each estimator works in the race"
    )
    parser.add_argument("--steps", type=int, default=1000, help="how long the race's model is trained")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compared, memory, finished = passes(options.pairs), peaks(), race(options.seconds, options.steps)
    if options.json:
        print(json.dumps([asdict(each) for each in (*compared, *memory, *finished)], indent=2))
        return
    for c in compared:
        print(
            f"{c.name}: {c.seconds:.3f} s, {c.peer} {c.peer_seconds:.3f} s: {1 / c.times_as_fast:.2f} of it"
        )
    for p in memory:
        print(f"{p.name}: {p.megabytes:.0f} MB, training {p.training_megabytes:.0f} MB")
    for f in finished:
        print(
            f"{f.name}\n    {f.seconds_to_one_percent:8.1f} s to 1 % ({f.times_as_long:.1f} x); mean "
            f"{f.mean:.1f}, deviation {f.relative_deviation:.2f} of it, {f.values} values, "
            f"{f.microseconds_a_value:.0f} µs each"
        )


if __name__ == "__main__":
    main()
