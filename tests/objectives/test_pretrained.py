from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import FNetConfig, FNetForMaskedLM

from isoloss.curvature.directional_curvature import batch_sharpness, directional_sharpness
from isoloss.curvature.fisher_diagonal import unit_trace
from isoloss.curvature.fisher_trace import RunningFisherTrace, fisher_trace, normalised_trace
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.curvature.loss_rise import ascent_sharpness, noise_sensitivity
from isoloss.curvature.spectrum import top_eigenvalues
from isoloss.curvature.weight_changes import Rounding
from isoloss.errors import BadInput
from isoloss.measurements.sensitivity import Sensitivity
from isoloss.objectives.batch import Batch, sentence_averaged_loss, sentences_between
from isoloss.objectives.pretrained import (
    EqualLengths,
    PretrainedCausal,
    PretrainedMasked,
    SentencesApart,
    choose_places,
    kept_apart,
    masked_batch,
    next_token_batch,
    refuse_reading_ahead,
)
from thorough_cases import others_thorough
from tiny_language_models import PAD, TOKENS, tiny_language_model
from tiny_models import ARCHITECTURES, tiny_model

IDS = torch.tensor([[1, 4, 3, 5, 4], [1, 5, 4, 0, 0], [1, 3, 3, 3, 0]])
PRESENT = IDS != 0


def test_masked_labels_become_predictions_and_give_transformers_own_loss():
    labels = torch.full_like(IDS, -100)
    labels[0, 2], labels[0, 4], labels[2, 1] = 5, 4, 3
    inputs = {"input_ids": IDS, "attention_mask": PRESENT.long(), "labels": labels}
    batch = PretrainedMasked().batch(inputs)
    assert len(batch) == 2  # the second sentence has no label
    assert (batch.rows.tolist(), batch.positions.tolist()) == ([0, 0, 1], [2, 4, 1])
    for architecture in ARCHITECTURES:
        model = tiny_model(architecture, 3, 4).eval()
        logits = PretrainedMasked().logits(model, batch)
        theirs = model(**inputs).loss
        torch.testing.assert_close(torch.nn.functional.cross_entropy(logits, batch.targets), theirs)


def test_a_label_at_padding_is_not_predicted():
    ids = torch.tensor([[5, 6, 7], [8, 0, 0]])
    for objective, places in ((PretrainedMasked(), [0, 1, 2, 0]), (PretrainedCausal(), [0, 1])):
        batch = objective.batch({"input_ids": ids, "attention_mask": ids > 0, "labels": ids.clone()})
        assert batch.positions.tolist() == places


def test_causal_labels_are_shifted_as_transformers_shifts_them():
    labels = IDS.masked_fill(~PRESENT, -100)
    labels[0, 1] = -100
    batch = PretrainedCausal().batch({"input_ids": IDS, "attention_mask": PRESENT, "labels": labels})
    model = tiny_language_model("gpt2")
    logits = PretrainedCausal().logits(model, batch)
    theirs = model(IDS, labels=labels).loss  # in float32, whatever the model's precision is
    ours = torch.nn.functional.cross_entropy(logits, batch.targets)
    torch.testing.assert_close(ours.float(), theirs)


def test_without_labels_every_token_but_the_first_is_predicted():
    batch = PretrainedCausal().batch({"input_ids": IDS, "attention_mask": PRESENT})
    same = next_token_batch([[1, 4, 3, 5, 4], [1, 5, 4], [1, 3, 3, 3]], pad=0)
    for one, other in zip(vars(batch).values(), vars(same).values(), strict=True):
        assert one is other or torch.equal(one, other)
    loss = sentence_averaged_loss(PretrainedCausal().logits(tiny_language_model("gpt2"), batch), batch)
    assert loss.isfinite()


