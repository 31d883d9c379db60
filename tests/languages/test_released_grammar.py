"""The grammar that the authors released, against substitution and a textbook inside pass."""

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import torch

from isoloss.languages.grammar import Grammar, Symbol
from isoloss.languages.notation import read_grammar
from isoloss.languages.pcfg import PCFG, read_pcfg
from isoloss.languages.sentences import Sentences

RELEASED = Path(__file__).parents[1] / "data" / "liu2023-released.pcfg"

Rules = tuple[
    dict[tuple[str, str], list[tuple[str, float]]],
    dict[str, list[tuple[str, float]]],
    list[tuple[str, float]],
]


@cache
def language() -> PCFG:
    return read_pcfg(RELEASED)


@cache
def rules() -> Rules:
    grammar: Grammar = read_grammar(RELEASED)
    binary, lexical, roots = defaultdict(list), defaultdict(list), []
    for rule in grammar.rules:
        parent = rule.left.name, rule.probability
        match rule.right:
            case (Symbol(left), Symbol(right)):
                binary[left, right].append(parent)
            case (str(word),):
                lexical[word].append(parent)
            case (Symbol(root),):
                roots.append((root, rule.probability))
    return binary, lexical, roots  # type: ignore[return-value]


Chart = dict[tuple[int, int], dict[str, float]]
"""By where its words begin and end, the weight of each symbol above them."""


def textbook_chart(words: list[str], known: Chart) -> Chart:
    """All of a sentence's parts, by dictionaries, from the numbers in the file; except those `known`."""
    binary, lexical, _ = rules()
    chart: Chart = dict(known)
    for place, word in enumerate(words):
        chart.setdefault((place, place + 1), dict(lexical[word]))
    for length in range(2, len(words) + 1):
        for start in range(len(words) - length + 1):
            if (start, start + length) in known:
                continue
            cell: dict[str, float] = defaultdict(float)
            for split in range(start + 1, start + length):
                for left, left_weight in chart[start, split].items():
                    for right, right_weight in chart[split, start + length].items():
                        for parent, probability in binary.get((left, right), ()):
                            cell[parent] += probability * left_weight * right_weight
            chart[start, start + length] = cell
    return chart


def textbook_inside(words: list[str], known: Chart | None = None) -> float:
    """The weight of a sentence."""
    whole = textbook_chart(words, known or {})[0, len(words)]
    return sum(probability * whole.get(root, 0.0) for root, probability in rules()[2])


@pytest.mark.parametrize(
    ("length", "places"),
    [(5, 5), *(pytest.param(*case, marks=pytest.mark.thorough) for case in ((2, 2), (9, 3), (16, 1)))],
)
def test_masked_distributions_are_those_of_substitution(length: int, places: int) -> None:
    sentences = language().sample(400, torch.Generator().manual_seed(1))
    row = int((sentences.lengths == length).nonzero()[0])
    sentence = Sentences(sentences.ids[row : row + 1, :length], sentences.lengths[row : row + 1])
    vocabulary = language().vocabulary
    words = [vocabulary[word] for word in sentence.ids[0].tolist()]
    distribution = language().masked_log_probabilities(sentence)[0].exp()
    chart = textbook_chart(words, {})
    for place in range(0, length, length // places):
        # Parts that do not contain the position are the same whatever word is there.
        same = {(start, end): cell for (start, end), cell in chart.items() if not start <= place < end}
        others = ([*words[:place], word, *words[place + 1 :]] for word in vocabulary)
        weights = torch.tensor([textbook_inside(other, same) for other in others], dtype=torch.float64)
        assert (distribution[place] - weights / weights.sum()).abs().max() < 1e-12
    weight = language().log_probability(sentence).exp().item()
    assert weight == pytest.approx(textbook_inside(words), rel=1e-10)


def test_its_lengths_and_tasks() -> None:
    assert language().maximum_length == 16
    assert [task.name for task in language().tasks()] == ["root", "prefix-8", "prefix-4", "prefix-2"]
    assert language().tasks()[0].classes == tuple(f"S{n}" for n in range(1, 10))
    assert set(language().tasks()[0].classes) < set(language().tasks()[1].classes)
