"""The features of a whole sentence that a linear probe reads (paper A.4)."""

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

    See `word_vectors`; for a `LookupTable`, the exact distributions instead. Dropout is off and the model is
    left as found. The result is on the CPU, in the model's precision: n T d numbers, beside a forward pass
    within `memory_bytes`.

    Raises BadInput when a feature is not finite, naming the sentence.
    """
    if isinstance(model, LookupTable):
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


def word_features(sentences: Sentences, words: int, width: int) -> Float[Tensor, "n D"]:
    """The concatenated one-hot vectors of the words; D = `width` * `words`, zeros after the end.

    The control for a probe on a model's vectors: what it reaches without any model.

    >>> word_features(Sentences.from_lists([[1, 0], [1]]), words=2, width=2).tolist()
    [[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """
    n, longest = sentences.ids.shape
    features = torch.zeros(n, width, words + 1)
    places = sentences.ids.where(sentences.real, words)
    features[:, :longest].scatter_(2, places[:, :, None], 1.0)
    return features[:, :, :words].flatten(1)


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
