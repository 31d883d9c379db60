"""Languages defined by pre-trained causal models, restricted to some of their tokens: made, saved, loaded."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from isoloss.errors import BadInput
from isoloss.files import read_text, write_atomically
from isoloss.inference.causal_model import (
    RANKING_SENTENCES,
    TokenRestriction,
    expected_frequencies,
    written_words,
)
from isoloss.languages.causal_lm import MEMORY_BYTES, CausalLM
from isoloss.models.limits import longest_sentence
from isoloss.models.loading import load_causal_language_model
from isoloss.models.restricted_causal_model import RestrictedCausalModel
from isoloss.models.tokenizer import load_tokenizer
from isoloss.progress import Progress, silent
from isoloss.results.tensors import tensors_digest

WORDS, LENGTH = 2000, 24
"""The paper's: the 2,000 most frequent tokens, sentences of 24 (A.1)."""


@dataclass(frozen=True)
class ModelSource:
    """Where to find a causal language model: a folder or a name on a hub, and optionally a GGUF file in it.

    The paper's is `ModelSource("facebook/opt-125m")`, if a hub can be reached. Weights are loaded in
    `precision`, in which the distributions are computed, too.
    """

    name: str
    gguf_file: str | None = None
    precision: Literal["float32", "float64"] = "float32"

    def load(self) -> PreTrainedModel:
        """The model, in evaluation mode, on the CPU; see `load_causal_language_model`."""
        dtype = torch.float64 if self.precision == "float64" else torch.float32
        return load_causal_language_model(self.name, self.gguf_file, dtype=dtype)


def load_causal_language(
    source: ModelSource, words: int = WORDS, length: int = LENGTH, seed: int = 0, progress: Progress = silent
) -> CausalLM:
    """The language of a pre-trained model's `words` most frequent tokens; see `causal_language`."""
    model = source.load()
    tokenizer = load_tokenizer(source.name, source.gguf_file)
    return causal_language(model, tokenizer, words, length, seed, progress=progress)


def causal_language(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    words: int = WORDS,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = silent,
) -> CausalLM:
    """The language of the model's `words` most frequent tokens, in the model's precision.

    A token's frequency is its mean probability over the positions of 256 sentences of `length` tokens that
    the model generates after its bos token with `seed`, without special tokens (`expected_frequencies`).
    Words are numbered by rank and written as in the tokenizer, e.g. "Ġthe" for a "the" after a space. Raises
    BadInput if the model has no bos token or fewer tokens, and for a length beyond its positions.
    """
    _refuse_length(model, length)
    bos = _bos(model, tokenizer)
    special = set(tokenizer.all_special_ids) | {bos}
    ordinary = torch.tensor(sorted(set(tokenizer.get_vocab().values()) - special))
    if not 1 <= words <= len(ordinary):
        raise BadInput(
            f"the model has {len(ordinary):,} ordinary tokens, so the words can be 1 to as many, not {words}"
        )
    whole = RestrictedCausalModel(model, ordinary)
    frequencies = expected_frequencies(
        whole, bos, ordinary.to(whole.device), length, seed, MEMORY_BYTES, progress
    )
    chosen = ordinary[frequencies.sort(descending=True, stable=True).indices[:words]]
    rule = (
        f"highest mean probability over {RANKING_SENTENCES} sentences of {length} tokens that the model "
        f"writes, seed {seed}"
    )
    tokens = tuple(chosen.tolist())
    restriction = TokenRestriction(
        tokens, written_words(tokenizer.convert_ids_to_tokens(list(tokens))), bos, rule
    )
    return restricted_language(model, restriction, length)


def restricted_language(
    model: PreTrainedModel,
    restriction: TokenRestriction,
    length: int = LENGTH,
    memory_bytes: int = MEMORY_BYTES,
) -> CausalLM:
    """The language of the model's tokens in `restriction`.

    Raises BadInput for tokens that the model does not know, and for a length beyond its positions.

    >>> from isoloss.models.transformers import GPT2Transformer
    >>> from isoloss.models.transformers import laptop_shape
    >>> model = GPT2Transformer(laptop_shape(16)).build(words=4, maximum_length=6, seed=0)
    >>> language = restricted_language(model, TokenRestriction((3, 4, 6), ("a", "b", "d"), 1, "by hand"), 5)
    >>> sentences = language.sample(2, torch.Generator().manual_seed(0))
    >>> language.masked_log_probabilities(sentences).exp().sum(2).round(decimals=6).tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    """
    _refuse_length(model, length)
    tokens = torch.tensor(restriction.tokens)
    restricted = RestrictedCausalModel(model, tokens)
    if not 0 <= restriction.bos < model.get_input_embeddings().weight.shape[0]:
        raise BadInput(f"the bos token {restriction.bos} is none of the model's; choose one that it knows")
    return CausalLM(restricted, restriction, length, tensors_digest(model.state_dict()), memory_bytes)


def _refuse_length(model: PreTrainedModel, length: int) -> None:
    """Raise BadInput unless there are positions for all tokens read: bos and all words but the last."""
    longest = longest_sentence(model)
    if length < 1 or (longest is not None and length > longest):
        most = "" if longest is None else f" and at most {longest:,}, which the model has positions for"
        raise BadInput(f"sentences of {length} words cannot be drawn; give a length of at least 1{most}")


def write_causal_language(language: CausalLM, source: ModelSource, path: Path) -> None:
    """Save the language to a JSON file, without the weights but with their location and digest."""
    content = {
        "causal_language_model": source.name,
        "gguf_file": source.gguf_file,
        "precision": source.precision,
        "weights": language.weights,
        "length": language.length,
        "bos": language.restriction.bos,
        "rule": language.restriction.rule,
        "tokens": list(language.restriction.tokens),
        "words": list(language.restriction.words),
    }
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_causal_language(path: Path) -> CausalLM:
    """The language saved by `write_causal_language`, with its model loaded from the location in the file.

    Raises BadInput for a file that is not of this kind, and if the model's weights have changed since.
    """
    text = read_text(path, "a causal language")
    try:
        content = json.loads(text)
        source = ModelSource(content["causal_language_model"], content["gguf_file"], content["precision"])
        restriction = TokenRestriction(
            tuple(content["tokens"]), tuple(content["words"]), content["bos"], content["rule"]
        )
        length, weights = int(content["length"]), content["weights"]
        if "\0" in source.name:
            raise ValueError("the model's name has a NUL character")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise BadInput(
            f"{path} is no causal language: {reason}; write it again with write_causal_language"
        ) from error
    language = restricted_language(source.load(), restriction, length)
    if language.weights != weights:
        raise BadInput(
            f"{source.name} has other weights than the language in {path} was made of; make it anew"
        )
    return language


def _bos(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that starts sentences: the tokenizer's bos, else the model's, else the end-of-text token."""
    for token in (tokenizer.bos_token_id, model.config.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise BadInput(f"{type(model).__name__} names no bos token; choose a model that has one")
