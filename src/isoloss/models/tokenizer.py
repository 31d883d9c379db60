"""Tokenizers: of a language's words, so that a checkpoint can also read text, and those beside a model.

And of a loaded model how many tokens it has, how many it reads at once, and which one fills sentences up.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from torch import nn
from transformers import (
    AutoTokenizer,
    BertTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from isoloss.errors import BadInput, raised_as, reason_of
from isoloss.models.folder_configuration import configuration_in, states_type
from isoloss.models.model_files import quiet, refusing
from isoloss.models.names import base_of_adapter, refuse_irregular
from isoloss.objectives.tokens import CLS, FIRST_WORD, MASK, PAD
from isoloss.results.checkpoint import refuse_damaged

if TYPE_CHECKING:
    from isoloss.languages.language import SentenceSource

TOKENIZER_FILES = (
    "tokenizer*",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
)


def word_tokenizer(vocabulary: Sequence[str], maximum_length: int) -> PreTrainedTokenizerFast:
    """Splits text into words at white space, including [MASK], after a [CLS]; ids as in `objectives.tokens`.

    A word outside the vocabulary is refused, never replaced. Raises BadInput when a word is spelled like a
    special token. A word that itself contains white space keeps its id but cannot be read from text.

    >>> word_tokenizer(["the", "cat"], maximum_length=8)("the [MASK]")["input_ids"]
    [1, 3, 2]
    """
    numbers = {"[PAD]": PAD, "[CLS]": CLS, "[MASK]": MASK}
    for number, word in enumerate(vocabulary, start=FIRST_WORD):
        if word in numbers:
            raise BadInput(
                f"the word '{word}' stands twice in the vocabulary or is a special token; rename it"
            )
        numbers[word] = number
    tokenizer = Tokenizer(models.WordLevel(numbers))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", CLS)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
        model_max_length=maximum_length + 1,
    )


def naming_the_text(
    places: Sequence[str], alone: Callable[[int], object], whose: str, advice: str
) -> AbstractContextManager[None]:
    """Within, texts are encoded together; where that fails, raise BadInput naming one of the `places`.

    It is that of the first text that `alone`, called with its number, cannot encode: tokenizers raise all
    kinds of bare exceptions, which do not say where.

    >>> tokenizer, texts = word_tokenizer(["the", "cat"], maximum_length=8), ["the cat", "the dog"]
    >>> places = ["line 1", "line 2"]
    >>> with naming_the_text(places, lambda number: tokenizer(texts[number]), "a", "write others"):
    ...     tokenizer(texts)
    Traceback (most recent call last):
    isoloss.errors.BadInput: line 2: a tokenizer cannot encode the text (WordLevel error: ...); write others
    """

    def cannot(what: str, error: BaseException) -> BadInput:
        return BadInput(f"{what} ({reason_of(error)}); {advice}")

    def first_that_fails(error: BaseException) -> BadInput:
        for number, place in enumerate(places):
            with raised_as(partial(cannot, f"{place}: {whose} tokenizer cannot encode the text")):
                alone(number)
        return cannot(f"{whose} tokenizer cannot encode the texts together", error)

    return raised_as(first_that_fails)


def tokenizer_of(source: "SentenceSource") -> PreTrainedTokenizerFast:
    """The tokenizer that a source was prepared from real text with, if any; otherwise that of its words."""
    prepared = getattr(source, "tokenizer", None)
    if isinstance(prepared, PreTrainedTokenizerFast):
        return prepared
    return word_tokenizer(source.vocabulary, source.maximum_length)


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a tokenizer in a folder, by name; none if it is no folder."""
    found = {path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)}
    return sorted(path for path in found if path.is_file())


def load_tokenizer(name: str, gguf_file: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer beside such a model: as AutoTokenizer loads it, or from a lone BERT-style vocab.txt.

    Such a file does not say whether the tokenizer lower-cases, which is inferred from its words, nor how
    texts are split: if some words cannot result from splitting at punctuation, texts are split at white
    space. An adapter without one has that of its base model, and a model without one that of the folder it
    lies in, if that has one. Raises BadInput if there is no tokenizer, Damaged if it is a checkpoint's of
    ours that is not what was written.
    """
    folder = Path(name)
    if folder.is_dir():
        refuse_damaged(folder, *TOKENIZER_FILES, "config.json")
        if not tokenizer_files(folder):
            if (base := base_of_adapter(name)) is not None:
                return load_tokenizer(base)
            above = folder.resolve().parent
            if (folder / "config.json").is_file() and tokenizer_files(above):
                return _loaded(str(above), above, folder, gguf_file)
    return _loaded(name, folder, folder, gguf_file)


def _loaded(name: str, folder: Path, model: Path, gguf_file: str | None) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder, or of a hub's name, for a model that may be in another folder."""
    lone = (folder / "vocab.txt").is_file() and not (folder / "tokenizer.json").is_file()
    tokenizer: PreTrainedTokenizerBase | None = None
    with refusing("tokenizer", name), quiet():
        if folder.is_dir():
            refuse_irregular(folder)
        typeless = model.is_dir() and (model != folder or not states_type(model))
        settings = {"config": configuration_in(model)} if typeless else {}
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                name, gguf_file=gguf_file, local_files_only=folder.is_dir(), **settings
            )
        except (OSError, ValueError, KeyError):
            if not lone:
                raise
        # If there are no files, `transformers` makes up a tokenizer without words.
        if tokenizer is not None and len(tokenizer) <= len(tokenizer.all_special_ids):
            tokenizer = None
        if lone and (tokenizer is None or type(tokenizer).__name__ in ("BertTokenizer", "BertTokenizerFast")):
            tokenizer = _of_vocabulary(folder) or tokenizer
        if tokenizer is None:
            raise ValueError("its tokenizer has no tokens")
    return tokenizer


_SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]")
"""What BERT's vocabularies hold beside words."""


def _of_vocabulary(folder: Path) -> PreTrainedTokenizerBase | None:
    """A BERT tokenizer for the words in vocab.txt; None if the file is not in BERT's style."""
    lines = (folder / "vocab.txt").read_text("utf-8").split("\n")
    words = [word for word in lines if word and not _SPECIAL.fullmatch(word)]
    if not {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} <= set(lines):
        return None
    path = folder / "tokenizer_config.json"
    lower_case = json.loads(path.read_text("utf-8")).get("do_lower_case") if path.is_file() else None
    lower = not _with_capitals(words) if lower_case is None else bool(lower_case)
    tokenizer: PreTrainedTokenizerBase = BertTokenizer.from_pretrained(
        folder, do_lower_case=lower, local_files_only=True
    )
    cut = BertPreTokenizer().pre_tokenize_str
    if not any(word.startswith("##") for word in words) and any(len(cut(word)) > 1 for word in words):
        tokenizer.backend_tokenizer.pre_tokenizer = WhitespaceSplit()
    return tokenizer


def _with_capitals(words: Iterable[str]) -> list[str]:
    return [word for word in words if word != word.lower() and not _SPECIAL.fullmatch(word)]


def highest_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """The largest number of its tokens, which is more than their count where numbers are left out."""
    numbers: dict[str, int] = tokenizer.get_vocab()
    return max(numbers.values())


def refuse_further_tokens(name: str, tokenizer: PreTrainedTokenizerBase, known: int) -> None:
    """Raise BadInput for a tokenizer with numbers beyond the `known` tokens of the model of that name."""
    if (highest := highest_token(tokenizer)) >= known:
        raise BadInput(
            f"the tokenizer of {name} numbers its tokens up to {highest}, but the model has only {known}, "
            "from 0; name the folder that it came in, with the tokenizer it was trained with"
        )


def lost_capitals(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """A warning if the tokenizer lower-cases texts, so that its words with capitals never occur."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not getattr(getattr(backend, "normalizer", None), "lowercase", False):
        return None
    special = set(tokenizer.all_special_tokens)
    lost = [word for word in _with_capitals(tokenizer.get_vocab()) if word not in special]
    if not lost:
        return None
    return (
        f"the tokenizer makes texts small, but {len(lost):,} of its {len(tokenizer):,} words have capitals, "
        f'such as {min(lost)}; set "do_lower_case": false in its tokenizer_config.json if they are to be met'
    )


_MOST_POSITIONS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions"),
    "max_encoder_position_embeddings",
)
"""What configurations call it: the last three MPT's, Whisper's of its decoder, and LED's of its encoder."""


def longest_sentence(model: PreTrainedModel) -> int | None:
    """The maximum number of tokens that the model has positions for; None if unknown.

    >>> from transformers import RobertaConfig, RobertaForMaskedLM
    >>> longest_sentence(RobertaForMaskedLM(RobertaConfig(
    ...     vocab_size=9, hidden_size=4, num_attention_heads=1, num_hidden_layers=1, intermediate_size=4,
    ...     max_position_embeddings=12)))
    10
    """
    config = model.config.get_text_config()
    named: list[int | None] = [getattr(config, each, None) for each in _MOST_POSITIONS]
    positions = min((each for each in named if each and each > 0), default=0)  # XLNet has -1
    if not positions:
        return None
    # Some families, including RoBERTa, count positions from the padding position on.
    paddings = [
        int(module.padding_idx)
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return positions - paddings[0] - 1 if paddings else positions


def number_of_tokens(model: PreTrainedModel) -> int:
    """The model's vocabulary size, by its embeddings or else by its configuration."""
    embeddings = model.get_input_embeddings()
    if isinstance(embeddings, nn.Embedding):
        return embeddings.num_embeddings
    return int(model.config.get_text_config().vocab_size)


def pad_token_of(model: PreTrainedModel) -> int:
    """The token that fills short sentences up; any would do, since none of it is read.

    Configurations may name one that tokenizers were given later, and that the model does not have.
    """
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    return pad if pad is not None and 0 <= pad < number_of_tokens(model) else 0