@pytest.mark.parametrize(
    ("objective", "inputs", "sentence"),
    [
        (PretrainedMasked(), {"input_ids": IDS}, "the batch has no labels"),
        (PretrainedMasked(), {"labels": IDS}, "the batch has no input_ids"),
        (
            PretrainedMasked(),
            {"input_ids": IDS, "labels": IDS, "token_type_ids": torch.ones_like(IDS)},
            "token types other than 0",
        ),
        (PretrainedCausal(), {"input_ids": IDS, "attention_mask": PRESENT.flip(1)}, "padded on the left"),
        (
            PretrainedMasked(),
            {"input_ids": IDS, "labels": IDS, "attention_mask": PRESENT.flip(1)},
            "padded on the left",
        ),
    ],
)
def test_batches_that_cannot_be_measured_are_refused(objective, inputs, sentence):
    with pytest.raises(BadInput, match=sentence):
        objective.batch(inputs)


@pytest.mark.parametrize(
    ("objective", "inputs"),
    [
        (PretrainedMasked(), {"input_ids": IDS, "labels": torch.full_like(IDS, -100)}),
        (PretrainedCausal(), {"input_ids": IDS[:, :1]}),
    ],
)
def test_a_batch_in_which_nothing_is_predicted_holds_no_sentence_and_is_passed_over(objective, inputs):
    nothing = objective.batch(inputs)
    assert (len(nothing), len(nothing.rows)) == (0, 0)
    some = next_token_batch([[1, 2, 3], [3, 2]], pad=0)
    batches = [nothing, some, nothing, some]
    model = tiny_language_model("gpt2")
    assert fisher_trace(model, batches, PretrainedCausal()).estimate.n == 4
    with pytest.raises(BadInput, match="no sentences to measure on that have anything to predict"):
        fisher_trace(model, [nothing], PretrainedCausal())


@pytest.mark.parametrize(
    "value",
    [
        lambda *given: fisher_trace(*given).estimate,
        lambda *given: normalised_trace(*given).estimate,
        lambda *given: unit_trace(*given).estimate,
        lambda *given: gradient_norm(*given).squared,
        lambda *given: ascent_sharpness(*given).estimates,
        lambda *given: directional_sharpness(*given).estimate,
        lambda *given: batch_sharpness(*given, batch=1).estimate,
        *others_thorough(
            (
                lambda *given: noise_sensitivity(*given).estimates,
                lambda *given: top_eigenvalues(*given, count=1).estimates,
                lambda model, batches, of: Sensitivity.of(model, of, batches).of_whole(Rounding(4)),
            ),
            quick=0,
        ),
    ],
)
def test_a_batch_without_sentences_changes_no_number_nor_that_batches_come_one_by_one(value):
    some, model = next_token_batch([[1, 2, 3], [3, 2], [2, 3]], pad=0), tiny_language_model("gpt2").float()
    batches = [sentences_between(some, *bounds) for bounds in ((0, 0), (0, 2), (2, 2), (2, 3), (3, 3))]
    with_some = list(filter(len, batches))
    assert value(model, iter(batches), PretrainedCausal()) == value(model, with_some, PretrainedCausal())


def test_what_no_objective_has_read_is_refused():
    with pytest.raises(BadInput, match=r"a batch is a dict, .* give map\(objective.batch, loader\)"):
        fisher_trace(tiny_language_model("gpt2"), iter([{"input_ids": IDS}]), PretrainedCausal())


def test_three_lines_from_a_data_loader():
    loader = torch.utils.data.DataLoader([{"input_ids": row} for row in IDS.clamp(min=1)], batch_size=2)
    objective = PretrainedCausal()
    trace = fisher_trace(tiny_language_model("gpt2"), map(objective.batch, loader), objective)
    assert trace.estimate.n == 3


def test_each_place_is_as_likely_and_the_number_is_as_asked():
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(12)
    for _ in range(3000):
        (place,) = choose_places([2, 5, 7, 11], None, generator)
        counts[place] += 1
    assert counts.nonzero().flatten().tolist() == [2, 5, 7, 11]
    assert (counts[[2, 5, 7, 11]] - 750).abs().max() < 4 * (750 * 0.75) ** 0.5
    for share, length, expected in ((0.15, 20, 3), (0.15, 2, 1), (0.5, 5, 2), (1.0, 4, 4), (0.15, 10, 2)):
        places = choose_places(range(length), share, generator)
        assert len(set(places)) == expected
        assert places == sorted(places)


MASK = 1
SENTENCES = [[5, 6, 7, 8], [9, 2], [3, 4, 5], [6, 7], [8, 9, 10], [2, 3, 4, 5, 6], [7, 8]]


