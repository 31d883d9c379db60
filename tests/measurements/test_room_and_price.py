from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.languages import headline_grammar
from isoloss.languages.hmm import hmm
from isoloss.languages.language import Language
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar, random_layered_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences
from isoloss.measurements import room_and_price
from isoloss.measurements.room_and_price import (
    Room,
    RoomSettings,
    Search,
    SearchRule,
    measure_decision,
    measure_room,
    price,
    search_languages,
)
from isoloss.results.estimate import Estimate

SMALL = RoomSettings(train=500, test=1000)


@dataclass(frozen=True)
class OfFairWords:
    """Two words, each a or b with probability one half; the label is the first, or whether they are equal."""

    both: bool
    name: str = "of-fair-words"
    classes: tuple[str, ...] = ("0", "1")

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        ids = torch.randint(2, (n, 2), generator=generator)
        labels = (ids[:, 0] == ids[:, 1]).long() if self.both else ids[:, 0]
        sentences = Sentences(ids, torch.full((n,), 2))
        return LabelledSentences(sentences, labels, torch.nn.functional.one_hot(labels, 2).double())


COINS = random_hmm(words=2, states=2, blocks=1, length=2, seed=0)


AMBIGUOUS = """S -> X [0.5] | Y [0.3] | Z [0.2]
X -> A B [0.5] | B A [0.5]
Y -> A B [0.6] | A A [0.4]
Z -> B B [0.1] | A A [0.9]
A -> 'a' [0.7] | 'b' [0.3]
B -> 'b' [0.8] | 'c' [0.2]
"""


def test_a_decision_is_that_of_all_sentences_by_hand() -> None:
    """Every tree is written out: symbol, its right side, the two words."""
    words = {"A": {"a": 0.7, "b": 0.3}, "B": {"b": 0.8, "c": 0.2}}
    rules = [("X", "AB", 0.25), ("X", "BA", 0.25), ("Y", "AB", 0.18), ("Y", "AA", 0.12), ("Z", "BB", 0.02)]
    joint: dict[str, Counter[str]] = defaultdict(Counter)
    for symbol, (left, right), weight in [*rules, ("Z", "AA", 0.18)]:
        for (a, p), (b, q) in product(words[left].items(), words[right].items()):
            joint[a + b][symbol] += weight * p * q
    ordered = [sorted((*weights.values(), 0.0, 0.0), reverse=True) for weights in joint.values()]
    largest = sum(first for first, *_ in ordered)
    gap = sum(first - second for first, second, *_ in ordered)
    decision = measure_decision(pcfg(parse_grammar(AMBIGUOUS)).tasks()[0], sentences=20_000, seed=4)
    for measured, exact in ((decision.largest, largest), (decision.gap, gap)):
        assert measured.standard_error is not None
        assert 0 < abs(measured.value - exact) < 4 * measured.standard_error < 0.02
        assert measured.n == 20_000


def test_a_label_that_the_words_determine_is_decided() -> None:
    decision = measure_decision(OfFairWords(both=True), sentences=100)
    assert (decision.largest, decision.gap) == (Estimate(1.0, 0.0, 100), Estimate(1.0, 0.0, 100))
    with pytest.raises(BadInput, match="1 sentences leave no error bar; give at least 2"):
        measure_decision(OfFairWords(both=True), sentences=1)


def test_a_label_of_one_class_is_decided() -> None:
    task = random_hmm(words=6, states=1, blocks=1, length=4, seed=0).tasks()[0]
    decision = measure_decision(task, sentences=50)
    assert (decision.largest.value, decision.gap.value) == (1.0, 1.0)


def test_what_one_word_settles_has_no_room() -> None:
    room = measure_room(COINS, OfFairWords(both=False), SMALL)
    assert room.room == Estimate(0.0, 0.0, 1000)
    assert room.chance.value == pytest.approx(0.5, abs=0.06)
    assert room.refusal is not None


