"""What models are compared with: the language's distribution (Section 2.2, A.5), and words alone."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.objectives.batch import Batch
from isoloss.objectives.tokens import FIRST_WORD

AT_ONCE = 256
NEVER = -1e9
"""The score of a token that the distribution never gives: finite, and zero as a probability."""


class LookupTable(nn.Module):
    """Its prediction and its contextual vector at t are both Pr(. | x_{-t}); it has no parameters.

    The vectors are the probabilities themselves, not their logarithms (A.5: "the true conditional probability
    vector at each token"). `sentence_features` and `exact_loss` accept it like a model, and its exact loss
    is the entropy: its KL is 0 up to rounding.

    >>> from isoloss.languages.dyck import dyck
    >>> LookupTable(dyck(4)).features(Sentences.from_lists([[0, 1, 0, 1]]))
    tensor([[1., 0., 0., 1., 1., 0., 0., 1.]])
    """

    def __init__(self, language: Language) -> None:
        super().__init__()
        self.language = language

    def features(self, sentences: Sentences) -> Float[Tensor, "n D"]:
        """The concatenated distributions of each sentence's words; D = T c, float32, zero after its end."""
        distributions = [
            self.language.masked_log_probabilities(sentences[start : start + AT_ONCE])
            .exp()
            .float()
            .flatten(1)
            for start in range(0, len(sentences), AT_ONCE)
        ]
        return torch.cat(distributions)

    def logits(self, batch: Batch) -> Float[Tensor, "m v"]:
        """Log-probabilities of the masked word of each row, float64, in nats; `NEVER` instead of -inf.

        The distribution does not depend on the masked word, which is restored only because a language reads
        whole sentences. Raises BadInput if a row has several masks, for which the distributions would be
        different ones.
        """
        if len(batch.rows) != len(batch):
            raise BadInput(
                "a lookup table knows the distribution of one word given all others; mask one word a sentence"
            )
        tokens = batch.input_ids.index_put((batch.rows, batch.positions), batch.targets)
        ids = (tokens[:, 1:] - FIRST_WORD).where(batch.attention_mask[:, 1:], PADDING)
        # Masked at every word, a sentence occurs once per word, each time with all its distributions.
        distinct, number = torch.unique(ids, dim=0, return_inverse=True)
        tokens_known = FIRST_WORD + len(self.language.vocabulary)
        scores = torch.full((len(batch), tokens_known), NEVER, dtype=torch.float64)
        for start in range(0, len(distinct), AT_ONCE):
            part = distinct[start : start + AT_ONCE]
            distributions = self.language.masked_log_probabilities(Sentences(part, (part >= 0).sum(1)))
            wanted = ((number >= start) & (number < start + len(part))).nonzero().flatten()
            masked = distributions[number[wanted] - start, batch.positions[wanted] - 1]
            scores[wanted, FIRST_WORD:] = masked.clamp(min=NEVER)
        return scores


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
