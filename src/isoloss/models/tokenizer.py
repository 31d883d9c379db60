"""A tokenizer for a language's words, so that a checkpoint can also read text."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from isoloss.errors import BadInput
from isoloss.languages.language import SentenceSource
from isoloss.objectives.tokens import CLS, FIRST_WORD, MASK, PAD

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


def tokenizer_of(source: SentenceSource) -> PreTrainedTokenizerFast:
    """The source's own tokenizer if it was prepared from real text with one; otherwise that of its words."""
    own = getattr(source, "tokenizer", None)
    if isinstance(own, PreTrainedTokenizerFast):
        return own
    return word_tokenizer(source.vocabulary, source.maximum_length)


def copy_tokenizer(checkpoint: Path, folder: Path) -> None:
    """Copy all tokenizer files of one folder into another."""
    for pattern in TOKENIZER_FILES:
        for path in checkpoint.glob(pattern):
            shutil.copyfile(path, folder / path.name)
