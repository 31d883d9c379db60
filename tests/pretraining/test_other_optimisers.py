"""Lion, Muon, SOAP and Sophia: their updates against the papers' algorithms, and which weights they move."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from rule_cases import LANGUAGE, batch_of, gradients_of, tiny, training_of, weights_of

from isoloss.errors import BadInput
from isoloss.models.transformers import PreLayerNormTransformer, Shape
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.flatness_regularised import SAM, FlatnessRegularised, Sharpened
from isoloss.pretraining.other_optimisers import SOAP, Lion, Muon, Sophia, fisher_diagonal, hidden_matrices
from isoloss.pretraining.polishing import Polished
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import UpdateRuleSettings
from isoloss.seeds import caller_randomness_kept

CPU = torch.device("cpu")


def place_of_a_matrix(model: torch.nn.Module) -> int:
    return [name for name, _ in model.named_parameters()].index(
        "bert.encoder.layer.0.intermediate.dense.weight"
    )


def test_lion_is_its_algorithm_with_decay_on_matrices() -> None:
    model = tiny()
    oracle = copy.deepcopy(model)
    rule = Lion(learning_rate=0.01, warm_up_steps=2, weight_decay=0.5).build(training_of(model))
    moments = [torch.zeros_like(weight) for weight in oracle.parameters()]
    for step in range(1, 5):
        rule.step(batch_of(step), step)
        rate = 0.01 * min(1, step / 2)
        with torch.enable_grad():
            gradients = gradients_of(oracle, step)
        with torch.no_grad():
            for weight, moment, gradient in zip(oracle.parameters(), moments, gradients, strict=True):
                decay = 0.5 if weight.ndim == 2 else 0.0
                sign = (0.9 * moment + 0.1 * gradient).sign()
                weight -= rate * (sign + decay * weight)
                moment.mul_(0.99).add_(0.01 * gradient)
    for (name, weight), expected in zip(model.named_parameters(), oracle.parameters(), strict=True):
        if "key.bias" not in name:  # softmax is invariant to it: its gradient's sign is due to rounding
            # The package decays first and then moves: η² terms differ.
            torch.testing.assert_close(weight, expected, rtol=0, atol=4 * 0.01**2, msg=name)


def test_sophia_is_its_algorithm() -> None:
    """θ ← θ - η clip(m / max(γ h, ε), 1), h from squared gradients at the model's own labels."""
    settings = Sophia(learning_rate=0.01, warm_up_steps=2, clipping=0.05, weight_decay=0.0, estimate_steps=2)
    model = tiny()
    oracle = copy.deepcopy(model)
    rule = settings.build(training_of(model))
    moments = [torch.zeros_like(weight) for weight in oracle.parameters()]
    curvatures = copy.deepcopy(moments)
    for step in range(1, 5):
        with caller_randomness_kept(CPU):
            torch.manual_seed(step)
            rule.step(batch_of(step), step)
            torch.manual_seed(step)
            if step in (1, 3):
                batch, training = batch_of(step), training_of(oracle)
                logits = training.objective.logits(oracle, batch)
                drawn = replace(batch, targets=torch.multinomial(logits.detach().softmax(1), 1)[:, 0])
                scores = torch.autograd.grad(training.loss(drawn), list(oracle.parameters()))
                for curvature, score in zip(curvatures, scores, strict=True):
                    curvature.mul_(0.99).add_(0.01 * len(batch) * score.square())
        gradients = gradients_of(oracle, step)
        with torch.no_grad():
            for weight, moment, curvature, gradient in zip(
                oracle.parameters(), moments, curvatures, gradients, strict=True
            ):
                moment.mul_(0.96).add_(0.04 * gradient)
                move = (moment / (0.05 * curvature).clamp(min=0.05 * 1e-12)).clamp(-1, 1)
                weight -= 0.01 * min(1, step / 2) * move
    for (name, weight), expected in zip(model.named_parameters(), oracle.parameters(), strict=True):
        if "key.bias" not in name:  # softmax is invariant to it: its gradient is only rounding
            torch.testing.assert_close(weight, expected, rtol=1e-8, atol=1e-10, msg=name)


@pytest.mark.slow
def test_sophias_estimate_has_the_fishers_diagonal_as_its_mean() -> None:
    """With several predictions per sentence, against the bias's in closed form."""
    model = tiny()
    batch = Stream(LANGUAGE, ManyMasksObjective(share=0.4), 4, seed=0).batch(0)
    training = training_of(model)
    bias = model.cls.predictions.bias
    logits = training.objective.logits(model, batch)
    log_probabilities = logits.detach().log_softmax(1)
    counts = torch.bincount(batch.rows)[batch.rows]
    # d log f_y / d bias = onehot(y) - f: the diagonal is Σ_j w_j f (1 - f).
    exact = ((log_probabilities.exp() * (1 - log_probabilities.exp())) / counts[:, None]).sum(0) / 4
    with caller_randomness_kept(CPU):
        torch.manual_seed(0)
        draws = torch.stack(
            [fisher_diagonal(training.objective.logits(model, batch), batch, [bias])[0] for _ in range(600)]
        )
    error = draws.std(0) / len(draws) ** 0.5
    assert ((draws.mean(0) - exact).abs() < 4 * error).all()
    assert (error < 0.1 * exact.max()).all()


