"""The paper's settings beside a scale's own, one setting per line, with the reasons for differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from isoloss.errors import BadInput
from isoloss.experiments.chosen_languages import GRAMMAR_ENTROPY, GRAMMAR_LENGTH, HMM_ENTROPY
from isoloss.experiments.descents import DESCENTS
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.planned_run import CorpusPlan, ReadyLanguage
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import AnyRuns, width_of
from isoloss.experiments.suite.figure_5 import AT as SIZES_COMPARED
from isoloss.experiments.suite.longer_training import AT as LONGER
from isoloss.experiments.suite.table_3 import BERT_POSITIONS, BERT_TOKENS, parameters
from isoloss.languages.hmm import HMM
from isoloss.languages.paper_grammar import mean_length
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning, LinearProbe
from isoloss.measurements.entropy import masked_entropy
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.on_sentences.fisher_trace import TraceQuantity
from isoloss.models.shapes import TABLE_4_PRINTED_INNER
from isoloss.pretraining.adversarial import Adversarial
from isoloss.progress import silent

SAME = "as the paper says"
SENTENCES = 1000
"""Number of sentences for a language's entropy, which takes seconds."""

Rows = tuple[tuple[str, str, str] | tuple[str, str, str, str], ...]


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


def _grammar(scale: Scale) -> Rows:
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


def _hidden_markov(scale: Scale) -> Rows:
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


