"""`isoloss language`: writes the files of languages, and searches among random ones."""

import json
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Any

from rich.table import Table

from isoloss.command_line.checked_options import refuse_below, refuse_existing, usable_seed
from isoloss.command_line.language_argument import LanguageOfFile, kind_of
from isoloss.command_line.options.language import (
    CausalLMOptions,
    DyckOptions,
    GrammarOptions,
    GrammarSearchOptions,
    HMMOptions,
    HMMSearchOptions,
    LanguageOptions,
    SearchedFor,
    TeacherOptions,
)
from isoloss.command_line.terminal import progress_display, table_console
from isoloss.errors import BadInput
from isoloss.files import write_atomically
from isoloss.languages.dyck import write_dyck
from isoloss.languages.hmm_file import write_hmm
from isoloss.languages.language import Language
from isoloss.languages.notation import write_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.language_search import Candidate, Search, SearchRule, search_languages
from isoloss.results.number import as_text

OF_GRAMMAR = ("levels", "symbols_per_level", "roots", "rules_per_symbol", "words_per_preterminal")
SIZES = ("words", "states", "blocks", "length", *OF_GRAMMAR)
"""Options of random languages, of HMMs and grammars, each of which must be at least 1."""


def language(options: LanguageOptions) -> None:
    """Write the file of a language of the requested kind, or rank several."""
    match options.kind:
        case GrammarOptions():
            _grammar(options.kind)
        case HMMOptions():
            _hmm(options.kind)
        case DyckOptions():
            _dyck(options.kind)
        case CausalLMOptions():
            _causal_lm(options.kind)
        case TeacherOptions():
            _teacher(options.kind)
        case GrammarSearchOptions():
            search_grammars(options.kind)
        case HMMSearchOptions():
            search_hmms(options.kind)


def _grammar(options: GrammarOptions) -> None:
    """Write a random layered grammar; the defaults are the paper's sizes."""
    _refuse_small_sizes(options)
    refuse_existing(options.out)
    upper = options.roots + options.symbols_per_level * (options.levels - 1)
    words = options.symbols_per_level * options.words_per_preterminal
    _refuse_more("rules", upper * options.rules_per_symbol + words, options.most_rules, "--most-rules")
    made = random_layered_grammar(
        words=options.words,
        symbols_per_level=options.symbols_per_level,
        levels=options.levels,
        rules_per_symbol=options.rules_per_symbol,
        roots=options.roots,
        words_per_preterminal=options.words_per_preterminal,
        seed=usable_seed(options.seed),
    )
    write_atomically(options.out, write_grammar(made))
    _tell(pcfg(made), options.out, options.json)


def _hmm(options: HMMOptions) -> None:
    """Write a random hidden Markov model; the defaults are the paper's sizes."""
    _refuse_small_sizes(options)
    refuse_existing(options.out)
    numbers = options.states * (options.states + options.words)
    _refuse_more("numbers", numbers, options.most_numbers, "--most-numbers")
    made = random_hmm(
        words=options.words,
        states=options.states,
        blocks=options.blocks,
        length=options.length,
        seed=usable_seed(options.seed),
        transition_concentration=options.transition_concentration,
        emission_concentration=options.emission_concentration,
    )
    write_atomically(options.out, write_hmm(made))
    _tell(made, options.out, options.json)


def _dyck(options: DyckOptions) -> None:
    """Write the language of balanced bracket strings."""
    from isoloss.languages.dyck import dyck as dyck_language

    refuse_existing(options.out)
    made = dyck_language(options.length, options.balanced_share)
    write_atomically(options.out, write_dyck(made))
    _tell(made, options.out, options.json)


def _causal_lm(options: CausalLMOptions) -> None:
    """Write the language of a pre-trained causal model, restricted to its most frequent tokens."""
    refuse_existing(options.out)
    seed = usable_seed(options.seed)
    from isoloss.models.causal_language import ModelSource, load_causal_language, write_causal_language

    place = str(Path(options.model).resolve()) if Path(options.model).is_dir() else options.model
    source = ModelSource(place, options.gguf_file, options.precision)
    with progress_display() as progress:
        made = load_causal_language(source, options.words, options.length, seed, progress)
    write_causal_language(made, source, options.out)
    _tell(made, options.out, options.json)


def _teacher(options: TeacherOptions) -> None:
    """Pre-train a small causal model on public-domain prose, in minutes, and write its language."""
    refuse_existing(options.out)
    from isoloss.corpora.fetched_package import default_cache
    from isoloss.experiments.teacher import Teacher, teacher_language
    from isoloss.models.causal_language import ModelSource, write_causal_language
    from isoloss.results.checkpoint import checkpoint_folders

    chosen = Teacher(
        words=options.words, length=options.length, steps=options.steps, seed=usable_seed(options.seed)
    )
    with progress_display() as progress:
        made = teacher_language(chosen, options.cache or default_cache(), options.folder, progress)
    write_causal_language(
        made, ModelSource(str(checkpoint_folders(options.folder)[-1].resolve())), options.out
    )
    _tell(made, options.out, options.json)


def _refuse_small_sizes(
    options: GrammarOptions | HMMOptions | GrammarSearchOptions | HMMSearchOptions,
) -> None:
    for size in SIZES:
        if hasattr(options, size):
            refuse_below(1, getattr(options, size), f"--{size.replace('_', '-')}")


def _refuse_more(things: str, needed: int, most: int, option: str) -> None:
    if needed > most:
        raise BadInput(
            f"these sizes make {needed:,} {things}, more than {most:,}; "
            f"give smaller ones, or {option} {needed}"
        )


def _tell(made: LanguageOfFile, out: Path, json: bool) -> None:
    facts = {
        "file": str(out),
        "kind": kind_of(made),
        "words": len(made.vocabulary),
        "maximum_length": made.maximum_length,
        "digest": made.digest,
    }
    if json:
        print(dumps(facts))
        return
    print(f"{out}: {facts['kind']}, {facts['words']:,} words, sentences of {facts['maximum_length']}")


def search_grammars(options: GrammarSearchOptions) -> None:
    """Rank random layered grammars."""
    _refuse_small_sizes(options)

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
    _refuse_small_sizes(options)

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
    refuse_below(1, asked.search, "--search")
    refuse_below(0, asked.show, "--show")
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
        shown = (as_text(e.value, e.standard_error) for e in estimates)
        table.add_row(str(candidate.seed), *shown)
    table_console().print(table)


def _summary(found: Search) -> str:
    return (
        f"of {found.searched:,} languages, {found.with_price:,} have a price within bounds, and "
        f"{len(found.ranked):,} of these have room"
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
