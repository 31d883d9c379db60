"""`isoloss describe`: a page about a language."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoloss.command_line.checked_options import refuse_unwritable, usable_seed
from isoloss.command_line.language_argument import (
    language_argument,
    refuse_too_many,
    tell_cost_of_one_position_each,
)
from isoloss.command_line.options.language_file import DescribeOptions
from isoloss.command_line.terminal import progress_display
from isoloss.errors import BadInput
from isoloss.languages.causal_lm import CausalLM
from isoloss.measurements.entropy import usual_sentences

if TYPE_CHECKING:
    from isoloss.experiments.language_portrait import LanguagePortrait


def describe(options: DescribeOptions) -> None:
    """Write a page about a language: sentences, distributions as bars, entropy, tasks with room and price."""
    page = options.out or Path(f"{options.language.stem}.html")
    if page.suffix != ".html":
        raise BadInput(f"--out {page} is no page; give a name that ends in .html")
    if options.sentences is not None and options.sentences < 2:
        raise BadInput(f"--sentences {options.sentences} has no error bar; draw at least 2")
    refuse_too_many(options.sentences or 0)
    seed = usable_seed(options.seed)
    refuse_unwritable(page)
    described = language_argument(options.language, options.maximum_length, options.longest)
    _ = described.maximum_length  # rejects a grammar that has no longest sentence
    n = usual_sentences(described) if options.sentences is None else options.sentences
    if isinstance(described, CausalLM):
        tell_cost_of_one_position_each(described, n)
    # Charts take seconds to import, and a mistake need not wait for that.
    from isoloss.experiments.language_portrait import language_portrait
    from isoloss.report.language_page import write_language_page

    with progress_display() as progress:
        portrait = language_portrait(described, options.language.name, n, seed, progress)
        progress("writing the page", 0, 1)
        written = write_language_page(portrait, page.parent, page.stem)
        progress("writing the page", 1, 1)
    print(json.dumps(_as_json(portrait, written), ensure_ascii=False) if options.json else f"page: {written}")


def _as_json(portrait: "LanguagePortrait", page: Path) -> dict[str, Any]:
    word = portrait.word
    following = zip((*portrait.vocabulary, "(end)"), word.following.tolist(), strict=True)
    return {
        "page": str(page),
        "kind": portrait.kind,
        "facts": dict(portrait.facts),
        "sentences": [" ".join(words) for words in portrait.sentences],
        "word": {
            "position": word.position + 1,
            "word": word.words[word.position],
            "masked": dict(zip(portrait.vocabulary, word.masked.tolist(), strict=True)),
            "next": dict(following),
        },
        "records": [asdict(record) for record in portrait.records],
    }
