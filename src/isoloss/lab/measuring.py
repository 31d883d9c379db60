"""Measuring in the laboratory: the loss, the trace and a probe, each number with its standard error."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsIndex

from isoloss.corpora.token_sentences import TextCorpus, read_text_corpus
from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.errors import BadInput
from isoloss.lab.measured import Measured, Row
from isoloss.lab.models import Model, Models, is_causal, models_of, reader_of
from isoloss.lab.words import OneLine, in_one_sentence, usable_seed, whole_number
from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits
from isoloss.measurements.accuracy import AccuracyQuantity, LinearProbe
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.linear_probe import converged_probe
from isoloss.measurements.on_sentences.pretraining_loss import PretrainingLossQuantity
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.prediction import MaskedTokens, NextToken, SpecialTokens
from isoloss.measurements.quantity import Quantity, Subject
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.measurements.task_sentences import TaskSentences, features_of_splits
from isoloss.models.lookup_table import OneHotWords
from isoloss.models.tokenizer import longest_sentence, pad_token_of
from isoloss.objectives.batch import Objective
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, sample_mean

Text = str | Path | Sequence[str]
"""A file with a sentence a line, or sentences."""


def loss(
    models: Models,
    on: Language | Text | None = None,
    *,
    sentences: SupportsIndex = 500,
    seed: SupportsIndex,
    progress: Progress | None = None,
) -> Measured:
    """The pre-training loss, in nats, of models on the same sentences, each with equal weight.

    On a language, by default the one they were trained on, it is exact: the entropy plus KL(distribution ||
    model), over every word of each sentence, without sampled labels. On a text, in which 15 % of the tokens
    are masked, or every next one predicted, it is that of the tokens that are there.

    Raises BadInput for models that cannot read it, or of which nobody knows the language.
    """
    every, progress = models_of(models), progress or OneLine()
    sentences, seed = whole_number("the number of sentences", sentences), usable_seed(seed)
    every, source = _readers(every, on)
    with in_one_sentence("the loss"):
        if not isinstance(source, Language):
            of_text = PretrainingLossQuantity(sentences, seed)
            return Measured("loss", "nats", seed, _on_sentences("loss", of_text, every, source, progress))
        exact = ExactLossQuantity(sentences, seed, every[0].objective)
        drawn = exact.draw(source, every[0].objective, progress)
        of_kl = _rows("loss", exact, drawn, every, exact.objective, progress)
    losses = [drawn.entropy + row.values for row in of_kl]
    rows = tuple(
        replace(row, estimate=sample_mean(each), values=each) for row, each in zip(of_kl, losses, strict=True)
    )
    entropy = ("the entropy", sample_mean(drawn.entropy))
    return Measured("loss", "nats", seed, rows, Measured("KL", "nats", seed, of_kl), (entropy,))


def trace(
    models: Models,
    on: Language | Text | None = None,
    *,
    sentences: SupportsIndex = 500,
    seed: SupportsIndex,
    progress: Progress | None = None,
) -> Measured:
    """The trace of the Fisher information, in nats per squared parameter: the smaller, the flatter.

    At a converged loss it is that of the Hessian. The models share sentences, masks and signs, of which their
    `differences` make use. Raises BadInput as `loss` does.
    """
    every, progress = models_of(models), progress or OneLine()
    sentences, seed = whole_number("the number of sentences", sentences), usable_seed(seed)
    every, source = _readers(every, on)
    with in_one_sentence("the trace"):
        rows = _on_sentences("trace", TraceQuantity(sentences, seed), every, source, progress)
    return Measured("trace", TRACE_UNIT, seed, rows)


def probe(
    models: Models,
    task: str,
    on: Language | None = None,
    *,
    examples: SupportsIndex = 1000,
    seed: SupportsIndex,
    progress: Progress | None = None,
) -> Measured:
    """The accuracy of a linear probe on a task of the language, such as "prefix-8".

    Five heads each read the concatenated vectors of a sentence's words (paper A.4), trained on `examples`
    sentences for 3,000 steps or more and tested on as many others; `beside` is what the most common label
    gives, and a probe on the words alone. Raises BadInput for a task that the language does not have, and as
    `loss` does.
    """
    every, progress = models_of(models), progress or OneLine()
    examples, seed = whole_number("the number of examples", examples), usable_seed(seed)
    every, language = _readers(every, on)
    if not isinstance(language, Language):
        raise BadInput("a probe's labels are those of a language's task; give a language")
    if not isinstance(task, str):
        raise BadInput(f"a task has a name, such as 'prefix-8', not {task!r:.60}")
    with in_one_sentence("the probe"):
        labelled = TaskSentences(task, examples, 0, examples, seed)
        splits = labelled.splits(language)
        accuracy = AccuracyQuantity(labelled, LinearProbe(converged_probe(examples)))
        rows = _rows("probe", accuracy, splits, every, every[0].objective, progress)
    return Measured("accuracy", f"of {task}", seed, rows, beside=_without_a_model(language, splits))


def _without_a_model(language: Language, splits: TaskSplits) -> tuple[tuple[str, Estimate], ...]:
    words = OneHotWords(len(language.vocabulary), language.maximum_length)
    alone = features_of_splits(words, splits).probed(converged_probe(len(splits.train)))
    most = (splits.test.labels == splits.train.labels.mode().values).double()
    return (("the most common label", sample_mean(most)), ("the words alone", alone.estimate))


def _on_sentences(
    task: str,
    quantity: PretrainingLossQuantity | TraceQuantity,
    every: Sequence[Model],
    source: Language | TextCorpus,
    progress: Progress,
) -> tuple[Row, ...]:
    """Each model's number on the same sentences of a language or of a text."""
    if quantity.sentences < 2:
        raise BadInput(f"{quantity.sentences} sentences have no error bar; measure on at least 2")
    where = source if isinstance(source, Language) else _of_text(every[0], source, quantity.seed)
    objective = every[0].objective if isinstance(where, Language) else where.objective
    drawn = quantity.draw(where, objective, silent)
    return _rows(task, quantity, drawn, every, objective, progress)


