"""Models by what they predict, loaded or built without weights, and what one text has for them to predict."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel

from isoloss.corpora.token_sentences import (
    TABLES,
    Corpus,
    TextCorpus,
    read_text_corpus,
    read_token_corpus,
)
from isoloss.errors import BadInput
from isoloss.measurements.prediction import MaskedTokens, NextToken, Prediction
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.measurements.task_heads import Head, class_numbers, configuration_of_head, head_of, tell_padding
from isoloss.models.adapters import base_of_adapter
from isoloss.models.folder_configuration import read_config
from isoloss.models.loading import (
    LanguageObjective,
    load_model,
    refuse_bare_encoder,
    what_is_predicted,
    with_experts_apart,
)
from isoloss.models.tokenizer import load_tokenizer, longest_sentence, number_of_tokens, refuse_further_tokens

if TYPE_CHECKING:  # tables are read for the heads of tasks alone
    from isoloss.corpora.answered_texts import AnsweredCorpus, TaggedCorpus

    Texts = TextCorpus | AnsweredCorpus | TaggedCorpus
    """Still without a tokenizer: each model has its own."""


def prediction_of(name: str, objective: LanguageObjective | None = None) -> Prediction:
    """What the model of that name predicts: as asked for, or what its configuration says.

    Without an `objective`, a model with the head of a task keeps it. Reads no weights. Raises BadInput as
    `head_of` and `what_is_predicted` do.
    """
    head = head_of(name) if objective is None else None
    if head is not None:
        return head
    return MaskedTokens() if what_is_predicted(name, objective) == "masked" else NextToken()


def configuration_of(name: str, prediction: Prediction) -> Any:
    """The configuration of the model of that name, of an adapter its base model's.

    Raises BadInput if there is none, and for a model that predicts a number.
    """
    if isinstance(prediction, Head):
        return configuration_of_head(name, prediction)
    return read_config(base_of_adapter(name) or name)


def load_predicting(name: str, prediction: Prediction, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The model of that name, in evaluation mode on the CPU; see `load_model`.

    Raises BadInput if it is no such model, or predicts a number.
    """
    kind = "model" if isinstance(prediction, Head) else f"{prediction.name} language model"
    model = load_model(name, prediction.model_class, configuration_of(name, prediction), kind, dtype)
    if isinstance(prediction, Head):
        tell_padding(model.config)
    return model


def build_predicting(config: Any, prediction: Prediction, dtype: torch.dtype) -> PreTrainedModel:
    """A model of that configuration with new weights, in evaluation mode."""
    model: PreTrainedModel = prediction.model_class.from_config(config, dtype=dtype).eval()
    if isinstance(prediction, Head):
        tell_padding(model.config)
    with_experts_apart(model)
    return model


def prediction_of_all(names: Sequence[str], objective: LanguageObjective | None) -> Prediction:
    """What the models of these names all predict; see `prediction_of`. Raises BadInput if they differ."""
    predictions = {name: prediction_of(name, objective) for name in names}
    if len(set(predictions.values())) > 1:
        listed = ", ".join(f"{name} is {prediction.name}" for name, prediction in predictions.items())
        raise BadInput(f"models that predict differently are not compared: {listed}")
    return predictions[names[0]]


def masking(
    prediction: Prediction, one_mask: bool, mask_rate: float | None, mask_token: int | None
) -> Prediction:
    """The prediction, of masked tokens if so many are masked with that token; None stands for the usual.

    Raises BadInput for masks of models that predict no masked tokens.
    """
    if isinstance(prediction, MaskedTokens):
        share = prediction.share if mask_rate is None else mask_rate
        return replace(prediction, share=None if one_mask else share, token=mask_token)
    if one_mask or mask_rate is not None or mask_token is not None:
        what = "causal models predict every next token"
        if isinstance(prediction, Head):
            what = f"the head of a task ({prediction.name}) predicts no masked tokens"
        raise BadInput(f"{what}; leave the options of masks out")
    return prediction


