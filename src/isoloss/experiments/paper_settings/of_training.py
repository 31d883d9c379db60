"""How a scale's models are built, trained and measured, beside the paper's (A.4, A.5, B.1 to B.4)."""

from isoloss.experiments.descents import DESCENTS
from isoloss.experiments.paper_settings.setting import (
    PaperSetting,
    SettingsGroup,
    measuring,
    named,
    trained_by,
    trained_on,
    with_head,
)
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import width_of
from isoloss.experiments.suite.figure_5 import AT as SIZES_COMPARED
from isoloss.experiments.suite.longer_training import AT as LONGER
from isoloss.experiments.suite.table_3 import BERT_POSITIONS, BERT_TOKENS, parameters
from isoloss.measurements.accuracy import FineTuning, LinearProbe
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.on_sentences.fisher_trace import TraceQuantity
from isoloss.models.shapes import TABLE_4_PRINTED_INNER
from isoloss.pretraining.adversarial import Adversarial


def transformer_settings(scale: Scale) -> SettingsGroup:
    """The transformers of Section 2."""
    shapes = [model.shape for model in scale.grammar.architectures]
    counts = [parameters(shape, BERT_TOKENS, BERT_POSITIONS) / 1e6 for shape in shapes]
    return SettingsGroup(
        "Transformers (A.4, Table 3)",
        lambda experiment: named("table-3")(experiment) or trained_on(scale.grammar)(experiment),
        lambda: (
            PaperSetting(
                "width × layers",
                "Table 3",
                ", ".join(f"{shape.width} × {shape.layers}" for shape in shapes),
            ),
            PaperSetting(
                "names",
                "2M to 730M",
                f"{counts[0]:.1f}M to {counts[-1]:.0f}M with BERT's {BERT_TOKENS:,} tokens",
                "the paper counts the tokens of its tokenizer; models here have the language's own words; "
                f"--tokens {BERT_TOKENS} gives them all",
            ),
            PaperSetting(
                "layer norm",
                "after each block (B.4)",
                "before each block",
                "the authors trained so (Izsak et al. 2021); the other is there too",
            ),
        ),
    )


def training_settings(scale: Scale) -> SettingsGroup:
    """Pre-training on generated languages."""
    runs = scale.grammar
    rule = runs.update_rule
    return SettingsGroup(
        "Pre-training (A.5)",
        trained_on(scale.grammar, scale.hidden_markov, scale.causal_language),
        lambda: (
            PaperSetting("AdamW's rate", "1e-3, constant", f"{rule.learning_rate:g}, constant"),
            PaperSetting(
                "warm-up",
                "1,000 steps (A.5); a proportion of 0.06 (A.4)",
                f"{rule.warm_up_steps:,} steps",
                "a proportion of an unknown number of steps is none",
            ),
            PaperSetting("betas", "0.9, 0.98", f"{rule.first_beta:g}, {rule.second_beta:g}"),
            PaperSetting(
                "dropout, weight decay",
                "0.1, 0.01",
                f"{runs.architectures[0].dropout:g}, {rule.weight_decay:g}",
            ),
            PaperSetting("batch", "4,096", f"{runs.batch_size:,}"),
            PaperSetting(
                "steps",
                "more than 30,000, until the loss converges (preprint)",
                f"{runs.steps:,}, saturated from {runs.saturated_from:,}",
                "the published paper gives none",
            ),
            PaperSetting(
                "masks",
                "15 % on real text; not said for generated languages",
                "one a sentence",
                "the loss that is defined (Section 2.1); the released pipeline masks 15 % in five copies: "
                "`ablations` tells whether it matters",
            ),
            PaperSetting("runs a size", "one", f"{len(scale.seeds)}", "an interval needs several"),
        ),
    )


def descent_settings(scale: Scale) -> SettingsGroup:
    """The SGD of Figures 4 and 10."""
    grammar, chain = DESCENTS[scale.name].grammar, DESCENTS[scale.name].hidden_markov
    return SettingsGroup(
        "SGD (B.2)",
        named("figure-4", "figure-10"),
        lambda: (
            PaperSetting("start", "pre-training with SGD", grammar.start),
            PaperSetting("rate", "1e-3", f"{grammar.update_rule.learning_rate:g}"),
            PaperSetting("warm-up", "12 % of the steps", f"{grammar.update_rule.warm_up_share:.0%}"),
            PaperSetting(
                "models", "235M on the PCFG, 67M on the HMM", f"width {grammar.width}, width {chain.width}"
            ),
            PaperSetting("steps", "not given", f"{grammar.steps:,}", "those of AdamW"),
            PaperSetting(
                "drift time η²k/4B",
                "not given; (1e-3)² · 120,000 / (4 · 4,096) = 7.3e-06",
                f"{grammar.drift_time:.1e}",
                "by Theorem 3.3 nothing measurable moves in that time: the page of Figure 4 says so",
            ),
        ),
    )


