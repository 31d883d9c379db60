"""A task of texts whose label is the half of the vocabulary that their words are from, and their vectors."""

import random

import torch

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from tiny_text_models import WORDS


def examples(n, seed):
    """Texts of 1 to 6 words from the half of WORDS given by the label."""
    chosen = random.Random(seed)
    labels = [chosen.randint(0, 1) for _ in range(n)]
    halves = WORDS[4:], WORDS[:4]
    texts = tuple(" ".join(chosen.choices(halves[label], k=chosen.randint(1, 6))) for label in labels)
    return LabelledTexts(texts, None, tuple(labels))


TASK = TextTask("half", ("late", "early"), examples(200, 1), examples(40, 2), examples(60, 3))


def vectors(model, ids, **arguments):
    with torch.no_grad():
        return model.base_model(input_ids=torch.tensor([ids]), **arguments).last_hidden_state[0]