def _causal_language(scale: Scale) -> Rows:
    runs = scale.causal_language
    return (
        ("language", "OPT-125M, its 2,000 most frequent tokens", f"{runs.language.words:,} tokens"),
        ("words a sentence", "24", f"{runs.language.maximum_length}"),
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


def _real_text(scale: Scale) -> Rows:
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


def _transformers(scale: Scale) -> Rows:
    shapes = [model.shape for model in scale.grammar.architectures]
    counts = [parameters(shape, BERT_TOKENS, BERT_POSITIONS) / 1e6 for shape in shapes]
    return (
        ("width × layers", "Table 3", ", ".join(f"{shape.width} × {shape.layers}" for shape in shapes)),
        (
            "names",
            "2M to 730M",
            f"{counts[0]:.1f}M to {counts[-1]:.0f}M with BERT's {BERT_TOKENS:,} tokens",
            "the paper counts the tokens of its tokenizer; models here have the language's own words; "
            f"--tokens {BERT_TOKENS} gives them all",
        ),
        (
            "layer norm",
            "after each block (B.4)",
            "before each block",
            "the authors trained so (Izsak et al. 2021); the other is there too",
        ),
    )


def _training(scale: Scale) -> Rows:
    runs = scale.grammar
    rule = runs.update_rule
    return (
        ("AdamW's rate", "1e-3, constant", f"{rule.learning_rate:g}, constant"),
        (
            "warm-up",
            "1,000 steps (A.5); a proportion of 0.06 (A.4)",
            f"{rule.warm_up_steps:,} steps",
            "a proportion of an unknown number of steps is none",
        ),
        ("betas", "0.9, 0.98", f"{rule.first_beta:g}, {rule.second_beta:g}"),
        ("dropout, weight decay", "0.1, 0.01", f"{runs.architectures[0].dropout:g}, {rule.weight_decay:g}"),
        ("batch", "4,096", f"{runs.batch_size:,}"),
        (
            "steps",
            "more than 30,000, until the loss converges (preprint)",
            f"{runs.steps:,}, saturated from {runs.saturated_from:,}",
            "the published paper gives none",
        ),
        (
            "masks",
            "15 % on real text; not said for generated languages",
            "one a sentence",
            "the loss that is defined (Section 2.1); the released pipeline masks 15 % in five copies: "
            "`ablations` tells whether it matters",
        ),
        ("runs a size", "one", f"{len(scale.seeds)}", "an interval needs several"),
    )


def _descents(scale: Scale) -> Rows:
    grammar, chain = DESCENTS[scale.name].grammar, DESCENTS[scale.name].hidden_markov
    return (
        ("start", "pre-training with SGD", grammar.start),
        ("rate", "1e-3", f"{grammar.update_rule.learning_rate:g}"),
        ("warm-up", "12 % of the steps", f"{grammar.update_rule.warm_up_share:.0%}"),
        ("models", "235M on the PCFG, 67M on the HMM", f"width {grammar.width}, width {chain.width}"),
        ("steps", "not given", f"{grammar.steps:,}", "those of AdamW"),
        (
            "drift time η²k/4B",
            "not given; (1e-3)² · 120,000 / (4 · 4,096) = 7.3e-06",
            f"{grammar.drift_time:.1e}",
            "by Theorem 3.3 nothing measurable moves in that time: the page of Figure 4 says so",
        ),
    )


def _enlarging(scale: Scale) -> Rows:
    compared = SIZES_COMPARED[scale.name]
    shapes = [model.shape for model in compared.architectures]
    return (
        ("width × layers", "Table 4", ", ".join(f"{shape.width} × {shape.layers}" for shape in shapes)),
        (
            "inner widths",
            ", ".join(map(str, TABLE_4_PRINTED_INNER)),
            ", ".join(str(shape.inner_width) for shape in shapes),
            "four times the width, as B.4 says: only so the last has the 950M that the paper names",
        ),
        ("enlarged to", "the largest", f"{compared.common.width} × {compared.common.layers}"),
    )


def _adversary(scale: Scale) -> Rows:
    rule, size = scale.compared.adversary, scale.grammar.architectures[scale.compared.size]
    small = scale.compared.small.shape
    small_count = parameters(small, BERT_TOKENS, BERT_POSITIONS) / 1e6
    low, high = rule.loss_window
    return (
        ("model", "235M", f"width {width_of(size)}"),
        (
            "small model beside it",
            "9M (preprint)",
            f"width {small.width} × {small.layers}: {small_count:.1f}M",
            f"the nearest of Tables 3 and 4 with BERT's {BERT_TOKENS:,} tokens",
        ),
        (
            "tasks attacked",
            "the downstream tasks",
            f"{', '.join(rule.tasks)}, one a step in turn",
            "the tasks of Tables 1 and 2; by default the language's own list, which leaves out rare ones",
        ),
        (
            "strength λ",
            "not given",
            f"{rule.strength:g} up to a loss of {low:.3f} nats, falling to 0 at {high:.3f}",
            "so that it costs no loss: 0.02 to 0.05 nats above the entropy; untried at this scale",
        ),
        (
            "D1 and D2",
            "disjoint subsets of the training examples; sizes not given",
            f"{rule.examples} each, fresh at every step",
            "the paper leaves it open",
        ),
    )


def _measurements(scale: Scale) -> Rows:
    sizes = scale.sizes
    return (
        (
            "loss",
            "entropy + KL from the exact distribution, 1e6 sentences",
            f"the same, every position of {sizes.loss_sentences:,} sentences",
            "1e6 masks, whose distributions come a sentence at a time",
        ),
        ("contexts of the trace", "10,000", f"{sizes.trace_sentences:,} sentences, a mask each"),
        (
            "labels a context",
            "50 drawn from the model",
            "±1 signs on the columns of diag(√p) - p√pᵀ",
            "the same mean with bounded variance",
        ),
    )


def _probe(scale: Scale) -> Rows:
    sizes, probe = scale.sizes, scale.sizes.probe
    return (
        (
            "examples",
            "100,000",
            f"{sizes.probe_train:,} to train, {sizes.probe_validation:,} to validate, "
            f"{sizes.probe_test:,} to test",
        ),
        ("features", "all words' vectors, concatenated", "the same, [CLS] left out"),
        (
            "projection",
            "tried, to 512 dimensions; “does not affect the final performance”",
            "none; where sizes are compared, to the narrowest's dimension too",
            "`figure-3` tells whether accuracy depends on it, `ablations` of the released probe",
        ),
        ("AdamW's rate, epochs", "1e-3, 100", f"{probe.learning_rate:g}, {probe.epochs}"),
        ("minibatch", "not given", f"{probe.batch_size}", "the released probe has 512, on other features"),
        ("seeds", "5", f"{len(probe.seeds)}"),
    )


def _fine_tuning(scale: Scale) -> Rows:
    settings = LONGER[scale.name].fine_tuning
    return (
        ("AdamW's rate", "1e-4", f"{settings.learning_rate:g}"),
        ("warm-up, epochs", "200 steps, 10", f"{settings.warm_up_steps} steps, {settings.epochs}"),
        ("minibatch", "not given", f"{settings.batch_size}", "that of Devlin et al. 2019"),
        ("seeds", "5", f"{len(settings.seeds)}"),
    )


AnyLanguage = TypeVar("AnyLanguage", PCFG, HMM)


def _ready(runs: AnyRuns, kind: type[AnyLanguage]) -> AnyLanguage:
    language = runs.language.language(Path(), silent) if isinstance(runs.language, ReadyLanguage) else None
    if not isinstance(language, kind):
        raise BadInput(f"the scale's language is no {kind.__name__}; ask at the scale paper")
    return language


def _entropy(language: PCFG | HMM) -> str:
    found = masked_entropy(language, SENTENCES, seed=0)
    return f"{found.value:.3f} ± {found.standard_error:.3f} nats over {SENTENCES:,} sentences"


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
    ("PCFG (A.1)", _grammar, lambda at, e: _trained_on(e, at.grammar)),
    ("HMM (A.1, A.4)", _hidden_markov, lambda at, e: _trained_on(e, at.hidden_markov)),
    ("OPT (A.1)", _causal_language, lambda at, e: _trained_on(e, at.causal_language)),
    (
        "Real text (A.2, Section 4)",
        _real_text,
        lambda _, e: any(isinstance(run.language, CorpusPlan) for run in e.runs),
    ),
    (
        "Transformers (A.4, Table 3)",
        _transformers,
        lambda at, e: e.name == "table-3" or _trained_on(e, at.grammar),
    ),
    (
        "Pre-training (A.5)",
        _training,
        lambda at, e: _trained_on(e, at.grammar, at.hidden_markov, at.causal_language),
    ),
    ("SGD (B.2)", _descents, lambda _, e: e.name in ("figure-4", "figure-10")),
    (
        "Sizes that are enlarged to one (B.3, B.4, Table 4)",
        _enlarging,
        lambda _, e: e.name in ("figure-5", "table-4"),
    ),
    (
        "The adversary (A.5, Table 1)",
        _adversary,
        lambda _, e: any(isinstance(run.update_rule, Adversarial) for run in e.runs),
    ),
    ("Loss and trace (A.5, B.1)", _measurements, lambda _, e: _measures(e, ExactLossQuantity, TraceQuantity)),
    ("Linear probe (A.5)", _probe, lambda _, e: _measures(e, LinearProbe)),
    ("Fine-tuning (A.5)", _fine_tuning, lambda _, e: _measures(e, FineTuning)),
)
"""Title, settings, and whether an experiment depends on them."""