def enlarging_settings(scale: Scale) -> SettingsGroup:
    """Figure 5's transformers."""
    compared = SIZES_COMPARED[scale.name]
    shapes = [model.shape for model in compared.architectures]
    return SettingsGroup(
        "Sizes that are enlarged to one (B.3, B.4, Table 4)",
        named("figure-5", "table-4"),
        lambda: (
            PaperSetting(
                "width × layers", "Table 4", ", ".join(f"{shape.width} × {shape.layers}" for shape in shapes)
            ),
            PaperSetting(
                "inner widths",
                ", ".join(map(str, TABLE_4_PRINTED_INNER)),
                ", ".join(str(shape.inner_width) for shape in shapes),
                "four times the width, as B.4 says: only so the last has the 950M that the paper names",
            ),
            PaperSetting("enlarged to", "the largest", f"{compared.common.width} × {compared.common.layers}"),
        ),
    )


def adversary_settings(scale: Scale) -> SettingsGroup:
    """The adversary of Table 1."""
    rule, size = scale.compared.adversary, scale.grammar.architectures[scale.compared.size]
    low, high = rule.loss_window
    return SettingsGroup(
        "The adversary (A.5, Table 1)",
        trained_by(Adversarial),
        lambda: (
            PaperSetting("model", "235M", f"width {width_of(size)}"),
            PaperSetting(
                "strength λ",
                "not given",
                f"{rule.strength:g} up to a loss of {low:.3f} nats, falling to 0 at {high:.3f}",
                "so that it costs no loss: 0.02 to 0.05 nats above the entropy; untried at this scale",
            ),
            PaperSetting(
                "D1 and D2",
                "disjoint subsets of the training examples; sizes not given",
                f"{rule.examples} each, fresh at every step",
                "the paper leaves it open",
            ),
        ),
    )


def measurement_settings(scale: Scale) -> SettingsGroup:
    """Loss and trace."""
    sizes = scale.sizes
    return SettingsGroup(
        "Loss and trace (A.5, B.1)",
        measuring(ExactLossQuantity, TraceQuantity),
        lambda: (
            PaperSetting(
                "loss",
                "entropy + KL from the exact distribution, 1e6 sentences",
                f"the same, every position of {sizes.loss_sentences:,} sentences",
                "1e6 masks, whose distributions come a sentence at a time",
            ),
            PaperSetting(
                "contexts of the trace", "10,000", f"{sizes.trace_sentences:,} sentences, a mask each"
            ),
            PaperSetting(
                "labels a context",
                "50 drawn from the model",
                "±1 signs on the columns of diag(√p) - p√pᵀ",
                "the same mean with bounded variance",
            ),
        ),
    )


def probe_settings(scale: Scale) -> SettingsGroup:
    """The linear probe."""
    sizes, probe = scale.sizes, scale.sizes.probe
    return SettingsGroup(
        "Linear probe (A.5)",
        with_head(LinearProbe),
        lambda: (
            PaperSetting(
                "examples",
                "100,000",
                f"{sizes.probe_train:,} to train, {sizes.probe_validation:,} to validate, "
                f"{sizes.probe_test:,} to test",
            ),
            PaperSetting("features", "all words' vectors, concatenated", "the same, [CLS] left out"),
            PaperSetting(
                "projection",
                "tried, to 512 dimensions; “does not affect the final performance”",
                "none; where sizes are compared, to the narrowest's dimension too",
                "`projection` tells whether accuracy depends on it, `ablations` of the released probe",
            ),
            PaperSetting("AdamW's rate, epochs", "1e-3, 100", f"{probe.learning_rate:g}, {probe.epochs}"),
            PaperSetting(
                "minibatch",
                "not given",
                f"{probe.batch_size}",
                "the released probe has 512, on other features",
            ),
            PaperSetting("seeds", "5", f"{len(probe.seeds)}"),
        ),
    )


def fine_tuning_settings(scale: Scale) -> SettingsGroup:
    """Fine-tuning."""
    settings = LONGER[scale.name].fine_tuning
    return SettingsGroup(
        "Fine-tuning (A.5)",
        with_head(FineTuning),
        lambda: (
            PaperSetting("AdamW's rate", "1e-4", f"{settings.learning_rate:g}"),
            PaperSetting(
                "warm-up, epochs", "200 steps, 10", f"{settings.warm_up_steps} steps, {settings.epochs}"
            ),
            PaperSetting("minibatch", "not given", f"{settings.batch_size}", "that of Devlin et al. 2019"),
            PaperSetting("seeds", "5", f"{len(settings.seeds)}"),
        ),
    )
