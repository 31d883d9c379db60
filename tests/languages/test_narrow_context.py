"""Narrow distributions against sums over every sentence of tiny languages."""

import itertools

import pytest
import torch

from isoloss.languages.dyck import dyck
from isoloss.languages.hmm import HMM
from isoloss.languages.narrow_context import AlignedWindows, merged_words, narrow_context
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.languages.sentences import Sentences

OVERLAPPING = {"words": 3, "symbols_per_level": 2, "rules_per_symbol": 3, "words_per_preterminal": 2}
DISJOINT = {"words": 4, "symbols_per_level": 2, "rules_per_symbol": 3, "words_per_preterminal": 2}


def layered(dials: dict[str, int], seed: int) -> PCFG:
    return pcfg(random_layered_grammar(levels=2, roots=2, seed=seed, **dials))


def every_sentence(words: int, length: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product(range(words), repeat=length)))


def distributions_by_summing(
    language: PCFG | HMM, ids: torch.Tensor, seen: list[list[int]]
) -> dict[tuple[int, ...], list[list[float]]]:
    """For each possible sentence and position t, Pr(x_t = w | the words at `seen[t]`) by plain sums."""
    lengths = torch.full((len(ids),), ids.shape[1])
    weights = language.log_probability(Sentences(ids, lengths)).exp().tolist()
    rows, words = [tuple(row) for row in ids.tolist()], len(language.vocabulary)
    distributions = {}
    for row, weight in zip(rows, weights, strict=True):
        if weight == 0:
            continue
        distributions[row] = []
        for t, places in enumerate(seen):
            joint = [0.0] * words
            for other, other_weight in zip(rows, weights, strict=True):
                if all(other[place] == row[place] for place in places):
                    joint[other[t]] += other_weight
            distributions[row].append([value / sum(joint) for value in joint])
    return distributions


def assert_distributions(context: AlignedWindows, language: PCFG | HMM, seen: list[list[int]]) -> None:
    distributions = distributions_by_summing(language, every_sentence(len(language.vocabulary), 4), seen)
    ids = context.kinds[torch.tensor(list(distributions))]
    of_words = torch.tensor(list(distributions.values()), dtype=torch.float64)
    narrow = context.narrow_distribution(ids)
    expected = torch.zeros_like(narrow).index_add(2, context.kinds, of_words)
    assert narrow.flatten().tolist() == pytest.approx(expected.flatten().tolist(), abs=1e-12)


@pytest.mark.parametrize(
    ("dials", "seed"),
    [
        *((OVERLAPPING, 0), (DISJOINT, 2)),
        *(pytest.param(OVERLAPPING, seed, marks=pytest.mark.thorough) for seed in (1, 2)),
        *(pytest.param(DISJOINT, seed, marks=pytest.mark.thorough) for seed in (0, 1)),
    ],
)
def test_windows_of_a_grammar_are_grammars_of_their_own(dials: dict[str, int], seed: int) -> None:
    language = layered(dials, seed)
    halves, words = (narrow_context(task) for task in language.tasks())
    assert isinstance(halves, AlignedWindows)
    assert isinstance(words, AlignedWindows)
    assert_distributions(halves, language, [[1], [0], [3], [2]])
    assert_distributions(words, language, [[], [], [], []])


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_of_a_word_in_a_chain(seed: int) -> None:
    language = random_hmm(words=3, states=4, blocks=1, length=4, seed=seed)
    context = narrow_context(language.tasks()[1])
    assert context is not None
    assert_distributions(context, language, [[1], [0, 2], [1, 3], [2]])
    assert context.seen == "the two neighbouring words"


def test_whole_distributions_and_weights_are_the_languages_own() -> None:
    for language in (layered(DISJOINT, 0), random_hmm(words=4, states=3, blocks=1, length=4, seed=0)):
        context = narrow_context(language.tasks()[0])
        assert context is not None
        sentences = language.sample(50, torch.Generator().manual_seed(0))
        ids = context.kinds[sentences.ids]
        distribution = language.masked_log_probabilities(sentences).exp()
        expected = torch.zeros_like(context.masked_distribution(ids)).index_add(
            2, context.kinds, distribution
        )
        assert torch.allclose(context.masked_distribution(ids), expected, atol=1e-12)
        of_kinds = {tuple(row): 0.0 for row in ids.tolist()}
        every = every_sentence(4, 4)
        weights = language.log_probability(Sentences(every, torch.full((len(every),), 4))).exp()
        for row, weight in zip(context.kinds[every].tolist(), weights.tolist(), strict=True):
            if tuple(row) in of_kinds:
                of_kinds[tuple(row)] += weight
        found = context.log_weight(ids).exp().tolist()
        assert found == pytest.approx([of_kinds[tuple(row)] for row in ids.tolist()], rel=1e-10)


def test_words_that_no_symbol_tells_apart_are_one_kind() -> None:
    kinds, merged = merged_words(layered(DISJOINT, 1).form.grammar.emission)
    assert merged.shape[1] == len(set(kinds.tolist())) == 2
    assert merged.sum(1)[merged.sum(1) > 0].tolist() == pytest.approx([1.0, 1.0])
    kinds, _ = merged_words(layered(OVERLAPPING, 1).form.grammar.emission)
    assert len(set(kinds.tolist())) == 3


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("S -> A A [0.5] | B B [0.25] | A [0.25]\nA -> 'a' [0.5] | 'b' [0.5]\nB -> 'b' [1]", None),
        (
            "S -> P [0.5] | Q [0.5]\nP -> X A [1]\nQ -> A X [1]\nX -> A A [1]\nA -> 'a' [0.5] | 'b' [0.5]",
            None,
        ),
        ("S -> S S [0.4] | 'a' [0.35] | X [0.25]\nX -> 'b' [0.5] | S 'c' S [0.5]", 4),
    ],
)
def test_trees_that_do_not_halve_have_no_windows(text: str, longest: int | None) -> None:
    language = pcfg(parse_grammar(text), longest)
    assert [narrow_context(task) for task in language.tasks()] == [None] * len(language.tasks())
    assert language.tasks()


def test_no_chart_is_planned_of_a_language_whose_sentences_differ_in_length() -> None:
    language = pcfg(
        parse_grammar("S -> S S [0.4] | 'a' [0.35] | X [0.25]\nX -> 'b' [0.5] | S 'c' S [0.5]"), 100
    )
    assert [narrow_context(task) for task in language.tasks()] == [None] * len(language.tasks())
    assert language.tasks()
    assert not language._plans


def test_other_languages_have_no_narrow_context() -> None:
    assert [narrow_context(task) for task in dyck(4).tasks()] == []


def test_words_are_of_one_kind_up_to_rounding() -> None:
    emission = torch.tensor([[0.1, 0.3, 0.6], [0.2, 0.6, 0.2]], dtype=torch.float64)
    shares = emission / emission.sum(0)
    assert not torch.equal(shares[:, 0], shares[:, 1])  # thrice as likely, but for the last bits
    kinds, merged = merged_words(emission)
    assert kinds[0] == kinds[1] != kinds[2]
    assert merged[:, kinds[0]].tolist() == pytest.approx([0.4, 0.8], rel=1e-15)
