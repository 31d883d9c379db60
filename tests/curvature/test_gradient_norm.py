import itertools
from dataclasses import replace

import pytest
import ragged_batches
import torch
from dense_derivatives import gradient_of, group_indices

from isoloss.curvature.derivatives import MeasuredParameters, trainable_parameters
from isoloss.curvature.gradient_norm import (
    GradientNorm,
    gradient_norm,
    mean_of_distinct_pairs,
    noise_and_signal,
)
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.hessian_trace import hessian_trace
from isoloss.curvature.loss import BLOCKS, LARGEST, sentence_blocks
from isoloss.errors import BadInput
from isoloss.objectives.batch import sentence_averaged_loss, sentences_between
from isoloss.objectives.evaluation import refuse_without_gradient
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.results.estimate import Estimate
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()


def sentence_gradients(model, batch):
    """[n, P]: the gradient of each sentence's own mean loss."""
    model.eval()
    parts = [sentences_between(batch, i, i + 1) for i in range(len(batch))]
    losses = [sentence_averaged_loss(OBJECTIVE.logits(model, part), part) for part in parts]
    return torch.stack([gradient_of(loss, model) for loss in losses])


def all_pairs(h):
    pairs = [h[a] @ h[b] for a, b in itertools.permutations(range(len(h)), 2)]
    return float(torch.stack(pairs).mean())


def test_the_value_is_the_mean_over_pairs_of_sentences(model):
    batch = ragged_batches.several_masks()
    found = gradient_norm(model.train(), [batch], OBJECTIVE)
    assert model.training
    h = sentence_gradients(model, batch)
    assert found.squared.value == pytest.approx(all_pairs(h), rel=1e-9)
    for name, places in group_indices(trainable_parameters(model)).items():
        assert found.groups[name].value == pytest.approx(all_pairs(h[:, places]), rel=1e-9, abs=1e-14)
    assert sum(e.value for e in found.groups.values()) == pytest.approx(found.squared.value, rel=1e-9)
    leave_one_out = [all_pairs(torch.cat([h[:i], h[i + 1 :]])) for i in range(6)]
    jackknife = (5 / 6 * ((torch.tensor(leave_one_out) - sum(leave_one_out) / 6) ** 2).sum()) ** 0.5
    assert found.squared.standard_error == pytest.approx(float(jackknife), rel=1e-6)
    assert (found.squared.n, found.sentences) == (6, 6)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "lowest", "highest"), [(1.0, 0.93, 0.97), (0.0, 0.93, 1.0)])
def test_the_error_bar_covers_and_the_square_is_unbiased(size, lowest, highest):
    """2,000 samples of 64 gradients with known mean; if the mean is zero, the jackknife is conservative."""
    generator = torch.Generator().manual_seed(1)
    mean = size * torch.tensor([0.9, -0.5, 0.4, 0.0], dtype=torch.float64)
    estimates = []
    for _ in range(2000):
        h = mean + torch.randn(64, 4, generator=generator, dtype=torch.float64)
        estimates.append(mean_of_distinct_pairs(torch.ones(64).double(), h.square().sum(1), h @ h.sum(0)))
    truth = float(mean @ mean)
    covered = [abs(e.value - truth) < 1.96 * e.standard_error for e in estimates]
    assert lowest < sum(covered) / len(covered) < highest
    values = torch.tensor([e.value for e in estimates])
    assert abs(float(values.mean()) - truth) < 4 * float(values.std()) / 2000**0.5


def test_the_norm_is_the_root_and_its_error_linear_where_it_is_large():
    parameters = MeasuredParameters(1, ())
    others = Estimate(1.0, 0.1, 9), Estimate(1.0, 0.1, 9)
    large = GradientNorm(Estimate(100.0, 0.2, 9), *others, {}, 9, parameters).norm
    assert large.value == 10
    assert large.standard_error == pytest.approx(0.01, rel=1e-3)
    none = GradientNorm(Estimate(-0.01, 0.04, 9), *others, {}, 9, parameters).norm
    assert (none.value, none.standard_error) == (0, 0.2)


def test_next_words_and_exact_labels(model):
    batch = ragged_batches.one_mask()
    own = replace(batch, soft_targets=OBJECTIVE.logits(model.eval(), batch).softmax(1).detach())
    assert abs(gradient_norm(model, [own], OBJECTIVE).squared.value) < 1e-20
    with pytest.raises(BadInput, match="would see the next word"):
        gradient_norm(model, [batch], NextWordObjective())


def test_blocks_cover_all_sentences_once():
    one = ragged_batches.one_mask()
    few = sentence_blocks([one, sentences_between(one, 0, 2)])
    assert [len(block) for block in few] == [1] * 8
    many = sentence_blocks([one] * 30)
    assert sum(map(len, many)) == 180
    assert len(many) >= BLOCKS
    lots = sentence_blocks([one] * 200)
    assert max(map(len, lots)) <= LARGEST
    assert torch.equal(torch.cat([b.targets for b in lots]), one.targets.repeat(200))
    with pytest.raises(BadInput, match="a standard error takes at least 3 sentences, not 2"):
        gradient_norm(tiny_model(ARCHITECTURES[0], 2, 5), [sentences_between(one, 0, 2)], OBJECTIVE)


@pytest.mark.slow
def test_the_noise_is_right_on_average_for_blocks_of_several_sentences():
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([1.0, 2.0, 3.0, 4.0, 4.0, 2.0], dtype=torch.float64)
    draws = torch.randn(3000, 6, 3, generator=generator, dtype=torch.float64) / sizes.sqrt()[:, None] + 0.7
    found = [
        noise_and_signal(sizes, h.square().sum(1), h @ (sizes[:, None] * h).sum(0))[0].value for h in draws
    ]
    mean, error = torch.tensor(found).mean(), torch.tensor(found).std() / len(found) ** 0.5
    assert abs(float(mean) - 3.0) < 4 * float(error)


@pytest.mark.parametrize("measure", [gradient_norm, hessian_trace, hessian_top_eigenvalue])
def test_parameters_on_which_no_score_depends_are_told_in_a_sentence(measure):
    model = tiny_model(ARCHITECTURES[0], ragged_batches.WORDS, ragged_batches.LENGTH).requires_grad_(False)
    model.unused = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(BadInput, match="the scores depend on none of the parameters that need a gradient"):
        measure(model, [ragged_batches.several_masks()], OBJECTIVE)
    with pytest.raises(BadInput, match="depend on none of the parameters to measure; choose others"):
        refuse_without_gradient(model, OBJECTIVE, ragged_batches.several_masks())
