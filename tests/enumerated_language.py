"""A language small enough to be written down."""

import itertools

import torch

from isoloss.languages.sentences import Sentences


class EnumeratedLanguage:
    """Sentences of 2 to 4 of three words, each with its own probability; some have none."""

    vocabulary = ("a", "b", "c")
    maximum_length = 4
    digest = "0"

    def __init__(self, lengths=(2, 3, 4)):
        generator = torch.Generator().manual_seed(0)
        self.all = [list(words) for n in lengths for words in itertools.product(range(3), repeat=n)]
        weights = torch.rand(len(self.all), generator=generator, dtype=torch.float64)
        weights[torch.rand(len(self.all), generator=generator) < 0.2] = 0
        self.probabilities = weights / weights.sum()
        self.distribution = dict(zip(map(tuple, self.all), self.probabilities.tolist(), strict=True))

    def sample(self, n, generator):
        drawn = torch.multinomial(self.probabilities, n, replacement=True, generator=generator)
        sentences = Sentences.from_lists([self.all[i] for i in drawn.tolist()])
        padding = self.maximum_length - sentences.ids.shape[1]
        return Sentences(torch.nn.functional.pad(sentences.ids, (0, padding), value=-1), sentences.lengths)

    def masked_log_probabilities(self, sentences):
        distributions = torch.full((*sentences.ids.shape, 3), -torch.inf, dtype=torch.float64)
        for i, t in sentences.real.nonzero().tolist():
            words = sentences.ids[i, : sentences.lengths[i]].tolist()
            joint = [self.distribution[(*words[:t], w, *words[t + 1 :])] for w in range(3)]
            distributions[i, t] = (torch.tensor(joint, dtype=torch.float64) / sum(joint)).log()
        return distributions

    def next_log_probabilities(self, sentences):
        raise NotImplementedError

    def log_probability(self, sentences):
        raise NotImplementedError

    def tasks(self):
        return ()
