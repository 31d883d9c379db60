import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.errors import BadInput
from isoloss.objectives.batch import sentence_averaged_loss
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, choose_places, next_token_batch
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


def gpt2():
    config = GPT2Config(vocab_size=6, n_positions=8, n_embd=8, n_layer=1, n_head=2, initializer_range=0.5)
    return GPT2LMHeadModel(config).double().eval()


def test_causal_labels_are_shifted_as_transformers_shifts_them():
    labels = IDS.masked_fill(~PRESENT, -100)
    labels[0, 1] = -100
    batch = PretrainedCausal().batch({"input_ids": IDS, "attention_mask": PRESENT, "labels": labels})
    model = gpt2()
    logits = PretrainedCausal().logits(model, batch)
    theirs = model(IDS, labels=labels).loss  # in float32, whatever the model's precision is
    ours = torch.nn.functional.cross_entropy(logits, batch.targets)
    torch.testing.assert_close(ours.float(), theirs)


def test_without_labels_every_token_but_the_first_is_predicted():
    batch = PretrainedCausal().batch({"input_ids": IDS, "attention_mask": PRESENT})
    same = next_token_batch([[1, 4, 3, 5, 4], [1, 5, 4], [1, 3, 3, 3]], pad=0)
    for one, other in zip(vars(batch).values(), vars(same).values(), strict=True):
        assert one is other or torch.equal(one, other)
    loss = sentence_averaged_loss(PretrainedCausal().logits(gpt2(), batch), batch)
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
    assert fisher_trace(gpt2(), batches, PretrainedCausal()).estimate.n == 4
    with pytest.raises(BadInput, match="no sentences to measure on that have anything to predict"):
        fisher_trace(gpt2(), [nothing], PretrainedCausal())


def test_what_no_objective_has_read_is_refused():
    with pytest.raises(BadInput, match=r"a batch is a dict, .* give map\(objective.batch, loader\)"):
        fisher_trace(gpt2(), iter([{"input_ids": IDS}]), PretrainedCausal())


def test_three_lines_from_a_data_loader():
    loader = torch.utils.data.DataLoader([{"input_ids": row} for row in IDS.clamp(min=1)], batch_size=2)
    objective = PretrainedCausal()
    trace = fisher_trace(gpt2(), map(objective.batch, loader), objective)
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
