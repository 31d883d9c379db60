"""The language that a command is about: its file, read and within limits, and what it will cost."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.derivations import longest_sentence
from isoloss.languages.grammar import Grammar, check_well_formed
from isoloss.languages.notation import LANGUAGE_FILE, is_json, json_content, parse_grammar

if TYPE_CHECKING:
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


def language_in(path: Path) -> Grammar | Any:
    """The grammar in a language's file, or the content of its JSON, without torch.

    Raises BadInput if there is no such file, and for a mistake in its grammar.
    """
    if not path.exists():
        raise BadInput(
            f"there is no file {path}; name a language's file: a grammar in NLTK's notation, or JSON as "
            "`isoloss language` writes it"
        )
    text = read_text(path, LANGUAGE_FILE)
    return json_content(text, str(path)) if is_json(text) else parse_grammar(text, str(path))


def language_argument(path: Path, maximum_length: int | None, longest: int) -> "Language":
    """The language of a file, whose content determines the kind.

    Raises BadInput for what `parse_language` and `read_causal_language` refuse, and for sentences of more
    than `longest` words, before any work that grows with them.
    """
    from isoloss.languages.language_file import names_a_model, parse_language, refuse_maximum_length
    from isoloss.languages.pcfg import pcfg

    text = read_text(path, LANGUAGE_FILE)
    if not is_json(text):
        grammar = parse_grammar(text, str(path))
        check_well_formed(grammar)
        words = [each for each in (maximum_length, longest_sentence(grammar)) if each is not None]
        _refuse_longer(min(words, default=None), longest, path)
        if not words:
            _refuse_longer_in_the_mean(grammar, longest, path)
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


def _refuse_longer_in_the_mean(grammar: Grammar, longest: int, path: Path) -> None:
    """Raise BadInput for a recursive grammar whose mean length is above `longest`, though finite."""
    from isoloss.languages.termination import expected_length, proper_grammar

    mean = expected_length(proper_grammar(grammar)[0])
    if longest < mean < math.inf:
        words = math.ceil(mean)
        raise BadInput(
            f"{path}: sentences have {words:,} words in the mean, more than {longest:,}; cut them with "
            f"--maximum-length, or take them with --longest {words}, if time and memory do"
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


def report_cost(language: "Language", sentences: int | None = None) -> None:
    """Report on stderr what the masked distributions of a causal language cost; others cost next to nothing.

    Those of one sentence, or of one position in each of so many `sentences`.
    """
    import torch

    from isoloss.inference.causal_model import SuffixCost
    from isoloss.languages.causal_lm import CausalLM

    if not isinstance(language, CausalLM):
        return
    cost = language.distribution_cost(torch.arange(language.length))
    if sentences is not None:
        share = sentences / language.length
        cost = SuffixCost(round(cost.tokens * share), cost.operations * share)
    print(
        f"masked distributions: {cost}, about {language.seconds(cost):,.0f} s here; Ctrl-C stops them",
        file=sys.stderr,
        flush=True,
    )
