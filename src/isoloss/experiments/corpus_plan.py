"""How a plan names a corpus of real text, apart from languages, which need no library of models."""

from dataclasses import dataclass
from pathlib import Path

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.corpora.prepared_corpus import CorpusRequest, prepared_corpus
from isoloss.errors import BadInput
from isoloss.progress import Progress


@dataclass(frozen=True)
class CorpusPlan:
    """What a `LanguagePlan` is to a language, for text whose distribution nobody knows: prepared once, in the
    cache.

    `words` is how many the tokenizer has; an objective that puts random words in needs to know before.
    """

    request: CorpusRequest
    words: int

    @property
    def digest(self) -> str:
        """Names the corpus by all that it depends on."""
        return self.request.digest

    @property
    def maximum_length(self) -> int:
        """How many words a sequence has after [CLS]."""
        return self.request.length - 1

    def language(self, output: Path, progress: Progress) -> PackedCorpus:
        """The corpus; it and what is fetched for it are kept in the user's cache, for all outputs.

        Raises IsolossError where its text cannot be had, BadInput where it has another number of words.
        """
        corpus = prepared_corpus(self.request, default_cache(), progress)
        if len(corpus.vocabulary) != self.words:
            raise BadInput(
                f"the corpus in {corpus.folder} has {len(corpus.vocabulary):,} words, not {self.words:,} as "
                "planned; plan with that number"
            )
        return corpus
