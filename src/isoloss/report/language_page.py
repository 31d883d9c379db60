"""The page of a language: sentences, two distributions of one word as bars, entropy, tasks, and facts."""

from collections.abc import Callable, Sequence
from pathlib import Path

import altair as alt
import polars as pl
from jaxtyping import Float
from markupsafe import Markup, escape
from tokenizers import decoders
from torch import Tensor

from isoloss.device import machine, versions
from isoloss.experiments.language_description import LanguageDescription, TaskDescription
from isoloss.report.marks import CHART_HEIGHT, specification
from isoloss.report.page import DrawnPanel, Page, Section, write_lone_page
from isoloss.report.table import tree_picture
from isoloss.results.record import Record

BARS, THICKEST = 12, 24
TRUE, OTHER, REST = "the word that stands there", "another word", "all others together"
_COLORS = {TRUE: "#b2441c", OTHER: "#3b6c8f", REST: "#bdbdbd"}
_BLANK_OF_BYTES = "Ġ"
"""How byte-level tokenizers (GPT-2's, OPT's, the teacher's) write the space before a word."""


def write_language_page(description: LanguageDescription, folder: Path, name: str) -> Path:
    """Write `name`.html, a single file that offers the bars as CSV, PNG and SVG; return its path."""
    path = folder / f"{name}.html"
    write_lone_page(language_page(description, name), path)
    return path


def language_page(description: LanguageDescription, name: str) -> Page:
    """The whole content of the description."""
    least = description.entropy[0]
    return Page(
        name=name,
        title=f"{description.kind[0].upper()}{description.kind[1:]}: {description.source}",
        text=(
            "A language whose exact distribution is known, for every masked word and for every next word. No "
            "model can predict masked words with a loss below the entropy of their distribution, "
            f"{least} nats.",
        ),
        opening=_sentences(description),
        panels=_panels(description),
        sections=tuple(_sections(description)),
    )


def _sentences(description: LanguageDescription) -> Markup:
    """The sentences as a list, with the masked word of the first one marked."""
    word, read = description.word, reader(description.vocabulary)
    place = word.position
    parts = (word.words[:place], word.words[place : place + 1], word.words[place + 1 :])
    lines = [Markup("{} <mark>{}</mark> {}").format(*map(read, parts))]
    lines += [escape(read(words)) for words in description.sentences[1:]]
    items = Markup("").join(Markup("<li>{}</li>").format(line) for line in lines)
    return Markup('<ul class="sentences">{}</ul>').format(items)


def _panels(description: LanguageDescription) -> tuple[DrawnPanel, ...]:
    word = description.word
    true = description.vocabulary.index(word.words[word.position])
    words = labels(description.vocabulary)
    masked = distribution_table(word.masked, words, true)
    following = distribution_table(word.following, [*words, "(end)"], true)
    place = f"Word {word.position + 1} of the first sentence, marked above. The exact distribution"
    panels = (
        ("masked", "masked word, given all others", "all other words", masked),
        ("next", "same word as the next one", "the words before it", following),
    )
    return tuple(
        DrawnPanel(name, f"The distribution of the {what}", f"{place} Pr(word | {given}).", (bars,), table)
        for name, what, given, table in panels
        for bars in (specification(distribution_bars(table)),)
    )


def _sections(description: LanguageDescription) -> list[Section]:
    sampled = "masked_positions" in description.entropy[0].settings
    text = "In each sentence one position, chosen at random, was masked." if sampled else ""
    rows = tuple(
        (
            record.quantity.replace("_", " "),
            f"{record} {record.unit} (n = {record.n:,})",
        )
        for record in description.entropy
    )
    sections = [Section("Entropy", text, rows=rows)]
    if description.tasks:
        sections.append(
            Section(
                "Tasks",
                text=(
                    "Questions about a sentence, most of them about its latent variables. Ceiling: how often "
                    "the best possible reader of the sentence names the true value; the exact posterior "
                    "attains it. Blind: how often a constant answer is right. Labels are the posterior's "
                    "most probable values; the share of the most common one is what a classifier learns "
                    "without reading. Room: what a classifier cannot learn from the words alone, 1 - the "
                    "accuracy of a linear probe on one-hot words. Price: what a model's loss gives up by "
                    "predicting each word from a narrow context, which leaves out what the label depends on."
                ),
                rows=tuple((task.name, _task(task)) for task in description.tasks),
            )
        )
    if description.derivation:
        text = "The derivation of the first sentence:"
        sections.append(Section("Structure", text=text, markup=tree_picture(description.derivation)))
    sections.append(Section("Facts", rows=description.facts))
    speed = ("masked distributions", _speed(description.speed))
    where = (speed, ("page written on", machine()), *versions().items())
    sections.append(Section("How long it takes", rows=where))
    return sections


