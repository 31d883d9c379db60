"""Batches of predictions for the heads of tasks, from lists of token numbers."""

from collections.abc import Sequence

from isoloss.corpora.token_sentences import TokenSentence
from isoloss.measurements.prediction import Head, SpecialTokens
from isoloss.measurements.task_heads import TargetText, TextClasses, TextLabels, TokenClasses
from isoloss.objectives.batch import Batch

Lists = Sequence[Sequence[int]]


def batch_of_head(head: Head, texts: Lists, answers: Lists, pad: int, start: int | None = None) -> Batch:
    read = [TokenSentence(ids, [], 1, answer=answer) for ids, answer in zip(texts, answers, strict=True)]
    return head.batch(read, SpecialTokens(pad, start=start), range(len(read)))


def class_batch(texts: Lists, labels: Sequence[int], pad: int) -> Batch:
    return batch_of_head(TextClasses(), texts, [[label] for label in labels], pad)


def labels_batch(texts: Lists, labels: Lists, pad: int) -> Batch:
    return batch_of_head(TextLabels(), texts, labels, pad)


def token_class_batch(texts: Lists, labels: Lists, pad: int) -> Batch:
    return batch_of_head(TokenClasses(), texts, labels, pad)


def target_batch(sources: Lists, targets: Lists, start: int | None, pad: int) -> Batch:
    return batch_of_head(TargetText(), sources, targets, pad, start)
