"""Models with the head of a task: gradients beside dense ones, and losses beside the models' own."""

import itertools
from dataclasses import replace

import pytest
import torch
from dense_norms import built, checked_norms, dense_traces
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    FSMTConfig,
    FSMTForConditionalGeneration,
    GPT2Config,
    GPT2ForSequenceClassification,
    LEDConfig,
    LEDForConditionalGeneration,
    LongformerConfig,
    LongformerForTokenClassification,
    MBartConfig,
    MBartForConditionalGeneration,
    MixtralConfig,
    MixtralForSequenceClassification,
    PegasusXConfig,
    PegasusXForConditionalGeneration,
    ProphetNetConfig,
    ProphetNetForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    XLNetConfig,
    XLNetForTokenClassification,
)

from isoloss.curvature.fisher_diagonal import fisher_diagonal
from isoloss.curvature.fisher_trace import RunningFisherTrace, fisher_trace
from isoloss.curvature.per_sentence.directions import fisher_directions
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.curvature.per_sentence.traces import (
    bytes_kept_for_backward,
    sentence_fisher_traces,
    sentences_at_once,
)
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import load_predicting
from isoloss.measurements.task_heads import TextClasses, class_numbers, first_of_decoder
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation import refuse_reading_ahead
from isoloss.objectives.pretrained import kept_apart
from isoloss.objectives.task_heads import (
    SequenceClass,
    SequenceLabels,
    TargetToken,
    TokenClass,
    class_batch,
    labels_batch,
    target_batch,
    token_class_batch,
)
from thorough_cases import others_thorough

CLASSES, TOKENS = 3, 11
TEXTS = [[3, 4, 5, 6], [7, 8], [9, 3, 4], [5, 5, 6, 7]]
SMALL = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
LABELLED = {"vocab_size": TOKENS, "num_labels": CLASSES}
BERT = BertConfig(**LABELLED, **SMALL)
GPT2 = GPT2Config(**LABELLED, n_embd=8, n_layer=2, n_head=2, n_positions=9, pad_token_id=0)
T5 = T5Config(
    vocab_size=TOKENS, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2, decoder_start_token_id=0
)
SIDES = ("encoder", "decoder")
HALVES = {
    **{"d_model": 8, "max_position_embeddings": 16},
    **{f"{side}_{name}": n for side in SIDES for name, n in (("layers", 1), ("attention_heads", 2))},
    **{f"{side}_ffn_dim": 12 for side in SIDES},
}
"""Sizes of an encoder and a decoder of one layer each, as BART and its relatives name them."""
BART = BartConfig(vocab_size=TOKENS, **HALVES)
MBART = MBartConfig(vocab_size=TOKENS, **HALVES, pad_token_id=0, eos_token_id=1)
FSMT = FSMTConfig(langs=["de", "en"], src_vocab_size=TOKENS, tgt_vocab_size=TOKENS, **HALVES)
PROPHETNET = ProphetNetConfig(
    **{f"num_{side}_{name}": n for side in SIDES for name, n in (("layers", 1), ("attention_heads", 2))},
    **{"vocab_size": TOKENS, "hidden_size": 8, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12},
    max_position_embeddings=16,
)
TARGETS = [[4, 5], [6, 7, 8, 9, 1], [3, 1], [8, 8, 1]]


def two_berts(*, looks_back):
    decoder = BertConfig(vocab_size=TOKENS, is_decoder=looks_back, add_cross_attention=looks_back, **SMALL)
    return EncoderDecoderConfig(encoder=BERT.to_dict(), decoder=decoder.to_dict(), decoder_start_token_id=2)


def is_the_models_own_loss(model, objective, batch, labels):
    loss = torch.nn.functional.cross_entropy(objective.logits(model, batch), batch.targets)
    mask, types = batch.attention_mask.long(), batch.token_types
    own = model(input_ids=batch.input_ids, attention_mask=mask, labels=labels, **types_of(types))
    torch.testing.assert_close(loss, own.loss)


def types_of(types):
    return {} if types is None else {"token_type_ids": types}


@pytest.mark.parametrize(
    ("kind", "config"), [(BertForSequenceClassification, BERT), (GPT2ForSequenceClassification, GPT2)]
)
def test_the_class_of_a_text(kind, config):
    model, batch = built(kind, config), class_batch(TEXTS, [0, 2, 1, 2], pad=0)
    checked_norms(model, SequenceClass(), batch, tokens=CLASSES)
    is_the_models_own_loss(model, SequenceClass(), batch, batch.targets)


def test_the_trace_is_of_labels_drawn_from_the_model_itself():
    """The mean over all 2^3 draws of signs is the sum over the classes, weighted by the model."""
    model = built(BertForSequenceClassification, BERT)
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=CLASSES)), dtype=torch.float64)
    for text, label in zip(TEXTS, (0, 2, 1, 2), strict=True):
        batch = class_batch([text] * len(signs), [label] * len(signs), pad=0)
        found = norms_along(model, SequenceClass(), batch, lambda logits: fisher_directions(logits, signs))
        exact = dense_traces(model, SequenceClass(), class_batch([text], [label], pad=0))
        torch.testing.assert_close(sum(found.groups.values()).mean(), exact[0], rtol=1e-9, atol=0)


