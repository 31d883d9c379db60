"""How a scale measures beside the paper (A.5, B.1)."""

from isoloss.experiments.paper_settings.setting import PaperSetting, SettingsGroup, measuring
from isoloss.experiments.quantities.exact_loss import ExactLossQuantity
from isoloss.experiments.quantities.fine_tuning import FineTuningQuantity
from isoloss.experiments.quantities.probe import ProbeQuantity
from isoloss.experiments.quantities.text_fine_tuning import TextFineTuningQuantity
from isoloss.experiments.quantities.text_probe import TextProbeQuantity
from isoloss.experiments.quantities.trace import TraceQuantity
from isoloss.experiments.scale import Scale


def measurement_settings(scale: Scale) -> SettingsGroup:
    """Loss and trace."""
    sizes = scale.sizes
    return SettingsGroup(
        "Loss and trace (A.5, B.1)",
        measuring(ExactLossQuantity, TraceQuantity),
        lambda: (
            PaperSetting(
                "loss",
                "entropy + KL from the exact law, 1e6 sentences",
                f"the same, every position of {sizes.loss_sentences:,} sentences",
                "1e6 masks, whose laws come a sentence at a time",
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
        measuring(ProbeQuantity, TextProbeQuantity),
        lambda: (
            PaperSetting(
                "examples",
                "100,000",
                f"{sizes.probe_train:,} to train, {sizes.probe_validation:,} to validate, "
                f"{sizes.probe_test:,} to test",
            ),
            PaperSetting("features", "all words' vectors, concatenated", "the same, [CLS] left out"),
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
    settings = scale.longer.fine_tuning
    return SettingsGroup(
        "Fine-tuning (A.5)",
        measuring(FineTuningQuantity, TextFineTuningQuantity),
        lambda: (
            PaperSetting("AdamW's rate", "1e-4", f"{settings.learning_rate:g}"),
            PaperSetting(
                "warm-up, epochs", "200 steps, 10", f"{settings.warm_up_steps} steps, {settings.epochs}"
            ),
            PaperSetting("minibatch", "not given", f"{settings.batch_size}", "that of Devlin et al. 2019"),
            PaperSetting("seeds", "5", f"{len(settings.seeds)}"),
        ),
    )
