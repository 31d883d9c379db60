"""`isoloss language grammar-search`, `hierarchy-search`, `hmm-search`: languages ranked by a task's room."""

from dataclasses import asdict, dataclass, fields
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.table import Table

from isoloss.command_line.options import Name, refuse_below, usable_seed
from isoloss.command_line.terminal import progress_display, starting, table_console

if TYPE_CHECKING:
    from isoloss.languages.hmm import HMM
    from isoloss.languages.pcfg import PCFG
    from isoloss.measurements.language_search import Candidate, Search
    from isoloss.results.estimate import Estimate
    from isoloss.results.record import Record


HEADINGS = ("room", "chance", "price (nats)", "largest probability", "gap to second", "entropy (nats)")


@dataclass(frozen=True)
class GrammarSizes:
    """Of a random layered grammar."""

    words: int
    """Words of the language."""
    levels: int
    """Binary levels above the words; sentences have 2 to this power words."""
    symbols_per_level: int
    """Symbols of each level."""
    roots: int
    """Symbols that the start symbol rewrites to."""
    rules_per_symbol: int
    """Right sides of each symbol."""
    words_per_preterminal: int
    """Words of each symbol of the last level."""

    def language(self, seed: int) -> "PCFG":
        """The grammar drawn with this seed."""
        from isoloss.languages.pcfg import pcfg
        from isoloss.languages.random_grammar import random_layered_grammar

        return pcfg(random_layered_grammar(**asdict(self), seed=seed))


@dataclass(frozen=True)
class HierarchySizes:
    """Of a random hierarchy model: a layered grammar whose sentences have one tree each."""

    symbols_per_level: int
    """Symbols of each level."""
    words_per_preterminal: int
    """Words of each symbol of the last level, which no other has."""
    levels: int
    """Binary levels above the words; sentences have 2 to this power words."""
    rules_per_symbol: int
    """Right sides of each symbol, which no other has."""
    roots: int
    """Symbols that the start symbol rewrites to."""
    concentration: float
    """Dirichlet parameter of all probabilities; a large number makes rules equally likely."""

    def language(self, seed: int) -> "PCFG":
        """The grammar drawn with this seed."""
        from isoloss.languages.pcfg import pcfg
        from isoloss.languages.random_grammar import random_hierarchy_grammar

        return pcfg(random_hierarchy_grammar(**asdict(self), seed=seed))


@dataclass(frozen=True)
class HMMSizes:
    """Of a random hidden Markov model."""

    words: int
    """Words of the language."""
    states: int
    """Hidden states."""
    blocks: int
    """Equal blocks of states and words that never mix; 1 is dense."""
    length: int
    """Words of every sentence."""
    transition_concentration: float
    """Dirichlet parameter of the transitions; less than 1 makes few likely."""
    emission_concentration: float
    """Dirichlet parameter of the words of a state."""

    def language(self, seed: int) -> "HMM":
        """The model drawn with this seed."""
        from isoloss.languages.random_hmm import random_hmm

        return random_hmm(**asdict(self), seed=seed)


OF_A_HIERARCHY = HierarchySizes(3, 2, 3, 3, 3, 2.0)
"""Six words, and every pair of the three symbols of a level has a parent."""


def rules_of(sizes: GrammarSizes | HierarchySizes) -> int:
    """How many rules such a grammar has."""
    upper = sizes.roots + sizes.symbols_per_level * (sizes.levels - 1)
    return upper * sizes.rules_per_symbol + sizes.symbols_per_level * sizes.words_per_preterminal


def refuse_small_sizes(sizes: GrammarSizes | HierarchySizes | HMMSizes) -> None:
    """Raise BadInput for a number of words, states, ... below 1."""
    for field in fields(sizes):
        if field.type is int:
            refuse_below(1, getattr(sizes, field.name), f"--{field.name.replace('_', '-')}")


@dataclass(frozen=True)
class SearchedFor:
    """How many languages a search evaluates, which of them it ranks, and how it prints them."""

    search: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """How many languages to evaluate, one per seed."""
    first_seed: int = 0
    """The first language's seed; the others follow consecutively."""
    cheapest: float = 0.0005
    """The lowest price allowed, in nats; half of 0.001."""
    dearest: float = 0.008
    """The highest price allowed, in nats; twice 0.004."""
    least_room: float = 0.25
    """The least room allowed."""
    most_chance: float = 0.5
    """The highest share allowed for the most common label."""
    least_decided: float = 0.0
    """The lowest mean of the label's posterior probability allowed; 1 if sentences determine labels."""
    show: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """How many of the best to print; JSON has them all."""
    json: bool = False
    """Print the ranking as JSON."""