class Scored:
    """The objective of models that score every position themselves."""

    def logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        return model(batch.input_ids)[batch.rows, batch.positions]


class Words(nn.Module):
    """Reads each word by itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.output = nn.Embedding(TOKENS, 6), nn.Linear(6, TOKENS)
        self.double()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(self.mixed(self.words(ids)))

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


class Neighbours(Words):
    """Also reads a sentence's neighbouring words, including padding."""

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return (x + nn.functional.pad(x[:, 1:], (0, 0, 0, 1)) + x.mean(dim=1, keepdim=True)).sin()


class OtherSentences(Words):
    """Subtracts the batch's mean."""

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=(0, 1))).sin()


def batch_of(sentences: list[list[int]]) -> Batch:
    return masked_batch(sentences, [[len(each) - 1] for each in sentences], MASK, PAD)


def fnet() -> nn.Module:
    config = FNetConfig(
        vocab_size=TOKENS, hidden_size=8, num_hidden_layers=1, intermediate_size=8, max_position_embeddings=8
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = FNetForMaskedLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 10
    return model


@pytest.mark.parametrize(
    ("model", "way"),
    [
        (Words, None),
        (Neighbours, "equally long sentences at a time"),
        (OtherSentences, "one sentence at a time"),
    ],
)
def test_sentences_are_kept_apart_as_far_as_it_takes(model, way):
    apart = SentencesApart(model(), Scored())
    assert apart.way is None
    objective = apart.objective(batch_of(SENTENCES))
    assert apart.way == way
    assert (objective is apart.objective(batch_of(SENTENCES[:2]))) or way is None


def test_it_is_decided_again_where_lengths_first_differ():
    apart = SentencesApart(Neighbours(), Scored())
    apart.objective(batch_of([[5, 6], [7, 8]]))
    assert apart.way is None
    apart.objective(batch_of([[5, 6], [7, 8, 9]]))
    assert apart.way == "equally long sentences at a time"


@pytest.mark.parametrize("at_once", [None, 1])
def test_scores_are_those_of_each_sentence_alone_in_order(at_once):
    model, batch = Neighbours(), batch_of(SENTENCES)
    found = EqualLengths(Scored(), at_once).logits(model, batch)
    alone = torch.cat([Scored().logits(model, batch_of([each])) for each in SENTENCES])
    torch.testing.assert_close(found, alone)
    assert kept_apart(Words(), Scored(), batch).logits(Words(), batch).shape == found.shape


@cache
def traces_of_each_alone(model, objective):
    alone = RunningFisherTrace(model, objective, seed=3)
    for sentence in SENTENCES:
        alone.add(batch_of([sentence]))
    return alone.result("").values


@pytest.mark.parametrize(
    ("model", "objective"),
    others_thorough([(Neighbours(), Scored()), (OtherSentences(), Scored()), (fnet(), PretrainedMasked())]),
    ids=["neighbours", "other sentences", "FNet"],
)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_the_trace_does_not_depend_on_how_sentences_are_batched(model, objective, data):
    cuts = data.draw(st.lists(st.integers(1, len(SENTENCES) - 1), unique=True).map(sorted))
    running = RunningFisherTrace(model, objective, seed=3)
    for start, stop in zip([0, *cuts], [*cuts, len(SENTENCES)], strict=True):
        running.add(batch_of(SENTENCES[start:stop]))
    alone = traces_of_each_alone(model, objective)
    torch.testing.assert_close(running.result("").values, alone, rtol=1e-9, atol=0)


class Recurrent(nn.Module):
    def __init__(self, both_ways: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(TOKENS, 4)
        self.states = nn.GRU(4, 4, batch_first=True, bidirectional=both_ways)
        self.output = nn.LazyLinear(TOKENS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(self.states(self.words(ids))[0])


def test_what_sees_the_next_token_is_refused():
    batch = next_token_batch([[5, 6], [7, 8, 2, 3]], PAD)
    refuse_reading_ahead(Recurrent(both_ways=False), Scored(), batch)
    with pytest.raises(BadInput, match="Recurrent sees the token that it is to predict"):
        refuse_reading_ahead(Recurrent(both_ways=True), Scored(), batch)
