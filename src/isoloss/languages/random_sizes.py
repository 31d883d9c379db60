"""Which sizes make a random grammar or hidden Markov model, checked without torch or numpy."""

from isoloss.errors import BadInput


def refuse_impossible_grammar(
    *,
    words: int,
    symbols_per_level: int,
    levels: int,
    rules_per_symbol: int,
    roots: int,
    words_per_preterminal: int,
) -> None:
    """Raise BadInput for sizes of which `random_layered_grammar` makes no grammar.

    >>> refuse_impossible_grammar(
    ...     words=9, symbols_per_level=2, levels=3, rules_per_symbol=2, roots=2, words_per_preterminal=4
    ... )
    Traceback (most recent call last):
    isoloss.errors.BadInput: 2 symbols with 4 distinct words each cannot use all of 9 words; ...
    """
    counts = (words, symbols_per_level, levels, rules_per_symbol, roots, words_per_preterminal)
    if min(counts) < 1:
        raise BadInput(f"a layered grammar needs at least one of everything, not {min(counts)}")
    for upper in (roots, symbols_per_level)[:levels]:
        _refuse_few_pairs(upper, symbols_per_level, rules_per_symbol)
    if words_per_preterminal > words or words_per_preterminal * symbols_per_level < words:
        raise BadInput(
            f"{symbols_per_level} symbols with {words_per_preterminal} distinct words each cannot use all of "
            f"{words} words; change the words or the words a symbol"
        )


def refuse_impossible_hierarchy(
    *,
    symbols_per_level: int,
    words_per_preterminal: int,
    levels: int,
    rules_per_symbol: int,
    roots: int,
    concentration: float,
) -> None:
    """Raise BadInput for sizes of which `random_hierarchy_grammar` makes no grammar."""
    counts = (symbols_per_level, words_per_preterminal, levels, rules_per_symbol, roots)
    if min(counts) < 1:
        raise BadInput(f"a hierarchy needs at least one of everything, not {min(counts)}")
    if not 0 < concentration < float("inf"):
        raise BadInput(
            f"a concentration of {concentration:g} makes no random distributions; give a number above 0"
        )
    uppers = (roots, symbols_per_level)[:levels]
    if (most := max(uppers) * rules_per_symbol) > symbols_per_level**2:
        raise BadInput(
            f"{symbols_per_level} symbols a level make {symbols_per_level**2} pairs, too few for {most} "
            "right sides with one parent each; change the rules a symbol, the roots or the symbols a level"
        )
    for upper in uppers:
        _refuse_few_pairs(1, symbols_per_level, rules_per_symbol * upper)


def refuse_impossible_hmm(
    *,
    words: int,
    states: int,
    blocks: int,
    length: int,
    transition_concentration: float,
    emission_concentration: float,
) -> None:
    """Raise BadInput for sizes of which `random_hmm` makes no hidden Markov model."""
    if min(words, states, blocks, length) < 1:
        raise BadInput(
            f"a random HMM needs at least one of everything, not {(words, states, blocks, length)}"
        )
    if words % blocks or states % blocks:
        raise BadInput(
            f"{states} states and {words} words cannot be cut into {blocks} equal blocks; "
            "give a number of blocks that divides both"
        )
    if not (0 < transition_concentration < float("inf") and 0 < emission_concentration < float("inf")):
        raise BadInput(
            f"concentrations of {transition_concentration:g} and {emission_concentration:g} make no random "
            "distributions; give finite numbers above 0"
        )


def _refuse_few_pairs(upper: int, lower: int, rules: int) -> None:
    if rules > lower**2 or 2 * rules * upper < lower:
        raise BadInput(
            f"{upper} symbols with {rules} rules each cannot have distinct right sides and use all {lower} "
            "symbols of the next level; change the rules a symbol or the symbols a level"
        )
