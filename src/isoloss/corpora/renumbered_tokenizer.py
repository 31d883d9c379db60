"""A tokenizer with the token numbers of `objectives.tokens`."""

import json
from typing import Any

from tokenizers import Tokenizer, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from isoloss.errors import BadInput


def renumbered(tokenizer: PreTrainedTokenizerBase, longest: int) -> PreTrainedTokenizerFast:
    """The same tokenizer, its [PAD], [CLS] and [MASK] 0, 1, 2 and all other tokens after them in their order.

    A text becomes [CLS] and its tokens; a pair [CLS], the first, the separator where there is one, and the
    second. `longest` is how many tokens a model reads. Raises BadInput for a tokenizer that lacks one of the
    three or has one token for two of them, and for one that is not of the package `tokenizers`.

    >>> from isoloss.models.tokenizer import word_tokenizer
    >>> renumbered(word_tokenizer(["the", "cat"], maximum_length=8), longest=9)("the [MASK]")["input_ids"]
    [1, 3, 2]
    """
    special = [tokenizer.pad_token, tokenizer.cls_token, tokenizer.mask_token]
    for token, name in zip(special, ("padding token", "[CLS]", "[MASK]"), strict=True):
        if token is None:
            raise BadInput(
                f"the tokenizer {tokenizer.name_or_path} has no {name}; choose one of a masked language "
                "model, or have a vocabulary made"
            )
    if len(set(special)) < len(special):
        raise BadInput(
            f"the tokenizer {tokenizer.name_or_path} has one token for two of padding, [CLS] and [MASK] "
            f"({', '.join(special)}); give each its own, or have a vocabulary made"
        )
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise BadInput(
            f"the tokenizer {tokenizer.name_or_path} is not of the package `tokenizers`; choose one that is"
        )
    known = tokenizer.get_vocab()
    order = special + [token for token in sorted(known, key=known.__getitem__) if token not in special]
    layout = json.loads(backend.to_str())
    _renumber(layout, {token: number for number, token in enumerate(order)})
    made = Tokenizer.from_str(json.dumps(layout))
    made.no_truncation()
    made.no_padding()
    made.post_processor = _template(tokenizer.cls_token, tokenizer.sep_token, order)
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=tokenizer.pad_token,
        cls_token=tokenizer.cls_token,
        mask_token=tokenizer.mask_token,
        sep_token=tokenizer.sep_token,
        unk_token=tokenizer.unk_token,
        model_max_length=longest,
    )


def _renumber(layout: dict[str, Any], numbers: dict[str, int]) -> None:
    """Put the new numbers into a tokenizer's JSON, tokens beside the model's vocabulary into it."""
    model = layout["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = numbers
    else:  # a unigram model's pieces are a list of pairs with their scores, and their places their numbers
        scores = dict(model["vocab"])
        if model.get("unk_id") is not None:
            model["unk_id"] = numbers[model["vocab"][model["unk_id"]][0]]
        model["vocab"] = [[piece, scores.get(piece, 0.0)] for piece in numbers]
    for token in layout["added_tokens"]:
        token["id"] = numbers[token["content"]]
    layout["added_tokens"].sort(key=lambda token: token["id"])
    layout["post_processor"] = None


def _template(first: str, separator: str | None, order: list[str]) -> processors.TemplateProcessing:
    between = [separator] if separator else []
    return processors.TemplateProcessing(
        single=[first, "$A"],
        pair=[first, "$A", *between, "$B"],
        special_tokens=[(token, order.index(token)) for token in (first, *between)],
    )