@dataclass(frozen=True)
class GrammarSearchOptions:
    """Rank random layered grammars by a task's room, among those whose price is within bounds.

    Room is the error of a linear probe on the words alone. Price is how much a model's loss increases if it
    ignores the level of the tree that determines the label. No model is trained: 1,000 grammars take minutes.

    Example: isoloss language grammar-search --search 200 --json
    """

    task: Name = None
    """The task to evaluate; by default the root symbol of the whole sentence."""
    sizes: Annotated[GrammarSizes, tyro.conf.arg(name="")] = GrammarSizes(6, 3, 3, 3, 5, 2)
    asked: Annotated[SearchedFor, tyro.conf.arg(name="")] = SearchedFor()


@dataclass(frozen=True)
class HierarchySearchOptions:
    """Rank random hierarchy models, whose labels are decided, by a task's room and price.

    They are layered grammars in which each pair of symbols and each word has one parent at most (Cagnetta et
    al. 2024), with random probabilities. See grammar-search for room and price.

    Example: isoloss language hierarchy-search --search 200 --dearest 0.05
    """

    task: Name = None
    """The task to evaluate; by default the root symbol of the whole sentence."""
    sizes: Annotated[HierarchySizes, tyro.conf.arg(name="")] = OF_A_HIERARCHY
    asked: Annotated[SearchedFor, tyro.conf.arg(name="")] = SearchedFor()


@dataclass(frozen=True)
class HMMSearchOptions:
    """Rank random hidden Markov models by a task's room, among those whose price is within bounds.

    Room is the error of a linear probe on the words alone. Price is how much a model's loss increases if it
    predicts every word from its two neighbours alone. No model is trained.

    Example: isoloss language hmm-search --search 100 --task state-3
    """

    task: Name = None
    """The task to evaluate; by default the hidden state just after half of the words."""
    sizes: Annotated[HMMSizes, tyro.conf.arg(name="")] = HMMSizes(12, 24, 1, 8, 0.15, 0.5)
    asked: Annotated[SearchedFor, tyro.conf.arg(name="")] = SearchedFor()


def search(options: GrammarSearchOptions | HierarchySearchOptions | HMMSearchOptions) -> None:
    """Rank random languages, one per seed."""
    sizes, asked = options.sizes, options.asked
    refuse_small_sizes(sizes)
    usual = f"state-{sizes.length // 2 + 1}" if isinstance(sizes, HMMSizes) else f"prefix-{2**sizes.levels}"
    with starting("language"):
        from isoloss.measurements.language_search import SearchRule, search_languages
        from isoloss.results.record import as_text

    refuse_below(1, asked.search, "--search")
    refuse_below(0, asked.show, "--show")
    first = usable_seed(asked.first_seed)
    rule = SearchRule(asked.cheapest, asked.dearest, asked.least_room, asked.most_chance, asked.least_decided)
    with progress_display() as progress:
        seeds = range(first, first + asked.search)
        found = search_languages(sizes.language, options.task or usual, seeds, rule, progress=progress)
    if asked.json:
        print(dumps(_as_json(found)))
        return
    table = Table(title=f"{found.task}, most room first", title_justify="left", caption=_summary(found))
    table.add_column("seed", justify="right")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for candidate in found.ranked[: asked.show]:
        shown = (as_text(e.value, e.standard_error) for e in _estimates(candidate).values())
        table.add_row(str(candidate.seed), *shown)
    table_console().print(table)


def _summary(found: "Search") -> str:
    return (
        f"of {found.searched:,} languages, {found.with_price:,} have a price within bounds, "
        f"{found.decided:,} of these are decided, and {len(found.ranked):,} of these have room"
    )


def _as_json(found: "Search") -> dict[str, Any]:
    return {
        "task": found.task,
        "searched": found.searched,
        "with_task": found.with_task,
        "with_price": found.with_price,
        "decided": found.decided,
        "ranked": [_candidate_as_json(candidate) for candidate in found.ranked],
    }


def _candidate_as_json(candidate: "Candidate") -> dict[str, Any]:
    numbers: dict[str, Any] = {"seed": candidate.seed}
    for name, estimate in _estimates(candidate).items():
        numbers |= {name: estimate.value, f"{name}_error": estimate.standard_error}
    return numbers


def _estimates(candidate: "Candidate") -> "dict[str, Estimate | Record]":
    return {
        "room": candidate.room.room,
        "chance": candidate.room.chance,
        "price": candidate.price,
        "largest_probability": candidate.decision.largest,
        "gap_to_second": candidate.decision.gap,
        "entropy": candidate.entropy,
    }
