"""A language model's scores at the predicted positions alone."""

from contextlib import nullcontext
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.errors import BadInput, first_line
from isoloss.objectives.batch import Batch
from isoloss.objectives.chosen_positions import last_block_at, states_at


def logits_at_predictions(model: nn.Module, batch: Batch, **arguments: Any) -> Float[Tensor, "m v"]:
    """Scores of the v tokens for each of the m predictions, as a part of `model(input_ids, **arguments)`.

    A model of `transformers` has a `base_model`, which passes states [n, S, d] to a head. They are replaced
    by the states at the predictions only, [m, 1, d], there or at the latest at the input of the output
    embeddings: heads act position by position, and with a large vocabulary they dominate the cost. If each
    sentence has one prediction, the last block of a supported layout also runs at that position only
    (`states_at`). Any other model that returns `logits` [n, S, v] runs in full, and the predictions are
    selected: the numbers are the same. Those of a model on several devices come to the batch's.

    Raises BadInput for a model that returns no `logits`, or logits that are not per position, and for
    sentences that a model on a processor has no positions or tokens for.
    """
    n, width = (batch.input_ids if batch.decoder_ids is None else batch.decoder_ids).shape

    def keep_predictions(states: Tensor) -> Tensor:
        of_positions = states.ndim == 3 and states.shape[:2] == (n, width)  # FSMT's embeddings take words
        return _at_predictions(states, batch)[:, None] if of_positions else states

    def after_backbone(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if getattr(output, "last_hidden_state", None) is not None:
            output.last_hidden_state = keep_predictions(output.last_hidden_state)

    def before_scores(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return keep_predictions(inputs[0]), *inputs[1:]

    # A row has at least one prediction: with as many predictions as rows, each has one.
    states = states_at(model) if len(batch.rows) == n else None
    partly = nullcontext() if states is None else last_block_at(model, batch.positions, states)
    hooks = []
    if isinstance(model, PreTrainedModel) and model.base_model is not model:
        hooks.append(model.base_model.register_forward_hook(after_backbone))
        if model.get_output_embeddings() is not None:
            hooks.append(model.get_output_embeddings().register_forward_pre_hook(before_scores))
    try:
        with partly:
            logits: Tensor | None = getattr(model(input_ids=batch.input_ids, **arguments), "logits", None)
    except IndexError as error:  # on a processor; a GPU does not say which operation failed
        raise BadInput(
            f"{type(model).__name__} cannot read sentences of {width} tokens ({first_line(error)}): it has "
            "fewer positions than its configuration says, or fewer tokens than its tokenizer; give shorter "
            "sentences"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    if logits is not None and logits.shape[:-1] == (len(batch.rows), 1):
        return logits.flatten(0, 1).to(batch.rows.device)
    # Perceiver answers for all its positions, however many were requested.
    if logits is not None and logits.shape[:-1] in ((n, width), (n, _most_positions(model))):
        return _at_predictions(logits, batch).to(batch.rows.device)
    raise BadInput(
        f"{type(model).__name__} gives no scores of words, which are a language model's `logits` of every "
        "position; load it with its language head"
    )


def _most_positions(model: nn.Module) -> int | None:
    return getattr(getattr(model, "config", None), "max_position_embeddings", None)


def _at_predictions(everywhere: Float[Tensor, "n S d"], batch: Batch) -> Float[Tensor, "m d"]:
    # Unlike indexing with two tensors, `index_select` accumulates gradients row by row, which is fast.
    chosen = batch.rows * everywhere.shape[1] + batch.positions
    return everywhere.flatten(0, 1).index_select(0, chosen.to(everywhere.device))


def causal_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
    """Scores of the v tokens for the token after each of the m positions; see `logits_at_predictions`.

    A word attends only to what precedes it, so padding after a sentence needs no attention mask; the mask is
    passed if there is padding on the left. Keys and values are not cached.

    Raises BadInput for a bidirectional model, which would see the tokens it has to predict.
    """
    if type(model).__name__.endswith("ForMaskedLM"):
        raise BadInput(
            f"{type(model).__name__} reads sentences both ways and would see the next word; take a causal "
            "model, such as GPT2Transformer builds"
        )
    arguments: dict[str, Any] = {}
    mask = batch.attention_mask
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        arguments["attention_mask"] = mask
    if hasattr(getattr(model, "config", None), "use_cache"):
        arguments["use_cache"] = False
    return logits_at_predictions(model, batch, **arguments)


def masked_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
    """Scores of the model's v tokens for each of the m predictions; see `logits_at_predictions`.

    Positions and segments are left to the model's defaults. The attention mask is omitted when nothing is
    padded.
    """
    mask = None if bool(batch.attention_mask.all()) else batch.attention_mask
    if mask is not None and isinstance(model, PreTrainedModel) and states_at(model) is None:
        mask = mask.long()  # as tokenizers give it: XLNet subtracts it
    return logits_at_predictions(model, batch, attention_mask=mask)
