"""Students on real text: end to end at smoke scale, statistics on tables made by hand, controls."""

import math
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch

from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shipped_results import shipped_results
from isoloss.experiments.suite.glue_of_causal_language import glue_of_causal_language
from isoloss.measurements.quantity import Subject
from isoloss.measurements.references import ControlQuantity
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from isoloss.results.verdict import Verdict
from isoloss.seeds import derived_seed
from jobs_in_turn import in_turn
from tiny_scale import tiny_scale


def a_run(seed: int, width: int, accuracies: list[float], untrained: float, kl: float) -> pl.DataFrame:
    places = range(len(accuracies))
    columns = {"step": [2**place for place in places], "accuracy_sst_2": accuracies}
    columns |= {"accuracy_sst_2_untrained": [None for _ in places[1:]] + [untrained]}
    return pl.DataFrame({"seed": seed, "width": width, "loss": 2.0, "kl": kl, **columns})


def test_the_claims_are_gains_over_the_untrained_and_undefined_where_nothing_has_converged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # as if no pairs of texts have been fetched
    claims = {claim.name: claim for claim in glue_of_causal_language(scale_named("laptop")).claims}

    def effects(kl: float) -> dict[str, float]:
        runs = [a_run(1, 32, [0.5, 0.6], 0.55, kl), a_run(1, 64, [0.6, 0.7], 0.62, kl)]
        return {name: claim.statistic(runs) for name, claim in claims.items()}

    assert {name: value for name, value in effects(0.01).items() if "sst-2" in name or "law" in name} == {
        "near-the-law": pytest.approx(0.005),
        "sst-2-gains": pytest.approx(6.5),
        "sst-2-later-is-better": pytest.approx(10.0),
        "sst-2-larger-gains-more": pytest.approx(3.0),
    }
    far = effects(0.04)
    assert far.pop("near-the-law") == pytest.approx(0.02)
    assert all(map(math.isnan, far.values()))


def test_what_cut_texts_cannot_answer_is_withdrawn() -> None:
    """By the shipped runs every text is cut to the laptop's six tokens, and a pair has two sentences."""
    shipped = shipped_results("laptop")["glue-of-causal-language"]["result"]
    assert {row[name] for row in shipped["references"] for name in row if name.endswith("_longer")} == {1.0}
    for scale, answered in (("laptop", set()), ("night", set()), ("paper", {"sst-2"})):
        claims = glue_of_causal_language(scale_named(scale)).claims
        judged = {claim.name for claim in claims if claim.role == "effect"}
        assert {name.rpartition("-gains")[0] for name in judged if name.endswith("-gains")} == answered


def test_all_of_it_runs_and_a_student_that_has_not_converged_is_not_judged(tmp_path: Path) -> None:
    small = tiny_scale()
    runs = replace(small.causal_language, architectures=small.causal_language.architectures[:1])
    experiment = glue_of_causal_language(replace(small, causal_language=runs))
    (result,) = carry_out_experiments([experiment], tmp_path, in_turn).experiments
    assert not result.outcome.failures
    last = result.table.filter(step=runs.steps)
    for task in ("sst_2", "qnli"):
        for column in ("", "_untrained", "_resegment", "_mask"):
            assert 0 <= last[f"accuracy_{task}{column}"].item() <= 1
        (controls,) = result.table.drop_nulls(f"accuracy_{task}_coverage").rows(named=True)
        assert 0 < controls[f"accuracy_{task}_coverage"] < 1
        assert controls[f"accuracy_{task}_longer"] == 1.0
        assert 0 <= controls[f"accuracy_{task}_coverage_resegmented"] <= 1
    assert {judged.verdict for judged in result.judgements} == {Verdict.INCONCLUSIVE}
    panels = experiment.panels(result.table)
    assert len(panels) == 4
    assert all("not converged" in panel.caption for panel in panels)
    untrained_control_is_a_model_of_the_runs_own_seed(experiment, tmp_path)


def untrained_control_is_a_model_of_the_runs_own_seed(experiment, output: Path) -> None:
    """Oracle: the architecture rebuilt as in training; no trained weight reaches the control."""
    run = experiment.runs[0]
    (control,) = [m.quantity for m in run.measured if isinstance(m.quantity, ControlQuantity)][:1]
    language = run.language.language(output, silent)
    drawn = control.draw(language, MaskedObjective(), silent)
    words, longest = len(language.vocabulary), language.maximum_length
    seeds = [derived_seed(seed, "initialisation") for seed in (5, 6)]
    models = [run.architecture.build(words, longest, seed) for seed in seeds]
    subject = Subject("", MaskedObjective(), {}, language, output, 5)
    state = torch.get_rng_state()
    found = [control.measure(model, drawn, subject, silent).records[0].value for model in models]
    assert torch.equal(state, torch.get_rng_state())
    assert found[0] == found[1] == control.of.measure(models[0], drawn, subject, silent).records[0].value
