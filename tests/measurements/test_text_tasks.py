"""The probe on texts, and what it reads of them, masked and causal."""

import pytest
import torch
from texts_of_two_halves import TASK, vectors
from tokenizers import normalizers
from transformers import ByT5Tokenizer, FNetConfig, FNetForMaskedLM, XLNetConfig, XLNetLMHeadModel

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.errors import BadInput
from isoloss.measurements.labelled_inputs import padding_token, text_inputs
from isoloss.measurements.linear_probe import LabelledFeatures, ProbeSettings
from isoloss.measurements.task_texts import (
    features_of_inputs,
    majority_correct,
    majority_record,
    task_features,
)
from isoloss.models.tokenizer import word_tokenizer
from tiny_text_models import text_model, text_tokenizer

PROBE = ProbeSettings(seeds=(0, 1), epochs=30, learning_rate=1e-2, batch_size=32)


class Latent(torch.nn.Module):
    """Vectors of its own in place of one for each token, as Perceiver's."""

    def forward(self, inputs):
        return inputs


def test_a_model_without_a_vector_of_each_token_is_not_probed():
    model = text_model(causal=False)
    inputs = text_inputs(model, text_tokenizer(causal=False), TASK.test, 8)
    model.bert = Latent()
    with pytest.raises(BadInput, match="BertForMaskedLM has no vector of each token to probe"):
        features_of_inputs(model, inputs, pairs=False)


def text_features(model, tokenizer, texts, **options):
    pairs = texts.seconds is not None
    return features_of_inputs(model, text_inputs(model, tokenizer, texts), pairs=pairs, **options)


@pytest.mark.parametrize("causal", [False, True])
def test_the_probe_is_a_linear_probe_of_standardised_features(causal):
    model, tokenizer = text_model(causal), text_tokenizer(causal)
    found = task_features(model, tokenizer, TASK).probed(PROBE)
    train, test = (text_features(model, tokenizer, part) for part in (TASK.train, TASK.test))
    mean, deviation = train.mean(0), train.std(0, correction=0)
    labels = [torch.tensor(part.labels) for part in (TASK.train, TASK.test)]
    expected = LabelledFeatures(
        (train - mean) / deviation, labels[0], (test - mean) / deviation, labels[1], 2
    ).probed(PROBE)
    torch.testing.assert_close(found.correct, expected.correct)
    assert found.estimate.value > 0.7


def test_the_unit_of_a_models_vectors_changes_nothing():
    model, tokenizer = text_model(), text_tokenizer()
    before = task_features(model, tokenizer, TASK).probed(PROBE)
    last = model.bert.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        last.weight *= 64
        last.bias *= 64
    assert torch.equal(task_features(model, tokenizer, TASK).probed(PROBE).correct, before.correct)


def test_the_majority_is_the_training_texts_and_measured_on_the_test_texts():
    train = LabelledTexts(("a", "b", "c"), None, (1, 1, 0))
    test = LabelledTexts(("a", "b", "c", "d"), None, (0, 0, 0, 1))
    task = TextTask("unlike", ("x", "y"), train, train, test)
    assert majority_correct(task).tolist() == [0, 0, 0, 1]
    record = majority_record(task, {"task": "unlike"})
    assert (record.quantity, record.value, record.n) == ("majority_accuracy", 0.25, 4)


TEXTS = LabelledTexts(("a b c", "d", "e f g h a", "zz b"), None, (0, 1, 0, 1))
PAIRS = LabelledTexts(("a b", "c"), ("d", "e f g"), (0, 1))
BREAK = 13


def test_a_masked_models_features_are_means_over_the_texts_own_tokens():
    model = text_model()
    found = text_features(model, text_tokenizer(), TEXTS, memory_bytes=1)
    numbers = [[5, 6, 7], [8], [9, 10, 11, 12, 5], [4, 6]]  # [UNK] is a token of the text
    for row, own in zip(found, numbers, strict=True):
        torch.testing.assert_close(row, vectors(model, [1, *own, 2])[1:-1].mean(0))
    together = text_features(model, text_tokenizer(), TEXTS)
    torch.testing.assert_close(together, found)


def test_a_masked_models_pairs_are_read_together_and_averaged_apart():
    model = text_model()
    found = text_features(model, text_tokenizer(), PAIRS)
    for row, (first, second) in zip(found, [([5, 6], [8]), ([7], [9, 10, 11])], strict=True):
        types = torch.tensor([[0] * (len(first) + 2) + [1] * (len(second) + 1)])
        whole = vectors(model, [1, *first, 2, *second, 2], token_type_ids=types)
        parts = [whole[1 : 1 + len(first)].mean(0), whole[2 + len(first) : -1].mean(0)]
        torch.testing.assert_close(row, torch.cat(parts))


