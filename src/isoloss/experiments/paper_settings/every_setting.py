"""All settings that the paper gives or leaves open, beside a scale's."""

from collections.abc import Sequence

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.paper_settings.of_languages import (
    causal_language_settings,
    grammar_settings,
    hidden_markov_settings,
    real_text_settings,
)
from isoloss.experiments.paper_settings.of_training import (
    adversary_settings,
    descent_settings,
    enlarging_settings,
    fine_tuning_settings,
    measurement_settings,
    probe_settings,
    training_settings,
    transformer_settings,
)
from isoloss.experiments.paper_settings.setting import SettingsGroup
from isoloss.experiments.scale import Scale


def every_setting(scale: Scale) -> tuple[SettingsGroup, ...]:
    """Languages, models and training, measurements. The scale's languages are of the paper's kinds."""
    return (
        grammar_settings(scale),
        hidden_markov_settings(scale),
        causal_language_settings(scale),
        real_text_settings(scale),
        transformer_settings(scale),
        training_settings(scale),
        descent_settings(scale),
        enlarging_settings(scale),
        adversary_settings(scale),
        measurement_settings(scale),
        probe_settings(scale),
        fine_tuning_settings(scale),
    )


def settings_of(scale: Scale, experiments: Sequence[Experiment]) -> tuple[SettingsGroup, ...]:
    """Those on which at least one of the experiments depends."""
    groups = every_setting(scale)
    return tuple(group for group in groups if any(group.concerns(each) for each in experiments))
