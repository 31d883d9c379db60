"""Small networks to be trained in the laboratory, and whether two have the same weights."""

from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM


class Layered(nn.Module):
    """A torch module that knows nothing of this library."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 8)
        self.head = nn.Linear(8, 9)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids).cumsum(1))


def same_weights(module: nn.Module, other: nn.Module) -> bool:
    return all(a.equal(b) for a, b in zip(module.parameters(), other.parameters(), strict=True))


def bert(**changes: int) -> BertForMaskedLM:
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForMaskedLM(BertConfig(**({"vocab_size": 9, "max_position_embeddings": 12} | size | changes)))
