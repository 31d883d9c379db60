"""Figures 2, 3, 4, 8, 9 and 10: their statistics on tables made by hand, and what they plan."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.descent_runs import OTHER_SENTENCES, DescentRuns, Descents
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.figure_1 import figure_1
from isoloss.experiments.figure_2 import figure_2
from isoloss.experiments.figure_3 import figure_3
from isoloss.experiments.figure_4 import figure_4
from isoloss.experiments.figure_8 import figure_8
from isoloss.experiments.figure_9 import figure_9
from isoloss.experiments.figure_10 import figure_10
from isoloss.experiments.flatter_along_descent import rank_correlation_within_runs
from isoloss.experiments.larger_is_better import gain_from_size, gap_in_loss
from isoloss.experiments.later_is_better import change_of_loss
from isoloss.experiments.quantities.probe import ProbeQuantity
from isoloss.experiments.saturating_divergence import levelling, levelling_over_sizes, levelling_over_steps
from isoloss.experiments.scales import laptop, smoke
from isoloss.pretraining.sgd import SGD

FIGURES = (figure_2, figure_3, figure_4, figure_8, figure_9, figure_10)


def frame(**columns: object) -> pl.DataFrame:
    return pl.DataFrame(columns)


def test_over_steps_the_change_of_the_mean_loss_counts() -> None:
    """From 2.0 and 2.2, on average, to 2.0: losses in between do not matter, nor do the runs' own changes."""
    runs = [frame(loss=[2.1, 9.0, 2.0]), frame(loss=[2.1, 9.0, 2.0])]
    assert change_of_loss(runs) == pytest.approx(0.05)
    assert change_of_loss([frame(loss=[1.9, 2.0]), frame(loss=[2.1, 2.0])]) == pytest.approx(0.0)


def test_over_sizes_the_extremes_are_compared_at_the_last_checkpoint() -> None:
    runs = [
        frame(width=[32, 32], accuracy=[0.1, 0.50], loss=[9.0, 2.0]),
        frame(width=[32, 32], accuracy=[0.1, 0.54], loss=[9.0, 2.2]),
        frame(width=[48, 48], accuracy=[0.1, 0.90], loss=[9.0, 1.9]),
        frame(width=[64, 64], accuracy=[0.1, 0.60], loss=[9.0, 2.0]),
        frame(width=[64, 64], accuracy=[0.1, 0.62], loss=[9.0, 2.0]),
    ]
    assert gain_from_size(runs) == pytest.approx(9.0)
    assert gap_in_loss(runs) == pytest.approx((2.1 - 1.9) / 2.0)
    # A resample in which a seed comes twice counts it twice.
    assert gain_from_size([runs[0], runs[0], runs[1], runs[4]]) == pytest.approx(62 - 154 / 3)
    assert math.isnan(gain_from_size(runs[:2]))
    assert math.isnan(gap_in_loss(runs[:2]))


def test_along_descent_ranks_are_correlated_within_each_run() -> None:
    """Between the runs accuracy falls with flatness; within each it rises."""
    runs = [
        frame(trace=[9.0, 8.0, 7.0], accuracy=[0.8, 0.85, 0.9]),
        frame(trace=[4.0, 3.0, 2.0], accuracy=[0.1, 0.3, 0.2]),
    ]
    assert rank_correlation_within_runs(runs) == pytest.approx((1.0 + 0.5) / 2)
    assert math.isnan(rank_correlation_within_runs([frame(trace=[2.0, 1.0], accuracy=[0.5, 0.5])]))


def test_levelling_compares_the_slopes_of_two_halves() -> None:
    # KL falls as x^-2 up to 4, as x^-1 from there on.
    steps = [1, 2, 4, 8, 16]
    assert levelling(steps, [1.0, 1 / 4, 1 / 16, 1 / 32, 1 / 64]) == pytest.approx(1.0)
    assert levelling(steps, [2.0**-place for place in range(5)]) == pytest.approx(0.0)
    assert math.isnan(levelling([1, 2], [1.0, 0.5]))
    runs = [frame(step=[1, 2, 4], kl=[1.0, 0.5, 0.5]), frame(step=[1, 2, 4], kl=[1.0, 0.5, 0.25])]
    assert levelling_over_steps(runs) == pytest.approx(0.5)
    sizes = [frame(width=[width], kl=[kl]) for width, kl in ((16, 1.0), (32, 0.25), (64, 0.125))]
    assert levelling_over_sizes(sizes) == pytest.approx(1.0)


