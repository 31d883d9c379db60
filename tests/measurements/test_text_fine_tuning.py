"""Fine-tuning on texts, masked and causal."""

from dataclasses import replace

import pytest
import torch
from texts_of_two_halves import TASK, vectors
from transformers import (
    CodeGenConfig,
    CodeGenForCausalLM,
    FunnelConfig,
    FunnelForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from isoloss.corpora.labelled_texts import LabelledTexts
from isoloss.errors import BadInput
from isoloss.measurements import fine_tuning
from isoloss.measurements.fine_tuning import (
    FineTuned,
    FineTuningSettings,
    classifier_of,
    fine_tune,
    fine_tune_once,
)
from isoloss.measurements.labelled_inputs import text_inputs, text_splits
from isoloss.models.lstm import LSTMConfig, LSTMForMaskedLM
from thorough_cases import others_thorough
from tiny_text_models import text_model, text_tokenizer

FAST = FineTuningSettings(seeds=(0, 1), epochs=3, learning_rate=1e-2, warm_up_steps=5, batch_size=16)


@pytest.mark.parametrize("causal", others_thorough([True, False]))
def test_a_task_is_learnt_by_fine_tuning_and_the_model_is_left_as_it_was(causal):
    model, tokenizer = text_model(causal), text_tokenizer(causal)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    inputs = text_splits(model, tokenizer, TASK)
    best, _ = fine_tune(model, inputs, FAST)
    assert best.estimate.value > 0.8
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert best.records("m", {})[0].quantity == "fine_tuning_best_accuracy"
    alone = fine_tune_once(model, inputs, FAST, seed=1)
    assert float(alone.best.double().mean()) == float(best.by_seed[1])


@pytest.mark.parametrize("causal", [False, True])
def test_a_classifier_reads_the_vector_that_it_should(causal):
    """The first token's in a masked model, the last one's in a causal model, whatever the padding."""
    model, tokenizer = text_model(causal), text_tokenizer(causal)
    classifier = classifier_of(model, ("x", "y"), seed=0, padding=2 if causal else 0).eval()
    inputs = text_inputs(model, tokenizer, TASK.test)[:9]
    with torch.no_grad():
        scores = classifier(**inputs.arguments(torch.device("cpu"))).logits
        for row, length in enumerate(inputs.lengths.tolist()):
            vectors = model.base_model(input_ids=inputs.ids[row : row + 1, :length].long()).last_hidden_state[
                0
            ]
            if causal:
                expected = classifier.score(vectors[-1])
            else:
                pooled = classifier.bert.pooler(vectors[None])
                expected = classifier.classifier(pooled)[0]
            torch.testing.assert_close(scores[row], expected)


def test_without_padding_of_its_own_a_causal_model_is_read_at_the_last_token_of_every_text():
    model, tokenizer = text_model(causal=True), text_tokenizer(causal=True)
    tokenizer.eos_token = None
    test = LabelledTexts(("a b [PAD]", "a b [CLS]", "c d e f g", "b [PAD] [PAD]", "h"), None, (0, 1, 0, 1, 0))
    splits = text_splits(model, tokenizer, replace(TASK, test=test))
    assert splits.padding == 2
    classifier = classifier_of(model, TASK.classes, seed=0, padding=splits.padding).eval()
    with torch.no_grad():
        scores = classifier(**splits.test.arguments(torch.device("cpu"))).logits
        for row, text in zip(scores, test.texts, strict=True):
            last = vectors(model, tokenizer(text)["input_ids"])[-1]
            torch.testing.assert_close(row, classifier.score(last))


def test_texts_that_end_in_every_token_there_is_need_a_padding_token():
    model, tokenizer = text_model(causal=True), text_tokenizer(causal=True)
    tokenizer.eos_token = None
    ends = tuple(tokenizer.get_vocab())
    test = LabelledTexts(ends, None, (0,) * len(ends))
    with pytest.raises(BadInput, match=r"no padding token, and every token ends some text; .*pad_token"):
        text_splits(model, tokenizer, replace(TASK, test=test))


def test_what_fills_texts_up_is_learnt_where_it_is_part_of_a_text():
    config = LlamaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
                         intermediate_size=8, bos_token_id=None, eos_token_id=None)  # fmt: skip
    classifier = classifier_of(LlamaForCausalLM(config), ("x", "y"), seed=0, padding=3)
    classifier(input_ids=torch.tensor([[3, 4, 5]])).logits[0, 0].backward()
    assert classifier.model.embed_tokens.weight.grad[3].any()


def test_each_seeds_head_starts_anew(monkeypatch):
    heads, right = [], torch.tensor([True])

    def untrained(classifier, *_):
        heads.append(classifier.classifier.weight.detach())
        return FineTuned([1.0], 1, right, right)

    monkeypatch.setattr(fine_tuning, "fine_tune_seed", untrained)
    model, tokenizer = text_model(causal=False), text_tokenizer(causal=False)
    inputs = text_splits(model, tokenizer, TASK)
    for seed in (0, 1, 0):
        fine_tune_once(model, inputs, FAST, seed)
    assert torch.equal(heads[0], heads[2])
    assert not torch.equal(heads[0], heads[1])


def test_of_texts_not_every_word_is_read():
    model, tokenizer = text_model(), text_tokenizer()
    every_word = replace(FAST, every_word=True)
    with pytest.raises(BadInput, match="no fixed number of words for a head to read"):
        fine_tune(model, text_splits(model, tokenizer, TASK), every_word)


@pytest.mark.parametrize(
    ("kind", "config", "said"),
    others_thorough(
        [
            (
                LSTMForMaskedLM,
                LSTMConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1),
                "LSTMForMaskedLM has no classifier in transformers",
            ),
            (
                FunnelForMaskedLM,
                FunnelConfig(vocab_size=9, block_sizes=[1], d_model=8, n_head=1, d_head=8, d_inner=8),
                r"another backbone \(decoder\.\S+ differs\)",
            ),
            (
                CodeGenForCausalLM,
                CodeGenConfig(vocab_size=9, n_positions=8, n_embd=16, n_layer=1, n_head=4, rotary_dim=2),
                "CodeGenForCausalLM has no classifier in transformers",
            ),
        ],
        quick=2,
    ),
)
def test_a_model_without_a_classifier_of_its_backbone_is_not_fine_tuned(kind, config, said):
    with pytest.raises(BadInput, match=f"{said}.*so it cannot be fine-tuned; .* keep the linear probe"):
        classifier_of(kind(config), ("x", "y"), seed=0, padding=0)
