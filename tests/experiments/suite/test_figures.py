"""Figures 2, 3, 4, 8, 9 and 10: statistics on tables made by hand, planned runs, and the paper's SGD."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.descents import DescentRuns
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.planned_run import OTHER_SENTENCES
from isoloss.experiments.scale import FRESH_SEEDS, scale_named
from isoloss.experiments.suite.figure_1 import figure_1
from isoloss.experiments.suite.figure_3 import figure_3
from isoloss.experiments.suite.figure_4 import DESCENTS, Descents, figure_4
from isoloss.experiments.suite.figure_10 import figure_10
from isoloss.measurements.accuracy import AccuracyQuantity, LinearProbe
from isoloss.pretraining.descent import SGD

FIGURES = ("figure-2", "figure-3", "figure-4", "figure-8", "figure-9", "figure-10")


def contrary(experiment: Experiment, gain: float | None = None) -> list[pl.DataFrame]:
    """Runs that contradict every claim of the figures: worse and further apart with size and training.

    They grow sharper too. Those of Figure 10, which claims no more than that the flatter are better, are
    flatter and worse; those of Figure 4 sharper and better, unless `gain` says otherwise.
    """
    trend = -1 if experiment.name == "figure-10" else 1
    gain = gain or (0.02 if experiment.name == "figure-4" else -0.02)
    generator = np.random.default_rng(0)
    told = dict.fromkeys(("kl_error", "accuracy_error", "projected_accuracy_error"), 0.001)
    told |= dict.fromkeys(("loss_sentences", "accuracy_sentences", "projected_accuracy_sentences"), 50)
    before = dict.fromkeys(("untrained_accuracy", "untrained_projected_accuracy"), [None] * 5 + [0.4])
    rows = []
    for run in experiment.runs:
        place, noise = np.arange(6), generator.random(6) / 1000
        labels = {"run": run.name, "seed": run.first_seed, **dict(run.labels)}
        width = float(labels["width"])
        columns = {
            "step": 2**place,
            "loss": 3.0 - place * 0.1 - width / 1000 + noise,
            "kl": (1.0 - place * 0.1 + noise) * 2 ** (-width / 40),
            "trace": 20.0 + trend * place + noise,
            "accuracy": 0.9 + place * gain - width / 100 + noise,
            "projected_accuracy": 0.8 - place * 0.02 - width / 100 + noise,
            "parameters": [None] * 5 + [3 * labels["width"]],
        }
        rows.append(pl.DataFrame({**labels, **told, **before, **columns}))
    return rows


@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_can_fail(figure: str) -> None:
    experiment = builtin_designs()[figure].at(scale_named("laptop"))
    runs, worse = contrary(experiment), contrary(experiment, gain=-0.02)
    for claim in experiment.claims:
        # Along SGD accuracy falls for the one, and for the others as the trace does.
        effect = claim.statistic(worse if claim.name in ("pcfg-c-better", "hmm-10-better") else runs)
        assert not math.isnan(effect)
        assert not claim.claimed.low <= effect <= claim.claimed.high, claim.name


def test_a_panel_without_runs_leaves_its_claims_open() -> None:
    """The unavailable language does not invalidate the other panels' claims."""
    experiment = figure_3(scale_named("laptop"))
    present = [run for run in contrary(experiment) if run["panel"][0] == "pcfg-b"]
    effects = {claim.name: claim.statistic(present) for claim in experiment.claims}
    assert {name for name in effects if not math.isnan(effects[name])} == {
        "pcfg-b-one-loss",
        "pcfg-b-projection-changes-little",
        "pcfg-b-one-kl",
        "pcfg-b-larger-is-better",
        "pcfg-b-larger-is-better-at-one-kl",
        "pcfg-b-larger-is-better-in-one-dimension",
    }


def test_figures_share_runs_and_what_is_measured_of_them() -> None:
    scale = scale_named("laptop").with_seeds(FRESH_SEEDS["laptop"])
    experiments = [figure_1(scale), *(builtin_designs()[figure].at(scale) for figure in FIGURES)]
    for experiment in experiments:
        names = [claim.name for claim in experiment.claims]
        assert len(set(names)) == len(names)
    runs = shared(run for experiment in experiments for run in experiment.runs)
    families = (scale.grammar, scale.hidden_markov, scale.causal_language)
    sizes = sum(len(family.architectures) for family in families)
    assert len(runs) == len(scale.seeds) * (sizes + 2)
    quantities = (m.quantity for run in runs for m in run.measured)
    plain = LinearProbe(scale.sizes.probe)
    probes = [q for q in quantities if isinstance(q, AccuracyQuantity) and q.head == plain]
    assert {probe.examples.task for probe in probes} == {task for family in families for task in family.tasks}
    assert len(set(probes)) == 6  # tasks A and C are the same


def test_descents_see_other_sentences_and_count_as_their_origins_seeds() -> None:
    scale = scale_named("laptop")
    origins = {run.digest for run in shared(figure_3(scale).runs)}
    for run in figure_4(scale, DESCENTS["laptop"]).runs:
        assert run.seed == run.first_seed + OTHER_SENTENCES
        assert run.first_seed in scale.seeds
        assert run.continues.run.digest in origins
        assert run.continues.step == run.continues.run.steps
        assert run.architecture.dropout == 0
        assert run.saturated_from == round(0.12 * run.steps)
    with pytest.raises(BadInput, match=r"seeds \[900\] chose the scale"):
        replace(builtin_designs()["figure-4"], seeds={}).at(replace(scale, seeds=(900,)))
    none = DescentRuns(7, SGD(), 4, 2, (2,))
    with pytest.raises(BadInput, match="no model of width 7 is there to continue; choose 32, 48"):
        figure_4(scale, Descents(none, none))


def test_the_paper_pre_trains_with_sgd_from_fresh_weights() -> None:
    scale = scale_named("paper")
    for figure in (figure_4(scale, DESCENTS["paper"]), figure_10(scale, DESCENTS["paper"])):
        for run in figure.runs:
            assert run.continues is None
            assert run.update_rule == SGD(learning_rate=1e-3, warm_up_share=0.12)
            assert run.seed in scale.seeds
            assert run.architecture.dropout == 0
    assert all(run.continues for run in figure_4(scale_named("smoke"), DESCENTS["smoke"]).runs)


def test_the_page_says_what_the_papers_own_numbers_let_move() -> None:
    assert DESCENTS["laptop"].grammar.drift_time > 1000 * DESCENTS["paper"].grammar.drift_time
    (said,) = (text for text in figure_4(scale_named("paper"), DESCENTS["paper"]).text if "η²k/4B" in text)
    assert "0.001² · 120,000 / (4 · 4,096) = 7.3e-06 here" in said
    assert "7.3e-06" in next(
        text for text in figure_4(scale_named("smoke"), DESCENTS["smoke"]).text if "η²k/4B" in text
    )
    assert "fresh weights" in "".join(figure_4(scale_named("paper"), DESCENTS["paper"]).text)
