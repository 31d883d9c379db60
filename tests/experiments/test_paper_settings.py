from functools import cache

import pytest

from isoloss.experiments.design import every_experiment
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.paper_settings import settings_of
from isoloss.experiments.scale import scale_named


@cache
def experiments() -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in every_experiment(scale_named("paper"))}


@cache
def titles(*names: str) -> set[str]:
    groups = settings_of([experiments()[name] for name in names])
    return {group.title.split(" (")[0] for group in groups}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("figure-1", {"PCFG", "Transformers", "Pre-training", "Loss and trace", "Linear probe"}),
        ("table-3", {"Transformers"}),
        ("table-4", {"Sizes that are enlarged to one"}),
        ("real-text-steps", {"Real text", "Loss and trace", "Linear probe", "Fine-tuning"}),
    ],
)
def test_an_experiment_is_told_what_it_depends_on(name: str, expected: set[str]) -> None:
    assert titles(name) == expected


def test_rules_and_languages_bring_their_own() -> None:
    assert {"SGD", "PCFG", "HMM"} <= titles("figure-4")
    assert {"The adversary", "PCFG"} <= titles("table-1")
    assert "SGD" not in titles("figure-1", "figure-5")
    assert titles("figure-1", "figure-4") == titles("figure-1") | titles("figure-4")


def test_every_setting_says_all_three_and_none_twice() -> None:
    for group in settings_of(list(experiments().values())):
        settings = group.settings
        assert len({setting.name for setting in settings}) == len(settings)
        for setting in settings:
            for said in (setting.name, setting.paper, setting.ours, setting.why):
                assert said.strip()
                assert "|" not in said  # the columns of a table
