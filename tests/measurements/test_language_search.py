from dataclasses import replace

import pytest

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.room_and_price import (
    RoomSettings,
    SearchRule,
    measure_decision,
    measure_room,
    price,
    search_languages,
)

QUICK = RoomSettings(train=300, test=500)
WIDE = SearchRule(cheapest=0.0, dearest=1.0, least_room=0.0, most_chance=1.0)


def language_of(seed: int) -> Language:
    return pcfg(
        random_layered_grammar(
            words=6,
            symbols_per_level=3,
            levels=2,
            rules_per_symbol=5,
            roots=3,
            words_per_preterminal=2,
            seed=seed,
        )
    )


def test_every_language_is_ranked_by_its_own_room() -> None:
    found = search_languages(language_of, "prefix-4", range(5), WIDE, QUICK)
    assert (found.searched, found.with_task, found.with_price) == (5, 5, 5)
    rooms = [candidate.room.room.value for candidate in found.ranked]
    assert rooms == sorted(rooms, reverse=True)
    assert {candidate.seed for candidate in found.ranked} == set(range(5))
    for candidate in found.ranked:
        language = language_of(candidate.seed)
        assert candidate.room == measure_room(language, language.tasks()[0], QUICK)
        assert candidate.price == price(language, language.tasks()[0])
        assert candidate.decision == measure_decision(language.tasks()[0])
        assert 0 < candidate.entropy.value < 1.8


def test_the_rule_is_what_is_kept() -> None:
    every = search_languages(language_of, "prefix-4", range(8), WIDE, QUICK).ranked
    prices, rooms = sorted(c.price.value for c in every), sorted(c.room.room.value for c in every)
    chances = sorted(c.room.chance.value for c in every)
    rule = SearchRule(prices[1], prices[-2], rooms[2], chances[-3])
    kept = search_languages(language_of, "prefix-4", range(8), rule, QUICK)
    assert kept.with_price == 6
    assert list(kept.ranked) == [
        c
        for c in every
        if rule.cheapest <= c.price.value <= rule.dearest
        and c.room.room.value >= rule.least_room
        and c.room.chance.value <= rule.most_chance
    ]
    assert len(kept.ranked) < len(every)


def test_only_decided_languages_are_ranked() -> None:
    every = search_languages(language_of, "prefix-4", range(8), WIDE, QUICK).ranked
    largest = sorted(candidate.decision.largest.value for candidate in every)
    found = search_languages(
        language_of, "prefix-4", range(8), replace(WIDE, least_decided=largest[5]), QUICK
    )
    assert found.with_price == 8
    assert found.decided == len(found.ranked) == 3
    assert list(found.ranked) == [c for c in every if c.decision.largest.value >= largest[5]]


def test_progress_counts_languages() -> None:
    told: list[tuple[float, float]] = []
    search_languages(
        language_of,
        "prefix-2",
        range(3, 6),
        SearchRule(dearest=0.0005),
        QUICK,
        lambda task, done, total, message="": told.append((done, total)),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_hidden_markov_models_are_searched_alike() -> None:
    def chain_of(seed: int) -> Language:
        return random_hmm(words=4, states=4, blocks=1, length=4, seed=seed)

    found = search_languages(chain_of, "state-2", range(2), WIDE, QUICK)
    assert [candidate.room.task for candidate in found.ranked] == ["state-2"] * 2


def test_what_cannot_be_searched_is_one_sentence() -> None:
    with pytest.raises(
        BadInput, match="no language of this kind has a task 'prefix-8'; choose prefix-2, prefix-4"
    ):
        search_languages(language_of, "prefix-8", range(1), WIDE, QUICK)
    with pytest.raises(BadInput, match="swap the bounds"):
        SearchRule(cheapest=0.1, dearest=0.01)
