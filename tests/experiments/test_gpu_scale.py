"""The scale of one GPU: its settings and cost, and two steps of all of it carried out on a CPU."""

import math
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jaxtyping
import polars as pl
import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.cost import H100, hours, run_cost
from isoloss.experiments.descents import DescentRuns
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.misspelt_names import planned_table
from isoloss.experiments.model_tokens import with_tokens
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import MeasurementSizes, Scale, scale_named
from isoloss.experiments.shared.causal_language import students
from isoloss.experiments.shared.real_text import CorpusRuns
from isoloss.experiments.suite.figure_1 import figure_1
from isoloss.experiments.suite.figure_2 import figure_2
from isoloss.experiments.suite.figure_3 import figure_3
from isoloss.experiments.suite.figure_4 import GPU, Descents, figure_4
from isoloss.experiments.suite.figure_5 import AT as SIZES_COMPARED
from isoloss.experiments.suite.figure_5 import figure_5
from isoloss.experiments.suite.real_text_algorithms import real_text_algorithms
from isoloss.experiments.suite.real_text_steps import real_text_steps
from isoloss.experiments.suite.table_1 import table_1
from isoloss.experiments.suite.table_2 import table_2
from isoloss.experiments.suite.table_3 import parameters_with_bert
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import TABLE_3, WHOLE_TOKENIZER, parameter_count
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import Compute
from isoloss.progress import silent
from jobs_in_turn import in_turn

TWO_STEPS = {
    "update_rule": AdamW(warm_up_steps=1),
    "batch_size": 4,
    "steps": 2,
    "checkpoint_steps": (1, 2),
    "saturated_from": 1,
}
SEED = 901


def on_few_texts(large: CorpusRuns, tiny: CorpusRuns) -> CorpusRuns:
    """The large scale's model and rule on the tiny scale's texts."""
    return replace(
        large,
        language=tiny.language,
        objective=tiny.objective,
        update_rule=TWO_STEPS["update_rule"],
        batch_size=4,
        steps=2,
        checkpoint_steps=(1, 2),
        saturated_from=1,
    )


def two_steps() -> Scale:
    """Its languages, models, rules, precision and claims: two steps of four sentences, one seed.

    Students' language and real texts are the smallest scale's: the others have to be fetched.
    """
    large, tiny = scale_named("gpu"), scale_named("smoke")
    adversary = replace(
        large.compared.adversary, loss_window=(8.0, 9.0), examples=4, optimiser=AdamW(warm_up_steps=1)
    )
    return replace(
        large,
        seeds=(SEED,),
        pilot_seeds=(),
        sizes=MeasurementSizes(5, 5, 6, 2, 5, ProbeSettings(seeds=(0, 1), epochs=2)),
        grammar=replace(large.grammar, **TWO_STEPS),
        hidden_markov=replace(large.hidden_markov, **TWO_STEPS),
        causal_language=replace(
            tiny.causal_language,
            architectures=students(large.causal_language.architectures, tiny.causal_language.language),
            **TWO_STEPS,
        ),
        real_text=replace(
            tiny.real_text,
            followed=on_few_texts(large.real_text.followed, tiny.real_text.followed),
            compared=on_few_texts(large.real_text.compared, tiny.real_text.compared),
        ),
        compared=replace(
            large.compared, adversary=adversary, steps=2, checkpoint_steps=(1, 2), saturated_from=1
        ),
    )


def short(descent: DescentRuns) -> DescentRuns:
    return replace(descent, batch_size=4, steps=2, checkpoint_steps=(1, 2), averaging_horizon=2)


def figure_4_in_short(scale: Scale) -> Experiment:
    return figure_4(scale, Descents(short(GPU.grammar), short(GPU.hidden_markov)))


def figure_5_in_short(scale: Scale) -> Experiment:
    return figure_5(scale, replace(SIZES_COMPARED["gpu"], sentences=2))


FIGURES = (
    figure_1,
    figure_2,
    figure_3,
    figure_4_in_short,
    figure_5_in_short,
    table_1,
    table_2,
    real_text_steps,
    real_text_algorithms,
)


def missing(planned: Experiment, folder: Path, compute: Compute) -> list[str]:
    """What is missing of its runs, carried out: those that failed, and planned rows, values and panels."""
    own = tuple(run.carried_out_by(compute) for run in planned.runs)
    experiment = replace(planned, runs=own)
    (result,) = carry_out_experiments([experiment], folder, in_turn).experiments
    found = [f"{failure}" for failure in result.outcome.failures]
    for run in own:
        rows = result.table.filter(pl.col("run") == run.name)
        for measured in run.measured:
            at = rows.filter(pl.col("step").is_in(measured.steps))
            if at.height != len(measured.steps):
                found.append(f"{run.name}: {at.height} rows at steps {measured.steps}")
            elif at.select(measured.column_names).null_count().sum_horizontal().item():
                found.append(f"{run.name}: no value in some of {measured.column_names}")
    drawn = {panel.name for panel in experiment.drawn(result.table)}
    return found + sorted({panel.name for panel in experiment.drawn(planned_table(experiment))} - drawn)


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_two_steps_of_every_run_of_the_figures_and_tables(
    figure: Callable[[Scale], Experiment], tmp_path: Path
) -> None:
    planned = figure(two_steps())
    lstms = any(isinstance(run.architecture, LSTM) for run in planned.runs)
    # On processors without AVX-512 torch has no LSTM in bfloat16.
    possible = not lstms or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    assert missing(planned, tmp_path, Compute("bfloat16" if possible else "float32")) == []


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a compiler")
def test_two_steps_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transformer and an adversary of the smallest shape, as the scale trains them."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a type checker cannot be traced
    scale = two_steps()
    grammar = replace(scale.grammar, architectures=scale.grammar.architectures[:1])
    planned = table_1(replace(scale, grammar=grammar, compared=replace(scale.compared, size=0)))
    assert missing(planned, tmp_path, scale.compute) == []


