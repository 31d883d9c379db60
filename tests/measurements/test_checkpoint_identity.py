import pytest
import torch
from tokenizers import normalizers
from transformers import AutoModelForMaskedLM, AutoTokenizer

from isoloss.measurements.compared_checkpoints import encoding_digest, tokenizer_digest, weights_digest
from tiny_text_models import text_model, text_tokenizer

TEXTS = ["a b c", "h zz"]


def test_a_model_is_itself_in_another_folder(tmp_path):
    model = text_model()
    model.save_pretrained(tmp_path / "moved")
    assert weights_digest(AutoModelForMaskedLM.from_pretrained(tmp_path / "moved")) == weights_digest(model)


@pytest.mark.parametrize("name", ["bert.encoder.layer.0.output.dense.bias", "cls.predictions.bias"])
def test_one_weight_makes_another_model(name):
    model = text_model()
    before = weights_digest(model)
    with torch.no_grad():
        dict(model.named_parameters())[name][0] += 1e-6
    assert weights_digest(model) != before


def test_what_it_computes_with_its_weights_is_part_of_a_model():
    model = text_model()
    before = weights_digest(model)
    model.config.layer_norm_eps = 1e-3
    assert weights_digest(model) != before


def test_padding_and_cutting_make_no_other_tokenizer(tmp_path):
    plain, cutting = text_tokenizer(), text_tokenizer()
    cutting(TEXTS, truncation=True, max_length=3, padding=True)
    cutting.save_pretrained(tmp_path)
    cutting = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer_digest(cutting) == tokenizer_digest(plain)
    assert encoding_digest(cutting, TEXTS) == encoding_digest(plain, TEXTS)


def test_texts_tell_tokenizers_of_one_vocabulary_apart():
    plain, single = text_tokenizer(), text_tokenizer()
    single.backend_tokenizer.post_processor = None
    assert tokenizer_digest(single) != tokenizer_digest(plain)
    assert encoding_digest(single, TEXTS) != encoding_digest(plain, TEXTS)
    assert encoding_digest(text_tokenizer(causal=True), TEXTS) != encoding_digest(plain, TEXTS)


def test_texts_tell_tokenizers_apart_however_late_they_differ():
    cased, lowering = text_tokenizer(), text_tokenizer()
    lowering.backend_tokenizer.normalizer = normalizers.Lowercase()
    texts = [TEXTS[0]] * 1500
    assert encoding_digest(cased, texts) == encoding_digest(lowering, texts)
    late = [*texts, TEXTS[0].upper()]
    assert encoding_digest(cased, late) != encoding_digest(lowering, late)