def _rows(
    task: str,
    quantity: Quantity,
    drawn: Any,
    every: Sequence[Model],
    objective: Objective,
    progress: Progress,
) -> tuple[Row, ...]:
    """Each model's number, the mean of the first of the quantity's values."""
    rows = []
    for number, each in enumerate(every, start=1):
        subject = Subject(each.label, objective, {}, None)
        values, *_ = quantity.measure(each.module, drawn, subject, silent).values.values()
        rows.append(Row(each.name, each.step, sample_mean(values), values, each.digest, each.run_digest))
        progress(task, number, len(every), each.label)
    return tuple(rows)


def _of_text(found: Model, text: TextCorpus, seed: int) -> SampledBatches:
    pad, mask = pad_token_of(found.module), found.tokenizer.mask_token_id
    if is_causal(found.module):
        return SampledBatches(text, NextToken(), seed, SpecialTokens(pad))
    if mask is None:
        raise BadInput(f"the tokenizer of {found.label} has no mask token; give a tokenizer that has")
    return SampledBatches(text, MaskedTokens(), seed, SpecialTokens(pad, int(mask)))


def _readers(every: list[Model], on: Language | Text | None) -> tuple[list[Model], Language | TextCorpus]:
    """The models as readers of what to measure on, which all can read and predict alike, and that."""
    if len({is_causal(each.module) for each in every}) > 1:
        raise BadInput("some models predict masked words and some the next one; measure these apart")
    if on is None:
        known = {each.language.digest: each.language for each in every if each.language is not None}
        if len(known) != 1:
            raise BadInput(
                f"the models were trained on {len(known) or 'no known'} languages; say with on=... what to "
                "measure on"
            )
        (on,) = known.values()
    if isinstance(on, Language):
        return [reader_of(each, on) for each in every], on
    return every, _text(every, on)


def _text(every: Sequence[Model], on: Text) -> TextCorpus:
    tokenizers = [each.tokenizer for each in every]
    if None in tokenizers:
        missing = every[tokenizers.index(None)].label
        raise BadInput(f"{missing} has no tokenizer to read a text with; give one: model(..., tokenizer=...)")
    if any(each.get_vocab() != tokenizers[0].get_vocab() for each in tokenizers):
        raise BadInput("the models have different vocabularies; measure models that share one")
    longest = min((n for each in every if (n := longest_sentence(each.module)) is not None), default=None)
    if isinstance(on, str | Path):
        return replace(read_text_corpus(Path(on)), tokenizer=tokenizers[0], longest=longest)
    lines = list(on) if isinstance(on, Iterable) else []
    if not all(isinstance(line, str) for line in lines) or len(lines) < 2:
        raise BadInput(
            "models are measured on a language, or on a text: a file, or a list of at least two sentences, "
            f"each a string, not {on!r:.60}"
        )
    return TextCorpus(lines, range(1, len(lines) + 1), tokenizers[0], longest)