def test_what_only_both_words_settle_has_room() -> None:
    """No linear rule on the words is correct on more than three of the four sentences."""
    room = measure_room(COINS, OfFairWords(both=True), SMALL)
    assert room.room.value > 0.25 - 4 * 0.014
    assert room.record.settings == {"task": "of-fair-words", "examples": 500}
    assert (room.record.value, room.record.unit, room.record.n) == (room.room.value, "fraction", 1000)


def test_room_is_a_function_of_its_arguments_and_its_seed() -> None:
    language = headline_grammar()
    first, again = (measure_room(language, language.tasks()[0], SMALL) for _ in range(2))
    assert first == again
    other = measure_room(language, language.tasks()[0], replace(SMALL, seed=1))
    assert 0 < abs(other.room.value - first.room.value) < 6 * first.room.standard_error
    with pytest.raises(BadInput, match="give at least 1 and 2"):
        measure_room(language, language.tasks()[0], RoomSettings(test=1))


def test_sentences_of_several_lengths_are_padded_alike() -> None:
    text = "S -> A [0.5] | B B [0.5]\nA -> 'a' [1]\nB -> 'a' [0.5] | 'b' [0.5]"
    language = pcfg(parse_grammar(text))
    room = measure_room(language, language.tasks()[0], SMALL)
    assert room.room.value == 0.0


@pytest.mark.parametrize(
    ("room", "chance", "says"),
    [(0.24, 0.4, "has no room"), (0.3, 0.51, "is easily guessed"), (0.25, 0.5, None)],
)
def test_a_headline_task_needs_room_and_must_not_be_guessed(
    room: float, chance: float, says: str | None
) -> None:
    found = Room("t", Estimate(room, 0.01, 100), Estimate(chance, 0.01, 100), SMALL).refusal
    assert found is None if says is None else says in found


def test_the_price_of_coins_that_stay() -> None:
    """Two words alike: given nothing, log 2 is lost; the middle of three is given both its neighbours."""
    eye = torch.eye(2, dtype=torch.float64)
    stay = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
    chain = hmm(["a", "b"], stay.mean(0), stay, eye, length=3)
    record = price(chain, chain.tasks()[0])
    # States are visible, so the words beyond a neighbour carry no information.
    assert record is not None
    assert record.value == pytest.approx(0.0, abs=1e-14)
    assert (record.standard_error, record.n) == (None, 8)


@pytest.mark.parametrize("kind", ["grammar", "HMM"])
def test_a_sampled_price_agrees_with_the_exact_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grammar, chain = headline_grammar(), random_hmm(words=3, states=4, blocks=1, length=6, seed=1)
    language = grammar if kind == "grammar" else chain
    task = language.tasks()[0]
    exact = price(language, task)
    monkeypatch.setattr(room_and_price, "ENUMERATED", 0)
    sampled = price(language, task, sentences=4000, seed=3)
    assert exact is not None
    assert sampled is not None
    assert exact.standard_error is None
    assert sampled.standard_error is not None
    assert (sampled.n, sampled.seed) == (4000, 3)
    assert abs(sampled.value - exact.value) < 4 * sampled.standard_error < 0.2 * exact.value


def test_a_price_is_the_difference_of_two_losses() -> None:
    """-log of the narrow distribution minus -log of the exact one, on drawn words, is dearer by the price."""
    language = headline_grammar()
    task = language.tasks()[1]
    context = room_and_price.narrow_context(task)
    record = price(language, task)
    assert context is not None
    assert record is not None
    ids = context.kinds[language.sample(6000, torch.Generator().manual_seed(5)).ids]
    losses = [
        -distribution.gather(2, ids[:, :, None]).log().mean(dim=(1, 2))
        for distribution in (context.narrow_distribution(ids), context.masked_distribution(ids))
    ]
    difference = losses[0] - losses[1]
    assert abs(difference.mean() - record.value) < 4 * difference.std() / 6000**0.5


def test_distributions_without_a_narrow_context_have_no_price() -> None:
    text = "S -> A A [0.5] | B [0.5]\nA -> 'a' [0.5] | 'b' [0.5]\nB -> 'b' [1]"
    language = pcfg(parse_grammar(text))
    assert [price(language, task) for task in language.tasks()] == [None]


