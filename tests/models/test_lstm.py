import pytest
import torch
from torch.func import grad, vmap

from isoloss.curvature.per_sentence.norms import Directions, norms_along
from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck
from isoloss.languages.sentences import Sentences
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.task_sentences import sentence_features
from isoloss.models.loading import load_masked_language_model
from isoloss.models.lstm import LSTM, LSTM_LAYERS, LSTM_WIDTHS, BidirectionalLSTM
from isoloss.models.transformers import parameter_count
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import tokens_of_words
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from thorough_cases import others_thorough

WORDS, LENGTH = 5, 4
RAGGED = Sentences.from_lists([[0, 4, 2, 1], [3], [1, 2], [4, 4, 0, 3]])


@pytest.fixture
def model():
    return LSTM(width=8, layers=3).build(WORDS, LENGTH, seed=0).double().eval()


def test_padding_changes_nothing_and_plain_operations_are_torchs(model):
    tokens = tokens_of_words(RAGGED.ids)
    found = model(input_ids=tokens, attention_mask=tokens != 0).logits
    with torch.no_grad():
        plain = model.lstm.layers.in_plain_operations(model.lstm.get_input_embeddings()(tokens), tokens != 0)
    for row, length in enumerate(RAGGED.lengths.tolist()):
        alone = tokens[row : row + 1, : length + 1]
        torch.testing.assert_close(found[row, : length + 1], model(input_ids=alone).logits[0])
        vectors = model.lstm(input_ids=alone).last_hidden_state[0]
        torch.testing.assert_close(plain[row, : length + 1], vectors, rtol=1e-12, atol=1e-14)
        embedded = model.lstm.get_input_embeddings()(alone)
        whole = model.lstm.layers.in_plain_operations(embedded, None)[0]
        torch.testing.assert_close(whole, vectors, rtol=1e-12, atol=1e-14)
        assert not plain[row, length + 1 :].any()
    features = sentence_features(model, RAGGED).view(4, LENGTH, 8)
    torch.testing.assert_close(features, plain[:, 1:])


@pytest.mark.parametrize("present", [None, torch.tensor([[True] * 4, [True, True, False, False]])])
def test_dropout_is_applied_in_training_alone(present):
    layers, x = BidirectionalLSTM(8, 1, 0.5, 1e-5), torch.randn(2, 4, 8)
    assert not torch.equal(layers(x, present), layers(x, present))
    layers.eval()
    assert torch.equal(layers(x, present), layers(x, present))


def test_every_vector_depends_on_the_whole_sentence(model):
    tokens = tokens_of_words(torch.tensor([[0, 1, 2, 3], [4, 1, 2, 3], [0, 1, 2, 4]]))
    logits = model(input_ids=tokens).logits
    for other in (1, 2):
        assert bool(((logits[0] - logits[other]).abs().amax(-1) > 1e-9).all())


def test_derivatives_mapped_over_sentences_are_those_of_torchs_kernels(model):
    tokens = tokens_of_words(torch.tensor([[0, 1, 2, 3], [4, 1, 0, 3]]))
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def score(values, row):
        return torch.func.functional_call(model, values, (row[None],)).logits.sin().sum()

    mapped = vmap(grad(score), in_dims=(None, 0))(parameters, tokens)
    for row in range(2):
        loss = model(input_ids=tokens[row : row + 1]).logits.sin().sum()
        expected = torch.autograd.grad(loss, list(model.parameters()))
        for found, true in zip(mapped.values(), expected, strict=True):
            torch.testing.assert_close(found[row], true, rtol=1e-9, atol=1e-12)


def test_gradient_norms_of_ragged_sentences_are_those_of_one_gradient_at_a_time(model):
    objective, generator = MaskedObjective(), torch.Generator().manual_seed(0)
    batch = objective.mask_one(RAGGED, generator)
    cotangents = torch.randn(len(RAGGED), WORDS + 3, generator=generator, dtype=torch.float64)
    norms = norms_along(model, objective, batch, lambda _: Directions(cotangents))
    assert set(norms.groups) == {"embeddings", "lstm", "final norm", "head"}
    for row, length in enumerate(RAGGED.lengths.tolist()):
        scores = model(input_ids=batch.input_ids[row : row + 1, : length + 1]).logits[0, batch.positions[row]]
        gradients = torch.autograd.grad((scores * cotangents[row]).sum(), list(model.parameters()))
        expected = sum(float(gradient.square().sum()) for gradient in gradients)
        found = sum(float(values[row]) for values in norms.groups.values())
        assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("width", others_thorough(LSTM_WIDTHS, quick=2))
@pytest.mark.parametrize("layers", others_thorough(LSTM_LAYERS, quick=2))
def test_parameter_counts(width, layers):
    """Two directions of four gates (input of `width`, state of half of it, torch's two biases), and norms."""
    half = width // 2
    layer = 2 * 4 * half * (width + half + 2) + 2 * width
    assert parameter_count(LSTM(width, layers), 200, 16) == layers * layer + 2 * width + 203 * width + 203


@pytest.mark.parametrize(
    ("number", "millions", "apart"), [(0, 4, 0.10), (1, 10, 0.04), (3, 67, 0.04), (4, 135, 0.04)]
)
def test_the_papers_counts_are_met_in_order(number, millions, apart):
    """With BERT's tokens; of the smallest the paper gives one digit."""
    model = LSTM(LSTM_WIDTHS[number], LSTM_LAYERS[number])
    assert parameter_count(model, 30_522 - 3, 16) == pytest.approx(1e6 * millions, rel=apart)


def test_a_layer_adds_to_what_it_reads(model):
    """If the weights have no output, every layer is the identity, and only the last norm remains."""
    for layer in model.lstm.layers.lstms:
        for weight in layer.parameters():
            torch.nn.init.zeros_(weight)
    tokens = tokens_of_words(RAGGED.ids)[:1]
    embedded = model.lstm.get_input_embeddings()(tokens)
    expected = torch.nn.functional.layer_norm(embedded, (8,), eps=1e-12)
    torch.testing.assert_close(model.lstm(tokens).last_hidden_state, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
def test_it_learns_a_language_and_one_specification_gives_one_run(tmp_path):
    language = dyck(6)
    rule = AdamW(learning_rate=1e-2, warm_up_steps=10)
    specification = PretrainingSpecification(LSTM(32, 2), rule, language.digest, 120, 64, 0, (20, 120))
    reports = [pretrain(specification, language, tmp_path / run) for run in "ab"]
    assert reports[0].last.digest == reports[1].last.digest
    evaluation = EvaluationSet.draw(language, 100, seed=1)
    kl = {}
    for step in (20, 120):
        model = load_masked_language_model(tmp_path / "a" / "steps" / f"{step:06d}")
        kl[step] = float(exact_loss(model, MaskedObjective(), evaluation).kl.mean())
    assert kl[120] < 0.02 < 0.1 < kl[20]


@pytest.mark.parametrize("settings", [(7, 2), (0, 2), (8, 0), (8, 2, 1.0)])
def test_settings_that_make_no_model_are_refused(settings):
    with pytest.raises(BadInput):
        LSTM(*settings)
