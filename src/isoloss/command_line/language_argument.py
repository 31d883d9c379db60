"""The language file that a command is given: its options, and reading it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from isoloss.errors import BadInput

if TYPE_CHECKING:
    from isoloss.inference.suffix_scores import SuffixCost
    from isoloss.languages.causal_lm import CausalLM
    from isoloss.languages.language import Language

LanguageFile = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(
        metavar="LANGUAGE",
        help="A language's file: a grammar in NLTK's notation, or JSON; see `isoloss language`.",
    ),
]
MaximumLength = Annotated[
    int | None,
    tyro.conf.arg(metavar="N", help="Cut a grammar at sentences of N words.", help_behavior_hint=""),
]
LONGEST = 1000
Longest = Annotated[
    int,
    tyro.conf.arg(
        metavar="N",
        help="Refuse a language whose sentences may have more than N words: time and memory grow with the "
        "length, in a grammar with its cube.",
    ),
]
MOST_SENTENCES = 10_000_000
"""Most sentences of one call: a larger number is probably a typo, and other seeds can draw more."""


def language_argument(path: Path, maximum_length: int | None, longest: int) -> "Language":
    """The language of a file, whose content determines the kind.

    Raises BadInput for what `parse_language` and `read_causal_language` refuse, and for sentences of more
    than `longest` words, before any work that grows with them.
    """
    from isoloss.files import read_text
    from isoloss.languages.grammar import check_well_formed
    from isoloss.languages.language_file import (
        EXPECTED,
        is_json,
        names_a_model,
        parse_language,
        refuse_maximum_length,
    )
    from isoloss.languages.notation import parse_grammar
    from isoloss.languages.pcfg import pcfg
    from isoloss.languages.termination import longest_sentence

    text = read_text(path, EXPECTED)
    if not is_json(text):
        grammar = parse_grammar(text, str(path))
        check_well_formed(grammar)
        words = [each for each in (maximum_length, longest_sentence(grammar)) if each is not None]
        _refuse_longer(min(words, default=None), longest, path)
        return pcfg(grammar, maximum_length)
    language: Language
    if names_a_model(text):
        refuse_maximum_length(str(path), maximum_length)
        # Models take seconds to import, which the other languages do not need.
        from isoloss.models.causal_language import read_causal_language

        language = read_causal_language(path)
    else:
        language = parse_language(text, str(path), maximum_length)
    _refuse_longer(language.maximum_length, longest, path)
    return language


def _refuse_longer(words: int | None, longest: int, path: Path) -> None:
    if words is not None and words > longest:
        raise BadInput(
            f"{path}: sentences of {words:,} words are longer than {longest:,}; "
            f"--longest {words} takes them, if time and memory do"
        )


def refuse_too_many(sentences: int) -> None:
    """Raise BadInput for more sentences than one call can draw."""
    if sentences > MOST_SENTENCES:
        raise BadInput(
            f"--sentences {sentences:,} is more than the {MOST_SENTENCES:,} that one call draws; "
            "draw fewer, or the rest with other seeds"
        )


def refuse_no_error_bar(sentences: int | None) -> None:
    """Raise BadInput for a single sentence, and as `refuse_too_many` does."""
    if sentences is not None and sentences < 2:
        raise BadInput(f"--sentences {sentences} has no error bar; draw at least 2")
    refuse_too_many(sentences or 0)


def report_cost_of_all_positions(language: "CausalLM") -> None:
    """Report on stderr the cost of the masked distributions of one sentence."""
    _report(language, _cost_of_sentence(language))


def report_cost_of_one_position_each(language: "Language", sentences: int) -> None:
    """For a causal language, report the mean cost of one masked distribution in each sentence."""
    from isoloss.inference.suffix_scores import SuffixCost
    from isoloss.languages.causal_lm import CausalLM

    if isinstance(language, CausalLM):
        whole, share = _cost_of_sentence(language), sentences / language.length
        _report(language, SuffixCost(round(whole.tokens * share), whole.operations * share))


def _cost_of_sentence(language: "CausalLM") -> "SuffixCost":
    import torch

    return language.distribution_cost(torch.arange(language.length))


def _report(language: "CausalLM", cost: "SuffixCost") -> None:
    print(
        f"masked distributions: {cost}, about {language.seconds(cost):,.0f} s here; Ctrl-C stops them",
        file=sys.stderr,
        flush=True,
    )
