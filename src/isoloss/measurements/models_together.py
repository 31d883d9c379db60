"""Models that are measured together: loaded, and what one text has for all of them to predict."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import dtype
from transformers import PreTrainedModel

from isoloss.corpora.token_sentences import (
    TABLES,
    Corpus,
    TextCorpus,
    read_text_corpus,
    read_token_corpus,
)
from isoloss.errors import BadInput
from isoloss.measurements.sampled_batches import OneMask, Predicting, SampledBatches, predicting_of
from isoloss.models.folder_configuration import Head, head_of
from isoloss.models.loading import (
    Prediction,
    load_any_language_model,
    longest_sentence,
    number_of_tokens,
    refuse_bare_encoder,
    what_is_predicted,
)
from isoloss.models.tokenizer import load_tokenizer, refuse_further_tokens

if TYPE_CHECKING:
    from isoloss.corpora.answered_texts import AnsweredCorpus, TaggedCorpus

MASK_RATE = 0.15


def load_together(
    names: Sequence[str], prediction: Prediction | None, precision: dtype, device: str, pattern: str | None
) -> tuple[dict[str, PreTrainedModel], Prediction | Head]:
    """The models on their device, and what they all predict; see `load_any_language_model`.

    Without a `prediction`, a model with the head of a task keeps it (`load_with_head`). Parameters whose name
    the regular expression `pattern` does not match are frozen. Raises BadInput for models that predict
    differently or have different numbers of tokens.
    """
    models: dict[str, PreTrainedModel] = {}
    predictions: dict[str, Prediction | Head] = {}
    for name in names:
        head = head_of(name) if prediction is None else None
        model: PreTrainedModel
        if head is None:
            model, predictions[name] = load_any_language_model(name, prediction, precision)
        else:
            from isoloss.models.task_heads import load_with_head  # language models need not wait for it

            model, predictions[name] = load_with_head(name, head, precision), head
        if pattern is not None:
            _freeze_all_but(model, pattern, name)
        models[name] = model.to(device)
    if len(set(predictions.values())) > 1:
        listed = ", ".join(f"{name} is {predicted}" for name, predicted in predictions.items())
        raise BadInput(f"models that predict differently are not compared: {listed}")
    sizes = {name: number_of_tokens(model) for name, model in models.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise BadInput(f"models with different numbers of tokens are not compared: {listed}")
    return models, predictions[names[0]]


def _freeze_all_but(model: PreTrainedModel, pattern: str, name: str) -> None:
    # A tensor with two names, as tied embeddings are, counts if either is found.
    named = list(model.named_parameters(remove_duplicate=False))
    trainable = {id(parameter) for each, parameter in named if re.search(pattern, each)}
    if not trainable:
        raise BadInput(
            f"no parameter of {name} matches --parameters {pattern}; one is called {named[0][0]}, for example"
        )
    for _, parameter in named:
        parameter.requires_grad_(id(parameter) in trainable)


def source_for(
    model: str, prediction: Prediction | None, text: Path | None, token_ids: Path | None, dataset: str | None
) -> TextCorpus | Path | None:
    """The texts, or the file of token numbers; for a model with the head of a task, its table, unread.

    Raises BadInput for texts that cannot be read, or are a single one: but for a table, before the model's
    configuration is read.
    """
    is_table = text is not None and text.suffix.lower() in TABLES
    texts = None if is_table else token_ids or _texts(text, dataset)
    if prediction is None and head_of(model) is not None:
        return text
    # What the folder lacks is told before what its table does.
    if is_table and what_is_predicted(model, prediction) == "masked":
        refuse_bare_encoder(model)
    return _texts(text, None) if is_table else texts


def _texts(text: Path | None, dataset: str | None) -> TextCorpus:
    """The sentences of the text file or the data set, still without a tokenizer."""
    if text is not None:
        corpus = read_text_corpus(text)
    else:
        from isoloss.corpora.data_sets import read_data_set  # most calls need not wait for this

        if dataset is None:
            raise BadInput("there is nothing to measure on; name a text, token numbers or a data set")
        corpus = read_data_set(dataset)
    _refuse_single_sentence(corpus, text or dataset)
    return corpus


def _refuse_single_sentence(corpus: Corpus, source: Path | str | None) -> None:
    """Raise BadInput for a corpus of one sentence, which has no error bar."""
    if len(corpus) < 2:
        raise BadInput(
            f"{source} has a single sentence, but an error bar takes two; give a sentence or a document a "
            "line"
        )


def sampled_batches(
    models: Mapping[str, PreTrainedModel],
    prediction: Prediction | Head,
    source: TextCorpus | Path | None,
    seed: int,
    *,
    one_mask: bool = False,
    mask_rate: float | None = None,
    mask_token: int | None = None,
) -> SampledBatches:
    """What one text has for all models to predict; of a model of a task, what its table says.

    Raises BadInput as `_tokenizer_of` does for texts, as `read_answers` and `predicting` do, and for token
    numbers that cannot be read, or are those of a single sentence.
    """
    first = next(iter(models.values()))
    known = [longest for model in models.values() if (longest := longest_sentence(model)) is not None]
    longest = min(known, default=None)
    corpus: Corpus
    if prediction != "masked" and prediction != "causal":
        assert not isinstance(source, TextCorpus)
        answers = read_answers(prediction, {name: model.config for name, model in models.items()}, source)
        corpus = answers.read_by(_tokenizer_of(models), longest)
    elif isinstance(source, TextCorpus):
        corpus = source.read_by(_tokenizer_of(models), longest)
    else:
        assert source is not None
        corpus = read_token_corpus(source, number_of_tokens(first), longest)
        _refuse_single_sentence(corpus, source)
    predicted = predicting(models, prediction, one_mask, mask_rate, mask_token)
    return SampledBatches(corpus, predicted, seed, pad_token_of(first))


def _tokenizer_of(models: Mapping[str, PreTrainedModel]) -> Any:
    """Raises BadInput if there is no tokenizer for texts, or not one that all models share."""
    first, *others = models
    try:
        tokenizer = load_tokenizer(first)
    except BadInput as error:
        raise BadInput(
            f"{error}; or put its tokenizer's files into the folder, or give token numbers with --token-ids"
        ) from error
    for other in others:
        if load_tokenizer(other).get_vocab() != tokenizer.get_vocab():
            raise BadInput(f"{first} and {other} have different vocabularies; compare models that share one")
    refuse_further_tokens(first, tokenizer, number_of_tokens(models[first]))
    return tokenizer


def read_answers(
    head: Head, configurations: Mapping[str, Any], path: Path | None
) -> "AnsweredCorpus | TaggedCorpus":
    """The texts of a table with what models of these configurations are to say of them; no tokenizer yet.

    Raises BadInput if no table is given, or one without that, and for models with other classes.
    """
    from isoloss.corpora import answered_texts
    from isoloss.models.task_heads import class_numbers

    first, *others = configurations
    if path is None:
        raise BadInput(f"{first} has the head of a task ({head}); name a table by --text")
    if head == "target text":
        corpus: AnsweredCorpus | TaggedCorpus = answered_texts.texts_with_targets(path)
    else:
        numbers = class_numbers(configurations[first])
        for other in others:
            if class_numbers(configurations[other]) != numbers:
                raise BadInput(f"{first} and {other} have different classes; compare models that share them")
        if head == "token classes":
            corpus = answered_texts.words_with_classes(path, numbers)
        elif head == "text labels":
            corpus = answered_texts.texts_with_labels(path, numbers)
        else:
            corpus = answered_texts.texts_with_classes(path, numbers)
    _refuse_single_sentence(corpus, path)
    return corpus


def predicting(
    models: Mapping[str, PreTrainedModel],
    prediction: Prediction | Head,
    one_mask: bool,
    mask_rate: float | None,
    mask_token: int | None,
) -> Predicting:
    """What is predicted in a sentence; None stands for `MASK_RATE`, and for the tokenizer's mask token.

    Raises BadInput for masks of causal models, and for a mask token that is unknown.
    """
    if prediction != "masked":
        if one_mask or mask_rate is not None or mask_token is not None:
            what = "causal models predict every next token"
            if prediction != "causal":
                what = f"the head of a task ({prediction}) predicts no masked tokens"
            raise BadInput(f"{what}; leave the options of masks out")
        if prediction != "target text":
            return predicting_of(prediction, None, MASK_RATE, None)
        from isoloss.models.task_heads import first_of_decoder

        return predicting_of(prediction, None, MASK_RATE, first_of_decoder(next(iter(models.values()))))
    first, model = next(iter(models.items()))
    mask = _mask_token_of(first) if mask_token is None else mask_token
    if not 0 <= mask < number_of_tokens(model):
        raise BadInput(f"the mask token {mask} is none of the model's {number_of_tokens(model)} tokens")
    share = MASK_RATE if mask_rate is None else mask_rate
    return OneMask(mask) if one_mask else predicting_of(prediction, mask, share, None)


def _mask_token_of(name: str) -> int:
    try:
        mask = load_tokenizer(name).mask_token_id
    except BadInput:
        mask = None
    if mask is None:
        raise BadInput(f"no tokenizer of {name} names a mask token; say its number with --mask-token-id")
    return int(mask)


def pad_token_of(model: PreTrainedModel) -> int:
    """The token that fills short sentences up; any would do, since none of it is read.

    Configurations may name one that tokenizers were given later, and that the model does not have.
    """
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    return pad if pad is not None and 0 <= pad < number_of_tokens(model) else 0