def kind(run: PlannedRun) -> tuple[object, ...]:
    """What compiled code may depend on besides sizes."""
    rule, averaged = type(run.update_rule).__name__, run.averaging_horizon is not None
    return type(run.architecture).__name__, rule, averaged, type(run.objective).__name__


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a compiler")
def test_two_steps_of_every_kind_of_run_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every architecture with every rule and objective that the figures have, trained as the scale trains."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a type checker cannot be traced
    kinds: dict[tuple[object, ...], PlannedRun] = {}
    for figure in FIGURES:
        for run in figure(two_steps()).runs:
            kinds.setdefault(kind(run), run)
    assert {name for name, *_ in kinds} >= {"LSTM", "PreLayerNormTransformer"}
    assert {rule for _, rule, *_ in kinds} >= {"AdamW", "SGD", "SAM", "Adversarial"}
    has_lstm_in_bfloat16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    for run in kinds.values():
        compute = scale_named("gpu").compute
        if isinstance(run.architecture, LSTM) and not has_lstm_in_bfloat16:
            compute = replace(compute, precision="float32")
        language = run.language.language(tmp_path, silent)
        specification = replace(
            run.planned_specification, language_digest=language.digest, start_from=None, compute=compute
        )
        torch.compiler.reset()  # a limit of recompilations is one for all models
        report = pretrain(specification, language, tmp_path / run.digest)
        assert report.last.step == 2
        assert math.isfinite(report.last.training_loss)


def test_the_sizes_that_the_page_tells_are_those_that_are_planned() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "reproducing.md").read_text().split())
    models = scale_named("gpu").grammar.architectures

    def told(counts: Sequence[int]) -> str:
        *first, last = (f"{count / 1e6:.2f}M" if count < 1e6 else f"{count / 1e6:.1f}M" for count in counts)
        return f"{', '.join(first)} and {last}"

    with_bert = told([parameters_with_bert(model.shape) for model in models])
    own = told([parameter_count(model, words=200, maximum_length=32) for model in models])
    assert f"({with_bert} parameters with BERT's tokens, {own} with the language's 200 words)" in page


def test_it_is_the_papers_but_for_sizes_and_lengths() -> None:
    ours, theirs = scale_named("gpu"), scale_named("paper")
    assert [model.shape for model in ours.grammar.architectures] == [TABLE_3[place] for place in (0, 1, 2, 4)]
    for name in ("tasks", "update_rule", "batch_size"):
        assert getattr(ours.grammar, name) == getattr(theirs.grammar, name)
    assert ours.grammar.language.digest == theirs.grammar.language.digest
    assert (ours.grammar.batch_size, ours.grammar.steps) == (4096, 12_000)
    assert not set(ours.seeds) & {*ours.pilot_seeds, *theirs.seeds}


@pytest.mark.slow
def test_pages_with_accuracies_on_the_stand_in_say_that_the_papers_are_of_other_tasks() -> None:
    for scale, named in (("gpu", {"figure-3", "figure-8", "figure-10", "table-1"}), ("laptop", set())):
        every = {name: design.at(scale_named(scale)) for name, design in builtin_designs().items()}
        said = {
            name for name, each in every.items() if any("71.2 % and 39.7 %" in text for text in each.text)
        }
        assert said == named


def test_small_models_have_ten_seeds_and_the_large_three() -> None:
    runs = builtin_designs()["figure-1"].at(scale_named("gpu")).runs
    own = {(dict(run.labels)["width"], run.seed) for run in runs if run.continues is None}
    seeds = Counter(width for width, _ in own)
    assert seeds == {64: 10, 128: 10, 192: 10, 512: 3}
    assert {run.compute for run in runs} == {Compute("bfloat16", compiled=True)}


@pytest.mark.thorough
def test_four_hours_of_one_card_have_room_for_it() -> None:
    """By six operations a weight and token, at the usual share, which is more than is counted.

    Half is left for what reaches less, and for measuring.
    """
    names = ("figure-1", "figure-2", "figure-3", "figure-4", "figure-5", "table-1", "table-2")
    scale, designs = scale_named("gpu"), builtin_designs()
    runs = shared([run for name in names for run in designs[name].at(scale).runs])

    def operations(run: PlannedRun) -> float:
        words, longest = run.language.words, run.language.maximum_length
        weights = parameter_count(run.architecture, words, longest)
        return 6.0 * weights * run.batch_size * (longest + 1) * run.steps

    smallest = min(runs, key=operations)
    assert run_cost(smallest).operations < operations(smallest)
    assert 0.3 < sum(hours(operations(run), H100["bfloat16"]) for run in runs) < 2.0


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
