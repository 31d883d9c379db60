from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.claims import judge
from isoloss.experiments.cost import run_operations
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment import only_named
from isoloss.experiments.languages import headline_grammar
from isoloss.experiments.scale import FRESH_SEEDS, scale_named, task_name
from isoloss.experiments.shared.claims import FIGURE_1
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.suite.figure_1 import figure_1
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.results.verdict import Verdict


def run_of(
    width: int, seed: int, losses: np.ndarray, traces: np.ndarray, accuracies: np.ndarray
) -> pl.DataFrame:
    columns = {"step": [2**place for place in range(6)], "loss": losses, "kl": losses - 1.995}
    columns |= {"trace": traces, "accuracy": accuracies}
    return pl.DataFrame({"run": f"{width}-{seed}", "seed": seed, "width": width, **columns})


def runs_along(
    losses: list[float], traces: list[float], accuracies: list[float], seeds: int = 8
) -> list[pl.DataFrame]:
    """Two widths of as many seeds, equal except for a little noise."""
    generator = np.random.default_rng(0)
    return [
        run_of(width, seed, *(np.array(column) * (1 + generator.random(6) / 1e4) for column in columns))
        for seed in range(seeds)
        for width, columns in ((32, (losses, traces, accuracies)), (48, (losses, traces, accuracies)))
    ]


def verdicts(runs: list[pl.DataFrame], *names: str) -> dict[str, Verdict]:
    """Of the claims of these names, or of all."""
    claims = [claim for claim in FIGURE_1 if not names or claim.name in names]
    return {judged.claim.name: judged.verdict for judged in judge(claims, runs)}


@pytest.mark.thorough
def test_every_claim_can_hold() -> None:
    """The loss varies by a five-thousandth and KL by a tenth, the trace falls and accuracy rises."""
    losses, traces = [2.0002, 2.0, 2.0004, 2.0, 2.0004, 2.0002], [64.0, 50.0, 40.0, 32.0, 25.0, 20.0]
    found = verdicts(runs_along(losses, traces, [0.5, 0.6, 0.65, 0.7, 0.75, 0.8], seeds=5))
    assert set(found.values()) == {Verdict.SUPPORTED}


@pytest.mark.thorough
def test_every_claim_can_fail() -> None:
    """Losses fall and differ, the trace rises, and sharper and later checkpoints are worse."""
    losses = [2.5, 2.4, 2.3, 2.2, 2.1, 2.0]
    runs = runs_along(losses, [20.0, 25.0, 32.0, 40.0, 50.0, 64.0], [0.65, 0.8, 0.75, 0.7, 0.6, 0.5])
    apart = [run.with_columns(pl.col("loss", "kl") + 1) if run["width"][0] == 48 else run for run in runs]
    found = verdicts(runs)
    at_the_end = ("sizes-have-one-loss", "typical-sizes-have-one-loss", "sizes-have-one-kl")
    assert {found.pop(name) for name in at_the_end} == {Verdict.SUPPORTED}
    # The last checkpoints alone are in the paper's window.
    assert found.pop("trace-ranks-better-in-the-window") == Verdict.INCONCLUSIVE
    del found["flatter-is-better-at-one-kl"]
    # The flattest is not the best, but the one with the lowest loss is the worst.
    assert found.pop("trace-ranks-better") == Verdict.SUPPORTED
    assert found.pop("near-the-law") == Verdict.SUPPORTED
    assert set(found.values()) == {Verdict.NOT_SUPPORTED}

    def only_not_supported(on: list[pl.DataFrame], *names: str) -> None:
        assert verdicts(on, *names) == dict.fromkeys(names, Verdict.NOT_SUPPORTED)

    only_not_supported(apart, *at_the_end[:2], "near-the-law")
    worse_as_flatter = [run.with_columns(accuracy=pl.col("trace") / 99) for run in runs]
    only_not_supported(worse_as_flatter, "trace-ranks-better", "flatter-is-better-at-one-kl")
    at_one_loss = [run.with_columns(loss=2 + pl.col("accuracy") / 999) for run in worse_as_flatter]
    only_not_supported(at_one_loss, "trace-ranks-better-in-the-window")


@pytest.mark.parametrize("named", ["smoke", "laptop", "night", "paper"])
def test_reported_seeds_never_chose_the_scale(named: ScaleName) -> None:
    scale = scale_named(named)
    assert not set(scale.seeds) & set(scale.pilot_seeds)
    assert len(scale.seeds) >= 2
    assert not set(FRESH_SEEDS.get(named, ())) & {*scale.seeds, *scale.pilot_seeds}
    with pytest.raises(BadInput, match="chose the scale"):
        replace(builtin_designs()["figure-1"], seeds={}).at(replace(scale, seeds=scale.pilot_seeds))
    with pytest.raises(BadInput, match="only one checkpoint comes after saturation"):
        replace(scale.grammar, saturated_from=scale.grammar.steps)


def test_both_probes_are_drawn_over_the_labelled_sentences_of_the_last_checkpoints() -> None:
    row = {"run": "r", "seed": 1, "width": 16, "saturated": True, "accuracy": 0.6, "accuracy_deviation": 0.1}
    few = {"accuracy_100": 0.5, "accuracy_100_deviation": 0.2}
    all_four = few | {name: row[name] for name in ("accuracy", "accuracy_deviation")}
    last = row | few | {f"standardised_{name}": value + 0.05 for name, value in all_four.items()}
    table = pl.DataFrame([row | {"step": 20}, last | {"step": 40}])
    experiment = figure_1(scale_named("smoke"))
    *_, panel = experiment.panels(table)
    assert panel.data.select("examples", "accuracy").rows() == [(100, 0.5), (256, 0.6)]
    assert panel.data["standardised_accuracy_deviation"].to_list() == [0.25, 0.15000000000000002]
    without = experiment.panels(table.drop("standardised_accuracy"))
    assert [panel.name for panel in without] == ["steps", "loss", "trace"]


def test_runs_are_named_and_chosen_by_name() -> None:
    scale = scale_named("smoke")
    experiment = figure_1(scale)
    runs = experiment.runs
    assert len({run.name for run in runs}) == len(runs) == len(scale.seeds) * len(scale.grammar.architectures)
    assert len({run.digest for run in runs}) == len(runs)
    assert only_named(experiment, (runs[2].name,)) == [runs[2]]
    assert only_named(experiment, ()) == list(runs)
    with pytest.raises(BadInput, match="no run of figure-1 is called 'x'"):
        only_named(experiment, ("x",))
    assert run_operations(runs[-1]) > 2 * run_operations(runs[0])


def test_the_task_is_half_the_sentence_unless_named() -> None:
    language = headline_grammar()
    assert task_name(language, None) == "prefix-4"
    assert task_name(language, "prefix-8") == "prefix-8"
    with pytest.raises(BadInput, match=r"no task 'prefix-3'; choose prefix-8, prefix-4"):
        task_name(language, "prefix-3")
    certain = pcfg(parse_grammar("S -> A B [1]\nA -> 'a' [0.5] | 'b' [0.5]\nB -> 'c' [1]"))
    with pytest.raises(BadInput, match="no task"):
        task_name(certain, None)