@pytest.mark.parametrize("typed", others_thorough([True, False]))
def test_several_classes_of_a_text_at_once_each_of_which_is_or_is_not(typed):
    model = built(BertForSequenceClassification, BERT)
    model.config.problem_type = "multi_label_classification"
    labels = [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]
    batch = labels_batch(TEXTS, labels, pad=0)
    if typed:
        batch = replace(batch, token_types=(batch.input_ids > 5).long())
    checked_norms(model, SequenceLabels(), batch, tokens=2)
    is_the_models_own_loss(model, SequenceLabels(), batch, torch.tensor(labels, dtype=torch.float64))
    assert kept_apart(model, SequenceLabels(), batch) == SequenceLabels()


@pytest.mark.parametrize("padding", range(3, 7))
def test_a_decoder_that_reads_the_targets_last_token_first_is_known_whatever_fills_a_text_up(padding):
    mbart = MBartConfig(vocab_size=TOKENS, **HALVES, pad_token_id=padding, eos_token_id=1)
    assert first_of_decoder(built(MBartForConditionalGeneration, mbart)) is None


def test_a_class_is_known_by_its_number_unless_another_is_called_so():
    named = BertConfig(label2id={"bad": 0, "good": 1}, id2label={0: "bad", 1: "good"})
    assert class_numbers(named) == {"0": 0, "1": 1, "bad": 0, "good": 1}
    stars = BertConfig(label2id={"1": 0, "2": 1, "3": 2}, id2label={0: "1", 1: "2", 2: "3"})
    assert class_numbers(stars) == {"1": 0, "2": 1, "3": 2}
    assert class_numbers(BertConfig(num_labels=2))["1"] == 1


@pytest.mark.parametrize("head", others_thorough(["labels", "target"]))
def test_the_diagonal_of_the_fisher_information_is_of_each_prediction_alone(head):
    if head == "labels":
        model, objective = built(BertForSequenceClassification, BERT), SequenceLabels()
        batch = labels_batch(TEXTS, [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], pad=0)
    else:
        model, objective = built(T5ForConditionalGeneration, T5), TargetToken()
        batch = target_batch(TEXTS, [[4, 5], [6, 7, 8], [3, 1], [8, 8, 1]], 0, pad=0)
    found = fisher_diagonal(model, objective, batch)
    torch.testing.assert_close(found.values.sum(), dense_traces(model, objective, batch).mean())


def test_the_classes_of_tokens():
    model = built(BertForTokenClassification, BERT)
    labels = [[-100, 0, 2, 1], [1, -100], [0, 0, 2], [2, -100, -100, 1]]
    batch = token_class_batch(TEXTS, labels, pad=0)
    checked_norms(model, TokenClass(), batch, tokens=CLASSES)
    padded = torch.tensor([[*each, *[-100] * (4 - len(each))] for each in labels])
    is_the_models_own_loss(model, TokenClass(), batch, padded)


@pytest.mark.parametrize("texts", others_thorough([3, 2, 5]))
def test_every_token_of_equally_long_texts_has_a_class(texts):
    model = built(BertForTokenClassification, BERT)
    batch = token_class_batch([[3, 5, 9 - each] for each in range(texts)], [[0, 2, 1]] * texts, pad=0)
    found = checked_norms(model, TokenClass(), batch, tokens=CLASSES)
    assert "per-sentence gradients" not in found.ways.values()
    assert sentence_fisher_traces(model, TokenClass(), batch, seed=0).compared


@pytest.mark.parametrize(
    ("kind", "config"),
    others_thorough(
        [
            (T5ForConditionalGeneration, T5),
            (MBartForConditionalGeneration, MBART),
            (BartForConditionalGeneration, BART),
            (BartForConditionalGeneration, BartConfig(vocab_size=TOKENS, **HALVES, decoder_start_token_id=5)),
        ],
        quick=2,
    ),
)
def test_the_tokens_of_a_target(kind, config):
    model = built(kind, config)
    batch = target_batch(TEXTS, TARGETS, first_of_decoder(model), pad=model.config.pad_token_id)
    found = checked_norms(model, TargetToken(), batch, tokens=TOKENS)
    assert set(found.ways.values()) != {"per-sentence gradients"}
    for number, (text, target) in enumerate(zip(TEXTS, TARGETS, strict=True)):
        own = model(input_ids=torch.tensor([text]), labels=torch.tensor([target])).loss
        logits = TargetToken().logits(model, batch)[batch.rows == number]
        torch.testing.assert_close(
            torch.nn.functional.cross_entropy(logits, batch.targets[batch.rows == number]), own
        )


