"""Exact masked distributions of causal models beside plain forward passes: `python -m benchmarks.causal_lm
[--json]`.

One thread, one process, interleaved pairs, medians. Weights are random: the cost does not depend on them.
A sentence has 24 words; its masked distribution is asked for at positions 5, 13 and 21, from 0, or for the
larger model at position 13 with 200 words instead of 2,000, which both sides do alike.

Counted in tokens, all K substitutes of all T positions are K T (T - 1) / 2 tokens of suffixes, and K T T of
whole sentences: 2.1 times as many. What is gained beyond that comes from the output layer, which scores K
tokens instead of the vocabulary, and from batches.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import OPTConfig, OPTForCausalLM, PreTrainedModel

from benchmarks.comparison import Comparison, compare, show
from isoloss.inference.causal_model import masked_log_probabilities, rows_at_once
from isoloss.models.causal_language import RestrictedCausalModel
from isoloss.models.transformers import GPT2Transformer, Shape

LENGTH, MEMORY_BYTES = 24, 1 << 26


@dataclass(frozen=True)
class Case:
    """A model, the tokens that are words, and the positions of a sentence that are asked for."""

    name: str
    model: PreTrainedModel
    bos: int
    tokens: Tensor
    positions: tuple[int, ...]

    @property
    def sentence(self) -> Tensor:
        """Word numbers; any will do."""
        return torch.arange(LENGTH) * 7 % len(self.tokens)

    def substituted(self, position: int) -> Tensor:
        """[K, T] tokens, bos first and without the last word: the whole sentences that plain code reads."""
        tried = self.sentence.repeat(len(self.tokens), 1)
        tried[:, position] = torch.arange(len(self.tokens))
        return torch.nn.functional.pad(self.tokens[tried[:, :-1]], (1, 0), value=self.bos)


def laptop() -> Case:
    """The laptop's teacher: GPT-2's layout, 3 layers of 128, all its 2,000 words."""
    model = GPT2Transformer(Shape(128, 4, 3, 512)).build(2000, LENGTH, seed=0).eval()
    return Case("GPT-2 layout, 3 x 128, 2,000 words", model, 1, torch.arange(3, 2003), (5, 13, 21))


def opt_125m() -> Case:
    """The paper's teacher: 12 layers of 768, 50,272 tokens."""
    torch.manual_seed(0)
    model = OPTForCausalLM(OPTConfig()).eval()
    return Case("OPT-125M's shape, 200 of 50,272 tokens", model, 2, torch.randperm(50_000)[:200] + 4, (13,))


def comparisons(case: Case, pairs: int) -> list[Comparison]:
    """Against whole sentences, in batches and one by one, and against the suffixes' bare passes."""
    restricted = RestrictedCausalModel(case.model, case.tokens)

    def ours() -> None:
        positions = torch.tensor(case.positions)
        list(
            masked_log_probabilities(
                restricted, case.bos, case.tokens, case.sentence, positions, MEMORY_BYTES
            )
        )

    def whole(rows: int, share: float) -> Callable[[], None]:
        @torch.no_grad()
        def run() -> None:
            for position in case.positions:
                sentences = case.substituted(position)
                for part in torch.split(sentences[: round(share * len(sentences))], rows):
                    scores = case.model(input_ids=part).logits[..., case.tokens]
                    scores.log_softmax(2)[..., case.sentence].diagonal(dim1=1, dim2=2).sum(1)

        return run

    def bare() -> None:
        _, cache = restricted(case.substituted(0)[:1])
        for position in case.positions:
            suffix = LENGTH - 1 - position
            rows = rows_at_once(restricted, position + 1, suffix, MEMORY_BYTES)
            for part in torch.split(case.substituted(position)[:, position + 1 :], rows):
                restricted(part, cache.shared_prefix(position + 1))

    batch = max(1, MEMORY_BYTES // (8 * LENGTH * 4 * case.model.config.vocab_size))
    one_by_one = 20 / len(case.tokens)
    return [
        compare(case.name, ours, "whole sentences, one at a time", whole(1, one_by_one), pairs, one_by_one),
        compare(case.name, ours, f"whole sentences, {batch} at a time", whole(batch, 0.1), pairs, 0.1),
        compare(case.name, ours, "the suffixes' forward passes alone", bare, pairs),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--pairs", type=int, default=3, help="how many interleaved pairs a comparison has")
    parser.add_argument(
        "--laptop-only", action="store_true", help="leave out the larger model, which takes minutes"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = [laptop] if options.laptop_only else [laptop, opt_125m]
    found = [comparison for case in cases for comparison in comparisons(case(), options.pairs)]
    show(found, options.json)


if __name__ == "__main__":
    main()
