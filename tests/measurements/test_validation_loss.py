"""The validation loss against a plain loop over documents, and its error bar against resampling."""

import math

import pytest
import torch
from torch import nn

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.measurements.corpus_loss import (
    FIFTEEN_PER_CENT,
    CorpusLossQuantity,
    SequencesOfDocuments,
    TrainingLossQuantity,
    validation_loss,
)
from isoloss.measurements.quantity import Subject
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.progress import silent
from isoloss.results.estimate import paired_difference
from tiny_models import far_from_the_start

WORDS, LENGTH = 9, 12


def model_of(seed: int) -> nn.Module:
    return far_from_the_start(PreLayerNormTransformer(laptop_shape(16)).build(WORDS, LENGTH, seed), 0.2, seed)


@pytest.fixture(scope="module")
def sequences():
    """150 sequences of 1 to 12 words from 40 documents, each with its own few words."""
    generator = torch.Generator().manual_seed(0)
    documents = torch.randint(40, (150,), generator=generator).sort().values * 3
    lengths = torch.randint(1, LENGTH + 1, (150,), generator=generator)
    ids = torch.randint(3, (150, LENGTH), generator=generator) + documents[:, None] % 7
    return Sentences(ids.masked_fill(torch.arange(LENGTH) >= lengths[:, None], -1), lengths), documents


class Shown(ManyMasksObjective):
    """Records its draws."""

    def draw(self, sentences, generator):
        batch = super().draw(sentences, generator)
        SEEN.append(batch)
        return batch


SEEN: list = []


def test_it_is_the_mean_over_what_was_masked_in_each_document(sequences):
    sentences, documents = sequences
    SEEN.clear()
    model = model_of(1)
    found = validation_loss(model, sentences, documents, seed=3, objective=Shown(share=0.4))
    losses: dict[int, list[float]] = {}
    assert sum(len(batch) for batch in SEEN) == 150
    with torch.no_grad():
        for number, batch in enumerate(SEEN):
            first = 64 * number
            scores = model.eval()(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
            logs = scores.double().log_softmax(-1)
            places = zip(batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist(), strict=True)
            for row, position, target in places:
                document = int(documents[first + row])
                losses.setdefault(document, []).append(-logs[row, position, target].item())
    every = [loss for document in losses.values() for loss in document]
    assert found.estimate.value == pytest.approx(sum(every) / len(every), rel=1e-6)
    assert found.predictions.tolist() == [len(losses[document]) for document in sorted(losses)]
    means = [sum(losses[document]) / len(losses[document]) for document in sorted(losses)]
    assert found.means.tolist() == pytest.approx(means, rel=1e-6)
    assert found.estimate.n == len(losses)


def test_the_error_bar_is_that_of_drawing_other_documents(sequences):
    found = validation_loss(model_of(1), *sequences, seed=3)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(len(found.means), (4000, len(found.means)), generator=generator)
    totals = (found.means * found.predictions)[drawn].sum(1) / found.predictions.double()[drawn].sum(1)
    assert found.estimate.standard_error == pytest.approx(totals.std().item(), rel=0.1)
    # Words of one document are similar: an error bar over single predictions would be too small.
    alone = validation_loss(model_of(1), sequences[0], torch.arange(150), seed=3)
    assert alone.estimate.value == pytest.approx(found.estimate.value, rel=1e-12)
    assert alone.estimate.standard_error < found.estimate.standard_error


def test_masks_depend_on_the_seed_alone(sequences):
    sequences = sequences[0][:70], sequences[1][:70]
    first = validation_loss(model_of(1), *sequences, seed=3)
    piecewise = validation_loss(model_of(1), *sequences, seed=3, memory_bytes=1)
    torch.testing.assert_close(piecewise.means, first.means, rtol=1e-5, atol=1e-6)
    assert torch.equal(piecewise.predictions, first.predictions)
    assert not torch.equal(validation_loss(model_of(1), *sequences, seed=4).means, first.means)
    other = validation_loss(model_of(2), *sequences, seed=3)
    difference = paired_difference(other.document_values, first.document_values)
    assert difference.value == pytest.approx(other.estimate.value - first.estimate.value, rel=1e-9)
    assert difference.standard_error > 0


def test_the_values_behind_the_loss_have_its_error(sequences):
    model, told = model_of(1).train(), []
    found = validation_loss(model, *sequences, seed=3, progress=lambda *report: told.append(report))
    assert model.training
    assert told[-1] == ("validation loss", 150, 150)
    values, loss = found.document_values, found.estimate
    assert loss.n == 40
    assert values.mean().item() == pytest.approx(loss.value, rel=1e-12)
    assert (values.std() / len(values) ** 0.5).item() == pytest.approx(loss.standard_error, rel=1e-12)


def test_the_losses_on_both_splits_are_quantities(sequences):
    sentences, documents = sequences
    model, drawn = model_of(1), SequencesOfDocuments(documents, sentences)
    subject = Subject("abc", FIFTEEN_PER_CENT, {"step": 5}, None)
    expected = validation_loss(model, sentences, documents, seed=3)
    for quantity, name in (
        (CorpusLossQuantity(150, 3), "validation_loss"),
        (TrainingLossQuantity(150, 3), "training_loss"),
    ):
        found = quantity.measure(model, drawn, subject, silent)
        assert found.records == [expected.estimate.record(name, "nats", 3, "abc", {"step": 5})]
        assert set(found.values) == ({name} if name == "validation_loss" else set())


def test_next_words_have_a_validation_loss_too(sequences):
    from isoloss.models.transformers import GPT2Transformer

    model = GPT2Transformer(laptop_shape(16)).build(WORDS, LENGTH, seed=0)
    found = validation_loss(model, *sequences, seed=3, objective=NextWordObjective())
    assert found.estimate.value == pytest.approx(math.log(WORDS + 3), abs=0.2)


def test_what_cannot_be_measured_is_refused(sequences):
    sentences, documents = sequences
    with pytest.raises(BadInput, match="150 sequences and 149 documents do not match"):
        validation_loss(model_of(1), sentences, documents[1:], seed=3)
    model = model_of(1)
    with torch.no_grad():
        next(model.parameters()).fill_(math.nan)
    with pytest.raises(BadInput, match="scores are not finite; its weights have diverged"):
        validation_loss(model, sentences, documents, seed=3)


def test_every_document_is_read_though_trained_in_copies(sequences):
    sentences, documents = sequences
    found, once = (
        validation_loss(model_of(1), sentences, documents, 3, objective=ManyMasksObjective(copies=copies))
        for copies in (5, 1)
    )
    assert torch.equal(found.predictions, once.predictions)
    assert torch.equal(found.means, once.means)