def test_muon_moves_hidden_matrices_alone_and_adamw_the_rest() -> None:
    model = tiny()
    named = dict(model.named_parameters())
    hidden = {name for name, weight in named.items() if any(weight is h for h in hidden_matrices(model))}
    assert hidden == {name for name, weight in named.items() if weight.ndim == 2 and "embeddings" not in name}
    assert "bert.embeddings.word_embeddings.weight" not in hidden
    first, rest = Muon().descent(training_of(model)).optimisers
    owned = [
        id(p) for optimiser in (first, rest) for group in optimiser.param_groups for p in group["params"]
    ]
    assert sorted(owned) == sorted(id(weight) for weight in model.parameters())


def test_muons_rates_fall_as_the_rest_is_told_to() -> None:
    rest = AdamW(warm_up_steps=2, decay="linear")
    descent, alone = (
        settings.descent(training_of(tiny(), steps=100))
        for settings in (Muon(learning_rate=1e-3, rest=rest), rest)
    )
    for step in (1, 50, 100):
        for each in (descent, alone):
            each.set_rates(step)
        expected = {group["lr"] for group in alone.optimisers[0].param_groups}
        assert {group["lr"] for own in descent.optimisers for group in own.param_groups} == expected


def test_an_output_layer_of_its_own_is_no_hidden_matrix() -> None:
    model = PreLayerNormTransformer(Shape(8, 2, 1, 16)).build(2, 6, seed=0)
    model.lm_head.decoder.weight = torch.nn.Parameter(model.lm_head.decoder.weight.detach().clone())
    assert all(weight is not model.lm_head.decoder.weight for weight in hidden_matrices(model))


def test_muons_update_is_nearly_orthogonal_and_of_adamws_size() -> None:
    model = tiny().float()
    start = weights_of(model)
    rule = Muon(learning_rate=0.1, weight_decay=0.0, rest=AdamW(warm_up_steps=0)).build(training_of(model))
    place = place_of_a_matrix(model)
    gradient = gradients_of(model, 1)[place]
    rule.step(batch_of(1), 1)
    left, singular, right = torch.linalg.svd(gradient, full_matrices=False)
    update = left.T @ ((start[place] - weights_of(model)[place]) / (0.1 * 0.2 * 16**0.5)) @ right.T
    # Five steps in bfloat16 bring all but the smallest singular values near to 1.
    told = int((singular > 0.1 * singular[0]).sum())
    assert told >= 3
    torch.testing.assert_close(update[:told, :told], torch.eye(told), rtol=0, atol=0.35)
    assert (update - update.diag().diag())[:told, :told].abs().max() < 0.05


def test_soap_with_its_first_bases_is_adam_in_them() -> None:
    """Until the bases are renewed, the second step is Adam's first one in the eigenbasis of g gᵀ and gᵀ g."""
    model = tiny()
    start = weights_of(model)
    rule = SOAP(learning_rate=0.01, warm_up_steps=0, weight_decay=0.0).build(training_of(model))
    rule.step(batch_of(1), 1)
    assert all(map(torch.equal, weights_of(model), start))
    place = place_of_a_matrix(model)
    first, second = (gradients_of(model, step)[place] for step in (1, 2))
    rule.step(batch_of(2), 2)
    left = torch.linalg.eigh(first @ first.T)[1].flip(1)
    right = torch.linalg.eigh(first.T @ first)[1].flip(1)
    rotated = left.T @ second @ right
    update = left.T @ (start[place] - weights_of(model)[place]) @ right / 0.01
    # Where eigenvalues vanish, rounding chooses the basis.
    told = slice(0, int(torch.linalg.matrix_rank(first, rtol=1e-3)))
    assert told.stop >= 4
    expected = rotated / (rotated.abs() + 1e-8)
    torch.testing.assert_close(update[told, told], expected[told, told], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "rule",
    [
        SAM,
        FlatnessRegularised,
        partial(Sharpened, (1.0, 2.0)),
        partial(Adversarial, (1.0, 2.0)),
        partial(Polished, 0.1),
    ],
)
def test_a_rule_that_chooses_its_own_gradient_is_not_the_optimiser_of_another(
    rule: Callable[..., UpdateRuleSettings],
) -> None:
    with pytest.raises(BadInput, match="Sophia chooses its own gradient, and cannot be the"):
        rule(optimiser=Sophia())