def reader(vocabulary: Sequence[str]) -> Callable[[Sequence[str]], str]:
    """How words of a vocabulary are read as text: byte-level pieces joined, others separated by spaces.

    >>> reader(["Ġr", "an", "."])(["Ġr", "an", "."]), reader(["the", "dog"])(["the", "dog"])
    (' ran.', 'the dog')
    """
    if not any(word.startswith(_BLANK_OF_BYTES) for word in vocabulary):
        return " ".join
    decoder = decoders.ByteLevel()
    return lambda words: str(decoder.decode(list(words)))


def labels(words: Sequence[str]) -> list[str]:
    """The labels of words at bars: a byte-level piece decoded, with its space visible, if that is unique.

    >>> labels(["Ġthe", "the", "Ã©"])
    ['␣the', 'the', 'é']
    """
    read = reader(words)
    decoded = [read([word]) for word in words]
    shown = [
        word if "\ufffd" in text else text.replace(" ", "␣")
        for word, text in zip(words, decoded, strict=True)
    ]
    return shown if len(set(shown)) == len(shown) else list(words)


def _task(task: TaskDescription) -> str:
    shares = {"ceiling": task.ceiling, "blind": task.blind, "most common label": task.majority}
    shown = (f"{name} {share}" for name, share in shares.items())
    asked = f"asked of {task.asked_of}; " if task.asked_of else ""
    classes = f"{task.classes} classes (n = {task.ceiling.n:,})"
    return f"{asked}{', '.join(shown)}; {classes}; {task.room_and_price}"


def _speed(record: Record) -> str:
    if record.value >= 1:
        return f"{record.value:,.0f} sentences per second, all positions (timed on {record.n:,} sentences)"
    return f"about {1 / record.value:,.1f} s per sentence, all positions (from one timed pass)"


def distribution_table(distribution: Float[Tensor, " c"], words: Sequence[str], true: int) -> pl.DataFrame:
    """Rows of word, probability and kind: the BARS most likely, word `true` whatever its rank, and the rest.

    >>> import torch
    >>> distribution_table(torch.tensor([0.1, 0.7, 0.2]), ["a", "b", "c"], true=0)["word"].to_list()
    ['b', 'c', 'a']
    """
    ranked = distribution.sort(descending=True, stable=True).indices.tolist()
    shown = ranked[:BARS] if true in ranked[:BARS] else [*ranked[:BARS], true]
    rows = [(words[word], float(distribution[word]), TRUE if word == true else OTHER) for word in shown]
    if others := len(words) - len(shown):
        # A difference of sums could be negative.
        rest = sum(float(distribution[word]) for word in set(ranked) - set(shown))
        rows.append((f"all {others:,} others", rest, REST))
    return pl.DataFrame(rows, schema=["word", "probability", "kind"], orient="row")


def distribution_bars(table: pl.DataFrame) -> alt.LayerChart:
    """A bar per row of a `distribution_table`, in its order, with the probability at its end."""
    kinds = [kind for kind in _COLORS if kind in table["kind"].to_list()]
    highest = float(table["probability"].max())  # type: ignore[arg-type]
    base = alt.Chart(table).encode(
        x=alt.X(
            "probability:Q",
            title="probability",
            scale=alt.Scale(domain=[0, 1.12 * highest]),
            axis=alt.Axis(grid=False, tickCount=5),
        ),
        y=alt.Y("word:N", title=None, sort=None, axis=alt.Axis(labelFontSize=13, labelLimit=200)),
    )
    bars = base.mark_bar(size=min(THICKEST, 0.85 * CHART_HEIGHT / len(table))).encode(
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=kinds, range=[_COLORS[kind] for kind in kinds]),
            legend=alt.Legend(title=None, orient="top", labelLimit=300),
        ),
        tooltip=[alt.Tooltip("word:N"), alt.Tooltip("probability:Q", format=".4g"), alt.Tooltip("kind:N")],
    )
    numbers = base.mark_text(align="left", dx=4, fontSize=12).encode(
        text=alt.Text("probability:Q", format=".3~g")
    )
    return alt.LayerChart(
        layer=[bars, numbers], height=CHART_HEIGHT, description=f"Probabilities as bars: {len(table)}."
    )
