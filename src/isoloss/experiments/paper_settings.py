"""The paper's settings beside a scale's own, one setting per line, with the reasons for differences."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from isoloss.experiments.experiment import Experiment, SettingsGroup, settings_group
from isoloss.experiments.languages import (
    GRAMMAR_ENTROPY,
    GRAMMAR_LENGTH,
    HMM_ENTROPY,
    CorpusPlan,
)
from isoloss.experiments.paper_training_settings import (
    adversary_settings,
    fine_tuning_settings,
    measurement_settings,
    parameters_with_bert,
    probe_settings,
    training_settings,
    transformer_settings,
)
from isoloss.experiments.scale import Scale, scale_named
from isoloss.experiments.shared.language_runs import AnyRuns
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


def grammar_settings(scale: Scale) -> SettingsGroup:
    """The grammar (A.1)."""
    runs = scale.grammar
    language = runs.language.language(Path(), silent)
    assert isinstance(language, PCFG)
    a, b, c = runs.tasks
    return settings_group(
        "PCFG (A.1)",
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


def hidden_markov_settings(scale: Scale) -> SettingsGroup:
    """The hidden Markov model and its LSTMs (A.1, A.4)."""
    runs = scale.hidden_markov
    language = runs.language.language(Path(), silent)
    assert isinstance(language, HMM)
    widths = ", ".join(f"{model.width} × {model.layers}" for model in runs.architectures)
    return settings_group(
        "HMM (A.1, A.4)",
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


def causal_language_settings(scale: Scale) -> SettingsGroup:
    """OPT's language (A.1)."""
    runs = scale.causal_language
    return settings_group(
        "OPT (A.1)",
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


def real_text_settings(scale: Scale) -> SettingsGroup:
    """Corpora and the models on them (A.2, Section 4)."""
    followed, compared = scale.real_text.followed, scale.real_text.compared
    shape = followed.architecture.shape
    count = parameters_with_bert(shape) / 1e6
    return settings_group(
        "Real text (A.2, Section 4)",
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


@cache
def _entropy(language: PCFG | HMM) -> str:
    found = masked_entropy(language, SENTENCES, seed=0)
    return f"{found.value:.3f} ± {found.standard_error:.3f} nats over {SENTENCES:,} sentences"


def settings_of(experiments: Sequence[Experiment]) -> tuple[SettingsGroup, ...]:
    """The settings that the paper gives or leaves open and on which one of the experiments depends."""
    scale = scale_named("paper")
    shared = (
        settings(scale) for settings, concerns in SHARED if any(concerns(scale, e) for e in experiments)
    )
    own = (group for experiment in experiments for group in experiment.paper_settings)
    return tuple({group.title: group for group in (*shared, *own)}.values())


def _trained_on(experiment: Experiment, *runs: AnyRuns) -> bool:
    return not {run.language.digest for run in experiment.runs}.isdisjoint(r.language.digest for r in runs)


def _measures(experiment: Experiment, *kinds: type) -> bool:
    """Whether it measures a quantity of one of these classes, or an accuracy of a head of one."""
    measured = (each.quantity for run in experiment.runs for each in run.measured)
    return any(
        isinstance(quantity.head if isinstance(quantity, AccuracyQuantity) else quantity, kinds)
        for quantity in measured
    )


SHARED: tuple[tuple[Callable[[Scale], SettingsGroup], Callable[[Scale, Experiment], bool]], ...] = (
    (grammar_settings, lambda at, e: _trained_on(e, at.grammar)),
    (hidden_markov_settings, lambda at, e: _trained_on(e, at.hidden_markov)),
    (causal_language_settings, lambda at, e: _trained_on(e, at.causal_language)),
    (real_text_settings, lambda _, e: any(isinstance(run.language, CorpusPlan) for run in e.runs)),
    (transformer_settings, lambda at, e: _trained_on(e, at.grammar)),
    (training_settings, lambda at, e: _trained_on(e, at.grammar, at.hidden_markov, at.causal_language)),
    (adversary_settings, lambda _, e: any(isinstance(run.update_rule, Adversarial) for run in e.runs)),
    (measurement_settings, lambda _, e: _measures(e, ExactLossQuantity, TraceQuantity)),
    (probe_settings, lambda _, e: _measures(e, LinearProbe)),
    (fine_tuning_settings, lambda _, e: _measures(e, FineTuning)),
)
"""Settings, and whether an experiment depends on them, by what it trains or measures."""
