"""QNLI's form without a hub: does a sentence contain the answer to a question?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from isoloss.corpora.big_bench import BIG_BENCH, QUESTIONS, big_bench_file, is_at_hand
from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.corpora.task_splits import Shares, split_by_hash
from isoloss.progress import Progress

CLASSES = ("holds the answer", "does not")
SHARES = Shares(validation=0.1, test=0.25)

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])[\"'”’)\]]* +(?=[\"'“‘(\[]*[A-Z0-9])")


@dataclass(frozen=True)
class AnsweringSentences:
    """A `TaskSource`: two pairs per question of SQuAD's development set, one of each class.

    The question is paired with the sentence of its paragraph that contains the answer, and with the other
    sentence of the paragraph that shares the most words with the question, as QNLI keeps pairs of high
    overlap. All pairs of an article are in one part.
    """

    @property
    def name(self) -> str:
        """See `TaskSource`."""
        return "QNLI form"

    @property
    def description(self) -> str:
        """See `TaskSource`."""
        return (
            "A question and a sentence of the paragraph that it was asked about: the one that holds the "
            "answer, or of the others that which shares most words with the question. Questions and "
            "paragraphs of SQuAD 1.1's development part (CC BY-SA 4.0; package "
            f"{BIG_BENCH.package}, Apache-2.0). No article is in two parts."
        )

    def is_at_hand(self, cache: Path) -> bool:
        """See `TaskSource`."""
        return is_at_hand(cache)

    def task(self, cache: Path, progress: Progress) -> TextTask:
        """See `TaskSource`."""
        return answering_task(self.name, big_bench_file(QUESTIONS, cache, progress))


def answering_task(name: str, squad: dict[str, Any]) -> TextTask:
    """The task of a SQuAD file's articles.

    Questions whose answer spans two sentences, and those about a paragraph of one sentence, are left out.
    """
    titles, questions, sentences, labels = [], [], [], []
    for article in squad["data"]:
        for question, sentence, label in _pairs(article):
            titles.append(article["title"])
            questions.append(question)
            sentences.append(sentence)
            labels.append(label)
    examples = LabelledTexts(tuple(questions), tuple(sentences), tuple(labels))
    return split_by_hash(name, CLASSES, examples, SHARES, titles)


def _pairs(article: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """For each question, the pair of class 0 and that of class 1."""
    for paragraph in article["paragraphs"]:
        context: str = paragraph["context"]
        spans = sentence_spans(context)
        sentences = [context[start:stop].strip() for start, stop in spans]
        for asked in paragraph["qas"]:
            answer, question = asked["answers"][0], asked["question"].strip()
            begin = answer["answer_start"]
            end = begin + len(answer["text"])
            holding = [place for place, (start, stop) in enumerate(spans) if start <= begin and end <= stop]
            others = [place for place in range(len(spans)) if place not in holding]
            if holding and others:
                words = _words(question)
                nearest = max(others, key=lambda place: len(words & _words(sentences[place])))
                yield question, sentences[holding[0]], 0
                yield question, sentences[nearest], 1


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where sentences begin and end: cut after . ! ? and a closing mark, before a capital or a figure.

    So abbreviations before a capital are cut too, as "U.S." is.

    >>> text = 'It rained. 5.2 mm fell (so he said.) "Why?" No.'
    >>> [text[start:stop] for start, stop in sentence_spans(text)]
    ['It rained. ', '5.2 mm fell (so he said.) ', '"Why?" ', 'No.']
    """
    cuts = [0, *(match.end() for match in _BETWEEN_SENTENCES.finditer(text)), len(text)]
    return list(pairwise(cuts))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))