def test_features_do_not_depend_on_padding_or_on_the_texts_beside():
    tokenizer = text_tokenizer(causal=False)
    config = FNetConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=2, intermediate_size=8, pad_token_id=0
    )
    model = FNetForMaskedLM(config)
    alone = text_features(model, tokenizer, TASK.test, memory_bytes=1)
    torch.testing.assert_close(text_features(model, tokenizer, TASK.test), alone)


def test_a_causal_models_features_leave_its_first_token_out_where_there_are_others():
    model = text_model(causal=True)
    found = text_features(model, text_tokenizer(causal=True), TEXTS)
    for row, own in zip(found, [[5, 6, 7], [8], [9, 10, 11, 12, 5], [4, 6]], strict=True):
        kept = slice(1, None) if len(own) > 1 else slice(None)
        torch.testing.assert_close(row, vectors(model, own)[kept].mean(0))


def test_a_line_break_stands_between_a_causal_models_pair():
    model = text_model(causal=True)
    found = text_features(model, text_tokenizer(causal=True), PAIRS)
    whole = vectors(model, [5, 6, BREAK, 8])
    torch.testing.assert_close(found[0], torch.cat([whole[1], whole[2:].mean(0)]))
    whole = vectors(model, [7, BREAK, 9, 10, 11])
    torch.testing.assert_close(found[1], torch.cat([whole[0], whole[1:].mean(0)]))


def test_a_model_that_reads_its_mask_as_numbers_is_probed_without_its_padding():
    config = XLNetConfig(vocab_size=14, d_model=16, n_layer=1, n_head=2, d_inner=16)
    model = XLNetLMHeadModel(config).eval()
    texts = LabelledTexts(("a b c d e", "f g"), None, (0, 1))
    inputs = text_inputs(model, text_tokenizer(causal=True), texts)
    features = features_of_inputs(model, inputs, pairs=False)
    alone = features_of_inputs(model, inputs[1:], pairs=False)
    torch.testing.assert_close(features[1:], alone)


def test_long_examples_are_cut_and_counted_and_of_a_pair_the_longer_text():
    tokenizer = text_tokenizer()
    cut = text_inputs(text_model(), tokenizer, TEXTS, longest=5)
    assert cut.cut == 1
    assert cut.ids[2].tolist() == [1, 9, 10, 11, 2]
    pair = text_inputs(text_model(), tokenizer, LabelledTexts(("a b c d",), ("e",), (0,)), longest=6)
    assert pair.ids[0].tolist() == [1, 5, 6, 2, 9, 2]
    assert pair.parts[0].tolist() == [-1, 0, 0, -1, 1, -1]


def test_rows_are_chosen_with_as_few_columns_as_they_need():
    inputs = text_inputs(text_model(), text_tokenizer(), TEXTS)
    some = inputs[torch.tensor([1, 0])]
    arguments = some.arguments(torch.device("cpu"))
    assert arguments["input_ids"].tolist() == [[1, 8, 2, 0, 0], [1, 5, 6, 7, 2]]
    assert arguments["attention_mask"].int().tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert arguments["token_type_ids"].shape == (2, 5)
    assert inputs[:1].arguments(torch.device("cpu"))["attention_mask"] is None


def test_only_models_with_several_token_types_are_given_them():
    causal = text_inputs(text_model(causal=True), text_tokenizer(causal=True), TEXTS)
    assert causal.types is None
    assert padding_token(text_tokenizer(causal=True)) == 2


def test_a_tokenizer_that_does_not_say_where_its_tokens_are_from_is_refused():
    with pytest.raises(BadInput, match="ByT5Tokenizer does not say which text a token is from"):
        text_inputs(text_model(), ByT5Tokenizer(), TEXTS)


@pytest.mark.parametrize(
    ("texts", "quoted"),
    [
        (LabelledTexts(("a", " \u200b "), None, (0, 0)), r"'\u200b': "),
        (LabelledTexts(("a", ""), ("b", ""), (0, 0)), "'' and '': "),
    ],
)
def test_a_text_without_tokens_is_quoted(texts, quoted):
    tokenizer = text_tokenizer()
    tokenizer.backend_tokenizer.post_processor = None
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("\u200b", "")
    with pytest.raises(BadInput) as refused:
        text_inputs(text_model(), tokenizer, texts)
    assert str(refused.value) == f"{quoted}the model's tokenizer has no tokens for the text; leave it out"


def test_a_text_that_a_tokenizer_cannot_encode_is_found_by_its_beginning():
    tokenizer = word_tokenizer(list("abcd"), 24)
    texts = LabelledTexts(("a b", "a b c d " * 9 + "e"), None, (0, 1))
    with pytest.raises(BadInput, match=f"^'{'a b c d ' * 7}a b  ...': the model's tokenizer cannot encode"):
        text_inputs(text_model(), tokenizer, texts)


def test_weights_that_diverged_are_refused():
    model = text_model()
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[9] = float("nan")
    with pytest.raises(BadInput, match="features that are not finite for 1 of 4 texts; its weights have"):
        text_features(model, text_tokenizer(), TEXTS)
