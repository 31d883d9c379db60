"""The features of texts of any length that a linear probe reads."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import LabelledTexts
from isoloss.errors import BadInput
from isoloss.measurements.text_inputs import LONGEST, TextInputs, text_inputs
from isoloss.objectives.evaluation_mode import REAL_TEXT_MEMORY_BYTES, evaluation_mode, rows_at_once
from isoloss.progress import Progress, silent

DESCRIPTION = (
    "mean of the last layer's vectors of the text's own tokens (of a pair: that of the first text, then that "
    "of the second), each feature centred and scaled by the training texts"
)
"""What a probe of texts reads, in words."""


def text_features(
    model: PreTrainedModel,
    tokenizer: Any,
    texts: LabelledTexts,
    longest: int = LONGEST,
    *,
    memory_bytes: int = REAL_TEXT_MEMORY_BYTES,
    progress: Progress = silent,
) -> Float[Tensor, "n D"]:
    """The mean of the contextual vectors of each text's own tokens: D = d, and 2 d of pairs.

    The paper concatenates the vectors of all positions (A.4), which needs texts of one length and
    means one feature a position. Texts have any length, so their vectors are averaged; a pair, which the
    model reads together, has the mean over its first text and that over its second, one after the other, and
    no products of the two: what a linear head cannot find in them the model has not computed. Left out are
    the tokens that the tokenizer adds ([CLS] is never trained by masked pre-training, and attention rests on
    it and on [SEP]: Clark et al. 2019, What Does BERT Look At?), and a causal model's first, which has read
    nothing but itself and takes that rest (Xiao et al. 2024, Efficient Streaming Language Models with
    Attention Sinks), unless it is alone.

    Vectors are the last hidden states of the model's backbone; dropout is off and the model is left as found.
    On the CPU, float32: 4 n D bytes, beside a forward pass within `memory_bytes`. Raises BadInput
    where `text_inputs` does, and for a feature that is not finite.
    """
    return features_of_inputs(
        model,
        text_inputs(model, tokenizer, texts, longest),
        pairs=texts.seconds is not None,
        memory_bytes=memory_bytes,
        progress=progress,
    )


def features_of_inputs(
    model: PreTrainedModel,
    inputs: TextInputs,
    *,
    pairs: bool,
    memory_bytes: int = REAL_TEXT_MEMORY_BYTES,
    progress: Progress = silent,
) -> Float[Tensor, "n D"]:
    """See `text_features`, of examples that are encoded already."""
    reads_both_ways = type(model).__name__.endswith("ForMaskedLM")
    without_cache = {} if reads_both_ways else {"use_cache": False}
    computing = _without_embeddings(model.base_model)
    order = inputs.lengths.argsort(descending=True, stable=True)
    found: list[Tensor] = []
    done = 0
    with evaluation_mode(model), torch.inference_mode():
        while done < len(inputs):
            # Texts of like length go together, so that little of a batch is padding.
            at_once = rows_at_once(computing, int(inputs.lengths[order[done]]), memory_bytes)
            some = inputs[order[done : done + at_once]]
            arguments = some.arguments(model.device) | without_cache
            vectors = model.base_model(**arguments).last_hidden_state.float().cpu()
            parts = some.parts if reads_both_ways else _without_first(some.parts)
            found.append(torch.cat([_mean(vectors, parts, part) for part in ((0, 1) if pairs else (0,))], 1))
            done += len(some)
            progress("features of texts", done, len(inputs))
    features = torch.cat(found)[order.argsort()]
    bad = (~features.isfinite().all(dim=1)).nonzero()
    if len(bad):
        raise BadInput(
            f"the model's features of example {int(bad[0]) + 1} are not finite; its weights have diverged: "
            "measure an earlier checkpoint"
        )
    return features


def _mean(vectors: Float[Tensor, "n S d"], parts: Int[Tensor, "n S"], part: int) -> Float[Tensor, "n d"]:
    """Over the tokens of one part; zero where it has none left."""
    own = (parts == part).float()
    return (own[:, None] @ vectors)[:, 0] / own.sum(1, keepdim=True).clamp(min=1)


def _without_first(parts: Int[Tensor, "n S"]) -> Int[Tensor, "n S"]:
    """A first token that is text no longer counted, unless its text has no other."""
    others = ((parts == 0).sum(1) > 1) & (parts[:, 0] == 0)
    return torch.cat([parts[:, :1].masked_fill(others[:, None], -1), parts[:, 1:]], dim=1)


def _without_embeddings(backbone: nn.Module) -> nn.ModuleList:
    """The modules that compute: looking embeddings up takes no memory, however many there are."""
    leaves: Sequence[nn.Module] = [module for module in backbone.modules() if not list(module.children())]
    return nn.ModuleList([module for module in leaves if not isinstance(module, nn.Embedding)])
