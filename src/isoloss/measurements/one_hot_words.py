"""Words alone as features: the control for what a probe reads of a model's vectors."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.languages.sentences import Sentences


class OneHotWords(nn.Module):
    """A model of `words` words that knows nothing but which word stands at each of `width` places.

    The control for a probe on a model's vectors: what it reaches without any model.

    >>> OneHotWords(words=2, width=2).features(Sentences.from_lists([[1, 0], [1]])).tolist()
    [[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words, self.width = words, width

    def features(self, sentences: Sentences) -> Float[Tensor, "n D"]:
        """The concatenated one-hot vectors of the words; D = `width` * `words`, zeros after the end."""
        n, longest = sentences.ids.shape
        features = torch.zeros(n, self.width, self.words + 1)
        places = sentences.ids.where(sentences.real, self.words)
        features[:, :longest].scatter_(2, places[:, :, None], 1.0)
        return features[:, :, : self.words].flatten(1)
