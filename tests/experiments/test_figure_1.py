from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.claims import judge
from isoloss.experiments.cost import run_operations
from isoloss.experiments.experiment import only_named
from isoloss.experiments.figure_1 import figure_1
from isoloss.experiments.figure_1_claims import (
    CLAIMS,
    advantage_of_trace,
    doublings_of_trace,
    gain_in_accuracy,
    relative_spread_of_losses,
)
from isoloss.experiments.grammar_runs import task_name
from isoloss.experiments.scales import laptop, laptop_language, paper, smoke
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.verdict import Verdict


def run_of(losses: list[float], traces: list[float], accuracies: list[float], seed: int = 1) -> pl.DataFrame:
    return pl.DataFrame({"seed": seed, "loss": losses, "trace": traces, "accuracy": accuracies})


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
    generator = np.random.default_rng(0)
    runs = []
    for seed in range(8):
        noise = generator.random(6) / 1000
        losses = 2.0 - np.arange(6) * 0.1 + noise
        accuracies = np.array([0.94, 0.90, 0.91, 0.92, 0.93, 0.935]) + noise
        runs.append(run_of(list(losses), list(20.0 + np.arange(6) + noise), list(accuracies), seed))
    verdicts = {judged.claim.name: judged.verdict for judged in judge(CLAIMS, runs)}
    assert set(verdicts.values()) == {Verdict.NOT_SUPPORTED}


@pytest.mark.parametrize("named", [smoke, laptop, paper])
def test_reported_seeds_never_chose_the_scale(named) -> None:
    scale = named()
    assert not set(scale.seeds) & set(scale.pilot_seeds)
    assert len(scale.seeds) >= 2
    with pytest.raises(BadInput, match="chose the scale"):
        figure_1(replace(scale, seeds=scale.pilot_seeds), scale.grammar.tasks[1])
    with pytest.raises(BadInput, match="only one checkpoint comes after saturation"):
        replace(scale.grammar, saturated_from=scale.grammar.steps)


def test_runs_are_named_and_chosen_by_name() -> None:
    scale = smoke()
    experiment = figure_1(scale, "prefix-4")
    runs = experiment.runs
    assert len({run.name for run in runs}) == len(runs) == len(scale.seeds) * len(scale.grammar.architectures)
    assert len({run.digest for run in runs}) == len(runs)
    assert only_named(experiment, (runs[2].name,)) == [runs[2]]
    assert only_named(experiment, ()) == list(runs)
    with pytest.raises(BadInput, match="no run of figure-1 is called 'x'"):
        only_named(experiment, ("x",))
    assert run_operations(runs[-1]) > 2 * run_operations(runs[0])


def test_the_task_is_half_the_sentence_unless_named() -> None:
    language = laptop_language()
    assert task_name(language, None) == "prefix-4"
    assert task_name(language, "prefix-8") == "prefix-8"
    with pytest.raises(BadInput, match=r"no task 'prefix-3'; choose prefix-8, prefix-4"):
        task_name(language, "prefix-3")
    certain = pcfg(parse_grammar("S -> A B [1]\nA -> 'a' [0.5] | 'b' [0.5]\nB -> 'c' [1]"))
    with pytest.raises(BadInput, match="no task"):
        task_name(certain, None)


@pytest.mark.parametrize("named", [smoke, laptop, paper])
def test_the_language_of_a_scale_has_its_tasks(named) -> None:
    grammar = named().grammar
    tasks = [task.name for task in grammar.language.ready.tasks()]
    assert set(grammar.tasks) <= set(tasks)
