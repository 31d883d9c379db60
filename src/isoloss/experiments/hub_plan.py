"""The language of a pre-trained causal model, as an experiment plans it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from isoloss.languages.causal_lm import CausalLM
from isoloss.models.causal_language import (
    LENGTH,
    WORDS,
    ModelSource,
    load_causal_language,
    read_causal_language,
    write_causal_language,
)
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress


@dataclass(frozen=True)
class HubPlan:
    """A `LanguagePlan`: the model's most frequent tokens, chosen once and kept in `output`'s languages/."""

    source: ModelSource
    words: int = WORDS
    length: int = LENGTH
    seed: int = 0

    @property
    def digest(self) -> str:
        """See `LanguagePlan`: names what is asked for; the file then holds the weights to what they were."""
        return hashlib.sha256(json.dumps(settings_as_json(self), sort_keys=True).encode()).hexdigest()

    @property
    def maximum_length(self) -> int:
        """See `LanguagePlan`."""
        return self.length

    def language(self, output: Path, progress: Progress) -> CausalLM:
        """See `LanguagePlan`; raises BadInput where the model cannot be had."""
        path = output / "languages" / f"{self.digest[:16]}.json"
        if path.exists():
            return read_causal_language(path)
        language = load_causal_language(self.source, self.words, self.length, self.seed, progress)
        write_causal_language(language, self.source, path)
        return language
