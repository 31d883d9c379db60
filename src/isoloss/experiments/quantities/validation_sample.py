"""Some of a corpus's validation sequences, and the documents that they are from."""

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.languages.sentences import Sentences


def validation_sample(
    corpus: PackedCorpus, n: int, generator: torch.Generator
) -> tuple[Sentences, Int[Tensor, " n"]]:
    """n sequences drawn without replacement, all where there are no more; and each one's document."""
    sequences, documents = corpus.validation_sequences(), corpus.validation_documents()
    chosen = torch.randperm(len(sequences), generator=generator)[:n].sort().values
    return sequences[chosen], documents[chosen]