def load_together(
    names: Sequence[str],
    prediction: Prediction,
    precision: torch.dtype,
    place: Callable[[nn.Module], object],
    pattern: str | None = None,
) -> dict[str, PreTrainedModel]:
    """The models, by name, brought to where they are measured by `place`, such as `stream_weights`.

    Parameters whose name the regular expression `pattern` does not match are frozen. Raises BadInput for
    models that are no such models, or have different numbers of tokens.
    """
    models: dict[str, PreTrainedModel] = {}
    for name in names:
        model = load_predicting(name, prediction, precision)
        if pattern is not None:
            _freeze_all_but(model, pattern, name)
        place(model)
        models[name] = model
    sizes = {name: number_of_tokens(model) for name, model in models.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise BadInput(f"models with different numbers of tokens are not compared: {listed}")
    return models


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


TEXTS_COMPARED = 100
"""How many texts, at most, the tokenizers of several models must read alike."""


def read_source(
    names: Sequence[str],
    prediction: Prediction,
    text: Path | None,
    token_ids: Path | None,
    dataset: str | None,
) -> "Texts | Path":
    """What models of these names are measured on: a file of token numbers, still unread, or `read_texts`."""
    if token_ids is not None and not isinstance(prediction, Head):
        return token_ids
    return read_texts(names, prediction, text, dataset)


def read_texts(
    names: Sequence[str], prediction: Prediction, text: Path | None, dataset: str | None = None
) -> "Texts":
    """The texts that models of these names are measured on; a table, if they have the head of a task.

    Raises BadInput for texts that cannot be read, or are a single one, for a table without what the head is
    to say of them, or none, and for models with other classes.
    """
    if isinstance(prediction, Head):
        if text is None:
            raise BadInput(f"{names[0]} has the head of a task ({prediction.name}); name a table by --text")
        refuse_other_classes(names, prediction)
        table = prediction.answers(text, configuration_of_head(names[0], prediction))
        _refuse_single_sentence(table, text)
        return table
    # What the folder lacks is told before what its table does.
    if text is not None and text.suffix.lower() in TABLES and isinstance(prediction, MaskedTokens):
        refuse_bare_encoder(names[0])
    if text is not None:
        corpus = read_text_corpus(text)
    else:
        from isoloss.corpora.data_sets import read_data_set  # most calls need not wait for this

        if dataset is None:
            raise BadInput("there is nothing to measure on; name a text, token numbers or a data set")
        corpus = read_data_set(dataset)
    _refuse_single_sentence(corpus, text or dataset)
    return corpus


def refuse_other_classes(names: Sequence[str], head: Head) -> None:
    """Raise BadInput for a model with other classes than the first one's, or with these in another order."""
    if not head.fewest_classes:
        return
    first, *others = names
    ours = class_numbers(configuration_of_head(first, head))
    for other in others:
        if class_numbers(configuration_of_head(other, head)) != ours:
            raise BadInput(f"{first} and {other} have different classes; compare models that share them")


def _refuse_single_sentence(corpus: Corpus, source: Path | str | None) -> None:
    """Raise BadInput for a corpus of one sentence, which has no error bar."""
    if len(corpus) < 2:
        raise BadInput(
            f"{source} has a single sentence, but an error bar takes two; give a sentence or a document a "
            "line"
        )


def sampled_batches(
    models: Mapping[str, PreTrainedModel], prediction: Prediction, source: "Texts | Path", seed: int
) -> SampledBatches:
    """What one text has for all models to predict.

    Raises BadInput as `_tokenizer_of` does for texts, for token numbers that cannot be read, or are those of
    a single sentence, and for special tokens that are not known.
    """
    name, first = next(iter(models.items()))
    known = [longest for model in models.values() if (longest := longest_sentence(model)) is not None]
    longest = min(known, default=None)
    corpus: Corpus
    if isinstance(source, Path):
        corpus = read_token_corpus(source, number_of_tokens(first), longest)
        _refuse_single_sentence(corpus, source)
    else:
        corpus = source.read_by(_tokenizer_of(models), longest)
        _refuse_other_reading(source, models, prediction, longest)
    return SampledBatches(corpus, prediction, seed, prediction.special_tokens(first, name))


def _refuse_other_reading(
    source: "Texts", models: Mapping[str, PreTrainedModel], prediction: Prediction, longest: int | None
) -> None:
    """Raise BadInput for a model whose tokenizer reads the text otherwise than the first one's.

    Of one vocabulary, one may lower-case, begin with another token, or mask with another one.
    """
    first, *others = models
    numbers = range(min(len(source), TEXTS_COMPARED))

    def reading(name: str) -> object:
        special = prediction.special_tokens(models[name], name)
        sentences = source.read_by(load_tokenizer(name), longest).sentences(numbers)
        return special.mask, special.start, sentences

    ours = reading(first) if others else None
    for other in others:
        if reading(other) != ours:
            raise BadInput(
                f"the tokenizers of {first} and {other} have one vocabulary, but read the text differently; "
                "measure one at a time, or all by `isoloss compare`"
            )


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
