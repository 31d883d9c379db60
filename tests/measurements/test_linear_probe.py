from dataclasses import replace

import pytest
import torch
from torch import nn

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, most_probable
from isoloss.measurements.linear_probe import (
    Accuracy,
    Heads,
    LabelledFeatures,
    ProbeSettings,
    reference_records,
    train_heads,
)
from isoloss.measurements.probe_minibatches import OneHotRows


def problem(n, classes=3, dimension=20, seed=0, dtype=torch.float64):
    """Noisy linear labels, so that no head is always right."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, dimension, generator=generator, dtype=torch.float64)
    truth = torch.randn(dimension, classes, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    scores = features @ truth + 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return features.to(dtype), scores.argmax(1)


def plain_head(features, labels, classes, settings, seed):
    """One seed by a loop over minibatches with torch's own layer, loss, autograd and optimiser."""
    generator = torch.Generator().manual_seed(seed)
    head = nn.Linear(features.shape[1], classes, dtype=features.dtype)
    bound = features.shape[1] ** -0.5
    start = torch.empty(classes, features.shape[1] + 1).uniform_(-bound, bound, generator=generator)
    with torch.no_grad():
        head.weight.copy_(start[:, :-1])
        head.bias.copy_(start[:, -1])
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, foreach=False
    )
    steps, warm_up = settings.epochs * -(-len(labels) // settings.batch_size), settings.warm_up_steps

    def share(step):
        rising_and_falling = ((step + 1) / warm_up, (steps - step) / (steps + 1 - warm_up)) if warm_up else ()
        return min(1.0, *rising_and_falling, 1.0)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    for _ in range(settings.epochs):
        for chosen in torch.randperm(len(labels), generator=generator).split(settings.batch_size):
            optimizer.zero_grad()
            x = features[chosen]
            if settings.dropout:
                kept = torch.rand(x.shape, generator=generator) >= settings.dropout
                x = x * kept / (1 - settings.dropout)
            nn.functional.cross_entropy(head(x), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
    return head


RELEASED = {"dropout": 0.1, "warm_up_steps": 5}


@pytest.mark.parametrize(("batch_size", "released"), [(32, {}), (50, {}), (1000, {}), (50, RELEASED)])
def test_heads_are_those_of_a_plain_loop(batch_size, released):
    """Whole and partial last minibatches, too few examples for one, and the released code's options."""
    features, labels = problem(210)
    settings = ProbeSettings(seeds=(3, 8), epochs=7, batch_size=batch_size, weight_decay=0.1, **released)
    heads = train_heads(features, labels, 3, settings)
    for place, seed in enumerate(settings.seeds):
        expected = plain_head(features, labels, 3, settings, seed)
        plain = torch.cat([expected.weight, expected.bias[:, None]], dim=1).detach()
        torch.testing.assert_close(heads.weight[place], plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [32, 1000])
def test_heads_on_ones_are_those_on_the_same_features_written_out(batch_size):
    """Sentences of unlike lengths, a word that no row has, and a last minibatch that is not full."""
    generator = torch.Generator().manual_seed(6)
    words = torch.randint(0, 6, (210, 5), generator=generator)
    lengths = torch.randint(1, 6, (210,), generator=generator)
    ones = (7 * torch.arange(5) + words).where(torch.arange(5) < lengths[:, None], -1)
    labels = (words[:, 0] + words[:, 1]) % 3
    written_out = torch.zeros(210, 36).scatter_(1, ones.where(ones >= 0, 35), 1.0)[:, :35]
    settings = ProbeSettings(seeds=(3, 8), epochs=7, batch_size=batch_size, warm_up_steps=5)
    rows = OneHotRows(ones, 35)
    found, expected = (train_heads(each, labels, 3, settings) for each in (rows, written_out))
    torch.testing.assert_close(found.weight, expected.weight, rtol=1e-4, atol=1e-6)
    assert torch.equal(found.predict(rows), expected.predict(written_out))
    with pytest.raises(BadInput, match="without dropout"):
        train_heads(rows, labels, 3, replace(settings, dropout=0.1))


@pytest.mark.thorough
def test_accuracies_are_those_of_a_plain_loop_in_single_precision():
    features, labels = problem(400, dtype=torch.float32)
    test_features, test_labels = problem(1000, seed=1, dtype=torch.float32)
    settings = ProbeSettings(epochs=20, batch_size=64)
    found = LabelledFeatures(features, labels, test_features, test_labels, 3).probed(settings)
    for place, seed in enumerate(settings.seeds):
        head = plain_head(features, labels, 3, settings, seed)
        accuracy = float((head(test_features).argmax(1) == test_labels).double().mean())
        assert float(found.by_seed[place]) == pytest.approx(accuracy, abs=0.003)
    assert 0.5 < found.estimate.value < 0.95


def test_same_seeds_same_bits_and_each_seed_its_own():
    features, labels = problem(100, dtype=torch.float32)
    first = train_heads(features, labels, 3, ProbeSettings(epochs=2))
    again = train_heads(features, labels, 3, ProbeSettings(epochs=2))
    assert torch.equal(first.weight, again.weight)
    assert len({float(weight.sum()) for weight in first.weight}) == 5


def test_prediction_is_the_largest_score():
    heads = Heads(torch.tensor([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]))
    assert heads.predict(torch.tensor([[2.0], [-2.0]])).tolist() == [[0, 1], [1, 1]]


def test_records_show_both_deviations():
    right = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 1]]).double()
    accuracy = Accuracy.of("linear_probe", right)
    mean, deviation = accuracy.records("step-4", {"task": "root"})
    assert (mean.quantity, mean.value, mean.n, mean.unit) == ("linear_probe_accuracy", 0.625, 4, "fraction")
    assert mean.standard_error == pytest.approx(float(torch.tensor([1, 0.5, 0, 1]).std()) / 2)
    assert deviation.quantity == "linear_probe_deviation_over_seeds"
    assert (deviation.value, deviation.n) == (pytest.approx(0.25 / 2**0.5), 2)
    assert (mean.checkpoint, mean.settings) == ("step-4", {"task": "root"})


