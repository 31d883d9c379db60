"""Opening tasks against full forward passes."""

from collections import Counter

import pytest
import torch
from enumeration import chi_square_passes

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import Task
from tiny_causal_models import MODELS, joint_log_probabilities, tiny_causal_model, tiny_language


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def first_word_distribution(kind):
    """By marginalising the joint distribution of two words."""
    pairs = torch.cartesian_prod(torch.arange(7), torch.arange(7))
    return joint_log_probabilities(tiny_causal_model(kind), pairs).exp().view(7, 7).sum(1)


@pytest.mark.parametrize("kind", MODELS)
def test_the_posterior_is_that_of_full_forward_passes(kind):
    tasks, distribution = tiny_language(kind, length=5).tasks(), first_word_distribution(kind)
    assert [task.name for task in tasks] == ["opening-2", "opening-4"]
    for k, task in zip((2, 4), tasks, strict=True):
        assert isinstance(task, Task)
        assert task.openings == tuple(distribution.argsort(descending=True)[:k].tolist())
        assert task.classes == tuple("abcdefg"[word] for word in task.openings)
        drawn = task.sample(30, generator())
        assert drawn.sentences.lengths.tolist() == [4] * 30
        whole = torch.stack(
            [torch.nn.functional.pad(drawn.sentences.ids, (1, 0), value=o) for o in task.openings], dim=1
        )
        joint = joint_log_probabilities(tiny_causal_model(kind), whole.flatten(0, 1)).view(30, k)
        torch.testing.assert_close(drawn.posterior, joint.softmax(1), rtol=0, atol=1e-10)
        assert torch.equal(drawn.labels, joint.argmax(1))
        assert len(drawn.labels.unique()) > 1


def test_the_first_word_is_drawn_by_its_distribution_among_the_openings_and_the_rest_as_ever():
    language, n = tiny_language("gpt2", length=3), 20_000
    task, distribution = language.tasks()[1], first_word_distribution("gpt2")
    openings = torch.tensor(task.openings)
    drawn = language.sample_opening_with(openings, n, generator(1))
    every = torch.cartesian_prod(openings, torch.arange(7), torch.arange(7))
    joint = joint_log_probabilities(tiny_causal_model("gpt2"), every).exp() / distribution[openings].sum()
    assert float(joint.sum()) == pytest.approx(1)
    expected = dict(zip(map(tuple, every.tolist()), (n * joint).tolist(), strict=True))
    assert chi_square_passes(Counter(map(tuple, drawn.ids.tolist())), expected)
    # The ceiling is how often the label is the word that was drawn.
    labelled = task.label(Sentences(drawn.ids[:, 1:], drawn.lengths - 1))
    named = (openings[labelled.labels] == drawn.ids[:, 0]).double()
    ceiling = labelled.posterior.amax(1)
    assert float(named.mean()) == pytest.approx(float(ceiling.mean()), abs=4 * float(named.std()) / n**0.5)


def test_sentences_do_not_depend_on_how_calls_are_split_or_on_the_memory():
    task = tiny_language("opt", length=5).tasks()[0]
    tight = tiny_language("opt", length=5, memory_bytes=1).tasks()[0]
    together, split = task.sample(40, generator(3)), generator(3)
    parts = [tight.sample(n, split) for n in (1, 20, 0, 19)]
    assert torch.equal(together.sentences.ids, torch.cat([part.sentences.ids for part in parts]))
    torch.testing.assert_close(together.posterior, torch.cat([part.posterior for part in parts]))
    assert not torch.equal(together.sentences.ids, task.sample(40, generator(4)).sentences.ids)


def test_sentences_of_another_length_are_refused():
    task = tiny_language("gpt2", length=4).tasks()[0]
    with pytest.raises(BadInput, match="sentence 2 has 4 words, those of opening-2 have 3"):
        task.label(Sentences.from_lists([[0, 1, 2], [0, 1, 2, 3]]))
    with pytest.raises(BadInput, match="sentence 1, position 2: there is no word number 7"):
        task.label(Sentences.from_lists([[0, 7, 2]]))


def test_languages_too_small_for_a_choice_have_no_such_task():
    assert tiny_language("gpt2", length=1).tasks() == []
