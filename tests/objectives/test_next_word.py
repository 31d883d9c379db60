import pytest
import torch

from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import ExactObjective, PretrainingObjective, sentence_averaged_loss
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.tokens import CLS, FIRST_WORD, PAD
from tiny_language_models import TOKENS, tiny_language_model

OBJECTIVE = NextWordObjective()
RAGGED = Sentences.from_lists([[0, 1, 2, 3], [2], [4, 4, 0], [1, 3]])
EVEN = Sentences.from_lists([[0, 1, 2], [2, 2, 4], [4, 3, 0]])
every_kind = pytest.mark.parametrize("model", ["gpt2", "llama", "opt"], indirect=True)


@pytest.fixture
def model(request):
    return tiny_language_model(request.param)


@pytest.mark.parametrize("sentences", [RAGGED, EVEN])
def test_every_word_and_the_end_is_predicted_once_and_padding_never(sentences):
    batch = OBJECTIVE.every_prediction(sentences)
    row = 0
    for number, length in enumerate(sentences.lengths.tolist()):
        words = [int(word) + FIRST_WORD for word in sentences.ids[number, :length]]
        assert batch.input_ids[number, : length + 1].tolist() == [CLS, *words]
        assert (batch.input_ids[number, length + 1 :] == PAD).all()
        for position, target in enumerate([*words, CLS]):
            found = (int(batch.rows[row]), int(batch.positions[row]), int(batch.targets[row]))
            assert found == (number, position, target)
            row += 1
    assert row == len(batch.targets)
    assert torch.equal(batch.attention_mask, batch.input_ids != PAD)
    assert OBJECTIVE.predictions(sentences).sum() == row
    assert isinstance(OBJECTIVE, PretrainingObjective)
    assert isinstance(OBJECTIVE, ExactObjective)


@every_kind
def test_logits_are_those_of_each_sentence_alone(model):
    with torch.no_grad():
        logits = OBJECTIVE.logits(model, OBJECTIVE.every_prediction(RAGGED))
        alone = []
        for number, length in enumerate(RAGGED.lengths.tolist()):
            tokens = [CLS, *(RAGGED.ids[number, :length] + FIRST_WORD).tolist()]
            alone.append(model(input_ids=torch.tensor([tokens])).logits[0])
    torch.testing.assert_close(logits, torch.cat(alone), rtol=1e-10, atol=1e-10)


@every_kind
def test_a_prediction_does_not_see_what_it_predicts(model):
    changed = Sentences(EVEN.ids.clone(), EVEN.lengths)
    changed.ids[:, 1:] = (changed.ids[:, 1:] + 1) % 5
    with torch.no_grad():
        before, after = (OBJECTIVE.logits(model, OBJECTIVE.every_prediction(s)) for s in (EVEN, changed))
    before, after = before.view(3, 4, TOKENS), after.view(3, 4, TOKENS)
    torch.testing.assert_close(before[:, :2], after[:, :2], rtol=0, atol=0)
    assert (before[:, 2:] != after[:, 2:]).any(2).all()


@every_kind
def test_gradients_are_those_of_the_whole_models_scores(model):
    batch = OBJECTIVE.every_prediction(RAGGED)
    parameters = list(model.parameters())
    ours = torch.autograd.grad(sentence_averaged_loss(OBJECTIVE.logits(model, batch), batch), parameters)
    whole = model(input_ids=batch.input_ids).logits
    losses = [
        -sum(whole[i].log_softmax(1)[t, target] for t, target in enumerate(targets)) / len(targets)
        for i, targets in enumerate(batch.targets.split(OBJECTIVE.predictions(RAGGED).tolist()))
    ]
    expected = torch.autograd.grad(sum(losses) / 4, parameters)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-12)


def test_distributions_and_outcomes_stand_in_the_same_order():
    language = pcfg(parse_grammar("S -> 'a' 'b' [0.5] | 'a' 'a' [0.2] | 'c' [0.3]"))
    sentences = Sentences.from_lists([[0, 1], [2]])
    distributions = OBJECTIVE.log_probabilities(language, sentences).exp()
    expected = [[0.7, 0, 0.3, 0], [2 / 7, 5 / 7, 0, 0], [0, 0, 0, 1], [0.7, 0, 0.3, 0], [0, 0, 0, 1]]
    torch.testing.assert_close(distributions, torch.tensor(expected, dtype=torch.float64))
    scores = torch.arange(6.0)[None]
    assert OBJECTIVE.outcomes(scores).tolist() == [[3, 4, 5, CLS]]
