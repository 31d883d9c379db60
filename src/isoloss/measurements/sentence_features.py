"""The features of a whole sentence that a linear probe reads (paper A.4), and how they may be adapted."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.models.lookup_table import LookupTable
from isoloss.objectives.evaluation_mode import FORWARD_MEMORY_BYTES, evaluation_mode, rows_at_once
from isoloss.objectives.tokens import word_vectors


def sentence_features(
    model: nn.Module, sentences: Sentences, memory_bytes: int = FORWARD_MEMORY_BYTES
) -> Float[Tensor, "n D"]:
    """The concatenated contextual vectors of all words of each unmasked sentence; D = T d.

    See `word_vectors`; a `LookupTable` gives the exact distributions, `OneHotWords` the words alone. Dropout
    is off and the model is left as found. The result is on the CPU, in the model's precision: n T d numbers,
    beside a forward pass within `memory_bytes`.

    Raises BadInput when a feature is not finite, naming the sentence.
    """
    if isinstance(model, LookupTable | OneHotWords):
        return model.features(sentences)
    at_once = rows_at_once(model, sentences.ids.shape[1] + 1, memory_bytes)
    with evaluation_mode(model), torch.inference_mode():
        features = [word_vectors(model, ids).cpu() for ids in torch.split(sentences.ids, at_once)]
    whole = torch.cat(features)
    bad = (~whole.isfinite().all(dim=1)).nonzero()
    if len(bad):
        raise BadInput(
            f"the model's features of sentence {int(bad[0]) + 1} are not finite; its weights have diverged: "
            "measure an earlier checkpoint"
        )
    return whole


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


def gaussian_projection(
    features: Float[Tensor, "n D"], seed: int, dimension: int = 512
) -> Float[Tensor, "n P"]:
    """Features times a fixed matrix of independent N(0, 1 / P), P = `dimension`: equal capacity of probes.

    The paper's option for comparing models of different widths (A.4). Squared lengths are preserved on
    average. The same seed gives the same matrix for every model of the same D: train and test must share it.

    >>> gaussian_projection(torch.ones(2, 1000), seed=0, dimension=4).shape
    torch.Size([2, 4])
    """
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(features.shape[1], dimension, generator=generator) / dimension**0.5
    projected: Tensor = features @ matrix.to(features)
    return projected


@runtime_checkable
class FeatureAdaptation(Protocol):
    """A frozen dataclass."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """The features [n, D] and [n_test, D] as the probe reads them; statistics are fitted on `train`."""
        ...


@dataclass(frozen=True)
class AsTheyAre:
    """The paper's probe: neither centred nor scaled."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`."""
        return train, test


@dataclass(frozen=True)
class Standardised:
    """Every feature has mean 0 and deviation 1 on the training sentences; a constant one becomes 0."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`.

        >>> seen, unseen = torch.tensor([[0.0, 3.0], [2.0, 3.0]]), torch.tensor([[5.0, 3.0]])
        >>> train, test = Standardised().adapted(seen, unseen)
        >>> train.tolist(), test.tolist()
        ([[-1.0, 0.0], [1.0, 0.0]], [[4.0, 0.0]])
        """
        mean, deviation = train.mean(0), train.std(0, correction=0)
        # A feature that is constant up to rounding would only add noise.
        constant = deviation <= 1e-6 * train.abs().amax(0)
        scale = torch.where(constant, 0.0, 1 / torch.where(constant, 1.0, deviation))
        return (train - mean) * scale, (test - mean) * scale


@dataclass(frozen=True)
class Projected:
    """Features wider than `dimension` are reduced to it by one `gaussian_projection`, the paper's option.

    Narrower ones are left as they are, as in the paper: to compare widths at equal capacity, choose a
    dimension no larger than that of the narrowest model.
    """

    dimension: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise BadInput(f"features cannot be projected to {self.dimension} dimensions; give at least 1")

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`."""
        if train.shape[1] <= self.dimension:
            return train, test
        projected = (gaussian_projection(features, self.seed, self.dimension) for features in (train, test))
        return next(projected), next(projected)
