import pytest
import torch

from isoloss.corpora.labelled_texts import LabelledTexts
from isoloss.errors import BadInput
from isoloss.measurements.labelled_inputs import padding_token, text_inputs
from isoloss.measurements.task_texts import text_features
from tiny_text_models import text_model, text_tokenizer

TEXTS = LabelledTexts(("a b c", "d", "e f g h a", "zz b"), None, (0, 1, 0, 1))
PAIRS = LabelledTexts(("a b", "c"), ("d", "e f g"), (0, 1))
BREAK = 13


def vectors(model, ids, **arguments):
    with torch.no_grad():
        return model.base_model(input_ids=torch.tensor([ids]), **arguments).last_hidden_state[0]


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


def test_texts_without_tokens_and_weights_that_diverged_are_refused():
    with pytest.raises(BadInput, match="example 2 has no tokens"):
        text_features(
            text_model(causal=True), text_tokenizer(causal=True), LabelledTexts(("a", ""), None, (0, 0))
        )
    model = text_model()
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[9] = float("nan")
    with pytest.raises(BadInput, match="features of example 3 are not finite"):
        text_features(model, text_tokenizer(), TEXTS)
