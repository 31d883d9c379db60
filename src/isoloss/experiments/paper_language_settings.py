"""The paper's languages and texts beside a scale's own, a row a setting."""

from functools import cache
from pathlib import Path
from typing import TypeVar

from isoloss.errors import BadInput
from isoloss.experiments.chosen_languages import GRAMMAR_ENTROPY, GRAMMAR_LENGTH, HMM_ENTROPY
from isoloss.experiments.planned_run import ReadyLanguage
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import AnyRuns
from isoloss.experiments.suite.table_3 import BERT_POSITIONS, BERT_TOKENS, parameters
from isoloss.languages.hmm import HMM
from isoloss.languages.paper_grammar import mean_length
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.entropy import masked_entropy
from isoloss.progress import silent

Rows = tuple[tuple[str, str, str] | tuple[str, str, str, str], ...]
"""Name, the paper's, ours and, where they differ or the paper leaves it open, why."""

SENTENCES = 1000
"""Number of sentences for a language's entropy, which takes seconds."""


def grammar_rows(scale: Scale) -> Rows:
    """The grammar (A.1)."""
    runs = scale.grammar
    language = _ready(runs, PCFG)
    a, b, c = runs.tasks
    return (
        ("words", "200", f"{len(language.vocabulary)}"),
        ("symbols", "50", f"{len(language.grammar.symbols) - 1} below the start symbol"),
        (
            "rules",
            "two symbols on every right side; probabilities not published",
            "10 roots, 5 levels of 8 symbols with 10 random rules each; symbols between roots and "
            "preterminals have one more rule, which leads to a word",
            "the released grammar's inner symbols emit words, so that lengths vary; it has a level less",
        ),
        ("longest sentence", "32 words", f"{language.maximum_length} words"),
        (
            "words a sentence",
            "3.4e8 in 2e7 sentences: 17",
            f"{mean_length(language.grammar):.2f} on average",
            f"a dial of the grammar was searched for to give {GRAMMAR_LENGTH:g}",
        ),
        (
            "entropy of a masked word",
            f"{GRAMMAR_ENTROPY} nats (preprint)",
            _entropy(language),
            "another dial was searched for to give the paper's; mean over sentences",
        ),
        (
            "tasks A, B, C",
            "the symbol over the first 32, 16, 8 words, 50-way",
            f"{a}, {b}, {c}: the exact posterior's argmax; 50 outputs, of which 10, 18 and 26 are of "
            "symbols that can stand there; only sentences in which the words are one symbol's count",
            "hardly a sentence has 32 words, so A asks for the symbol of the whole sentence. "
            "prefix-L-likelihood gives the labels of the released code, which leaves the prior out",
        ),
        (
            "sentences",
            "2e7, fixed",
            f"fresh at every step: {runs.steps * runs.batch_size:.2g} in all",
            "nothing is seen twice, so that training and test loss are one; 2e7 are 4,883 batches",
        ),
    )


def hidden_markov_rows(scale: Scale) -> Rows:
    """The hidden Markov model and its LSTMs (A.1, A.4)."""
    runs = scale.hidden_markov
    language = _ready(runs, HMM)
    widths = ", ".join(f"{model.width} × {model.layers}" for model in runs.architectures)
    return (
        ("words, states", "200, 100", f"{len(language.vocabulary)}, {len(language.initial)}"),
        ("words a sentence", "16", f"{language.maximum_length}"),
        (
            "blocks",
            "block-diagonal matrices; their number not given",
            "4",
            "a block's words bound the entropy: e^3.758 = 43 words need at most 4 blocks",
        ),
        (
            "entropy of a masked word",
            f"{HMM_ENTROPY} nats (preprint)",
            _entropy(language),
            "the concentration of the distributions of words was searched for to give the paper's",
        ),
        ("tasks", "the 6th and the 10th hidden state", " and ".join(runs.tasks)),
        (
            "LSTMs, width × layers",
            "128 to 1024; 4 to 16; which go together is not said",
            widths,
            "in order they have the paper's 4M, 10M, 67M and 135M parameters within 4 % (4M: 10 %)",
        ),
        (
            "direction",
            "“the implementation of PyTorch”",
            "both, half the units each; every layer a residual with a norm",
            "a masked word needs both sides, and the paper's counts are those of half the units",
        ),
    )


def causal_language_rows(scale: Scale) -> Rows:
    """OPT's language (A.1)."""
    runs = scale.causal_language
    return (
        ("language", "OPT-125M, its 2,000 most frequent tokens", f"{runs.language.words:,} tokens"),
        (
            "words a sentence",
            "24; but 3.2e9 tokens in 2e8 sentences are 16",
            f"{runs.language.maximum_length}",
            "the length is stated, the count of tokens only reported",
        ),
        (
            "the student's tokens",
            "not said",
            f"all of the teacher's: {runs.architectures[0].tokens or 0:,}",
            "only what is generated is restricted; GLUE's texts are tokenised ordinarily",
        ),
        (
            "entropy of a masked word",
            "1.865 nats (preprint)",
            "that of the model fetched",
            "OPT-125M comes from a hub; `isoloss entropy` measures it",
        ),
        (
            "tasks",
            "QNLI and SST-2",
            f"the same; beside them {', '.join(runs.tasks)}: which opening the sentence has",
            "the language's own have an exact posterior",
        ),
    )


def real_text_rows(scale: Scale) -> Rows:
    """Corpora and the models on them (A.2, Section 4)."""
    followed, compared = scale.real_text.followed, scale.real_text.compared
    shape = followed.architecture.shape
    count = parameters(shape, BERT_TOKENS, BERT_POSITIONS) / 1e6
    return (
        ("corpora", "OpenWebText, BookCorpus", f"{followed.corpus_name}; {compared.corpus_name}"),
        ("masked", "15 %", f"{followed.objective.share:.0%}"),
        (
            "model on OpenWebText",
            "25M; its shape is not given",
            f"{shape.width} × {shape.layers}: {count:.1f}M",
            "the one shape of Tables 3 and 4 with so many",
        ),
        ("steps on OpenWebText", "up to 1,400,000", f"{followed.steps:,}"),
        ("steps on BookCorpus", "not given", f"{compared.steps:,}", "those of the generated languages"),
        ("warm-up", "5,000 steps", f"{followed.update_rule.warm_up_steps:,} steps"),
        ("SAM's radius", "0.05, half of the batch each", f"{scale.real_text.sam.rho:g}"),
    )


AnyLanguage = TypeVar("AnyLanguage", PCFG, HMM)


def _ready(runs: AnyRuns, kind: type[AnyLanguage]) -> AnyLanguage:
    language = runs.language.language(Path(), silent) if isinstance(runs.language, ReadyLanguage) else None
    if not isinstance(language, kind):
        raise BadInput(f"the scale's language is no {kind.__name__}; ask at the scale paper")
    return language


@cache
def _entropy(language: PCFG | HMM) -> str:
    found = masked_entropy(language, SENTENCES, seed=0)
    return f"{found.value:.3f} ± {found.standard_error:.3f} nats over {SENTENCES:,} sentences"
