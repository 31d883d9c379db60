"""Entropy of a language's exact laws: the least loss that any model can reach on it (spec 1; A.5)."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.estimate import Estimate, mean_over_sentences, mean_over_tokens
from isoloss.languages.sentences import Sentences
from isoloss.measurements.record import Record
from isoloss.progress import Progress, silent

BATCH = 256


@runtime_checkable
class ExactLaws(Protocol):
    """What entropy needs of a `Language`; also those whose sentences have no longest offer it."""

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n sentences; see `Language.sample`."""
        ...

    def masked_log_law(self, sentences: Sentences) -> Float[Tensor, "n T c"]:
        """Masked laws; see `Language.masked_log_law`."""
        ...

    def next_log_law(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """Next-word laws; see `Language.next_log_law`."""
        ...


def language_entropy(
    language: ExactLaws, sentences: int, seed: int, progress: Progress = silent
) -> list[Record]:
    """Four records of fresh sentences, in nats and words, with standard errors over sentences.

    `masked_entropy_sentence_averaged` = E_x mean_t H(Pr(. | x_{-t})), the least masked loss;
    `masked_entropy_token_averaged` weighs every word alike instead, a ratio whose error is linearised;
    `next_word_entropy` = E_x mean over the T + 1 events of a sentence, its words and its end, of the
    entropy of the next-word law; `mean_length` in words. Raises BadInput for fewer than 2 sentences.

    >>> from isoloss.languages.notation import parse_grammar
    >>> from isoloss.languages.pcfg import pcfg
    >>> coin = pcfg(parse_grammar("S -> 'a' [0.5] | 'b' [0.5]"))
    >>> {record.quantity: round(record.value, 4) for record in language_entropy(coin, 10, seed=0)}
    {'masked_entropy_sentence_averaged': 0.6931, 'masked_entropy_token_averaged': 0.6931,
     'next_word_entropy': 0.3466, 'mean_length': 1.0}
    """
    generator = torch.Generator().manual_seed(seed)
    masked, following, lengths = [], [], []
    for start in range(0, sentences, BATCH):
        batch = language.sample(min(BATCH, sentences - start), generator)
        masked.append(_entropies(language.masked_log_law(batch)).sum(1) / batch.lengths)
        following.append(_entropies(language.next_log_law(batch)).sum(1) / (batch.lengths + 1))
        lengths.append(batch.lengths)
        progress("entropy", start + len(batch), sentences)
    of_masked, all_lengths = torch.cat(masked or [torch.zeros(0)]), torch.cat(lengths or [torch.zeros(0)])
    estimates = {
        "masked_entropy_sentence_averaged": (mean_over_sentences(of_masked), "nats"),
        "masked_entropy_token_averaged": (mean_over_tokens(of_masked, all_lengths), "nats"),
        "next_word_entropy": (mean_over_sentences(torch.cat(following)), "nats"),
        "mean_length": (mean_over_sentences(all_lengths.double()), "words"),
    }
    return [_record(quantity, estimate, unit, seed) for quantity, (estimate, unit) in estimates.items()]


def _entropies(log_law: Float[Tensor, "n T c"]) -> Float[Tensor, "n T"]:
    """-Σ p log p of every row; 0 for rows that are all -inf, which stand beyond a sentence's end."""
    entropies: Tensor = torch.special.entr(log_law.exp()).sum(-1)
    return entropies


def _record(quantity: str, estimate: Estimate, unit: str, seed: int) -> Record:
    return Record(quantity, estimate.value, unit, estimate.standard_error, estimate.n, seed)
