"""`isoloss describe`: a page about a language."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoloss.command_line.language_argument import (
    LONGEST,
    LanguageFile,
    Longest,
    MaximumLength,
    language_argument,
    language_in,
    refuse_no_error_bar,
    report_cost,
)
from isoloss.command_line.options import File, Number, refuse_no_page, usable_seed
from isoloss.command_line.terminal import heavy_imports, in_lines, progress_display, starting

if TYPE_CHECKING:
    from isoloss.experiments.language_description import LanguageDescription


@dataclass(frozen=True)
class DescribeOptions:
    """Write a page about a language: sentences, charts of probabilities, entropy, tasks with room and price.

    Example: isoloss describe my.pcfg --output my.html
    """

    language: LanguageFile
    output: File = None
    """The page, ending in .html; by default named after the language file, in the current folder. It is a
    single file, which offers its charts as CSV, PNG and SVG too."""
    sentences: Number = None
    """Sentences per average; by default 1000, or 100 for a causal language. Room is estimated from three
    times as many."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same numbers, except for times."""
    json: bool = False
    """Print all numbers as JSON."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


def describe(options: DescribeOptions) -> None:
    """Write a page about a language: sentences, distributions as bars, entropy, tasks with room and price."""
    page = options.output or Path(f"{options.language.stem}.html")
    refuse_no_page(page, "my.html")
    language_in(options.language)
    refuse_no_error_bar(options.sentences)
    seed = usable_seed(options.seed)
    with starting("describe"):
        from isoloss.measurements.entropy import usual_sentences

    described = language_argument(options.language, options.maximum_length, options.longest)
    _ = described.maximum_length  # rejects a grammar that has no longest sentence
    n = usual_sentences(described) if options.sentences is None else options.sentences
    report_cost(described, n)
    with heavy_imports():  # charts take seconds, and a mistake need not wait for that
        from isoloss.experiments.language_description import describe_language
        from isoloss.report.language_page import write_language_page

    with progress_display() as progress:
        description = describe_language(described, options.language.name, n, seed, progress)
        progress("writing the page", 0, 1)
        written = write_language_page(description, page.parent, page.stem)
        progress("writing the page", 1, 1)
    if options.json:
        print(json.dumps(_as_json(description, written), ensure_ascii=False))
    else:
        print("\n".join([*(in_lines(line, "    ") for line in in_words(description)), f"page: {written}"]))


def in_words(description: "LanguageDescription") -> list[str]:
    """What the language is, its entropy, and the accuracies and the room of each task, a line each."""
    facts = ", ".join(f"{name} {value}" for name, value in description.facts if name != "digest")
    entropy = {record.quantity: record for record in description.entropy}
    masked, following = entropy["masked_entropy_sentence_averaged"], entropy["next_word_entropy"]
    tasks = [
        f"  task {task.name}: right about the latent variable at best {task.ceiling.value:.3f}, by a "
        f"constant answer {task.blind.value:.3f}; about the label, its most probable value, by a constant "
        f"answer {task.majority.value:.3f}, by a probe on the words alone {1 - task.room.value:.3f}: "
        f"{task.room_and_price}"
        for task in description.tasks
    ]
    return [
        f"{description.source}: {description.kind}; {facts}",
        f"  entropy of a masked word: {masked} nats; of the next word: {following} nats",
        *(tasks or ["  tasks: none"]),
    ]


def _as_json(description: "LanguageDescription", page: Path) -> dict[str, Any]:
    word = description.word
    *following, end = word.following.tolist()
    return {
        "page": str(page),
        "kind": description.kind,
        "facts": dict(description.facts),
        "sentences": [" ".join(words) for words in description.sentences],
        "word": {
            "position": word.position + 1,
            "word": word.words[word.position],
            "masked": dict(zip(description.vocabulary, word.masked.tolist(), strict=True)),
            "next": dict(zip(description.vocabulary, following, strict=True)),
            "end": end,
        },
        "records": [asdict(record) for record in description.records],
    }
