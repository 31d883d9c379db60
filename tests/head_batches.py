"""Batches of texts as token numbers, each with what a model with the head of a task is to say of it."""

from collections.abc import Sequence

from isoloss.corpora.token_sentences import TokenSentence
from isoloss.measurements.prediction import SpecialTokens
from isoloss.measurements.task_heads import Head
from isoloss.objectives.batch import Batch


def head_batch(
    head: Head,
    texts: Sequence[Sequence[int]],
    answers: Sequence[int | Sequence[int]],
    start: int | None = None,
    *,
    pad: int = 0,
) -> Batch:
    """An answer is a class, a number for each class or token, or a target, before which `start` is read."""
    sentences = [
        TokenSentence(list(ids), [], row, answer=[answer] if isinstance(answer, int) else answer)
        for row, (ids, answer) in enumerate(zip(texts, answers, strict=True), start=1)
    ]
    return head.batch(sentences, SpecialTokens(pad, start=start), ())