def contrary(experiment: Experiment) -> list[pl.DataFrame]:
    """Runs that contradict whatever the figures claim: worse, sharper and apart as they grow and go on.

    Those of Figure 10, which claims no more than that the flatter are better, are flatter and worse.
    """
    trend = -1 if experiment.name == "figure-10" else 1
    generator = np.random.default_rng(0)
    rows = []
    for run in experiment.runs:
        labels, place = dict(run.labels), np.arange(6)
        noise = generator.random(6) / 1000
        width = float(labels["width"])
        rows.append(
            pl.DataFrame(
                {
                    "run": [run.name] * 6,
                    "seed": [run.first_seed] * 6,
                    "step": 2**place,
                    "panel": [labels["panel"]] * 6,
                    "width": [labels["width"]] * 6,
                    "loss": 3.0 - place * 0.1 - width / 100 + noise,
                    "kl": 2.0 ** -(place**2 / 10 + width**2 / 1000) * (1 + noise),
                    "trace": 20.0 + trend * place + noise,
                    "accuracy": 0.9 - place * 0.02 - width / 1000 + noise,
                }
            )
        )
    return rows


@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_can_fail(figure) -> None:
    experiment = figure(laptop())
    runs = contrary(experiment)
    for claim in experiment.claims:
        effect = claim.statistic(runs)
        if math.isnan(effect):  # two sizes have no curvature
            assert claim.name == "causal-lm-opening-4-saturates-over-width"
        else:
            assert not claim.claimed.low <= effect <= claim.claimed.high, claim.name


def test_a_panel_without_runs_leaves_its_claims_open() -> None:
    """The language that cannot be had takes no other panel's claims with it."""
    experiment = figure_3(laptop())
    present = [run for run in contrary(experiment) if run["panel"][0] == "pcfg-b"]
    effects = {claim.name: claim.statistic(present) for claim in experiment.claims}
    assert {name for name in effects if not math.isnan(effects[name])} == {
        "pcfg-b-one-loss",
        "pcfg-b-larger-is-better",
    }


def test_figures_share_runs_and_what_is_measured_of_them() -> None:
    scale = laptop()
    experiments = [figure_1(scale, scale.grammar.tasks[1]), *(figure(scale) for figure in FIGURES)]
    for experiment in experiments:
        names = [claim.name for claim in experiment.claims]
        assert len(set(names)) == len(names)
    runs = shared(run for experiment in experiments for run in experiment.runs)
    families = (scale.grammar, scale.hidden_markov, scale.causal_language)
    sizes = sum(len(family.architectures) for family in families)
    assert len(runs) == len(scale.seeds) * (sizes + 2)
    probes = [m.quantity for run in runs for m in run.measured if isinstance(m.quantity, ProbeQuantity)]
    assert {probe.task for probe in probes} == {task for family in families for task in family.tasks}
    assert len(set(probes)) == 7


@pytest.mark.parametrize("figure", FIGURES)
def test_nothing_measured_is_nothing_drawn(figure) -> None:
    assert figure(smoke()).panels(pl.DataFrame()) == ()


def test_descents_see_other_sentences_and_count_as_their_origins_seeds() -> None:
    scale = laptop()
    origins = {run.digest for run in shared(figure_3(scale).runs)}
    for run in figure_4(scale).runs:
        assert run.seed == run.first_seed + OTHER_SENTENCES
        assert run.first_seed in scale.seeds
        assert run.continues.run.digest in origins
        assert run.continues.step == run.continues.run.steps
        assert run.architecture.dropout == 0
        assert run.saturated_from == round(0.12 * run.steps)
    with pytest.raises(BadInput, match=r"seeds \[900\] chose the scale"):
        figure_4(replace(scale, seeds=(900,)))
    none = DescentRuns(7, SGD(), 4, 2, (2,))
    with pytest.raises(BadInput, match="no model of width 7 is there to continue; choose 32, 48, 64"):
        figure_4(replace(scale, descents=Descents(none, none)))
