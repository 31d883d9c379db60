"""Adapters of models with the head of a task, which they store and name."""

import pytest
import torch
from adapters_on_disk import is_trained, moved, saved
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import configuration_of, head_of, load_predicting
from isoloss.measurements.task_heads import TargetText, TextClasses, TextLabels, TokenClasses
from tiny_models import far_from_the_start

SIZES = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
GPT2 = GPT2Config(vocab_size=11, n_embd=8, n_layer=2, n_head=2, pad_token_id=0)
BERT = BertConfig(
    vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
)
T5 = T5Config(vocab_size=11, **SIZES)
TASKS = {
    "SEQ_CLS": (GPT2LMHeadModel, GPT2, AutoModelForSequenceClassification, "c_attn", TextClasses()),
    "TOKEN_CLS": (BertForMaskedLM, BERT, AutoModelForTokenClassification, "query", TokenClasses()),
    "SEQ_2_SEQ_LM": (T5ForConditionalGeneration, T5, AutoModelForSeq2SeqLM, "q", TargetText()),
}


@pytest.mark.parametrize("task", TASKS)
def test_an_adapter_of_a_head_is_added_to_its_base_model_with_the_head_that_it_stores(task, tmp_path):
    language_model, config, kind, module, head = TASKS[task]
    far_from_the_start(language_model(config)).save_pretrained(tmp_path / "base")
    classes = {} if head == TargetText() else {"num_labels": 3}
    base = kind.from_pretrained(tmp_path / "base", **classes)
    adapted, trained = moved(get_peft_model(base, LoraConfig(r=2, target_modules=[module], task_type=task)))
    folder = str(saved(adapted, tmp_path))
    assert head_of(folder) == head
    loaded = load_predicting(folder, head)
    ids = {"input_ids": torch.tensor([[3, 4, 5, 6]])}
    ids |= {"decoder_input_ids": torch.tensor([[0, 4]])} if head == TargetText() else {}
    torch.testing.assert_close(loaded(**ids).logits, adapted.eval()(**ids).logits)
    ours = list(filter(is_trained, loaded.parameters()))
    assert sorted(tuple(each.shape) for each in ours) == sorted(tuple(each.shape) for each in trained)
    assert configuration_of(folder, head).num_labels == loaded.config.num_labels


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_the_base_of_an_adapter_says_what_its_classes_are(problem, tmp_path):
    config = GPT2Config(**GPT2.to_dict() | {"problem_type": problem})
    far_from_the_start(GPT2LMHeadModel(config)).save_pretrained(tmp_path / "base")
    base = AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=3)
    asked = LoraConfig(r=2, target_modules=["c_attn"], task_type="SEQ_CLS")
    folder = str(saved(get_peft_model(base, asked), tmp_path))
    if problem == "regression":
        with pytest.raises(BadInput, match="predicts a number, not a class"):
            load_predicting(folder, head_of(folder))
    else:
        assert head_of(folder) == TextLabels()
        assert load_predicting(folder, TextLabels()).config.num_labels == 3
