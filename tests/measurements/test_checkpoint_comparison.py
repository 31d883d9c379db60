"""The order of the work and of the reports, with measurements that measure nothing."""

import re
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import normalizers
from transformers import AutoModelForMaskedLM, AutoTokenizer, ProphetNetTokenizer

from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.curvature.stopping import Stopping
from isoloss.measurements import checkpoint_comparison
from isoloss.measurements.checkpoint_comparison import Comparison, carry_out
from isoloss.measurements.compared_checkpoints import (
    Checkpoint,
    CheckpointMeasurement,
    Models,
    encoding_digest,
    read_checkpoints,
    tokenizer_digest,
    weights_digest,
)
from isoloss.measurements.comparison_plan import quantity_of_text
from isoloss.measurements.fixed_sentences import SampledBatches
from isoloss.measurements.prediction import MaskedTokens, SpecialTokens
from isoloss.measurements.quantity import Measurement
from isoloss.results.measurement_store import Measurements
from isoloss.results.record import Record
from tiny_text_models import text_model, text_tokenizer

SHAPES = (("weight", (2, 2)),)
A = Checkpoint(
    "a", MaskedTokens(), "Bert", 4, 8, "digest of a", "tokenizer", "tokens", SHAPES, SpecialTokens()
)
B = replace(A, name="b", weights="digest of b")


def made_of(quantity):
    return Record(quantity, 1.0, "", 0.1, 2, settings={"x": 1.5})


def made(name, interrupted=False, revision=1):
    def nothing(model, checkpoint, progress):
        if interrupted:
            raise KeyboardInterrupt
        record = replace(made_of(name), checkpoint=checkpoint.name)
        return Measurement([record], {name: torch.tensor([1.0, 3.0]).double()})

    return CheckpointMeasurement(name, {"measures": name}, nothing, revision)


@pytest.fixture
def work(monkeypatch, tmp_path):
    model = text_model()
    monkeypatch.setattr(Models, "__getitem__", lambda *_: model)
    models, store = Models(torch.device("cpu"), torch.float32), Measurements(tmp_path)

    def carried_out(checkpoints, *measurements):
        reports = []
        stages = [[(each, measurement) for each in checkpoints] for measurement in measurements]
        try:
            report, tell = lambda measured: reports.append(list(measured)), carried_out.told.append
            found = carry_out(stages, models, store, report, tell)
            for (name, quantity), each in found.items():
                assert each.records == [replace(made_of(quantity), checkpoint=name)]
                assert each.values[quantity].tolist() == [1.0, 3.0]
        except KeyboardInterrupt:
            reports.append("interrupted")
        return reports

    carried_out.told = []
    return carried_out


def test_what_is_told_has_the_order_of_the_stages_whatever_was_kept(work):
    first = [("a", "loss"), ("a", "trace")]
    assert work([A], made("loss"), made("trace")) == [first]
    whole = [("a", "loss"), ("b", "loss"), ("a", "trace"), ("b", "trace")]
    assert work([A, B], made("loss"), made("trace")) == [whole]


def test_interrupted_work_tells_all_that_is_kept_of_later_stages_too(work):
    assert work([A], made("loss", interrupted=True)) == ["interrupted"]
    assert work([A], made("loss"), made("trace")) == [[("a", "loss"), ("a", "trace")]]
    reports = work([A, B], made("loss", interrupted=True), made("trace"))
    assert reports == [[("a", "loss"), ("a", "trace")], "interrupted"]


def test_unequal_numbers_of_sentences_are_told_and_a_difference_is_over_those_of_both():
    of_a, of_b = (torch.tensor(each).double() for each in ([1.0, 2.0, 3.0, 10.0], [1.0, 3.0, 4.0]))
    measured = {
        (each.name, "trace"): Measurement([Record("trace", 0.0, "", 0.1, len(values))], {"trace": values})
        for each, values in ((A, of_a), (B, of_b))
    }
    loss = Measurement([Record("loss", 1.0, "nats", 0.1, 5)], {})
    measured |= {("a", "loss"): loss, ("b", "loss"): loss}
    comparison = Comparison((A, B), measured)
    (told,) = comparison.notes
    assert told.startswith("The trace is over 4 for a, 3 for b sentences")
    difference = comparison.difference(B, A, "trace")
    assert difference is not None
    assert (difference.value, difference.n) == (pytest.approx(2 / 3), 3)


def test_what_an_older_revision_gave_is_measured_again(work):
    assert work([A], made("loss")) == [[("a", "loss")]]
    assert work([A], made("loss", interrupted=True)) == [[("a", "loss")]]  # stored: nothing interrupts
    assert work([A], made("loss", interrupted=True, revision=2)) == ["interrupted"]
    assert work([A], made("loss", revision=2)) == [[("a", "loss")]]
    assert work([A], made("loss", interrupted=True)) == [[("a", "loss")]]


