"""`isoloss probabilities`: the exact probabilities of a sentence's words."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isoloss.command_line.language_argument import (
    LONGEST,
    LanguageFile,
    Longest,
    MaximumLength,
    language_argument,
    language_in,
    report_cost,
)
from isoloss.command_line.terminal import print_table, progress_display, starting
from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar
from isoloss.languages.outside import (
    refuse_other_length,
    refuse_outside_file,
    refuse_underivable,
    underivable,
)

if TYPE_CHECKING:
    from torch import Tensor

    from isoloss.languages.language import Language
    from isoloss.languages.sentences import Sentences

WORDS_SHOWN = 5
SMALLEST_IN_DECIMALS = 0.0005
"""A smaller probability would be shown as 0.000."""


@dataclass(frozen=True)
class ProbabilitiesOptions:
    """Show the exact probability of every word of a sentence, as a masked word and as the next word.

    Example: isoloss probabilities my.pcfg --sentence "the cat sleeps" --json
    """

    language: LanguageFile
    sentence: str
    """The sentence, with its words separated by spaces."""
    json: bool = False
    """Print JSON with the probability of every word of the vocabulary."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


def probabilities(options: ProbabilitiesOptions) -> None:
    """Show the exact probability of every word of a sentence, as a masked word and as the next word."""
    written = language_in(options.language)
    if isinstance(written, Grammar):
        refuse_underivable(options.sentence, written, options.maximum_length)
    else:
        refuse_outside_file(options.sentence, written)
    with starting("probabilities"):
        language = language_argument(options.language, options.maximum_length, options.longest)
    found = sentence_probabilities(language, options.sentence)
    if options.json:
        print(json.dumps(found, ensure_ascii=False, allow_nan=False))
    else:
        _show(found)


def sentence_probabilities(language: "Language", text: str) -> dict[str, Any]:
    """The probabilities of one sentence's words, and of the sentence.

    `log_probability` is in nats. `masked` and `next` have a row per position (from 1) with the probability of
    every word; a row of `next` has the probability that the sentence had ended before that position as its
    `end`, and the outer `end` is the probability that it ends after its last word. `posteriors`, for an HMM,
    has a row per position with the probability of every state. Raises BadInput for a sentence that is empty,
    has an unknown word, is too long or is outside the language.
    """
    from isoloss.languages.hmm import HMM
    from isoloss.languages.sentences import encode_sentence

    sentence = encode_sentence(text, language.vocabulary)
    words = text.split()
    log_probability = float(language.log_probability(sentence)[0])
    if math.isinf(log_probability):
        raise _outside(language, words)
    masked = _masked_log_probabilities(language, sentence)[0].exp()
    following = language.next_log_probabilities(sentence)[0].exp()
    found = {
        "log_probability": log_probability,
        "masked": [
            {"position": place, "word": word, "probabilities": _by_word(language, row)}
            for place, (word, row) in enumerate(zip(words, masked.tolist(), strict=True), start=1)
        ],
        "next": [
            {"position": place, "probabilities": _by_word(language, row[:-1]), "end": row[-1]}
            for place, row in enumerate(following.tolist()[:-1], start=1)
        ],
        "end": float(following[-1, -1]),
    }
    if isinstance(language, HMM):
        found["posteriors"] = language.state_posteriors(sentence)[0].tolist()
    return found


def _masked_log_probabilities(language: "Language", sentence: "Sentences") -> "Tensor":
    from isoloss.languages.causal_lm import CausalLM

    if not isinstance(language, CausalLM):
        return language.masked_log_probabilities(sentence)
    report_cost(language)
    with progress_display() as progress:
        return language.masked_log_probabilities(sentence, progress)


def _outside(language: "Language", words: Sequence[str]) -> BadInput:
    """Why a sentence of known words has zero probability, of what is not refused without torch."""
    from isoloss.languages.pcfg import PCFG

    if isinstance(language, PCFG):
        return underivable(words)
    refuse_other_length(len(words), language.maximum_length)
    return BadInput("every word is known, but no path of states emits the sentence; check the words' order")


def _by_word(language: "Language", row: list[float]) -> dict[str, float]:
    return dict(zip(language.vocabulary, row, strict=True))


def _show(found: dict[str, Any]) -> None:
    rows = []
    for masked, following in zip(found["masked"], found["next"], strict=True):
        word = masked["word"]
        masked_word = _likely(masked["probabilities"].items(), word)
        next_word = _likely([*following["probabilities"].items(), ("(end)", following["end"])], word)
        rows.append((masked["position"], word, masked_word, next_word))
    rows.append((len(rows) + 1, "(end)", "", _with_probability("(end)", found["end"])))
    text = ("word", "masked: given all other words", "next: given the words before")
    caption = f"log probability {found['log_probability']:.6g} nats"
    print_table(("position", *text), rows, left=text, caption=caption)


def _likely(distribution: Iterable[tuple[str, float]], word: str) -> str:
    """The likeliest words and, whatever its rank, the `word` of the sentence."""
    ranked = sorted((each for each in distribution if each[1] > 0), key=lambda item: -item[1])
    shown = [each for rank, each in enumerate(ranked) if rank < WORDS_SHOWN or each[0] == word]
    more = len(ranked) - len(shown)
    return ", ".join(_with_probability(*each) for each in shown) + (f", {more} more" if more else "")


def _with_probability(word: str, probability: float) -> str:
    return f"{word} {probability:{'.3f' if probability >= SMALLEST_IN_DECIMALS else '.1e'}}"
