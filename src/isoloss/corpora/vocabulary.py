"""A corpus's tokenizer: an existing one, or a word-piece vocabulary made from the corpus."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from isoloss.errors import BadInput
from isoloss.models.folder_configuration import refuse_unreachable_hub
from isoloss.models.tokenizer import load_tokenizer, tokenizer_files

SPECIAL = ("[PAD]", "[CLS]", "[MASK]", "[UNK]", "[SEP]")
SMALLEST_VOCABULARY = 100
LARGEST_VOCABULARY = 10_000_000
"""Forty times those of published models. The trainer makes room for all pieces before it has any."""

LONGEST_WORD = 1000
"""Letters of a word that pieces are learnt from: the trainer's time goes with their square."""
ENDLESS = re.compile(rf"[^\W\u4e00-\u9fff]{{{LONGEST_WORD + 1},}}")
"""Such as data written in letters; BERT reads each Chinese character as a word."""

Texts = Callable[[], Iterator[str]]
"""The texts of the training part, from the first at every call."""


@runtime_checkable
class TokenizerChoice(Protocol):
    """How the tokenizer of a corpus is obtained; a frozen dataclass."""

    @property
    def digest(self) -> str:
        """Identifies the tokenizer, except for the texts on which it may be trained."""

    def tokenizer(self, texts: Texts) -> PreTrainedTokenizerBase:
        """The tokenizer, whose tokens keep their numbers."""


@dataclass(frozen=True)
class NamedTokenizer:
    """The tokenizer in a folder or of that name on a hub, such as bert-large-uncased, the paper's (A.2)."""

    name: str

    @property
    def digest(self) -> str:
        """SHA-256 of the tokenizer's files in the folder, or of the name if it is on a hub."""
        digest, files = hashlib.sha256(), tokenizer_files(Path(self.name))
        for path in files:
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
        return digest.hexdigest() if files else hashlib.sha256(self.name.encode()).hexdigest()

    def tokenizer(self, texts: Texts) -> PreTrainedTokenizerBase:
        """See `TokenizerChoice`. Raises BadInput if there is none, or the hub cannot be reached."""
        if not Path(self.name).is_dir():
            refuse_unreachable_hub(self.name)
        return load_tokenizer(self.name)


@dataclass(frozen=True)
class OwnVocabulary:
    """At most `size` word pieces, trained on the corpus's training part; see `word_pieces`."""

    size: int = 4000

    def __post_init__(self) -> None:
        if self.size < SMALLEST_VOCABULARY:
            raise BadInput(f"a vocabulary needs at least {SMALLEST_VOCABULARY} pieces, not {self.size}")
        if self.size > LARGEST_VOCABULARY:
            raise BadInput(f"a vocabulary has at most {LARGEST_VOCABULARY:,} pieces, not {self.size:,}")

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"word pieces {self.size}".encode()).hexdigest()

    def tokenizer(self, texts: Texts) -> PreTrainedTokenizerBase:
        """See `TokenizerChoice`; reads the texts twice."""
        return word_pieces(texts, self.size)


def word_pieces(texts: Texts, size: int) -> PreTrainedTokenizerFast:
    """BERT's uncased word pieces (Devlin et al. 2019), at most `size`, trained on these texts.

    Characters that are not among the `size` / 4 most frequent are unknown, as are words of more than 100
    letters; no piece is learnt from words of more than `LONGEST_WORD`. The same texts give the same pieces
    and numbers.

    >>> tokenizer = word_pieces(lambda: iter(["The cats sat. The cat sits."]), size=100)
    >>> tokenizer.convert_ids_to_tokens(tokenizer("The catsat!").input_ids)
    ['the', 'cats', '##at', '[UNK]']
    """
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    alphabet = _alphabet(texts(), normalizer, splitter, size // 4)
    # The trainer numbers single-letter pieces inside a word in the order of a hash table, which differs
    # between processes, and breaks ties between merges by number; special tokens keep the order in which they
    # are given.
    inner = [f"##{letter}" for letter in alphabet if len(splitter.pre_tokenize_str(f"a{letter}")) == 1]
    trained = _word_pieces({}, normalizer, splitter)
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[*SPECIAL, *inner],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    trained.train_from_iterator((ENDLESS.sub(" ", text) for text in texts()), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=_word_pieces(trained.get_vocab(), normalizer, splitter),
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
        unk_token="[UNK]",
        sep_token="[SEP]",
    )


def _word_pieces(
    pieces: dict[str, int], normalizer: normalizers.Normalizer, splitter: pre_tokenizers.PreTokenizer
) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _alphabet(
    texts: Iterator[str], normalizer: normalizers.Normalizer, splitter: pre_tokenizers.PreTokenizer, most: int
) -> list[str]:
    """The most frequent letters of normalised text, ties broken by code point, without white space."""
    written: Counter[str] = Counter()
    for text in texts:
        written.update(text)
    letters: Counter[str] = Counter()
    for character, times in written.items():
        for letter in normalizer.normalize_str(character):
            if splitter.pre_tokenize_str(letter):
                letters[letter] += times
    return sorted(sorted(letters, key=lambda letter: (-letters[letter], letter))[:most])


def renumbered(tokenizer: PreTrainedTokenizerBase, longest: int) -> PreTrainedTokenizerFast:
    """The same tokenizer, with [PAD], [CLS] and [MASK] as 0, 1, 2, then all other tokens in their order.

    A text becomes [CLS] and its tokens; a pair becomes [CLS], the first, the separator if there is one, and
    the second. `longest` is the number of tokens that a model reads. Raises BadInput for a tokenizer that
    lacks one of the three or uses one token for two of them, and for one that is not from the package
    `tokenizers`.

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
    """Put the new numbers into a tokenizer's JSON, including tokens outside the model's vocabulary."""
    model = layout["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = numbers
    else:  # a unigram model's pieces are a list of pairs with their scores, numbered by position
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