def test_the_first_revision_is_found_under_the_names_from_before_there_were_any():
    key = {"weights": "digest of a", "tokenizer": "tokenizer", "measures": "loss"}
    assert checkpoint_comparison._key(A, made("loss")) == key


def test_what_is_kept_is_not_measured_again_wherever_the_checkpoint_is(work, tmp_path):
    assert work([A], made("loss", interrupted=True)) == ["interrupted"]
    assert not list(tmp_path.iterdir())
    assert work([A], made("loss")) == [[("a", "loss")]]
    assert work([replace(A, name="moved")], made("loss", interrupted=True)) == [[("moved", "loss")]]
    assert work([B], made("loss", interrupted=True)) == ["interrupted"]


@pytest.mark.parametrize(("suffix", "content"), [(".npz", b"PK"), (".jsonl", b"{}\n"), (".jsonl", b"")])
def test_what_is_damaged_is_named_and_measured_again(work, tmp_path, suffix, content):
    work([A], made("loss"))
    (file,) = tmp_path.glob(f"*{suffix}")
    file.write_bytes(content)
    work([A], made("loss"))
    (sentence,) = work.told
    assert re.search(f"{file.name}.*; it was measured again", sentence)
    assert work([A], made("loss", interrupted=True)) == [[("a", "loss")]]


def test_what_is_of_another_checkpoint_is_not_taken_for_it(work, tmp_path):
    work([A, B], made("loss"))
    one, other = sorted(tmp_path.glob("*.jsonl"))
    for suffix in (".jsonl", ".npz"):
        one.with_suffix(suffix).write_bytes(other.with_suffix(suffix).read_bytes())
    assert "interrupted" in work([A, B], made("loss", interrupted=True))


TEXTS = ["a b c", "h zz"]


def test_a_model_is_itself_in_another_folder(tmp_path):
    model = text_model()
    model.save_pretrained(tmp_path / "moved")
    assert weights_digest(AutoModelForMaskedLM.from_pretrained(tmp_path / "moved")) == weights_digest(model)


@pytest.mark.parametrize("name", ["bert.encoder.layer.0.output.dense.bias", "cls.predictions.bias", None])
def test_one_weight_or_what_it_computes_with_them_makes_another_model(name):
    model = text_model()
    before = weights_digest(model)
    if name is None:
        model.config.layer_norm_eps = 1e-3
    else:
        dict(model.named_parameters())[name].data[0] += 1e-6
    assert weights_digest(model) != before


def adapted(**settings):
    torch.manual_seed(0)
    model = text_model()
    get_peft_model(model, LoraConfig(r=2, target_modules={"query", "value", "dense"}, **settings))
    return model


@pytest.mark.parametrize("changed", [{"lora_alpha": 64}, {"use_rslora": True}])
def test_what_an_adapter_multiplies_its_weights_with_is_part_of_a_model(changed):
    weights, others = adapted().state_dict(), adapted(**changed).state_dict()
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert weights_digest(adapted(**changed)) != weights_digest(adapted())


def test_where_an_adapter_looks_for_its_base_is_no_part_of_a_model():
    moved = adapted()
    moved.peft_config["default"].base_model_name_or_path = "moved/base"
    assert weights_digest(moved) == weights_digest(adapted())


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


def test_tokenizers_written_in_python_are_told_apart_by_what_they_make_of_the_texts(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[SEP]", "[UNK]", "[MASK]", "[CLS]", *"aAbcd"]))
    folders = [tmp_path / name for name in ("lowering", "cased", "lowering too")]
    for seed, folder in enumerate(folders):
        text_model(seed=seed).save_pretrained(folder)
        lowering = folder.name != "cased"
        ProphetNetTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=lowering).save_pretrained(folder)
    models = Models(torch.device("cpu"), torch.float32)
    lowering, cased, as_first = read_checkpoints(list(map(str, folders)), models, ["A b"])
    assert not models.tokenizer(str(folders[0])).is_fast
    assert lowering.encoding == as_first.encoding != cased.encoding
    assert lowering.tokenizer == as_first.tokenizer != cased.tokenizer


def test_settings_that_differ_by_little_have_keys_of_their_own():
    corpus, stopping = TokenCorpus([[5, 6]], [1]), Stopping(None, 64, None)
    rates = (MaskedTokens(rate) for rate in (0.15, 0.1501, 0.15))
    batches = (SampledBatches(corpus, each, 0, SpecialTokens(mask=4)) for each in rates)
    keys = [quantity_of_text("pretraining_loss", each, "text", stopping).key for each in batches]
    assert keys[0] == keys[2] != keys[1]