@pytest.mark.thorough
def test_an_easy_language_is_told_from_one_with_room() -> None:
    easy, hard = pcfg(laptop_grammar(5)), headline_grammar()
    assert measure_room(easy, easy.tasks()[0], SMALL).refusal is not None
    assert measure_room(hard, hard.tasks()[0], SMALL).refusal is None


QUICK = RoomSettings(train=300, test=500)
WIDE = SearchRule(cheapest=0.0, dearest=1.0, least_room=0.0, most_chance=1.0)


def language_of(seed: int) -> Language:
    sizes = {"symbols_per_level": 3, "levels": 2, "rules_per_symbol": 5, "words_per_preterminal": 2}
    return pcfg(random_layered_grammar(words=6, roots=3, seed=seed, **sizes))


@pytest.fixture(scope="module")
def found() -> Search:
    return search_languages(language_of, "prefix-4", range(8), WIDE, QUICK)


@pytest.mark.thorough
def test_every_language_is_ranked_by_its_own_room(found: Search) -> None:
    assert (found.searched, found.with_task, found.with_price) == (8, 8, 8)
    rooms = [candidate.room.room.value for candidate in found.ranked]
    assert rooms == sorted(rooms, reverse=True)
    assert {candidate.seed for candidate in found.ranked} == set(range(8))
    for candidate in found.ranked[::2]:
        language = language_of(candidate.seed)
        assert candidate.room == measure_room(language, language.tasks()[0], QUICK)
        assert candidate.price == price(language, language.tasks()[0])
        assert candidate.decision == measure_decision(language.tasks()[0])
        assert 0 < candidate.entropy.value < 1.8


@pytest.mark.thorough
def test_the_rule_is_what_is_kept(found: Search) -> None:
    every = found.ranked
    prices, rooms = sorted(c.price.value for c in every), sorted(c.room.room.value for c in every)
    chances = sorted(c.room.chance.value for c in every)
    rule = SearchRule(prices[1], prices[-2], rooms[2], chances[3])
    kept = search_languages(language_of, "prefix-4", range(8), rule, QUICK)
    assert kept.with_price == 6
    priced = [c for c in every if rule.cheapest <= c.price.value <= rule.dearest]
    roomy = [c for c in priced if c.room.room.value >= rule.least_room]
    assert any(c.room.chance.value > rule.most_chance for c in roomy)
    assert list(kept.ranked) == [c for c in roomy if c.room.chance.value <= rule.most_chance]
    assert 0 < len(kept.ranked) < kept.with_price


def test_only_decided_languages_are_ranked() -> None:
    found = search_languages(language_of, "prefix-4", range(3), WIDE, QUICK)
    largest = sorted(candidate.decision.largest.value for candidate in found.ranked)
    rule = replace(WIDE, least_decided=largest[1])
    kept = search_languages(language_of, "prefix-4", range(3), rule, QUICK)
    assert kept.with_price == 3
    assert kept.decided == len(kept.ranked) == 2
    assert list(kept.ranked) == [c for c in found.ranked if c.decision.largest.value >= largest[1]]


def test_progress_counts_languages() -> None:
    told: list[tuple[float, float]] = []

    def tell(_: str, done: float, total: float, message: str = "") -> None:
        told.append((done, total))

    search_languages(language_of, "prefix-2", range(3, 6), SearchRule(dearest=0.0005), QUICK, tell)
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_hidden_markov_models_are_searched_alike() -> None:
    def chain_of(seed: int) -> Language:
        return random_hmm(words=4, states=4, blocks=1, length=4, seed=seed)

    found = search_languages(chain_of, "state-2", range(2), WIDE, QUICK)
    assert [candidate.room.task for candidate in found.ranked] == ["state-2"] * 2


def test_what_cannot_be_searched_is_one_sentence() -> None:
    refused = "no language of this kind has a task 'prefix-8'; choose prefix-2, prefix-4"
    with pytest.raises(BadInput, match=refused):
        search_languages(language_of, "prefix-8", range(1), WIDE, QUICK)
    with pytest.raises(BadInput, match="swap the bounds"):
        SearchRule(cheapest=0.1, dearest=0.01)
