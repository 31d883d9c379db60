"""What exact laws of a causal language cost, told before the work starts."""

import sys

import torch

from isoloss.inference.suffix_scores import SuffixCost
from isoloss.languages.causal_lm import CausalLM


def tell_cost_of_all_positions(language: CausalLM) -> None:
    """Say on stderr what the masked laws of one sentence take."""
    _tell(language, language.law_cost(torch.arange(language.length)))


def tell_cost_of_one_position_each(language: CausalLM, sentences: int) -> None:
    """Say on stderr what the masked law of one random position of each sentence takes on average."""
    whole, share = language.law_cost(torch.arange(language.length)), sentences / language.length
    _tell(language, SuffixCost(round(whole.tokens * share), whole.operations * share))


def _tell(language: CausalLM, cost: SuffixCost) -> None:
    print(
        f"masked laws: {cost}, about {language.seconds(cost):,.0f} s here; Ctrl-C stops them",
        file=sys.stderr,
        flush=True,
    )
