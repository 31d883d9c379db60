"""Figures 4 and 10 at the paper's scale: pre-training by SGD (B.2), and what its numbers let it move."""

import pytest

from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.figure_4 import DESCENTS, figure_4
from isoloss.experiments.suite.figure_10 import figure_10
from isoloss.pretraining.descent import SGD


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
    assert DESCENTS["paper"].grammar.drift_time == pytest.approx(7.3e-6, rel=0.01)
    assert DESCENTS["laptop"].grammar.drift_time > 1000 * DESCENTS["paper"].grammar.drift_time
    (said,) = (text for text in figure_4(scale_named("paper"), DESCENTS["paper"]).text if "η²k/4B" in text)
    assert "0.001² · 120,000 / (4 · 4,096) = 7.3e-06 here" in said
    assert "7.3e-06" in next(
        text for text in figure_4(scale_named("smoke"), DESCENTS["smoke"]).text if "η²k/4B" in text
    )
    assert "fresh weights" in "".join(figure_4(scale_named("paper"), DESCENTS["paper"]).text)
