"""Labelled real texts as students of a causal model's language read them, and their controls."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import LabelledTexts, TaskSizes, TaskSource, TextTask
from isoloss.errors import BadInput
from isoloss.inference.causal_model import written_words
from isoloss.languages.language import Language
from isoloss.measurements.labelled_inputs import InputSplits, TextInputs
from isoloss.measurements.linear_probe import LabelledFeatures
from isoloss.measurements.quantity import Subject
from isoloss.measurements.task_texts import labelled_features
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.pretrained import rectangle
from isoloss.objectives.tokens import CLS, FIRST_WORD, MASK, PAD
from isoloss.progress import Progress

Policy = Literal["untrained", "resegment", "mask"]
"""What becomes of tokens that the language never has: they are read as they are, with embeddings that were
never trained (the authors' way); texts are cut up anew by those merges alone that lead to generated words;
or they are read as [MASK]."""


@runtime_checkable
class TokenizerSource(Protocol):
    """A frozen dataclass: how to obtain a teacher's full tokenizer, of at most `pieces` tokens."""

    @property
    def pieces(self) -> int:
        """The vocabulary size a student needs, besides the three special tokens."""
        ...

    def tokenizer(self, progress: Progress) -> Tokenizer:
        """The tokenizer; raises IsolossError if it cannot be obtained."""
        ...


@dataclass(frozen=True)
class StudentTokenizer:
    """A teacher's `tokenizer`, and in `numbers` [V] the student's id of each of its tokens.

    After the special tokens come the language's `words` and then all others, each in their order.
    """

    tokenizer: Tokenizer
    numbers: Int[Tensor, " V"]
    words: int

    def read(self, texts: LabelledTexts, longest: int, policy: Policy = "untrained") -> TextInputs:
        """Encode each text, or both of a pair, after [CLS], truncating (the longer) to `longest` tokens.

        Nothing separates the texts of a pair, since the student was trained on no such token.
        """
        whole = list(zip(*self._encoded(texts, policy), strict=True))
        rows = [_cut(parts, longest) for parts in whole]
        ids = [[CLS, *torch.cat(parts).tolist()] for parts in rows]
        places = [[-1, *(part for part, text in enumerate(parts) for _ in text)] for parts in rows]
        return TextInputs(
            ids=rectangle(ids, PAD)[0].to(torch.int32),
            lengths=torch.tensor([len(each) for each in ids]),
            parts=rectangle(places, -1)[0].to(torch.int8),
            labels=torch.tensor(texts.labels),
            cut=sum(sum(map(len, parts)) > longest for parts in whole),
        )

    def coverage(self, texts: LabelledTexts, policy: Policy = "untrained") -> float:
        """The share of all tokens of the texts, before truncation, that are words of the language."""
        encoded = self._encoded(texts, policy)
        generated = torch.cat([self._known(text) & (text != MASK) for column in encoded for text in column])
        return float(generated.double().mean())

    def _encoded(self, texts: LabelledTexts, policy: Policy) -> list[list[Tensor]]:
        """The student's ids of each text, and of each second one of pairs."""
        tokenizer = self.tokenizer
        if policy == "resegment":
            known = self._known(self.numbers).tolist()
            pieces = [piece for piece, token in tokenizer.get_vocab().items() if known[token]]
            tokenizer = closed_within(tokenizer, pieces)
        columns = [texts.texts] if texts.seconds is None else [texts.texts, texts.seconds]
        return [self._numbers(tokenizer, column, policy) for column in columns]

    def _known(self, numbers: Int[Tensor, " n"]) -> Tensor:
        return numbers < FIRST_WORD + self.words

    def _numbers(self, tokenizer: Tokenizer, column: Sequence[str], policy: Policy) -> list[Tensor]:
        found = []
        for encoding in tokenizer.encode_batch(list(column), add_special_tokens=False):
            text = self.numbers[torch.tensor(encoding.ids, dtype=torch.int64)]
            found.append(torch.where(self._known(text), text, MASK) if policy == "mask" else text)
        return found


def student_tokenizer(tokenizer: Tokenizer, vocabulary: Sequence[str]) -> StudentTokenizer:
    """How a student of the language with this `vocabulary` reads the output of the teacher's tokenizer.

    Raises BadInput if a word of the language is not a token of the tokenizer.
    """
    tokens = tokenizer.get_vocab()
    order = sorted(tokens, key=tokens.__getitem__)
    written = dict(zip(written_words(order), order, strict=True))
    if lost := [word for word in vocabulary if word not in written]:
        raise BadInput(
            f"the word {lost[0]!r} of the language is no token of the teacher's tokenizer; give its own"
        )
    generated = [tokens[written[word]] for word in vocabulary]
    numbers = torch.full((max(tokens.values()) + 1,), -1, dtype=torch.int64)
    numbers[torch.tensor(generated)] = torch.arange(len(vocabulary)) + FIRST_WORD
    others = (numbers < 0).nonzero()[:, 0]
    numbers[others] = torch.arange(len(others)) + FIRST_WORD + len(vocabulary)
    return StudentTokenizer(tokenizer, numbers, len(vocabulary))


def closed_within(tokenizer: Tokenizer, pieces: Collection[str]) -> Tokenizer:
    """The same byte-pair encoding without the merges that lead, directly or in between, outside `pieces`.

    A piece whose own parts are not in `pieces` is no longer reached, and single characters (or bytes) remain.
    Raises BadInput for a tokenizer that is not a byte-pair encoding.
    """
    layout = json.loads(tokenizer.to_str())
    if layout["model"]["type"] != "BPE":
        raise BadInput(
            f"a tokenizer of the kind {layout['model']['type']} has no merges to leave out; "
            "choose another policy"
        )
    wanted, known, kept = set(pieces), {piece for piece in layout["model"]["vocab"] if len(piece) == 1}, []
    for merge in layout["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        if left in known and right in known and left + right in wanted:
            kept.append(merge)
            known.add(left + right)
    # A word that is a piece as a whole would be taken as one, whatever merges there are.
    layout["model"] |= {"merges": kept, "ignore_merges": False}
    return Tokenizer.from_str(json.dumps(layout))


def bags_of_tokens(
    train: TextInputs, test: TextInputs, most: int = 2000
) -> tuple[Float[Tensor, "n D"], Float[Tensor, "n_test D"]]:
    """Relative frequencies of tokens in each text; those of the two texts of a pair are concatenated.

    Counts the `most` most common tokens of the training texts, with all others merged into one.
    """
    counts = torch.bincount(train.ids[train.parts >= 0].long())
    kept = counts.sort(descending=True, stable=True).indices[:most]
    column = torch.full((max(int(train.ids.max()), int(test.ids.max())) + 1,), len(kept))
    column[kept] = torch.arange(len(kept))
    parts = int(train.parts.max()) + 1

    def bag(texts: TextInputs) -> Float[Tensor, "n D"]:
        found = torch.zeros(len(texts), parts * (len(kept) + 1))
        rows, places = (texts.parts >= 0).nonzero(as_tuple=True)
        columns = texts.parts[rows, places].long() * (len(kept) + 1) + column[texts.ids[rows, places].long()]
        found.index_put_((rows, columns), torch.ones(len(rows)), accumulate=True)
        return found / found.sum(1, keepdim=True).clamp(min=1)

    return bag(train), bag(test)


def _cut(parts: tuple[Tensor, ...], longest: int) -> tuple[Tensor, ...]:
    if len(parts) == 1 or sum(map(len, parts)) <= longest:
        return tuple(part[:longest] for part in parts)
    half = longest // 2
    kept = min(len(parts[0]), max(longest - len(parts[1]), longest - half))
    return parts[0][:kept], parts[1][: longest - kept]


@dataclass(frozen=True)
class KeptTexts:
    """A task's training and test texts as a student reads them."""

    train: TextInputs
    test: TextInputs


@dataclass(frozen=True)
class StudentTaskTexts:
    """A task on real text read with the teacher's tokenizer; see `StudentTokenizer`.

    Texts are truncated to the language's longest sentence, since a student has no further positions.
    """

    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KeptTexts

    task: TaskSource
    sizes: TaskSizes
    tokenizer: TokenizerSource
    policy: Policy = "untrained"

    def read_by(self, language: Language, progress: Progress) -> tuple[TextTask, StudentTokenizer]:
        """The task, and how a student of the language reads its texts."""
        task = self.sizes.of(self.task.task(default_cache(), progress))
        return task, student_tokenizer(self.tokenizer.tokenizer(progress), language.vocabulary)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> KeptTexts:
        """See `Examples`. Raises IsolossError if the task's or the teacher's texts cannot be obtained."""
        task, student = self.read_by(source, progress)
        read = (student.read(part, source.maximum_length, self.policy) for part in (task.train, task.test))
        return KeptTexts(*read)

    def task_of(self, drawn: KeptTexts) -> str:
        return self.task.name

    def features(
        self, model: PreTrainedModel, drawn: KeptTexts, subject: Subject[Language], progress: Progress
    ) -> LabelledFeatures:
        """Averages over a text's tokens, or over each of a pair's, scaled."""
        classes = int(drawn.train.labels.max()) + 1
        pairs = bool((drawn.train.parts == 1).any())
        return labelled_features(model, drawn.train, drawn.test, classes, progress, pairs=pairs)

    def inputs(self, model: PreTrainedModel, drawn: KeptTexts, subject: Subject[Language]) -> InputSplits:
        """Raises BadInput: students are probed, as in the paper."""
        raise BadInput("students of a causal model's language are not fine-tuned on texts; probe them")
