from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.figure_1 import choose_task, figure_runs, only_named, run_operations
from isoloss.experiments.figure_1_claims import (
    CLAIMS,
    advantage_of_trace,
    doublings_of_trace,
    gain_in_accuracy,
    relative_spread_of_losses,
)
from isoloss.experiments.scales import laptop, laptop_language, paper, smoke
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg


def run_of(losses: list[float], traces: list[float], accuracies: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"loss": losses, "trace": traces, "accuracy": accuracies})


def test_the_statistics_are_what_their_claims_say() -> None:
    runs = [
        run_of([2.0, 2.01, 1.99], [80.0, 40.0, 20.0], [0.90, 0.92, 0.95]),
        run_of([2.02, 2.0, 1.98], [64.0, 32.0, 16.0], [0.91, 0.93, 0.94]),
    ]
    assert relative_spread_of_losses(runs) == pytest.approx(0.04 / 2.0)
    assert doublings_of_trace(runs) == pytest.approx(-2.0)
    assert gain_in_accuracy(runs) == pytest.approx(4.0)
    # Accuracies rank 1, 3, 6, 2, 4, 5 and minus the traces 1, 3, 5, 2, 4, 6: Spearman 1 - 6 * 2 / 210.
    # Minus the losses rank 3.5, 2, 5, 1, 3.5, 6.
    of_loss = np.corrcoef([1, 3, 6, 2, 4, 5], [3.5, 2, 5, 1, 3.5, 6])[0, 1]
    assert advantage_of_trace(runs) == pytest.approx(1 - 12 / 210 - of_loss)


def test_every_claim_can_fail() -> None:
    """Runs that contradict the paper throughout: every claim comes out as not supported."""
    from isoloss.experiments.claims import judge
    from isoloss.verdict import Verdict

    generator = np.random.default_rng(0)
    runs = []
    for _ in range(8):
        noise = generator.random(6) / 1000
        runs.append(
            pl.DataFrame(
                {
                    "loss": 2.0 - np.arange(6) * 0.1 + noise,
                    "trace": 20.0 + np.arange(6) + noise,
                    "accuracy": np.array([0.94, 0.90, 0.91, 0.92, 0.93, 0.935]) + noise,
                }
            )
        )
    verdicts = {judged.claim.name: judged.verdict for judged in judge(CLAIMS, runs)}
    assert set(verdicts.values()) == {Verdict.NOT_SUPPORTED}


@pytest.mark.parametrize("scale", [smoke, laptop, paper])
def test_reported_seeds_never_chose_the_scale(scale) -> None:
    figure = scale()
    assert not set(figure.seeds) & set(figure.pilot_seeds)
    assert len(figure.seeds) >= 2
    assert sum(step >= figure.saturated_from for step in figure.checkpoint_steps) >= 2
    with pytest.raises(BadInput, match="chose the scale"):
        replace(figure, seeds=figure.pilot_seeds)


def test_runs_are_named_and_chosen_by_name() -> None:
    figure, language = smoke(), laptop_language()
    runs = figure_runs(figure, language)
    assert len({run.name for run in runs}) == len(runs) == len(figure.seeds) * len(figure.architectures)
    assert len({run.specification.digest for run in runs}) == len(runs)
    assert only_named(runs, (runs[2].name,)) == [runs[2]]
    assert only_named(runs, ()) == runs
    with pytest.raises(BadInput, match="no run is called 'x'"):
        only_named(runs, ("x",))
    small, large = runs[0], runs[-1]
    assert run_operations(large, language) > 2 * run_operations(small, language)


def test_the_task_is_half_the_sentence_unless_named() -> None:
    language = laptop_language()
    assert choose_task(language, None).name == "prefix-4"
    assert choose_task(language, "prefix-8").name == "prefix-8"
    with pytest.raises(BadInput, match=r"no task 'prefix-3'; choose prefix-8, prefix-4"):
        choose_task(language, "prefix-3")
    certain = pcfg(parse_grammar("S -> A B [1]\nA -> 'a' [0.5] | 'b' [0.5]\nB -> 'c' [1]"))
    with pytest.raises(BadInput, match="no task"):
        choose_task(certain, None)
