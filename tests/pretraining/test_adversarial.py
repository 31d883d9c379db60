"""The closed-form head and its derivative against oracles, and the adversary's λ and examples."""

import copy
from dataclasses import replace

import pytest
import torch
from markov_language import MarkovLanguage
from rule_cases import LANGUAGE, batch_of, tiny, training_of, weights_of
from torch.nn.functional import one_hot

from isoloss.errors import BadInput
from isoloss.measurements.task_sentences import sentence_features
from isoloss.pretraining.adversarial import Adversarial, AdversarialRule, ridge_head_loss
from isoloss.pretraining.descent import SGD

SETTINGS = Adversarial(
    (1.0, 3.0), strength=0.5, examples=8, optimiser=SGD(learning_rate=0.1, warm_up_share=0.0)
)


def features(n: int, width: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (n,), generator=generator)


@pytest.mark.parametrize("width", [4, 30])
def test_the_head_is_what_gradient_descent_on_it_finds(width: int) -> None:
    """Fewer and more features than sentences; bias unpenalised, squared loss on one-hot labels."""
    (x, y), (x_new, y_new) = features(12, width, 0), features(7, width, 1)
    ridge = 0.3
    centred = x - x.mean(dim=0)
    alpha = ridge * float(centred.square().sum()) / 12
    head = torch.zeros(width + 1, 3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([head], max_iter=500, tolerance_grad=1e-12, tolerance_change=0.0)

    def predict(inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ head[:-1] + head[-1]

    def fit() -> torch.Tensor:
        optimiser.zero_grad()
        loss = (predict(x) - one_hot(y, 3)).square().sum() + alpha * head[:-1].square().sum()
        loss.backward()
        return loss

    optimiser.step(fit)
    expected = (predict(x_new) - one_hot(y_new, 3)).square().sum(dim=1).mean()
    found = ridge_head_loss(x, y, x_new, y_new, 3, ridge)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-7, atol=1e-9)


def test_the_derivative_goes_through_the_fit() -> None:
    (x, y), (x_new, y_new) = features(6, 4, 0), features(5, 4, 1)
    inputs = (x.requires_grad_(), x_new.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: ridge_head_loss(a, y, b, y_new, 3, 0.1), inputs)


def test_scale_changes_nothing_and_equal_features_say_the_commonest() -> None:
    (x, y), (x_new, y_new) = features(12, 5, 0), features(7, 5, 1)
    plain = ridge_head_loss(x, y, x_new, y_new, 3, 0.1)
    torch.testing.assert_close(ridge_head_loss(1e3 * x + 7, y, 1e3 * x_new + 7, y_new, 3, 0.1), plain)
    mean = one_hot(y, 3).double().mean(dim=0)
    blind = (mean - one_hot(y_new, 3)).square().sum(dim=1).mean()
    torch.testing.assert_close(ridge_head_loss(0 * x, y, 0 * x_new, y_new, 3, 0.1), blind)


def rule_of(settings: Adversarial = SETTINGS) -> AdversarialRule:
    return settings.build(training_of(tiny()))


def test_the_step_descends_the_loss_less_the_heads_by_finite_differences() -> None:
    """Along random directions of all weights, through model, features and fit."""
    rule, step = rule_of(), 5
    model, start = rule.training.model, weights_of(rule.training.model)
    batch = batch_of(step)

    def objective() -> torch.Tensor:
        with torch.no_grad():
            return rule.training.loss(batch) - strength * rule.head_validation_loss(step)

    before = copy.deepcopy(rule)
    rule.step(batch, step)
    update = [(old - new) / 0.1 for old, new in zip(start, weights_of(model), strict=True)]
    strength = rule.readings()["lambda"]
    assert 0 < strength < 0.5
    rule.training.model.load_state_dict(before.training.model.state_dict())
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        directions = [torch.randn(w.shape, generator=generator, dtype=torch.float64) for w in start]
        values = []
        for side in (1e-5, -1e-5):
            with torch.no_grad():
                for weight, origin, direction in zip(model.parameters(), start, directions, strict=True):
                    weight.copy_(origin + side * direction)
            values.append(objective())
        expected = sum((u * d).sum() for u, d in zip(update, directions, strict=True))
        torch.testing.assert_close((values[0] - values[1]) / 2e-5, expected, rtol=1e-5, atol=1e-7)


def test_the_head_reads_what_the_linear_probe_reads_without_dropout() -> None:
    model = tiny(dropout=0.5)
    rule = SETTINGS.build(training_of(model))
    splits = rule.examples(1)
    train, validation = (
        sentence_features(model, part.sentences) for part in (splits.train, splits.validation)
    )
    expected = ridge_head_loss(
        train, splits.train.labels, validation, splits.validation.labels, 2, SETTINGS.ridge
    )
    torch.testing.assert_close(rule.head_validation_loss(1).detach(), expected)
    assert all(module.training for module in model.modules())


def test_examples_are_fresh_disjoint_and_of_each_task_in_turn() -> None:
    rule = rule_of()
    seen = []
    for step in range(1, 7):
        splits = rule.examples(step)
        first, second = (
            {tuple(ids) for ids in part.sentences.ids.tolist()} for part in (splits.train, splits.validation)
        )
        assert not first & second
        assert (len(splits.train), len(splits.validation)) == (8, 8)
        again = rule.examples(step)
        assert torch.equal(splits.train.sentences.ids, again.train.sentences.ids)
        seen.append(splits.train.sentences.ids.flatten().tolist())
    assert len({tuple(ids) for ids in seen}) == 6
    assert [task.name for task in rule.tasks] == ["first-word", "first-word-again"]
    assert [task.name for task in rule_of(replace(SETTINGS, tasks=("first-word-again",))).tasks] == [
        "first-word-again"
    ]


@pytest.mark.parametrize(("window", "expected"), [((0.01, 0.02), 0.0), ((8.0, 9.0), 0.5), ((1.0, 3.0), None)])
def test_lambda_is_linear_in_the_loss_over_the_window(
    window: tuple[float, float], expected: float | None
) -> None:
    rule = rule_of(replace(SETTINGS, loss_window=window, smoothing=0.9))
    losses = [rule.step(batch_of(step), step).item() for step in (1, 2, 3)]
    weights = [0.9**2, 0.9, 1.0]
    smoothed = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    readings = rule.readings()
    assert readings["smoothed_loss"] == pytest.approx(smoothed, rel=1e-12)
    if expected is None:
        expected = 0.5 * (3.0 - smoothed) / 2.0
        assert 0 < expected < 0.5
    assert readings["lambda"] == pytest.approx(expected, rel=1e-12)
    assert ("head_validation_loss" in readings) == (expected > 0)


def test_without_lambda_it_is_the_plain_rule() -> None:
    rule, model = rule_of(replace(SETTINGS, loss_window=(0.0, 1e-9))), tiny()
    plain = SETTINGS.optimiser.build(training_of(model))
    for step in (1, 2, 3):
        assert torch.equal(rule.step(batch_of(step), step), plain.step(batch_of(step), step))
    assert all(map(torch.equal, rule.training.model.parameters(), model.parameters()))


@pytest.mark.parametrize(
    ("settings", "language", "words"),
    [
        (SETTINGS, MarkovLanguage(), "tasks, and this one has none"),
        (replace(SETTINGS, tasks=("last-word",)), LANGUAGE, "no task 'last-word'; choose first-word"),
        (
            replace(SETTINGS, examples=8),
            replace(LANGUAGE, stay=1.0, shortest=6),
            "too few different sentences",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_training(
    settings: Adversarial, language: MarkovLanguage, words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        settings.build(replace(training_of(tiny()), language=language, seed=2))
