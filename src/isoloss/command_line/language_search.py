"""`isoloss language grammar-search` and `hmm-search`: random languages ranked before any training."""

import json
from collections.abc import Callable
from typing import Any

from rich.table import Table

from isoloss.command_line.console import table_console
from isoloss.command_line.options.language_search import GrammarSearchOptions, HMMSearchOptions, SearchedFor
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.seed import usable_seed
from isoloss.command_line.value_with_error import value_with_error
from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.language_search import Candidate, Search, SearchRule, search_languages


def search_grammars(options: GrammarSearchOptions) -> None:
    """Rank random layered grammars."""

    def language_of(seed: int) -> Language:
        return pcfg(
            random_layered_grammar(
                words=options.words,
                symbols_per_level=options.symbols_per_level,
                levels=options.levels,
                rules_per_symbol=options.rules_per_symbol,
                roots=options.roots,
                words_per_preterminal=options.words_per_preterminal,
                seed=seed,
            )
        )

    _search(language_of, options.task or f"prefix-{2**options.levels}", options.asked)


def search_hmms(options: HMMSearchOptions) -> None:
    """Rank random hidden Markov models."""

    def language_of(seed: int) -> Language:
        return random_hmm(
            words=options.words,
            states=options.states,
            blocks=options.blocks,
            length=options.length,
            seed=seed,
            transition_concentration=options.transition_concentration,
            emission_concentration=options.emission_concentration,
        )

    _search(language_of, options.task or f"state-{options.length // 2 + 1}", options.asked)


def _search(language_of: Callable[[int], Language], task: str, asked: SearchedFor) -> None:
    if asked.search < 1 or asked.show < 0:
        raise BadInput(
            f"--search {asked.search} with --show {asked.show} is no search; give at least 1 and 0"
        )
    first = usable_seed(asked.first_seed)
    rule = SearchRule(asked.cheapest, asked.dearest, asked.least_room, asked.most_chance)
    with progress_display() as progress:
        found = search_languages(
            language_of, task, range(first, first + asked.search), rule, progress=progress
        )
    if asked.json:
        print(json.dumps(_as_json(found)))
        return
    table = Table(title=f"{found.task}, most room first", title_justify="left", caption=_summary(found))
    for heading in ("seed", "room", "chance", "price (nats)", "entropy (nats)"):
        table.add_column(heading, justify="right")
    for candidate in found.ranked[: asked.show]:
        estimates = (candidate.room.room, candidate.room.chance, candidate.price, candidate.entropy)
        shown = (value_with_error(e.value, e.standard_error) for e in estimates)
        table.add_row(str(candidate.seed), *shown)
    table_console().print(table)


def _summary(found: Search) -> str:
    return (
        f"of {found.searched:,} languages {found.with_price:,} have a price within bounds, "
        f"{len(found.ranked):,} of these room"
    )


def _as_json(found: Search) -> dict[str, Any]:
    return {
        "task": found.task,
        "searched": found.searched,
        "with_task": found.with_task,
        "with_price": found.with_price,
        "ranked": [_candidate_as_json(candidate) for candidate in found.ranked],
    }


def _candidate_as_json(candidate: Candidate) -> dict[str, Any]:
    room, chance = candidate.room.room, candidate.room.chance
    return {
        "seed": candidate.seed,
        "room": room.value,
        "room_error": room.standard_error,
        "chance": chance.value,
        "chance_error": chance.standard_error,
        "price": candidate.price.value,
        "price_error": candidate.price.standard_error,
        "entropy": candidate.entropy.value,
        "entropy_error": candidate.entropy.standard_error,
    }
