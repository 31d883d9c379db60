"""`isoloss flatness`: checks the request, loads, measures, shows the result."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from isoloss.command_line.flatness import FlatnessOptions
from isoloss.command_line.flatness_table import Shown, print_flatness, print_json, sentences_below
from isoloss.command_line.options import (
    measured_text,
    refuse_single_sentence,
    refuse_unwritable,
    repeated_command,
    trace_stopping,
    usable_mask_rate,
    usable_seed,
)
from isoloss.command_line.terminal import progress_display
from isoloss.corpora.token_sentences import Corpus, TextCorpus, read_token_corpus
from isoloss.device import usable_device
from isoloss.errors import BadInput
from isoloss.measurements.measured_models import INTERRUPTED, MeasuredModels, measure, stops_anywhere
from isoloss.measurements.on_sentences import short_name
from isoloss.measurements.sampled_batches import NextToken, OneMask, Predicting, SampledBatches, ShareMasked
from isoloss.measurements.verdicts import FlatterVerdict, flatter_verdicts
from isoloss.models.hub import quiet
from isoloss.models.loading import (
    Prediction,
    load_any_language_model,
    longest_sentence,
    number_of_tokens,
    refuse_named_twice,
)
from isoloss.models.tokenizer import load_tokenizer
from isoloss.progress import Progress

EXIT_INTERRUPTED = 130
MASK_RATE = 0.15
GIBIBYTE = 1 << 30


def measure_flatness(request: FlatnessOptions) -> int:
    """Carry out the request; returns 0 if all is well, 130 if it was interrupted."""
    _check(request)
    texts = measured_text(request.text, request.dataset)
    models, prediction = _load(request)
    batches = SampledBatches(
        _corpus(request, texts, models),
        _predicting(request, prediction, models),
        request.seed,
        pad_token=_pad_token(next(iter(models.values()))),
    )
    with progress_display() as progress, quiet():
        measured = _measured(request, models, batches, progress)
        verdicts = _verdicts(measured, models, batches, progress)
    shown = Shown(measured, models, batches, verdicts)
    if request.json:
        print_json(shown)
    else:
        print_flatness(shown)
    if request.output is not None:
        # Drawing takes seconds to import, and a table need not wait for that.
        from isoloss.report.flatness_page import flatness_page
        from isoloss.report.page import write_lone_page

        page = flatness_page(measured, sentences_below(shown), repeated_command("flatness", request))
        write_lone_page(page, request.output)
    finished = len(measured) == len(set(request.quantity)) and measured[-1].stopped != INTERRUPTED
    return 0 if finished else EXIT_INTERRUPTED


def _measured(
    request: FlatnessOptions,
    models: Mapping[str, PreTrainedModel],
    batches: SampledBatches,
    progress: Progress,
) -> list[MeasuredModels]:
    """One quantity after the other, as far as it got if interrupted."""
    settings = {"estimand": batches.predicting.describe(), "dtype": request.dtype}
    memory = int(request.memory * GIBIBYTE)
    measured: list[MeasuredModels] = []
    for quantity in dict.fromkeys(request.quantity):
        stopping = trace_stopping(request.relative_error, request.sentences, request.seconds)
        try:
            found = measure(quantity, models, batches, stopping, settings, progress, memory_bytes=memory)
        except KeyboardInterrupt:
            if not measured:
                raise
            break
        measured.append(found)
        if found.stopped == INTERRUPTED:
            break
    return measured


def _verdicts(
    measured: Sequence[MeasuredModels],
    models: Mapping[str, PreTrainedModel],
    batches: SampledBatches,
    progress: Progress,
) -> list[FlatterVerdict]:
    """For several models whose traces were measured completely."""
    for each in measured:
        if each.quantity == "fisher_trace" and len(models) > 1 and each.stopped != INTERRUPTED:
            try:
                return flatter_verdicts(models, batches, each, progress)
            except KeyboardInterrupt:
                break  # measurements are shown without it
    return []


def _check(request: FlatnessOptions) -> None:
    """Refuse what can be refused without a model."""
    if not request.models:
        raise BadInput("no model is named; name a model's folder, or its name on a hub")
    refuse_named_twice(request.models)
    sources = (request.text, request.token_ids, request.dataset)
    if sum(source is not None for source in sources) != 1:
        raise BadInput("name what to measure on by one of --text FILE, --token-ids FILE and --dataset NAME")
    usable_seed(request.seed)
    if request.one_mask and request.mask_rate is not None:
        raise BadInput("--one-mask masks one token and --mask-rate a share of them; give one of the two")
    if request.mask_rate is not None:
        usable_mask_rate(request.mask_rate)
    if not 0 < request.memory < float("inf"):
        raise BadInput(f"--memory must be above 0 gibibytes, not {request.memory}; 1 is what is usual")
    if not request.quantity:
        raise BadInput("--quantity names nothing to measure; name one, such as fisher_trace")
    free = [stops_anywhere(name) for name in request.quantity]
    if not any(free) and (request.relative_error or request.seconds):
        raise BadInput(
            f"--relative-error and --seconds are for traces and losses; {short_name(request.quantity[0])} is "
            "measured on a fixed set of sentences: say how many with --sentences"
        )
    if request.output is not None:
        if request.output.suffix != ".html":
            raise BadInput(f"--output names an HTML file, such as flatness.html, not {request.output}")
        refuse_unwritable(request.output)
    trace_stopping(request.relative_error, request.sentences, request.seconds)
    usable_device(request.device)
    if request.parameters is not None:
        try:
            re.compile(request.parameters)
        except re.error as error:
            raise BadInput(f"--parameters {request.parameters} is no regular expression: {error}") from error
    for path in (request.text, request.token_ids):
        if path is not None and path.is_dir():
            raise BadInput(f"{path} is a folder; name the file that holds what to measure on")
        if path is not None and not path.is_file():
            raise BadInput(f"there is no file {path}; name a file that holds what to measure on")


def _load(request: FlatnessOptions) -> tuple[dict[str, PreTrainedModel], Prediction]:
    """The models on their device, frozen except for the measured parameters, and what they all predict."""
    models: dict[str, PreTrainedModel] = {}
    predictions: dict[str, Prediction] = {}
    for name in request.models:
        model, predictions[name] = load_any_language_model(
            name, request.objective, getattr(torch, request.dtype)
        )
        if request.parameters is not None:
            _freeze_all_but(model, request.parameters, name)
        models[name] = model.to(request.device)
    if len(set(predictions.values())) > 1:
        listed = ", ".join(f"{name} is {prediction}" for name, prediction in predictions.items())
        raise BadInput(f"models that predict differently are not compared: {listed}")
    sizes = {name: number_of_tokens(model) for name, model in models.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise BadInput(f"models with different numbers of tokens are not compared: {listed}")
    return models, predictions[request.models[0]]


def _freeze_all_but(model: PreTrainedModel, pattern: str, name: str) -> None:
    # A tensor with two names, as tied embeddings are, counts if either is found.
    named = list(model.named_parameters(remove_duplicate=False))
    kept = {id(parameter) for each, parameter in named if re.search(pattern, each)}
    if not kept:
        raise BadInput(
            f"no parameter of {name} matches --parameters {pattern}; one is called {named[0][0]}, for example"
        )
    for _, parameter in named:
        parameter.requires_grad_(id(parameter) in kept)


def _corpus(
    request: FlatnessOptions, texts: TextCorpus | None, models: Mapping[str, PreTrainedModel]
) -> Corpus:
    known = [longest for model in models.values() if (longest := longest_sentence(model)) is not None]
    longest = min(known, default=None)
    first = next(iter(models))
    if request.token_ids is not None:
        numbers = read_token_corpus(request.token_ids, number_of_tokens(models[first]), longest)
        refuse_single_sentence(numbers, request.token_ids)
        return numbers
    try:
        tokenizer = load_tokenizer(first)
    except BadInput as error:
        raise BadInput(
            f"{error}; or put its tokenizer's files into the folder, or give token numbers with --token-ids"
        ) from error
    for other in list(models)[1:]:
        if load_tokenizer(other).get_vocab() != tokenizer.get_vocab():
            raise BadInput(f"{first} and {other} have different vocabularies; compare models that share one")
    if len(tokenizer) > (known_tokens := number_of_tokens(models[first])):
        raise BadInput(
            f"the tokenizer of {first} has {len(tokenizer)} tokens, but the model only {known_tokens}; name "
            "the model's own folder, with the tokenizer it was trained with"
        )
    assert texts is not None  # exactly one source is given
    return replace(texts, tokenizer=tokenizer, longest=longest)


def _predicting(
    request: FlatnessOptions, prediction: Prediction, models: Mapping[str, PreTrainedModel]
) -> Predicting:
    if prediction == "causal":
        if request.one_mask or request.mask_rate is not None or request.mask_token_id is not None:
            raise BadInput("causal models predict every next token; leave the options of masks out")
        return NextToken()
    first = next(iter(models))
    mask = _mask_token(request, first)
    if not 0 <= mask < number_of_tokens(models[first]):
        raise BadInput(
            f"the mask token {mask} is none of the model's {number_of_tokens(models[first])} tokens"
        )
    if request.one_mask:
        return OneMask(mask)
    return ShareMasked(mask, MASK_RATE if request.mask_rate is None else request.mask_rate)


def _mask_token(request: FlatnessOptions, name: str) -> int:
    if request.mask_token_id is not None:
        return request.mask_token_id
    try:
        mask = load_tokenizer(name).mask_token_id
    except BadInput:
        mask = None
    if mask is None:
        raise BadInput(f"no tokenizer of {name} names a mask token; say its number with --mask-token-id")
    return int(mask)


def _pad_token(model: PreTrainedModel) -> int:
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    return pad if pad is not None and pad >= 0 else 0