@pytest.mark.parametrize(
    ("kind", "config"),
    others_thorough(
        [
            (FSMTForConditionalGeneration, FSMT),
            (ProphetNetForConditionalGeneration, PROPHETNET),
            (EncoderDecoderModel, two_berts(looks_back=True)),
        ],
        quick=2,
    ),
)
def test_a_target_has_the_trace_that_it_has_alone_even_if_padding_changes_what_a_decoder_gives(kind, config):
    assert_traces_of_each_alone(
        built(kind, config).float(), TargetToken(), target_batch(TEXTS, TARGETS, 2, 0)
    )


def assert_traces_of_each_alone(model, objective, batch):
    together = RunningFisherTrace(model, objective, seed=0)
    together.add(batch)
    parts = [batch.part(each, each + 1).narrowed() for each in range(len(batch))]
    alone = fisher_trace(model, parts, objective)
    torch.testing.assert_close(together.result("").values, alone.values, rtol=1e-4, atol=0)
    return together


def test_a_decoder_that_reads_ahead_is_refused():
    batch = target_batch(TEXTS, TARGETS, 2, pad=0)
    refuse_reading_ahead(built(T5ForConditionalGeneration, T5), TargetToken(), batch)
    model = built(EncoderDecoderModel, two_berts(looks_back=False))
    with pytest.raises(BadInput, match="EncoderDecoderModel sees the token that it is to predict"):
        refuse_reading_ahead(model, TargetToken(), batch)
    refuse_reading_ahead(model, TargetToken(), target_batch(TEXTS, [[3]] * len(TEXTS), 2, pad=0))


def test_experts_of_a_classifier_are_normed_by_their_factors(tmp_path):
    config = MixtralConfig(**LABELLED, pad_token_id=0, num_key_value_heads=1, num_local_experts=3, **SMALL)
    built(MixtralForSequenceClassification, config).save_pretrained(tmp_path)
    model = load_predicting(str(tmp_path), TextClasses(), torch.float64)
    found = checked_norms(model, SequenceClass(), class_batch(TEXTS, [0, 2, 1, 2], pad=0), tokens=CLASSES)
    assert "per-sentence gradients" not in found.ways.values()


XLNET = XLNetConfig(**LABELLED, d_model=8, n_layer=1, n_head=2, d_inner=12)
LONGFORMER = LongformerConfig(
    **LABELLED, attention_window=4, max_position_embeddings=16, pad_token_id=0, **SMALL
)
TWO_LAYERS = {**HALVES, "encoder_layers": 2, "vocab_size": TOKENS}
LED = LEDConfig(attention_window=4, max_encoder_position_embeddings=16, **TWO_LAYERS)
PEGASUS_X = PegasusXConfig(block_size=4, num_global_tokens=3, stagger_local_blocks=True, **TWO_LAYERS)


@pytest.mark.parametrize(
    ("kind", "config"),
    others_thorough([(PegasusXForConditionalGeneration, PEGASUS_X), (LEDForConditionalGeneration, LED)]),
)
def test_encoders_that_fill_sentences_up_to_whole_blocks_are_measured_in_batch(kind, config):
    batch = target_batch(TEXTS, TARGETS, 2, pad=config.pad_token_id)
    together = assert_traces_of_each_alone(built(kind, config).float(), TargetToken(), batch)
    assert "per-sentence gradients" not in together.result("").ways.values()


@pytest.mark.parametrize(
    ("kind", "config"),
    others_thorough([(XLNetForTokenClassification, XLNET), (LongformerForTokenClassification, LONGFORMER)]),
)
def test_models_that_put_positions_first_or_pad_further_are_measured_in_batch(kind, config):
    texts = [*TEXTS, [3, 9, 8, 7, 6]]
    batch = token_class_batch(texts, [[each % CLASSES for each in text] for text in texts], pad=0)
    together = assert_traces_of_each_alone(built(kind, config).float(), TokenClass(), batch)
    assert together.apart.way is None


def test_a_pass_is_sized_by_the_sentence_with_the_most_to_predict_where_that_takes_more():
    model = built(T5ForConditionalGeneration, T5)
    read = [[3] * 9, *([[4] * 7] * 5)]
    batches = [target_batch(read, targets, 2, pad=0) for targets in ([[3], *([[5] * 9] * 5)], [[5] * 9] * 6)]
    takes = bytes_kept_for_backward(model, TargetToken(), batches[1].part(1, 2).narrowed())
    found = [sentences_at_once(model, TargetToken(), each, int(3.9 * takes)) for each in batches]
    assert found == [3, 3]


def test_parts_of_a_batch_keep_what_the_decoder_reads():
    batch = target_batch(TEXTS, [[4], [6, 7, 8], [3], [8]], 2, pad=0)
    part = batch.part(1, 2).narrowed()
    assert (part.decoder_ids.tolist(), part.input_ids.tolist()) == ([[2, 6, 7]], [[7, 8]])
    both = batch.part(0, 2).narrowed()
    assert (both.decoder_ids[0].tolist(), both.input_ids[1].tolist()) == ([2, 0, 0, 0], [7, 8, 0, 0])
    assert isinstance(part, Batch)
