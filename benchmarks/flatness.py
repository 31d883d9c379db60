"""The Fisher trace beside training: `python -m benchmarks.flatness [--json]`.

One thread, one process, interleaved, medians.

- Passes: every sentence's gradient norm against an ordinary forward and backward pass of the same batch,
  with the labels handed to the model, as `transformers` is used; and the peak of memory of both, each in a
  process of its own.
"""

import argparse
import copy
import json
import multiprocessing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
)

from benchmarks.comparison import Comparison, compare
from benchmarks.trace_estimators import OBJECTIVE
from isoloss.curvature.per_sentence.norms import Directions, norms_along
from isoloss.curvature.per_sentence.traces import drawn_directions, sentence_fisher_traces, sign_bits
from isoloss.models.transformers import GPT2Transformer, PostLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.pretrained import PretrainedCausal, next_token_batch

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


def experts_and_gains(pairs: int) -> list[Comparison]:
    """A mixture of experts and Gemma, a million parameters each, as `isoloss flatness` loads them.

    Their peers are an ordinary forward and backward pass of all sentences, and one of every sentence alone,
    of the model as `transformers` makes it.
    """
    shared = {"vocab_size": 500, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
    experts = MixtralConfig(
        **shared, hidden_size=96, intermediate_size=192, num_local_experts=4, num_experts_per_tok=2
    )
    gains = Gemma3TextConfig(**shared, hidden_size=128, intermediate_size=512, head_dim=32)
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(5, 500, (32,), generator=generator).tolist() for _ in range(16)]
    batch = next_token_batch(sentences, pad=0)
    models = {"Mixtral": MixtralForCausalLM(experts).eval(), "Gemma 3": Gemma3ForCausalLM(gains).eval()}

    def measure(model: PreTrainedModel) -> None:
        sentence_fisher_traces(model, PretrainedCausal(), batch, seed=0, first_sentence=1)

    def train(model: PreTrainedModel, sentences_at_once: int) -> None:
        for ids in batch.input_ids.split(sentences_at_once):
            model(input_ids=ids, labels=ids).loss.backward()
            model.zero_grad()

    found = []
    for name, model in models.items():
        measured = copy.deepcopy(model)
        measured.set_experts_implementation("eager")
        found += [
            compare(
                f"{name}, {model.num_parameters():,} parameters",
                partial(measure, measured),
                f"forward and backward, {at_once} at once",
                partial(train, model, at_once),
                pairs,
            )
            for at_once in (len(batch), 1)
        ]
    return found


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--pairs", type=int, default=7, help="how many interleaved pairs a pass has")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compared, memory = [*passes(options.pairs), *experts_and_gains(options.pairs)], peaks()
    if options.json:
        print(json.dumps([asdict(each) for each in (*compared, *memory)], indent=2))
        return
    for c in compared:
        print(
            f"{c.name}: {c.seconds:.3f} s, {c.peer} {c.peer_seconds:.3f} s: {1 / c.times_as_fast:.2f} of it"
        )
    for p in memory:
        print(f"{p.name}: {p.megabytes:.0f} MB, training {p.training_megabytes:.0f} MB")


if __name__ == "__main__":
    main()
