"""Entropy of a language's exact distributions: the lowest loss that any model can reach (A.5)."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.languages.language import DistributionsAtPositions
from isoloss.languages.sentences import Sentences
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, mean_over_members, sample_mean
from isoloss.results.record import Record, Setting
from isoloss.seeds import derived_seed

BATCH = 256
DISTRIBUTION_BYTES = 1 << 26
"""Distributions are worked on in parts of about this size; a language's routine needs its own beside."""

SENTENCES, SENTENCES_WITH_COSTLY_DISTRIBUTIONS = 1000, 100
"""How many sentences are drawn by default; the second for distributions computed one at a time."""


@runtime_checkable
class ExactDistributions(Protocol):
    """The part of `Language` that entropy needs, which languages of unbounded length implement, too."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The c words."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n sentences; see `Language.sample`."""
        ...

    def masked_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T c"]:
        """Masked distributions; see `Language.masked_log_probabilities`."""
        ...

    def next_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """Next-word distributions; see `Language.next_log_probabilities`."""
        ...


def usual_sentences(language: ExactDistributions) -> int:
    """How many sentences give a reasonable error bar within about a minute."""
    return (
        SENTENCES_WITH_COSTLY_DISTRIBUTIONS if isinstance(language, DistributionsAtPositions) else SENTENCES
    )


def language_entropy(
    language: ExactDistributions, sentences: int, seed: int, progress: Progress = silent
) -> list[Record]:
    """Four records on freshly drawn sentences, in nats and words, with standard errors over sentences.

    `masked_entropy_sentence_averaged` = E_x mean_t H(Pr(. | x_{-t})), the lowest masked loss;
    `masked_entropy_token_averaged` gives every word equal weight instead, a ratio with a linearised error;
    `next_word_entropy` = E_x mean over the T + 1 events of a sentence, its words and its end, of the entropy
    of the next-word distribution; `mean_length` in words. For a language of `DistributionsAtPositions`, one
    masked position per sentence, drawn uniformly, stands for all, as those records' settings say. Takes about
    `DISTRIBUTION_BYTES` beside what distributions need. Raises BadInput for fewer than 2 sentences.

    >>> from isoloss.languages.notation import parse_grammar
    >>> from isoloss.languages.pcfg import pcfg
    >>> coin = pcfg(parse_grammar("S -> 'a' [0.5] | 'b' [0.5]"))
    >>> {record.quantity: round(record.value, 4) for record in language_entropy(coin, 10, seed=0)}
    {'masked_entropy_sentence_averaged': 0.6931, 'masked_entropy_token_averaged': 0.6931,
     'next_word_entropy': 0.3466, 'mean_length': 1.0}
    """
    generator = torch.Generator().manual_seed(seed)
    places = torch.Generator().manual_seed(derived_seed(seed, "masked positions"))
    masked, following, lengths = [torch.zeros(0)], [torch.zeros(0)], [torch.zeros(0, dtype=torch.int64)]
    for start in range(0, sentences, BATCH):
        batch = language.sample(min(BATCH, sentences - start), generator)
        masked.append(_masked_entropies(language, batch, places, progress))
        events = batch.lengths + 1
        following.append(
            _summed_entropies(language.next_log_probabilities, batch, len(language.vocabulary)) / events
        )
        lengths.append(batch.lengths)
        progress("entropy", start + len(batch), sentences)
    of_masked, all_lengths = torch.cat(masked), torch.cat(lengths)
    estimates = {
        "masked_entropy_sentence_averaged": (sample_mean(of_masked), "nats"),
        "masked_entropy_token_averaged": (mean_over_members(of_masked, all_lengths), "nats"),
        "next_word_entropy": (sample_mean(torch.cat(following)), "nats"),
        "mean_length": (sample_mean(all_lengths.double()), "words"),
    }
    costly = isinstance(language, DistributionsAtPositions)
    one_each: dict[str, Setting] = {"masked_positions": "one a sentence"} if costly else {}
    return [
        estimate.record(quantity, unit, seed, settings=one_each if "masked" in quantity else {})
        for quantity, (estimate, unit) in estimates.items()
    ]


def masked_entropy(language: ExactDistributions, sentences: int, seed: int) -> Estimate:
    """E_x mean_t H(Pr(. | x_{-t})) on freshly drawn sentences, in nats: the lowest masked loss.

    The same as in `language_entropy`, without the next-word distributions, which at least double the cost.

    >>> from isoloss.languages.notation import parse_grammar
    >>> from isoloss.languages.pcfg import pcfg
    >>> round(masked_entropy(pcfg(parse_grammar("S -> 'a' [0.5] | 'b' [0.5]")), 10, seed=0).value, 4)
    0.6931
    """
    generator = torch.Generator().manual_seed(seed)
    places = torch.Generator().manual_seed(derived_seed(seed, "masked positions"))
    found = []
    for start in range(0, sentences, BATCH):
        batch = language.sample(min(BATCH, sentences - start), generator)
        found.append(_masked_entropies(language, batch, places, silent))
    return sample_mean(torch.cat(found))


def _masked_entropies(
    language: ExactDistributions, sentences: Sentences, places: torch.Generator, progress: Progress
) -> Float[Tensor, " n"]:
    """Each sentence's mean over its positions or, if expensive, its value at one drawn with `places`."""
    if not isinstance(language, DistributionsAtPositions):
        total = _summed_entropies(language.masked_log_probabilities, sentences, len(language.vocabulary))
        return total / sentences.lengths
    uniforms = torch.rand(len(sentences), generator=places, dtype=torch.float64)
    positions = (uniforms * sentences.lengths).long()
    return entropies(
        language.masked_log_probabilities_at(sentences, torch.arange(len(sentences)), positions, progress)
    )


def _summed_entropies(
    distribution: Callable[[Sentences], Tensor], sentences: Sentences, words: int
) -> Float[Tensor, " n"]:
    # Three times: the logarithms, their exponentials, and the terms of the sum.
    bytes_a_sentence = 3 * 8 * (sentences.ids.shape[1] + 1) * (words + 1)
    at_once = max(1, DISTRIBUTION_BYTES // bytes_a_sentence)
    starts = range(0, len(sentences), at_once)
    return torch.cat([entropies(distribution(sentences[start : start + at_once])).sum(1) for start in starts])


def entropies(log_probabilities: Float[Tensor, "*rows c"]) -> Float[Tensor, "*rows"]:
    """-Σ p log p of every row, in nats; 0 for rows that are all -inf, which lie beyond a sentence's end.

    >>> entropies(torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.0, 0.0]]).log())
    tensor([0.6931, 0.0000, 0.0000])
    """
    terms: Tensor = torch.special.entr(log_probabilities.exp())
    return terms.sum(-1)