@pytest.mark.thorough
def test_error_bar_covers_the_accuracy_on_all_sentences():
    """Heads held fixed: intervals from 600 test sentences against the accuracy on 100,000."""
    features, labels = problem(300)
    heads = train_heads(features, labels, 3, ProbeSettings(epochs=5))
    everything, truth = problem(100_000, seed=2)
    right = (heads.predict(everything) == truth).double()
    accuracy = float(right.mean())
    generator = torch.Generator().manual_seed(0)
    covered = []
    for _ in range(1000):
        drawn = right[:, torch.randint(0, 100_000, (600,), generator=generator)]
        estimate = Accuracy.of("linear_probe", drawn).estimate
        covered.append(abs(estimate.value - accuracy) < 1.96 * estimate.standard_error)
    assert 0.93 < sum(covered) / len(covered) < 0.97


def test_chance_ceiling_and_latent_agreement():
    posterior = torch.tensor([[0.7, 0.3], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], dtype=torch.float64)
    sentences = Sentences.from_lists([[0], [1], [2], [0]])
    test = LabelledSentences(sentences, posterior.argmax(1), posterior)
    records = {record.quantity: record for record in reference_records(test, {"task": "root"})}
    assert records["chance_accuracy"].value == 0.75
    assert records["posterior_accuracy"].value == 1.0
    assert records["latent_agreement"].value == pytest.approx(0.75)
    assert all(record.n == 4 and record.settings == {"task": "root"} for record in records.values())


def test_a_ceiling_breaks_ties_up_to_rounding_as_labels_do():
    posterior = torch.tensor([[0.5, 0.5 + 1e-16], [0.5 + 2e-16, 0.5], [0.4, 0.6]], dtype=torch.float64)
    sentences = Sentences.from_lists([[0], [1], [2]])
    test = LabelledSentences(sentences, most_probable(posterior), posterior)
    records = {record.quantity: record.value for record in reference_records(test, {})}
    assert records["posterior_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("features", "labels", "sentence"),
    [
        (torch.ones(2, 3), torch.tensor([0, 2]), "between 0 and 1, not 0 and 2"),
        (torch.ones(2, 3), torch.tensor([-1, 1]), "between 0 and 1, not -1 and 1"),
        (torch.ones(0, 3), torch.tensor([], dtype=torch.int64), "not 0 for 0"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused(features, labels, sentence):
    with pytest.raises(BadInput, match=sentence):
        train_heads(features, labels, 2, ProbeSettings())


@pytest.mark.parametrize("settings", [{"seeds": (1,)}, {"seeds": (1, 1)}, {"epochs": 0}, {"batch_size": 0}])
def test_settings_that_cannot_be_used_are_refused(settings):
    with pytest.raises(BadInput):
        ProbeSettings(**settings)


def test_progress_counts_epochs():
    told = []

    train_heads(*problem(20), 3, ProbeSettings(epochs=3), lambda *words: told.append(words[:3]))
    assert told == [("probe", 1, 3), ("probe", 2, 3), ("probe", 3, 3)]
