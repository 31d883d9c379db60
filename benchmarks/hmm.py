"""HMM distributions and sampling beside hmmlearn 0.3.3 at the paper's scale: 200 words, 100 states, T = 16.

    python -m benchmarks.hmm [--json] [--sentences 2048] [--repetitions 9]

The peer is `hmmlearn.hmm.CategoricalHMM(implementation="scaling")`, its faster implementation, in C++:
- posteriors: `score_samples`, one call for all its sentences;
- masked distribution with posteriors: hmmlearn has no masked distribution. The stricter comparison is with
  its posteriors alone; the fairer one adds the distribution, by numpy from the lattices of its own compiled
  passes;
- sampling: `sample(16)`, a call a sentence, since a call draws one sentence.
Ours are `HMM.state_posteriors`; `forward(..).smoothed()` in chunks, which gives distributions and posteriors
at once, as probabilities; `HMM.masked_log_probabilities`, with logarithms and checks; and `HMM.sample`. Pairs
take turns in one process, on one thread; figures are medians of microseconds a sentence, ratios medians of
one turn's ratios.
"""

import json as json_format
import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
import tyro
from hmmlearn import _hmmc
from hmmlearn.hmm import CategoricalHMM
from numpy.typing import NDArray

from isoloss.inference.forward_backward import forward
from isoloss.languages.hmm import HMM, SENTENCES_AT_ONCE
from isoloss.languages.random_hmm import random_hmm
from isoloss.languages.sentences import Sentences

Array = NDArray[np.float64]
PEER_SENTENCES = 128


def hmmlearn_model(language: HMM) -> CategoricalHMM:
    model = CategoricalHMM(len(language.initial), implementation="scaling")
    model.startprob_, model.transmat_ = language.initial.numpy(), language.transition.numpy()
    model.emissionprob_, model.n_features = language.emission.numpy(), len(language.words)
    return model


def hmmlearn_posteriors(model: CategoricalHMM, ids: NDArray[np.int64]) -> Array:
    """[n, T, S]."""
    posteriors: Array = model.score_samples(ids.reshape(-1, 1), [ids.shape[1]] * len(ids))[1]
    return posteriors.reshape(*ids.shape, -1)


def hmmlearn_masked_distributions(model: CategoricalHMM, ids: NDArray[np.int64]) -> tuple[Array, Array]:
    """Masked distributions [n, T, c] and posteriors [n, T, S] from hmmlearn's compiled passes."""
    distributions, posteriors = [], []
    for words in ids:
        emitted = np.ascontiguousarray(model.emissionprob_[:, words].T)
        _, forward_lattice, scaling = _hmmc.forward_scaling(model.startprob_, model.transmat_, emitted)
        backward_lattice = _hmmc.backward_scaling(model.startprob_, model.transmat_, emitted, scaling)
        predicted = np.vstack([model.startprob_, forward_lattice[:-1] @ model.transmat_])
        states = predicted * backward_lattice
        states /= states.sum(1, keepdims=True)
        distributions.append(states @ model.emissionprob_)
        posterior = forward_lattice * backward_lattice
        posteriors.append(posterior / posterior.sum(1, keepdims=True))
    return np.array(distributions), np.array(posteriors)


def masked_distributions_with_posteriors(language: HMM, sentences: Sentences) -> None:
    """Both as probabilities, from one forward-backward pass a chunk."""
    for rows in torch.split(sentences.ids, SENTENCES_AT_ONCE):
        forward(language.chain, rows).smoothed()


def microseconds(work: Callable[[], object], sentences: int) -> float:
    begun = perf_counter()
    work()
    return (perf_counter() - begun) / sentences * 1e6


def largest_difference(language: HMM, model: CategoricalHMM, sentences: Sentences) -> float:
    """Between our masked distributions and posteriors and hmmlearn's."""
    distributions, posteriors = hmmlearn_masked_distributions(model, sentences.ids.numpy())
    ours = (
        language.masked_log_probabilities(sentences).exp().numpy(),
        language.state_posteriors(sentences).numpy(),
    )
    differences = [
        np.abs(mine - theirs).max() for mine, theirs in zip(ours, (distributions, posteriors), strict=True)
    ]
    return float(max(*differences, np.abs(ours[1] - hmmlearn_posteriors(model, sentences.ids.numpy())).max()))


def measure(blocks: int, sentences: int, repetitions: int) -> dict[str, float]:
    """One row: every figure for an HMM of so many blocks."""
    language = random_hmm(words=200, states=100, blocks=blocks, length=16, seed=0)
    model = hmmlearn_model(language)
    drawn = language.sample(sentences, torch.Generator().manual_seed(0))
    few, few_ids = drawn[:PEER_SENTENCES], drawn.ids[:PEER_SENTENCES].numpy()
    difference = largest_difference(language, model, few)
    work = {
        "posteriors": (lambda: language.state_posteriors(drawn), sentences),
        "masked_distribution_with_posteriors": (
            lambda: masked_distributions_with_posteriors(language, drawn),
            sentences,
        ),
        "masked_log_probabilities": (lambda: language.masked_log_probabilities(drawn), sentences),
        "sampling": (lambda: language.sample(8 * sentences, torch.Generator().manual_seed(1)), 8 * sentences),
        "hmmlearn_posteriors": (lambda: hmmlearn_posteriors(model, few_ids), PEER_SENTENCES),
        "hmmlearn_masked_distribution_with_posteriors": (
            lambda: hmmlearn_masked_distributions(model, few_ids),
            PEER_SENTENCES,
        ),
        "hmmlearn_sampling": (lambda: [model.sample(16) for _ in range(32)], 32),
    }
    turns = [{name: microseconds(*one) for name, one in work.items()} for _ in range(repetitions + 1)][1:]
    ratios = {
        "posteriors_ratio": ("hmmlearn_posteriors", "posteriors"),
        "masked_distribution_over_posteriors_alone_ratio": (
            "hmmlearn_posteriors",
            "masked_distribution_with_posteriors",
        ),
        "masked_distribution_ratio": (
            "hmmlearn_masked_distribution_with_posteriors",
            "masked_distribution_with_posteriors",
        ),
        "sampling_ratio": ("hmmlearn_sampling", "sampling"),
    }
    return {
        "blocks": blocks,
        "largest_difference": difference,
        **{name: statistics.median(turn[name] for turn in turns) for name in work},
        **{
            name: statistics.median(turn[peer] / turn[ours] for turn in turns)
            for name, (peer, ours) in ratios.items()
        },
    }


def main(json: bool = False, sentences: int = 2048, repetitions: int = 9) -> None:
    """HMM distributions and sampling beside hmmlearn, block-diagonal and dense: about a minute.

    Args:
        json: Print JSON instead of a table.
        sentences: Sentences that our distributions are timed on; sampling draws 8 times as many.
        repetitions: Turns that the medians are over.
    """
    torch.set_num_threads(1)
    rows = [measure(blocks, sentences, repetitions) for blocks in (10, 1)]
    if json:
        print(json_format.dumps({"sentences": sentences, "threads": 1, "rows": rows}, indent=2))
        return
    print("200 words, 100 states, 16 words a sentence; one thread; microseconds a sentence, and ratios")
    for name in rows[0]:
        print(f"{name:40}" + "".join(f"{row[name]:14.4g}" for row in rows))


if __name__ == "__main__":
    tyro.cli(main)
