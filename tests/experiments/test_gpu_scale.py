"""The scale of one GPU: its settings beside the paper's, and all of it carried out at toy size here."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from isoloss.errors import BadInput
from isoloss.experiments.descents import DescentRuns, Descents
from isoloss.experiments.experiment import Experiment, with_tokens
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.planned_run import ReadyLanguage
from isoloss.experiments.scale import MeasurementSizes, Scale, scale_named
from isoloss.experiments.suite import builtin_designs
from isoloss.experiments.suite.figure_1 import figure_1
from isoloss.experiments.suite.figure_4 import figure_4
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.models.lstm import LSTM
from isoloss.models.shapes import TABLE_3, Shape
from isoloss.models.transformers import WHOLE_TOKENIZER
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.sgd import SGD
from isoloss.pretraining.specification import Compute
from jobs_in_turn import in_turn

TOY_RUNS = {
    "update_rule": AdamW(warm_up_steps=1),
    "batch_size": 8,
    "steps": 4,
    "checkpoint_steps": (2, 4),
    "saturated_from": 2,
}
TOKENS = 2100
DESCENT = DescentRuns(16, SGD(0.2), 8, 4, (1, 2, 4), averaging_horizon=2)


def toy() -> Scale:
    """Its languages, rules and claims; a model of width 16 on each, four steps, a few sentences."""
    large = scale_named("gpu")
    transformer = replace(large.grammar.architectures[0], shape=Shape(16, 1, 1, 16))
    return replace(
        large,
        seeds=(301,),
        sizes=MeasurementSizes(5, 5, 6, 2, 5, ProbeSettings(seeds=(0, 1), epochs=2)),
        grammar=replace(large.grammar, architectures=(transformer,), **TOY_RUNS),
        hidden_markov=replace(large.hidden_markov, architectures=(LSTM(16, 1),), **TOY_RUNS),
        causal_language=scale_named("smoke").causal_language,
    )


@pytest.mark.parametrize("figure", [figure_1, partial(figure_4, descents=Descents(DESCENT, DESCENT))])
def test_all_of_it_runs_at_toy_size_in_bfloat16_with_a_whole_tokenizer(
    figure: Callable[[Scale], Experiment], tmp_path: Path
) -> None:
    planned = with_tokens(figure(toy()), TOKENS)
    own = tuple(run for run in planned.runs if isinstance(run.language, ReadyLanguage))
    experiment = replace(planned, runs=tuple(run.carried_out_by(Compute("bfloat16")) for run in own))
    (result,) = carry_out_experiments([experiment], tmp_path, in_turn).experiments
    assert not result.outcome.failures
    rows = result.table.drop_nulls("step")
    assert len(rows) >= 2 * len(own)
    assert rows.select("loss", "kl", "accuracy").null_count().sum_horizontal().item() == 0
    assert rows["kl"].min() > 0


def test_it_is_the_papers_but_for_sizes_and_lengths() -> None:
    ours, theirs = scale_named("gpu"), scale_named("paper")
    assert [model.shape for model in ours.grammar.architectures] == list(TABLE_3[:4])
    for name in ("tasks", "update_rule", "batch_size"):
        assert getattr(ours.grammar, name) == getattr(theirs.grammar, name)
    assert ours.grammar.language.digest == theirs.grammar.language.digest
    assert (ours.grammar.batch_size, ours.grammar.steps, len(ours.seeds)) == (4096, 30_000, 10)
    assert not set(ours.seeds) & {*ours.pilot_seeds, *theirs.seeds}
    assert len([step for step in ours.grammar.checkpoint_steps if step >= ours.grammar.saturated_from]) >= 8


def test_models_have_the_whole_tokenizer_where_it_is_asked_for() -> None:
    scale, designs = scale_named("paper"), builtin_designs()
    for name in ("figure-1", "figure-3", "figure-5", "dyck-transfer"):
        planned = designs[name].at(scale)
        own = [
            run
            for run in with_tokens(planned, WHOLE_TOKENIZER).runs
            if isinstance(run.language, ReadyLanguage)
        ]
        assert {run.architecture.tokens for run in own} == {WHOLE_TOKENIZER}
        assert {run.continues.run.architecture.tokens for run in own if run.continues} <= {WHOLE_TOKENIZER}
        assert {
            run.architecture.tokens for run in planned.runs if isinstance(run.language, ReadyLanguage)
        } == {None}
    with pytest.raises(BadInput, match=r"100 tokens cannot read a language of 200 words"):
        with_tokens(designs["figure-1"].at(scale), 100)
