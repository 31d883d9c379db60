"""The paper's settings beside a scale's own, one setting per line, with the reasons for differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from isoloss.errors import BadInput
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import (
    GRAMMAR_ENTROPY,
    GRAMMAR_LENGTH,
    HMM_ENTROPY,
    CorpusPlan,
    ReadyLanguage,
)
from isoloss.experiments.paper_training_settings import (
    Rows,
    adversary_rows,
    descent_rows,
    enlarging_rows,
    fine_tuning_rows,
    measurement_rows,
    probe_rows,
    training_rows,
    transformer_rows,
)
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import AnyRuns
from isoloss.experiments.suite.table_3 import BERT_POSITIONS, BERT_TOKENS, parameters
from isoloss.languages.hmm import HMM
from isoloss.languages.paper_grammar import mean_length
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning, LinearProbe
from isoloss.measurements.entropy import masked_entropy
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.on_sentences.fisher_trace import TraceQuantity
from isoloss.pretraining.adversarial import Adversarial
from isoloss.progress import silent

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


SAME = "as the paper says"


@dataclass(frozen=True)
class PaperSetting:
    """One setting: what the paper says, what a scale does, and why."""

    name: str
    paper: str
    ours: str
    why: str = SAME


@dataclass(frozen=True)
class SettingsGroup:
    """The settings of one subject."""

    title: str
    settings: tuple[PaperSetting, ...]


def settings_of(scale: Scale, experiments: Sequence[Experiment] | None = None) -> tuple[SettingsGroup, ...]:
    """All settings that the paper gives or leaves open; of some experiments, those on which one depends.

    Raises BadInput for a scale whose languages are of other kinds than the paper's.
    """
    return tuple(
        SettingsGroup(title, tuple(PaperSetting(*row) for row in rows(scale)))
        for title, rows, concerns in GROUPS
        if experiments is None or any(concerns(scale, each) for each in experiments)
    )


def _trained_on(experiment: Experiment, *runs: AnyRuns) -> bool:
    return not {run.language.digest for run in experiment.runs}.isdisjoint(r.language.digest for r in runs)


def _measures(experiment: Experiment, *kinds: type) -> bool:
    """Whether it measures a quantity of one of these classes, or an accuracy of a head of one."""
    measured = (each.quantity for run in experiment.runs for each in run.measured)
    return any(
        isinstance(quantity.head if isinstance(quantity, AccuracyQuantity) else quantity, kinds)
        for quantity in measured
    )


GROUPS: tuple[tuple[str, Callable[[Scale], Rows], Callable[[Scale, Experiment], bool]], ...] = (
    ("PCFG (A.1)", grammar_rows, lambda at, e: _trained_on(e, at.grammar)),
    ("HMM (A.1, A.4)", hidden_markov_rows, lambda at, e: _trained_on(e, at.hidden_markov)),
    ("OPT (A.1)", causal_language_rows, lambda at, e: _trained_on(e, at.causal_language)),
    (
        "Real text (A.2, Section 4)",
        real_text_rows,
        lambda _, e: any(isinstance(run.language, CorpusPlan) for run in e.runs),
    ),
    (
        "Transformers (A.4, Table 3)",
        transformer_rows,
        lambda at, e: e.name == "table-3" or _trained_on(e, at.grammar),
    ),
    (
        "Pre-training (A.5)",
        training_rows,
        lambda at, e: _trained_on(e, at.grammar, at.hidden_markov, at.causal_language),
    ),
    ("SGD (B.2)", descent_rows, lambda _, e: e.name in ("figure-4", "figure-10")),
    (
        "Sizes that are enlarged to one (B.3, B.4, Table 4)",
        enlarging_rows,
        lambda _, e: e.name in ("figure-5", "table-4"),
    ),
    (
        "The adversary (A.5, Table 1)",
        adversary_rows,
        lambda _, e: any(isinstance(run.update_rule, Adversarial) for run in e.runs),
    ),
    (
        "Loss and trace (A.5, B.1)",
        measurement_rows,
        lambda _, e: _measures(e, ExactLossQuantity, TraceQuantity),
    ),
    ("Linear probe (A.5)", probe_rows, lambda _, e: _measures(e, LinearProbe)),
    ("Fine-tuning (A.5)", fine_tuning_rows, lambda _, e: _measures(e, FineTuning)),
)
"""Title, settings, and whether an experiment depends on them."""
