import itertools

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck, mismatches
from isoloss.languages.sentences import Sentences
from isoloss.theory.lemma_g_4 import dense_trace
from isoloss.theory.one_layer_transformer import (
    OneLayerTransformer,
    all_strings,
    hessian_trace,
    masked_strings,
    output_gradients,
    squared_gradient_norms,
    string_classes,
    zero_loss_trace,
)

STRINGS = masked_strings(4)


def gaussian_model(seed, neurons=3, rows=2):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((rows, 8), (rows, 8), (neurons, 8), (neurons,))
    return OneLayerTransformer(
        *(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    )


def test_the_model_is_the_papers():
    model = gaussian_model(901)
    tokens = STRINGS.tokens[:5]
    for x, found in zip(tokens, model.outputs(tokens), strict=True):
        scores = torch.stack([(model.query @ x[0]) @ (model.key @ x_j) for x_j in x])
        attended = sum(a * x_j for a, x_j in zip(scores.softmax(0), x, strict=True))
        output = model.output @ (model.value @ attended).clamp(min=0) / 3
        assert float(found) == pytest.approx(float(output), abs=1e-12)
    again = model.with_flat(model.flat())
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("seed", [901, 902, 903])
def test_the_trace_in_closed_form_is_that_of_the_dense_hessian(seed):
    model = gaussian_model(seed)
    dense = dense_trace(model, STRINGS)
    assert float(hessian_trace(model, STRINGS)) == pytest.approx(dense, rel=1e-11)
    # Far from zero loss the lemma's short form is not the trace.
    assert float(zero_loss_trace(model, STRINGS)) != pytest.approx(dense, rel=1e-3)


def test_gradients_are_those_of_autograd():
    model = gaussian_model(904)
    jacobian = torch.autograd.functional.jacobian(
        lambda flat: model.with_flat(flat).outputs(STRINGS.tokens), model.flat()
    )
    gradients = output_gradients(model, STRINGS.tokens)
    torch.testing.assert_close(gradients, jacobian, rtol=1e-11, atol=1e-13)
    norms = squared_gradient_norms(model, STRINGS.tokens)
    torch.testing.assert_close(norms, jacobian.square().sum(1), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("length", [2, 4, 6])
def test_the_distribution_of_pre_training_is_every_balanced_string_masked_everywhere(length):
    strings = masked_strings(length)
    balanced = [list(ids) for ids in itertools.product((0, 1), repeat=length) if sum(ids) == length // 2]
    distribution = dyck(length).masked_log_probabilities(Sentences.from_lists(balanced)).exp()
    expected = {}
    for row, ids in enumerate(balanced):
        for position, sign in itertools.product(range(length), (1.0, -1.0)):
            z = [1.0 - 2.0 * word for word in ids] + [0.0] * length
            z[position], z[length + position] = 0.0, sign
            expected[tuple(z)] = float(distribution[row, position, 0] - distribution[row, position, 1])
    found = dict(zip(map(tuple, strings.tokens.sum(1).tolist()), strings.target.tolist(), strict=True))
    assert found == expected
    assert float(strings.probability.sum()) == pytest.approx(1)
    # Orthonormal within a string: what Lemma G.1's ‖h‖ >= 1/√T rests on.
    products = strings.tokens @ strings.tokens.mT
    assert torch.equal(products, torch.eye(length).double().expand_as(products))
    assert torch.equal(strings.target, -strings.tokens.sum(1)[:, :length].sum(1))


def test_the_downstream_distribution_whole_and_in_classes():
    whole, classes = all_strings(6), string_classes(6)
    for strings in (whole, classes):
        assert float(strings.probability.sum()) == pytest.approx(1)
        assert torch.equal(strings.target, -strings.tokens.sum((1, 2)))

    def distribution(strings):
        found = {}
        for first, target, probability in zip(
            strings.tokens[:, 0, 0].tolist(), strings.target.tolist(), strings.probability, strict=True
        ):
            found[first, target] = found.get((first, target), 0.0) + float(probability)
        return found

    assert distribution(classes) == pytest.approx(distribution(whole))


def test_the_target_is_that_of_the_language():
    lists = [[int(token.sum() < 0) for token in string] for string in all_strings(5).tokens]
    assert torch.equal(all_strings(5).target, mismatches(Sentences.from_lists(lists)).double())


@pytest.mark.parametrize(
    ("distribution", "length", "says"),
    [
        (masked_strings, 5, "even length"),
        (masked_strings, 14, "at most 12"),
        (all_strings, 15, "from 1 to 14"),
        (all_strings, 0, "from 1 to 14"),
        (string_classes, 0, "at least 1"),
    ],
)
def test_lengths_that_cannot_be_are_refused(distribution, length, says):
    with pytest.raises(BadInput, match=says):
        distribution(length)


def test_a_neuron_at_its_kink_stays_there_whatever_rounding_does():
    model = OneLayerTransformer(
        *torch.zeros(2, 2, 4).double(), torch.ones(1, 4).double(), torch.ones(1).double()
    )
    attended = torch.tensor([[0.1, 0.2, -0.3, 0.0], [0.1, 0.2, -0.3, 1e-12]], dtype=torch.float64)
    at_kink, beside = model.preactivations(attended)[:, 0].tolist()
    assert at_kink == 0.0
    assert beside == pytest.approx(1e-12, rel=1e-3)
